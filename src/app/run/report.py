"""The report of an epoch: its numbers and times."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from attrs import define, field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from ...domain.epoch.epoch import Epoch

_log = logging.getLogger(__name__)
REPLAY = "replay"
"""The task of an epoch that reads dead letters again, in its commits and its report."""


@frozen
class EpochReport:
    """The result of one epoch.

    Args:
        epoch: the epoch.
        rows: rows that were read.
        dead_letters: those of them that could not be used.
        written: rows written to the pipeline's tables.
        watermark: event time (UTC) up to which the input is considered complete.
        lag: the unread input of the source, as text.
        seconds: by phase: ``read``, ``step``, each table's name without the pipeline's, ``publish``, ``compact``,
            ``expire``. Of reading and of the last three, if they run beside the epochs, only the time that the epoch
            waited for them.
        task: the kind of work, if the epoch read nothing of its source.
        repeats: rows that were skipped because they had been read before.
        passed_over: the number of skipped messages, by table.
        engine: the engine that ran the epoch, if the deployment chooses one for each epoch.
    """

    epoch: Epoch
    rows: int
    dead_letters: int
    written: int
    watermark: datetime | None
    lag: str
    seconds: Mapping[str, float]
    task: str | None = None
    repeats: int = 0
    passed_over: Mapping[str, int] = field(factory=dict)
    engine: str | None = None


@define(eq=False)
class Warnings:
    """The warnings that a run has logged; each text is logged once."""

    _logged: set[str] = field(factory=set)

    def log(self, pipeline: str, texts: Iterable[str]) -> None:
        """Log the warnings of a step of a pipeline."""
        for text in texts:
            if text not in self._logged:
                self._logged.add(text)
                _log.warning("%s: %s", pipeline, text)


@define(eq=False)
class Phases:
    """The seconds that each phase of an epoch takes."""

    seconds: dict[str, float] = field(factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - began
