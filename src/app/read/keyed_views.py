"""The views of a service that have a key. They can be stored as tables, published and compared."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from ...domain.errors import ConfigError
from ...domain.ledger.ledger import Snapshot
from ...domain.service.base import Service, ViewChanges, Views
from ...domain.service.feed import Feed
from ...domain.table.view_spec import ViewSpec
from ..deployment.deployment import KafkaOutput


def keyed_views(service: Views) -> dict[str, ViewSpec]:
    """The views that have a key, by name."""
    return {view.name: view for view in service.views if view.key and not view.between}


def changes_between(
    service: ViewChanges, view: str, table: str | None, before: Snapshot, after: Snapshot
) -> nw.LazyFrame[Any]:
    """Return the net changes of a keyed view between two snapshots, read from its table if that existed before.

    Args:
        service: whose view it is.
        view: its name.
        table: the table that stores the view's rows, if it is materialized.
        before: the earlier snapshot.
        after: the later one.
    """
    if table and before.version(table):
        changes = after.changes_since(before, table)
        if changes is not None:
            return changes
    return service.view_changes(view, before, after)


def feed_of(pipeline: str, output: KafkaOutput, service: Service) -> Feed:
    """Return the feed that a pipeline publishes.

    Raises:
        ConfigError: there is no such view, its rows have no key, or names clash.
    """
    possible = keyed_views(service)
    name = output.view or next(iter(possible), "")
    if name not in possible:
        raise ConfigError(f"{name!r} is not a view that can be published; possible: {', '.join(possible) or 'none'}")
    return Feed(pipeline, possible[name], output.format, output.row_kind, output.tombstones, output.rename)
