"""Opens deployments for commands that need the tables of earlier runs."""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote

import click

from ...domain.errors import ConfigError
from ..api import Headwater
from ..config import Deployment, load
from ..registry.backends import Part, available, load_backend
from ..registry.installed import load_each
from ..run.progress import log_progress
from ..run.report import EpochReport


def open_durable(config: str, report: Callable[[EpochReport], None] = log_progress) -> Headwater:
    """Open the deployment of the current command.

    Raises:
        ConfigError: its backend loses all tables when the process ends.
    """
    return Headwater(load_durable(config), report=report)


def load_durable(config: str) -> Deployment:
    """Load the deployment of the current command.

    Raises:
        ConfigError: its backend loses all tables when the process ends; with the remedy.
    """
    deployment = load(config)
    if not _is_durable(backend := deployment.backend.name):
        raise ConfigError(
            f"backend {backend} keeps nothing beyond its run, so `headwater {click.get_current_context().info_name}`"
            f" has no tables to work on: print views in the run itself (headwater run {quote(config)} --until-idle"
            f" --show PIPELINE.VIEW), or set backend.name to one that keeps its tables: {_durable()}"
        )
    return deployment


def check_target(deployment: Deployment) -> None:
    """Refuse to move tables to a backend that loses them when the process ends.

    Raises:
        ConfigError: with the reason and the remedy.
    """
    if not _is_durable(backend := deployment.backend.name):
        raise ConfigError(
            f"backend {backend} keeps nothing beyond its run, so the moved tables would be lost immediately: move to"
            f" one of: {_durable()}"
        )


def _is_durable(backend: str) -> bool:
    """Whether a backend keeps its tables when the process ends."""
    return load_backend(backend).offers(Part.DURABILITY)


def _durable() -> str:
    """The names of the backends that keep their tables, for messages."""
    return ", ".join(filter(_is_durable, load_each(available(), load_backend)))
