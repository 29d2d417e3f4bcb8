"""The upkeep of a pipeline's tables between its epochs."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...domain.errors import HeadwaterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...domain.ledger.upkeep import Upkeep
    from .options import RunOptions
    from .report import Phases

_log = logging.getLogger(__name__)


def keep_up(upkeep: Upkeep, options: RunOptions, epoch: int, phase: Phases) -> None:
    """Do what is due after an epoch. A fault is logged, and the run goes on: no row depends on the upkeep."""
    if is_due(epoch, options.compact_every):
        compact(upkeep, phase)
    if is_due(epoch, options.expire_every):
        with phase("expire"), log_failure(upkeep.ledger.pipeline, "expire"):
            upkeep.expire(dry_run=False)


def compact(upkeep: Upkeep, phase: Phases) -> None:
    """Compact each table if that is worth its cost; a fault is logged."""
    with phase("compact"), log_failure(upkeep.ledger.pipeline, "compact"):
        upkeep.compact()


def is_due(epoch: int, every: int) -> bool:
    """Whether work that is done every so many epochs is due after an epoch; 0 for never."""
    return every > 0 and (epoch + 1) % every == 0


@contextmanager
def log_failure(pipeline: str, what: str) -> Iterator[None]:
    """Log a fault of upkeep; no row depends on it."""
    try:
        yield
    except HeadwaterError as fault:
        _log.warning("%s: %s failed, and will be tried again: %s", pipeline, what, fault)
