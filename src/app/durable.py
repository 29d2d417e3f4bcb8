"""Opens a deployment for commands that need the tables of earlier runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..domain.errors import ConfigError
from .api import Headwater, log_progress
from .backends import Part, available, load_backend
from .config import load

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from .config import Deployment
    from .runner import EpochReport


def open_durable(options: argparse.Namespace, report: Callable[[EpochReport], None] = log_progress) -> Headwater:
    """The deployment that a command is about.

    Args:
        options: of the command; `config` is the file, `name` the command's own name.
        report: told of every epoch published.

    Raises:
        ConfigError: its backend keeps no table beyond the process that made it.
    """
    deployment = load(options.config)
    check_durable(deployment, options)
    return Headwater(deployment, report=report)


def check_durable(deployment: Deployment, options: argparse.Namespace) -> None:
    """Refuse a backend that keeps no table beyond the process that made it.

    Raises:
        ConfigError: the message says why, and what to do.
    """
    if not _is_durable(backend := deployment.backend.name):
        raise ConfigError(
            f"backend {backend} keeps nothing beyond its run, so `headwater {options.name}` has no tables to work on:"
            f" print views in the run itself (headwater run {options.config} --until-idle --show PIPELINE.VIEW), or set"
            f" backend.name to one that keeps its tables: {_durable()}"
        )


def check_target(deployment: Deployment) -> None:
    """Refuse to move tables to a backend that would lose them with the process.

    Raises:
        ConfigError: the message says why, and what to do.
    """
    if not _is_durable(backend := deployment.backend.name):
        raise ConfigError(
            f"backend {backend} keeps nothing beyond its run, so what is moved there would be lost at once: move to one"
            f" of: {_durable()}"
        )


def _is_durable(backend: str) -> bool:
    """Whether a backend keeps its tables when the process ends."""
    return load_backend(backend).offers(Part.DURABILITY)


def _durable() -> str:
    """The backends that keep their tables, in words."""
    return ", ".join(filter(_is_durable, available()))
