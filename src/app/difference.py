"""How a view, or a table that a pipeline keeps, differs between two publications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from ..domain.changelog.net import MULTIPLICITY, aligned, net_changes, net_rows
from ..domain.epoch import ROW_KIND
from ..domain.errors import ConfigError
from ..domain.schema import column
from .keyed_views import changes_between

if TYPE_CHECKING:
    import narwhals as nw

    from ..domain.ledger import Snapshot
    from ..domain.service import Service, ViewSpec


def diff_spec(name: str, spec: ViewSpec) -> ViewSpec:
    """What the difference of a view looks like: its columns and ``_row_kind``; ``_multiplicity`` if it has no key.

    Args:
        name: ``pipeline.view``.
        spec: of the view.

    Raises:
        ConfigError: the view is one of changes itself.
    """
    if spec.between:
        raise ConfigError(f"{name} tells changes itself: ask for it with since= (headwater show … --since)")
    told = [column(ROW_KIND, "string")] + ([] if spec.key else [column(MULTIPLICITY, "bigint")])
    return evolve(spec, schema=spec.schema.plus(*told), sort=(*(spec.key or spec.sort), ROW_KIND))


def difference(
    service: Service, spec: ViewSpec, table: str | None, before: Snapshot, after: Snapshot
) -> nw.LazyFrame[Any]:
    """The rows that lead from one snapshot to a later one, in the columns of `diff_spec`.

    Args:
        service: of the pipeline.
        spec: of the view, or of the table where it is one that the pipeline keeps.
        table: the table that holds the rows, where there is one.
        before: the earlier snapshot.
        after: the later one.
    """
    viewed = spec in service.views
    if viewed and spec.key:
        return changes_between(service, spec.name, table, before, after)
    if viewed or table is None:
        return net_rows(*aligned(service.view(spec.name, before), service.view(spec.name, after)))
    if spec.key and (changed := after.changes_since(before, table)) is not None:
        return changed
    old, new = before.read(table), after.read(table)
    return net_changes(old, new, spec.key) if spec.key else net_rows(old, new)
