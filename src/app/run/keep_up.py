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
    pipeline = upkeep.ledger.pipeline
    if _due(epoch, options.compact_every):
        with phase("compact"), _log_failure(pipeline, "compact"):
            upkeep.compact()
    if _due(epoch, options.expire_every):
        with phase("expire"), _log_failure(pipeline, "expire"):
            upkeep.expire(dry_run=False)


def _due(epoch: int, every: int) -> bool:
    return every > 0 and (epoch + 1) % every == 0


@contextmanager
def _log_failure(pipeline: str, what: str) -> Iterator[None]:
    try:
        yield
    except HeadwaterError as fault:
        _log.warning("%s: %s failed, and will be tried again: %s", pipeline, what, fault)
