"""The views of a service whose rows can be told apart, so that they can be kept as tables, published and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..domain.changelog.feed import Feed
from ..domain.errors import ConfigError

if TYPE_CHECKING:
    import narwhals as nw

    from ..domain.ledger import Snapshot
    from ..domain.service import Service, ViewSpec
    from .config import KafkaOutput


def keyed_views(service: Service) -> dict[str, ViewSpec]:
    """The views that have a key, by name."""
    return {view.name: view for view in service.views if view.key and not view.between}


def changes_between(
    service: Service, view: str, table: str | None, before: Snapshot, after: Snapshot
) -> nw.LazyFrame[Any]:
    """Net changes of a keyed view between two snapshots, from the table that it is kept as where that held it before.

    Args:
        service: whose view it is.
        view: its name.
        table: the table that holds the view's rows, where it is materialized.
        before: the earlier snapshot.
        after: the later one.
    """
    if table and before.version(table):
        kept = after.changes_since(before, table)
        if kept is not None:
            return kept
    return service.view_changes(view, before, after)


def feed_of(pipeline: str, output: KafkaOutput, service: Service) -> Feed:
    """What a pipeline publishes.

    Raises:
        ConfigError: there is no such view, its rows have no key, or names clash.
    """
    possible = keyed_views(service)
    name = output.view or next(iter(possible), "")
    if name not in possible:
        raise ConfigError(f"{name!r} is no view that can be published; possible: {', '.join(possible) or 'none'}")
    return Feed(pipeline, possible[name], output.format, output.row_kind, output.tombstones, output.rename)
