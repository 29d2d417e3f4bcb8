"""The difference of a view, or of a table of a pipeline, between two publications."""

from __future__ import annotations

from typing import Any

import narwhals as nw
from attrs import evolve

from ...domain.errors import ConfigError
from ...domain.ledger.ledger import Snapshot
from ...domain.service.base import ReadAt, ViewChanges
from ...domain.table.net_changes import align, net_changes, net_rows
from ...domain.table.query_columns import MULTIPLICITY
from ...domain.table.row_kind import ROW_KIND
from ...domain.table.schema import column
from ...domain.table.view_spec import ViewSpec
from .keyed_views import changes_between


def diff_spec(name: str, spec: ViewSpec) -> ViewSpec:
    """Return the columns of a view's difference: its own and ``_row_kind``; ``_multiplicity`` if it has no key.

    Args:
        name: ``pipeline.view``.
        spec: of the view.

    Raises:
        ConfigError: the view itself compares two versions.
    """
    if spec.between:
        raise ConfigError(f"{name} already shows changes: read it with since= (headwater show … --since)")
    extra = [column(ROW_KIND, "string")] + ([] if spec.key else [column(MULTIPLICITY, "bigint")])
    return evolve(spec, schema=spec.schema.plus(*extra), sort=(*(spec.key or spec.sort), ROW_KIND))


def difference(
    service: ViewChanges, spec: ViewSpec, table: str | None, before: Snapshot, after: Snapshot
) -> nw.LazyFrame[Any]:
    """Return the changes from one snapshot to a later one, in the columns of `diff_spec`.

    Args:
        service: of the pipeline.
        spec: of the view, or of the table of the pipeline.
        table: the table that stores the rows, if any.
        before: the earlier snapshot.
        after: the later one.
    """
    viewed = spec in service.views
    if viewed and spec.key:
        return changes_between(service, spec.name, table, before, after)
    if viewed or table is None:
        first, last = (service.view(spec.name, ReadAt(each)) for each in (before, after))
        return net_rows(*align(first, last))
    if spec.key and (changed := after.changes_since(before, table)) is not None:
        return changed
    old, new = before.read(table), after.read(table)
    return net_changes(old, new, spec.key) if spec.key else net_rows(old, new)
