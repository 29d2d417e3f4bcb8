"""What a materialized view reads of other pipelines: all of them as of one event time, which each has reached."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from ..domain.duration import show_duration
from ..domain.epoch import OffsetRange
from ..domain.errors import SourceUnavailable, VersionExpired, VersionNotFound
from ..domain.input import ViewInput
from ..domain.materialized_view import ViewPlan
from ..domain.ports import InputSource
from ..domain.service import ReadAt
from ..domain.watermark import told
from .inputs import HOLD, Pipelines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from ..domain.epoch import Offsets, Publication
    from ..domain.materialized_view import ViewSettings
    from ..domain.ports import Pace
    from ..domain.service import Service
    from ..domain.upkeep import Pin
    from .runner import Runner

_LOOKED_BACK = 256
"""Publications of a view that are looked through for a moment that it shares with others."""


@frozen
class Held:
    """Why a view cannot go on yet.

    Args:
        input: by which of its inputs it is held back.
        why: in words.
    """

    input: str
    why: str

    def __str__(self) -> str:
        return f"held back by input {self.input}: {self.why}"


@define(eq=False)
class ViewInputs(InputSource):
    """Views of other pipelines as of one event time, and what has changed of them since the epoch before.

    What the last epoch read stays leased, so that the next can tell what has changed since.

    Args:
        settings: of the view.
        runner: of a pipeline by its name.
    """

    settings: ViewSettings
    runner: Callable[[str], Runner]
    _pipelines: Pipelines = field(init=False)
    _pins: dict[tuple[str, int], Pin] = field(init=False, factory=dict)

    format = "inputs"

    def __attrs_post_init__(self) -> None:
        self._pipelines = Pipelines(self.settings.pipeline, self.runner)

    def plan(self, after: Offsets | None, pace: Pace, now: datetime) -> OffsetRange | None:  # noqa: ARG002 - whatever paces it
        last = None if after is None else ViewPlan.of(after)
        self._keep(last, now)
        found = self._next(last)
        return None if isinstance(found, Held) or found == last else OffsetRange(after, found.to_offsets())

    def readable(self, offsets: OffsetRange) -> bool:
        plan = ViewPlan.of(offsets.until)
        if plan.settings != self.settings.fingerprint:
            return False
        try:
            self._lease(plan)
        except (VersionExpired, VersionNotFound):
            return False
        return True

    @contextmanager
    def hold(self, offsets: OffsetRange) -> Iterator[Mapping[str, ViewInput]]:
        plan = ViewPlan.of(offsets.until)
        before = self._before(offsets.after)
        try:
            self._lease(plan)
            now = self._places(plan)
        except VersionExpired as error:
            raise SourceUnavailable(
                f"what view {self.settings.pipeline!r} was to read has just been given up; what is there now is read"
                " instead"
            ) from error
        yield {
            name: ViewInput(self._service(name), self._pipelines.spec(each), now[name], before.get(name))
            for name, each in self.settings.inputs.items()
        }

    def lag(self, after: Offsets | None) -> str:
        last = None if after is None else ViewPlan.of(after)
        found = self._next(last)
        if isinstance(found, Held):
            return str(found)
        was = last.inputs if last else {}
        names = {each.pipeline: name for name, each in self.settings.inputs.items()}.values()
        moved = sum(found.inputs[name] - was.get(name, -1) for name in names)
        return f"{moved} epoch{'' if moved == 1 else 's'} of inputs"

    def alarms(self, after: Offsets | None) -> Iterator[str]:
        """What holds the view back, each in words: an input that cannot be read yet, and those that lag behind others.

        Args:
            after: where the newest epoch stands; None before the first.
        """
        found = self._next(None if after is None else ViewPlan.of(after))
        if isinstance(found, Held):
            yield str(found)
        if not self.settings.aligned:
            return
        marks = {name: mark for name in self.settings.inputs if (mark := self._watermark(name))}
        if not marks:
            return
        ahead = max(marks, key=lambda name: marks[name])
        for name, mark in marks.items():
            if marks[ahead] - mark > self.settings.lag:
                behind = show_duration(_whole_seconds(marks[ahead] - mark))
                yield f"input {name} lags {behind} behind {ahead}: the view is held back at {told(mark)}"

    # ---- the moment ------------------------------------------------------------------------------------------------

    def _next(self, last: ViewPlan | None) -> ViewPlan | Held:
        """The newest moment that all inputs can be read at, or what is in its way."""
        latest: dict[str, Publication] = {}
        for name, each in self.settings.inputs.items():
            if (publication := self._pipelines.latest(each.pipeline)) is None:
                return Held(name, f"pipeline {each.pipeline!r} has published nothing yet")
            latest[name] = publication
        if self.settings.aligned:
            return self._aligned(latest, last)
        marks = [publication.watermark for publication in latest.values()]
        known = [mark for mark in marks if mark is not None]
        watermark = min(known) if len(known) == len(marks) else None
        exact = {self._service(name).exact_as_of(publication) for name, publication in latest.items()}
        as_of = exact.pop() if len(exact) == 1 else None
        epochs = {name: publication.epoch.number for name, publication in latest.items()}
        return ViewPlan(epochs, as_of, watermark, self.settings.fingerprint)

    def _aligned(self, latest: Mapping[str, Publication], last: ViewPlan | None) -> ViewPlan | Held:
        limit: datetime | None = None
        for name, publication in latest.items():
            if publication.watermark is None:
                return Held(name, "it has no watermark yet")
            limit = publication.watermark if limit is None else min(limit, publication.watermark)
        assert limit is not None  # there is an input
        moment = self._shared(limit - self.settings.slack)
        if isinstance(moment, Held):
            return moment
        if last and last.as_of and moment < last.as_of:
            slowest = min(latest, key=lambda name: latest[name].watermark or limit)
            return Held(slowest, f"it has not come to {told(last.as_of)} yet, which the view shows")
        epochs = {}
        for name, publication in latest.items():
            found = self._epoch(name, publication, moment, limit)
            if isinstance(found, Held):
                return found
            epochs[name] = found
        return ViewPlan(epochs, moment, moment + self.settings.slack, self.settings.fingerprint)

    def _shared(self, limit: datetime) -> datetime | Held:
        """The newest moment up to a limit that all inputs which are views themselves have shown."""
        common: set[datetime] | None = None
        for name in self._views:
            shown = {moment for _, moment in self._shown(name) if moment <= limit}
            common = shown if common is None else common & shown
            if not common:
                return Held(name, f"it has shown no moment up to {told(limit)} that the others have")
        return limit if common is None else max(common)

    @property
    def _views(self) -> tuple[str, ...]:
        """The inputs that show one event time at each of their publications."""
        found = []
        for name, each in self.settings.inputs.items():
            latest = self._pipelines.latest(each.pipeline)
            if latest and self._service(name).exact_as_of(latest) is not None:
                found.append(name)
        return tuple(found)

    def _shown(self, name: str) -> Iterator[tuple[Publication, datetime]]:
        """Publications of a view and the moments that they show, newest first."""
        service, ledger = self._service(name), self.runner(self.settings.inputs[name].pipeline).standing()
        for publication in ledger.known(_LOOKED_BACK):
            if (moment := service.exact_as_of(publication)) is not None:
                yield publication, moment

    def _epoch(self, name: str, latest: Publication, moment: datetime, limit: datetime) -> int | Held:
        """The epoch at which an input is read as of a moment."""
        if name in self._views:
            return next(publication.epoch.number for publication, shown in self._shown(name) if shown == moment)
        each, service = self.settings.inputs[name], self._service(name)
        spec = self._pipelines.spec(each)
        ledger = self.runner(each.pipeline).standing()
        if spec.timed:
            why = service.held_back(spec.name, ReadAt(ledger.snapshot(latest), moment))
            return latest.epoch.number if why is None else Held(name, why)
        for publication in ledger.known():
            if publication.watermark is not None and publication.watermark <= limit:
                return publication.epoch.number
        return Held(name, f"its publications up to {told(limit)} are gone; let it keep more (retain)")

    # ---- what is read ----------------------------------------------------------------------------------------------

    def _service(self, name: str) -> Service:
        return self.runner(self.settings.inputs[name].pipeline).service

    def _watermark(self, name: str) -> datetime | None:
        latest = self._pipelines.latest(self.settings.inputs[name].pipeline)
        return latest.watermark if latest else None

    def _places(self, plan: ViewPlan) -> dict[str, ReadAt]:
        """Where each input is read: one that tells rows as of an event time is asked for it."""
        found = {}
        for name, each in self.settings.inputs.items():
            timed = self._pipelines.spec(each).timed and self.settings.aligned
            snapshot = self._pipelines.at(each.pipeline, plan.inputs[name])
            found[name] = ReadAt(snapshot, plan.as_of if timed else None)
        return found

    def _before(self, after: Offsets | None) -> Mapping[str, ReadAt]:
        """Where each input was read before; nothing where that cannot be read any more, or was another view's."""
        if after is None:
            return {}
        plan = ViewPlan.of(after)
        if plan.settings != self.settings.fingerprint:
            return {}
        try:
            self._lease(plan)
            return self._places(plan)
        except (VersionExpired, VersionNotFound):
            return {}

    def _lease(self, plan: ViewPlan) -> None:
        for name, epoch in plan.inputs.items():
            pipeline = self.settings.inputs[name].pipeline
            if (pipeline, epoch) not in self._pins:
                publication = self._pipelines.at(pipeline, epoch).publication
                assert publication is not None  # or nothing would have been planned
                self._pins[pipeline, epoch] = self._pipelines.pin(pipeline, publication)

    def _keep(self, last: ViewPlan | None, now: datetime) -> None:
        """Hold what the last epoch read, for a while more each time, and nothing else."""
        wanted = (
            {
                (self.settings.inputs[name].pipeline, at)
                for name, at in last.inputs.items()
                if name in self.settings.inputs
            }
            if last
            else set()
        )
        for place, pin in list(self._pins.items()):
            ends = min((lease.until for lease in pin.leases), default=now)
            if place not in wanted or ends - now < HOLD / 2:
                del self._pins[place]
                if place in wanted:  # first, so that it is always held
                    publication = pin.publication
                    self._pins[place] = self._pipelines.pin(place[0], publication)
                pin.release()


def _whole_seconds(span: timedelta) -> timedelta:
    return timedelta(seconds=int(span.total_seconds()))
