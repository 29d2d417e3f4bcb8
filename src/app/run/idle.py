"""What a pipeline does when its source has nothing new."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import define, evolve, field

from ...domain.ledger.ledger import Snapshot
from ...domain.ports import Clock, Source
from ...domain.service.base import Service, Step
from .options import RunOptions

_SET = timedelta(minutes=1)
"""A clock that differs by more than this from what it should show since the last look has been set."""

_FAR = timedelta(days=7)
"""A watermark that silence moves by more is logged: a silence is seldom so long."""


@define(eq=False)
class Silence:
    """The time since the last rows of a source, by the looks at a clock.

    If the clock has been set since the last look, the silence begins again: a watermark never goes back, so it must not
    follow a clock that is wrong for one look.

    Args:
        since: when the last rows were read (UTC); None if not by this process.
        epochs: the number of epochs with rows of the source, and not of other pipelines, that this process published.
    """

    since: datetime | None = None
    epochs: int = 0
    _zero: datetime | None = field(init=False, default=None)
    """What the clock would have shown when its elapsed time was zero."""

    def look(self, clock: Clock) -> datetime:
        """Return the time that the clock shows."""
        now = clock.now()
        zero = now - clock.elapsed()
        if self._zero is not None and abs(zero - self._zero) > _SET:
            self.since = now
        self._zero = zero
        return now


def find_idle_step(
    service: Service, source: Source, snapshot: Snapshot, options: RunOptions, *, now: datetime, last_rows: datetime
) -> Step | None:
    """Return the changes that are due without new rows; None if there are none.

    A source is not silent while it has rows in an open transaction: they would be late.

    Args:
        service: the service.
        source: of the service; it is asked only if its silence would change something.
        snapshot: the newest publication.
        options: of the run.
        now: the time (UTC).
        last_rows: when the last rows were read (UTC).
    """
    if step := service.catch_up(snapshot):
        return step
    after = options.idle_after
    if after is None or now - last_rows < after:
        return None
    until, known = now - after - options.watermark_delay, snapshot.watermark
    step = service.idle(until, snapshot)
    latest = snapshot.publication
    if step and source.has_uncommitted(latest.offsets if latest else None):
        return None
    if step is None or known is None or until - known < _FAR:
        return step
    before, to, shown = (f"{time:%Y-%m-%d %H:%M}" for time in (known, step.watermark or until, now))
    warning = (
        f"no rows have come for idle_after, so the watermark moves from {before} to {to}, as the clock shows {shown}."
        " A watermark cannot go back: if the clock is wrong, set it right before the next rows come"
    )
    return evolve(step, warnings=(*step.warnings, warning))
