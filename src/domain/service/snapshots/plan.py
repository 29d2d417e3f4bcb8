"""The inputs of a version, and the schedule of versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from attrs import field, frozen

from ...duration import EPOCH, show_duration
from ...epoch.epoch import Offsets, Publication
from ...epoch.watermark import format_time
from ...ledger.upcoming import FEW, LATE, Upcoming, estimate
from ...ports import Pace
from ..input import agree

NOTHING_YET = -1
"""The epoch of an input pipeline that has not published yet."""


@frozen
class Plan:
    """The inputs that a version reads, and when that was decided.

    Args:
        inputs: by input, the epoch of the pipeline, or a text that identifies the state of a plain table.
        watermark: the earliest of the inputs' watermarks (UTC); None if any of them has none.
        planned_at: when the plan was made (UTC).
        settings: the fingerprint of the inputs and queries; see `SnapshotSettings.fingerprint`.
        published: by input, the time at which the pipeline's epoch was published (UTC, as text). It differs if the
            pipeline was built again. Without plain tables; empty in plans of old versions, which did not record it.
        views: by input, the settings under which its view is read; see `view_settings`. Without views that have none;
            empty in plans of old versions, which did not record them.
    """

    inputs: Mapping[str, int | str]
    watermark: datetime | None
    planned_at: datetime
    settings: str
    published: Mapping[str, str] = field(factory=dict)
    views: Mapping[str, str] = field(factory=dict)

    def is_like(self, other: Plan) -> bool:
        """Whether both plans give the same tables."""
        same = self.inputs.keys() == other.inputs.keys() and self.settings == other.settings
        return same and all(self.reads_same(other, name) for name in self.inputs)

    def reads_same(self, other: Plan, name: str) -> bool:
        """Whether both plans read the same state of an input; of a view, the same publication under the same settings.

        What one of them does not record is taken to be the same.
        """
        same = agree(name, self.published, other.published) and agree(name, self.views, other.views)
        return same and self.inputs[name] == other.inputs.get(name)

    @property
    def label(self) -> str | None:
        """The label of the version: its watermark as text; None if it has none."""
        return None if self.watermark is None else format_time(self.watermark)

    def to_offsets(self) -> dict[str, Any]:
        """Convert the plan to the offsets of an epoch."""
        return {
            "inputs": dict(self.inputs),
            "label": self.label,
            "planned_at": self.planned_at.isoformat(),
            "settings": self.settings,
            "published": dict(self.published),
            "views": dict(self.views),
        }

    @classmethod
    def of(cls, offsets: Offsets) -> Plan:
        """Convert the result of `to_offsets` back to a plan."""
        label = offsets["label"]
        watermark = None if label is None else datetime.fromisoformat(label)
        planned_at = datetime.fromisoformat(offsets["planned_at"])
        published, views = (offsets.get(name, {}) for name in ("published", "views"))
        return cls(offsets["inputs"], watermark, planned_at, offsets["settings"], published, views)


@frozen
class Schedule:
    """The schedule of versions.

    Args:
        every: the interval between versions.
        by_watermark: whether the watermark of the inputs decides; if not, the clock does.
    """

    every: timedelta
    by_watermark: bool

    def needs_inputs(self, last: Plan | None, now: datetime, pace: Pace) -> bool:
        """Whether the inputs have to be looked at; if not, no version is due."""
        if pace is Pace.CLOSE or self.by_watermark:
            return True
        return pace is Pace.SCHEDULE and (last is None or self._clock_passed(last.planned_at, now))

    def is_due(self, last: Plan | None, now: Plan, pace: Pace) -> bool:
        """Whether a version of the inputs in `now` is due after the last one."""
        if not self.needs_inputs(last, now.planned_at, pace) or not self._is_ready(now, pace):
            return False
        if last is not None and last.is_like(now):
            return False
        return pace is Pace.CLOSE or not self.by_watermark or self._watermark_passed(last, now)

    def expect(self, publications: Sequence[Publication], now: datetime) -> Upcoming:
        """Tell when further versions come; see `Service.expect`.

        By the clock, if the last versions kept to the schedule, further ones keep to it as well. One that is overdue
        may have begun already: as long ago as the slowest of the last ones took.
        """
        if self.by_watermark:
            return estimate(publications, now)
        # A rebuild publishes a version under two numbers: the older one says how long it took.
        published = {Plan.of(each.offsets).planned_at: each.published_at for each in publications[:FEW]}
        planned = list(published)
        if not all(later >= self._due_after(earlier) for later, earlier in pairwise(planned)):
            return estimate(publications, now, self.every)
        takes = max(timedelta(), *(by - at for at, by in published.items()))
        first = max(self._due_after(planned[0]), now - takes)
        second = max(self._due_after(first), now - self.every / LATE)  # it may come right after a slow one
        basis = f"a publication every {show_duration(self.every)}, configured"
        return Upcoming(max(first - now, timedelta()), second - now, self.every, basis)

    def _is_ready(self, now: Plan, pace: Pace) -> bool:
        """Whether all inputs have published; at the end of a run, whether any has."""
        waiting = [at == NOTHING_YET for at in now.inputs.values()]
        return not (all(waiting) if pace is Pace.CLOSE else any(waiting))

    def _clock_passed(self, last: datetime, now: datetime) -> bool:
        """Whether a multiple of `every` has passed that is at least nine tenths of an interval after the last version.

        So even after a late version (no input had changed at its time), the next one keeps its distance: readers rely
        on the interval. If the clock was set back by less than an interval, the next version waits for it. If it
        was set back further, the schedule continues from the current time.
        """
        return now >= self._due_after(last) or last - now >= self.every

    def _due_after(self, last: datetime) -> datetime:
        """The first multiple of `every` that is at least nine tenths of an interval after a version."""
        return EPOCH - (EPOCH - last - self.every + self.every / LATE) // self.every * self.every

    def _watermark_passed(self, last: Plan | None, now: Plan) -> bool:
        if now.watermark is None:
            return False
        return last is None or last.watermark is None or self._interval(now.watermark) > self._interval(last.watermark)

    def _interval(self, moment: datetime) -> int:
        return (moment - EPOCH) // self.every
