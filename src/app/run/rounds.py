"""Runs pipelines side by side in one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Protocol

from ...domain.ports import Clock, Pace
from .idle import Silence
from .losses import Losses
from .options import RunOptions


class Advancing(Protocol):
    """What can be run epoch by epoch; see `Runner`."""

    clock: Clock
    options: RunOptions
    losses: Losses
    silence: Silence

    @property
    def stopping(self) -> bool:
        """Whether it was asked to end."""

    def advance(self, pace: Pace, *, idle_at: datetime | None) -> bool:
        """Run one epoch; False if there was nothing to read."""


def run_all(runners: Sequence[Advancing], *, until_idle: bool, after_round: Iterable[Callable[[], None]] = ()) -> None:
    """Run pipelines side by side, one epoch each in turn, until they stop or (`until_idle`) all sources are drained.

    With `until_idle`, pipelines that read others ignore the clock and publish once at the end. The watermarks of silent
    sources follow the clock up to the last round before which rows were read. Else rounds that last longer than such a
    watermark needs to move on would never end.

    Raises:
        HeadwaterError: as `Runner.run`.
    """
    pace = Pace.DRAIN if until_idle else Pace.SCHEDULE
    idle_at, read = None, -1
    while not any(runner.stopping for runner in runners):
        if until_idle and (now_read := sum(runner.silence.epochs for runner in runners)) > read:
            idle_at, read = runners[0].clock.now(), now_read
        progressed = _round(runners, pace, idle_at) or (until_idle and _round(runners, Pace.CLOSE, idle_at))
        for look in after_round:
            look()
        if progressed:
            continue
        if until_idle:
            break
        runners[0].clock.sleep(min(runner.options.poll for runner in runners))
    for runner in runners:
        runner.losses.summarize()


def _round(runners: Sequence[Advancing], pace: Pace, idle_at: datetime | None) -> bool:
    """Run one epoch of each; return whether any pipeline had one."""
    progressed = [runner.advance(pace, idle_at=idle_at) for runner in runners if not runner.stopping]
    return any(progressed)
