"""The upkeep of a pipeline's tables between its epochs."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from ...domain.errors import HeadwaterError
from ...domain.ledger.upkeep import Upkeep
from .options import RunOptions
from .report import Phases
from .sink_publisher import SinkPublisher

_log = logging.getLogger(__name__)


class WorkBeside(Protocol):
    """What is done beside the epochs of one pipeline."""

    @abstractmethod
    def publish(self, publisher: SinkPublisher, latest: int, rows: int | None) -> bool:
        """Have the epochs up to the latest published, unless that is under way; wait if too many epochs wait already.

        Returns False if they must be published here and now: at first, and after a fault that may pass, so that it is
        retried as a fault of the epoch.

        Args:
            publisher: publishes them.
            latest: the number of the latest epoch.
            rows: the expected number of rows in an epoch; None if unknown.
        """

    @abstractmethod
    def keep_up(self, epoch: int, phase: Phases) -> None:
        """Begin what is due after an epoch; wait for the last compaction if many more are due."""

    @abstractmethod
    def settle(self) -> bool:
        """Wait for what is being published; returns whether anything has been published since the last call."""


def compact_or_log(pipeline: str, upkeep: Callable[[str], Upkeep]) -> None:
    """Compact the tables of a pipeline, and log what came of it."""
    with log_failure(pipeline, "compact"):
        made = upkeep(pipeline).compact()
        _log.info("%s: compacted %s", pipeline, ", ".join(table for table in made if made[table]) or "nothing")


def keep_up(beside: WorkBeside | None, upkeep: Upkeep, options: RunOptions, epoch: int, phase: Phases) -> None:
    """Do what is due after an epoch, or have it done beside the next ones.

    A fault is logged, and the run goes on: no row depends on the upkeep.
    """
    if beside:
        beside.keep_up(epoch, phase)
        return
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
