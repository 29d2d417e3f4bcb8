"""What a version is made of, and when the next one is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from attrs import frozen

from ..ports import Pace
from ..watermark import told

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..epoch import Offsets

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATE = 10
"""The part of an interval, one in so many, by which a version may come late without putting off the next one."""
NOTHING_YET = -1
"""The epoch of an input that has published nothing."""


@frozen
class Plan:
    """What one version reads.

    Args:
        inputs: of each input the epoch, or, of a plain table, what tells its present state.
        watermark: the earliest of the inputs' watermarks (UTC); None where one of them has none.
        planned_at: when it was decided (UTC).
        settings: the fingerprint of what is made of them.
    """

    inputs: Mapping[str, int | str]
    watermark: datetime | None
    planned_at: datetime
    settings: str

    def is_like(self, other: Plan) -> bool:
        """Whether the same comes of both."""
        return (dict(self.inputs), self.settings) == (dict(other.inputs), other.settings)

    @property
    def label(self) -> str | None:
        """The name of the version: its watermark as text."""
        return None if self.watermark is None else told(self.watermark)

    def to_offsets(self) -> dict[str, Any]:
        """The plan as offsets of an epoch."""
        return {
            "inputs": dict(self.inputs),
            "label": self.label,
            "planned_at": self.planned_at.isoformat(),
            "settings": self.settings,
        }

    @classmethod
    def of(cls, offsets: Offsets) -> Plan:
        """Read `to_offsets` back."""
        label_ = offsets["label"]
        watermark = None if label_ is None else datetime.fromisoformat(label_)
        return cls(offsets["inputs"], watermark, datetime.fromisoformat(offsets["planned_at"]), offsets["settings"])


@frozen
class Schedule:
    """When versions are due.

    Args:
        every: how far apart.
        by_watermark: in the inputs' event time; else by the clock.
    """

    every: timedelta
    by_watermark: bool

    def looks(self, last: Plan | None, now: datetime, pace: Pace) -> bool:
        """Whether it depends on the inputs at all if a version is due; if not, none is."""
        if pace is Pace.CLOSE or self.by_watermark:
            return True
        return pace is Pace.SCHEDULE and (last is None or self._clock_passed(last.planned_at, now))

    def due(self, last: Plan | None, now: Plan, pace: Pace) -> bool:
        """Whether a version of these inputs is due after the last one."""
        if not self.looks(last, now.planned_at, pace) or not self._ready(now, pace):
            return False
        if last is not None and last.is_like(now):
            return False
        return pace is Pace.CLOSE or not self.by_watermark or self._watermark_passed(last, now)

    def _ready(self, now: Plan, pace: Pace) -> bool:
        """Whether inputs have published: all of them, or, of a run that is about to end, any."""
        waiting = [at == NOTHING_YET for at in now.inputs.values()]
        return not (all(waiting) if pace is Pace.CLOSE else any(waiting))

    def _clock_passed(self, last: datetime, now: datetime) -> bool:
        """Whether a multiple has come since a version that is far enough away from it.

        Versions that come late, because nothing had moved at their time, thus do not crowd: readers count on the
        interval. A clock that was set back by less than an interval is waited for; else the schedule starts anew from
        where the clock stands, so that it does not stand still until the clock is back.
        """
        multiple = _EPOCH + self._interval(now) * self.every
        return multiple - last >= self.every - self.every / _LATE or last - now >= self.every

    def _watermark_passed(self, last: Plan | None, now: Plan) -> bool:
        if now.watermark is None:
            return False
        return last is None or last.watermark is None or self._interval(now.watermark) > self._interval(last.watermark)

    def _interval(self, moment: datetime) -> int:
        return (moment - _EPOCH) // self.every
