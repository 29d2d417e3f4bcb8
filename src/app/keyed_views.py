"""The views of a service whose rows can be told apart, so that they can be kept as tables and published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..domain.changelog.feed import Feed
from ..domain.errors import ConfigError

if TYPE_CHECKING:
    from ..domain.service import Service, ViewSpec
    from .config import KafkaOutput


def keyed_views(service: Service) -> dict[str, ViewSpec]:
    """The views that have a key, by name."""
    return {view.name: view for view in service.views if view.key and not view.between}


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
