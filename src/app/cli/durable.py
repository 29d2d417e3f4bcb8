"""Opens deployments for commands that need the tables of earlier runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...domain.errors import ConfigError
from ..api import Headwater, log_progress
from ..config import load
from ..registry.backends import Part, available, load_backend

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from ..config import Deployment
    from ..run.runner import EpochReport


def open_durable(options: argparse.Namespace, report: Callable[[EpochReport], None] = log_progress) -> Headwater:
    """Open the deployment of a command.

    Args:
        options: of the command; `config` is the file, `name` the name of the command.
        report: called with each published epoch.

    Raises:
        ConfigError: its backend loses all tables when the process ends.
    """
    deployment = load(options.config)
    check_durable(deployment, options)
    return Headwater(deployment, report=report)


def check_durable(deployment: Deployment, options: argparse.Namespace) -> None:
    """Refuse a backend that loses all tables when the process ends.

    Raises:
        ConfigError: with the reason and the remedy.
    """
    if not _is_durable(backend := deployment.backend.name):
        raise ConfigError(
            f"backend {backend} keeps nothing beyond its run, so `headwater {options.name}` has no tables to work on:"
            f" print views in the run itself (headwater run {options.config} --until-idle --show PIPELINE.VIEW), or set"
            f" backend.name to one that keeps its tables: {_durable()}"
        )


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
    return ", ".join(filter(_is_durable, available()))
