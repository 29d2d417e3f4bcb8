"""Views that a run also stores as tables of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...domain.service.base import ReadAt
from ...domain.table.change import Change
from ...domain.table.net_changes import to_change
from ...domain.table.spec import Layout, TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...domain.ledger.writer import LedgerWriter
    from ...domain.ports import FrameCache
    from ...domain.service.base import Service


def materialized_tables(service: Service, pipeline: str, names: Iterable[str]) -> tuple[TableSpec, ...]:
    """The tables of these views of a pipeline."""
    views = map(service.known, names)
    return tuple(
        TableSpec(f"{pipeline}.{view.name}", view.schema, key=view.key, layout=Layout.MERGED) for view in views
    )


def materialized_change(service: Service, view: str, ledger: LedgerWriter, cache: FrameCache) -> Change:
    """The change of a view's table by the epoch that the ledger is in.

    A new table begins with all rows. All rows are replaced if the settings of the view were edited.
    """
    before, ahead = ledger.snapshot(), ledger.ahead()
    spec = service.known(view)
    latest, table = before.publication, f"{ledger.pipeline}.{view}"
    if latest and (before.version(table) is None or view in service.changed_views(latest.fingerprint)):
        return Change(overwrite=service.view(view, ReadAt(ahead)))
    return to_change(cache.persist(service.view_changes(view, before, ahead)), spec)
