"""Views that a run also stores as tables of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals as nw

from ...domain.errors import BadInput
from ...domain.ledger.writer import LedgerWriter
from ...domain.ports import FrameCache
from ...domain.service.base import ReadAt, Service, Views
from ...domain.table.change import Change
from ...domain.table.collect import collect_small
from ...domain.table.key_faults import lacks_key
from ...domain.table.net_changes import to_change
from ...domain.table.spec import Layout, TableSpec
from ...domain.table.view_spec import ViewSpec


def materialized_tables(service: Views, pipeline: str, names: Iterable[str]) -> tuple[TableSpec, ...]:
    """The tables of these views of a pipeline."""
    views = map(service.known, names)
    return tuple(
        TableSpec(f"{pipeline}.{view.name}", view.schema, key=view.key, layout=Layout.MERGED) for view in views
    )


def materialized_change(service: Service, view: str, ledger: LedgerWriter, cache: FrameCache) -> Change:
    """The change of a view's table by the epoch that the ledger is in.

    A new table begins with all rows. All rows are replaced if the settings of the view were edited.

    Raises:
        BadInput: a row has no key, because one of its groups is null.
    """
    before, ahead = ledger.snapshot(), ledger.ahead()
    spec = service.known(view)
    latest, table = before.publication, f"{ledger.pipeline}.{view}"
    if latest and (before.version(table) is None or view in service.changed_views(latest.fingerprint)):
        return Change(overwrite=_checked(cache.persist(service.view(view, ReadAt(ahead))), spec, table))
    return to_change(_checked(cache.persist(service.view_changes(view, before, ahead)), spec, table), spec)


def _checked(rows: nw.LazyFrame[Any], view: ViewSpec, table: str) -> nw.LazyFrame[Any]:
    """These rows, each of which has a key; stores would not find a row without one again."""
    if collect_small(rows.filter(lacks_key(view.key)).select(*view.key).head(1)):
        raise BadInput(
            f"table {table}: key ({', '.join(view.key)}) is null in some rows: take {view.name!r} out of materialize,"
            " or give these rows a value before"
        )
    return rows
