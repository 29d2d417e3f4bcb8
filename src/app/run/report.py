"""The report of an epoch: its numbers and times."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from time import perf_counter, time_ns
from typing import Protocol

from attrs import define, field, frozen

from ...domain.epoch.epoch import Epoch

_log = logging.getLogger(__name__)
NANOSECONDS = 1_000_000_000
IS_ALARM = "is_alarm"
"""The attribute of a log record that says whether it is about an alarm."""
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
    _lasting: set[str] = field(factory=set)

    def log(self, pipeline: str, texts: Iterable[str], *, are_alarms: bool = False) -> None:
        """Log the texts that have not been logged; `are_alarms`: alerts find them by themselves."""
        for text in texts:
            if text not in self._logged:
                self._logged.add(text)
                _log.warning("%s: %s", pipeline, text, extra={IS_ALARM: are_alarms})

    def log_trouble(self, pipeline: str, texts: Collection[str]) -> None:
        """Log what a source cannot read now (`Source.trouble`); what was gone in between is logged again."""
        self._logged -= {*texts} - self._lasting
        self._lasting = {*texts}
        self.log(pipeline, texts, are_alarms=True)


@define(eq=False)
class Phases:
    """The phases of an epoch.

    Args:
        seconds: that each phase has taken; it may have begun several times.
        times: each time that a phase has begun and ended, in nanoseconds since 1970 (UTC).
        began: when the epoch has begun, likewise.
        epoch: its number, as soon as it is known.
        report: what came of it, once it is published.
    """

    seconds: dict[str, float] = field(factory=dict)
    times: list[tuple[str, int, int]] = field(factory=list)
    began: int = field(factory=time_ns)
    epoch: int | None = None
    report: EpochReport | None = None

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        moment, began = time_ns(), perf_counter()
        try:
            yield
        finally:
            seconds = perf_counter() - began
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
            self.times.append((name, moment, moment + round(seconds * NANOSECONDS)))


class EpochWatch(Protocol):
    """Sees the epochs of pipelines, those that fail too."""

    @abstractmethod
    def __call__(self, pipeline: str, engine: str | None, task: str | None = None) -> AbstractContextManager[Phases]:
        """Watch an epoch, if there is anything to read: it is done inside the block.

        Args:
            pipeline: its name.
            engine: the engine that runs it, if the deployment chooses one for each epoch.
            task: the kind of work, if it does not read the source of the pipeline.
        """


def unwatched(pipeline: str, engine: str | None, task: str | None = None) -> AbstractContextManager[Phases]:  # noqa: ARG001
    """See no epochs."""
    return nullcontext(Phases())
