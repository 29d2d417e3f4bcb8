"""The inputs of a materialized view: views of other pipelines, all as of one event time that each has reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

from attrs import define, field, frozen

from ...domain.duration import show_duration
from ...domain.epoch.batch import Batch
from ...domain.epoch.epoch import Epoch, OffsetRange, Offsets, Publication
from ...domain.epoch.watermark import format_time, lowest
from ...domain.errors import SourceUnavailable, VersionExpired, VersionNotFound
from ...domain.ledger.upkeep import Pin
from ...domain.ports import Alarm, Now, Source
from ...domain.service.base import ReadAt, Service
from ...domain.service.input import ViewInput
from ...domain.service.materialized_view import ViewPlan, ViewSettings
from ...domain.service.snapshots import NOTHING_YET
from .inputs import HOLD, Pipelines, show_epochs
from .runner import Runner

_FIRST = datetime(1, 1, 1, tzinfo=UTC)
_LOOK_BACK = 256
"""The number of publications of a view that are searched for a moment shared with other inputs."""
_LATER = 'wait for a later change of each input, or set align = "newest"'


@frozen
class Blocker:
    """The reason why a view cannot advance yet.

    Args:
        input: the input that holds it back.
        why: the reason.
        remedy: what ends it; empty if the reason says it.
    """

    input: str
    why: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"held back by input {self.input}: {self.why}"


@define(eq=False)
class ViewInputs(Source):
    """Views of other pipelines as of one event time, with their changes since the last epoch.

    The versions that the last epoch read stay leased, so that the next epoch can read the changes since then.

    Args:
        settings: of the view.
        runner: returns the runner of a pipeline by its name.
        generation: of the view's tables that is being built; None for the current one.
    """

    settings: ViewSettings
    runner: Callable[[str], Runner]
    generation: int | None = None
    _pipelines: Pipelines = field(init=False)
    _pins: dict[tuple[str, int], Pin] = field(init=False, factory=dict)
    _tried_again: ViewPlan | None = field(init=False, default=None)

    format = "inputs"

    def __attrs_post_init__(self) -> None:
        self._pipelines = Pipelines(self.settings.pipeline, self.runner, self.generation)

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:
        """The newest event time that all inputs have reached, with a version of each."""
        self._pipelines.refresh()
        last = None if after is None else ViewPlan.of(after)
        self._keep(last, now.time)
        found = self._next(last)
        if isinstance(found, Blocker) or (last and found == last and found.reads_same(last)):
            return None
        return OffsetRange(after, found.to_offsets())

    def readable(self, offsets: OffsetRange) -> bool:
        self._pipelines.refresh()
        plan = ViewPlan.of(offsets.until)
        if plan.settings != self._fingerprint:
            return False
        try:
            self._lease(plan)
            return self._is_current(plan)
        except (VersionExpired, VersionNotFound):
            return False

    @contextmanager
    def open(self, epoch: Epoch, offsets: OffsetRange) -> Iterator[Batch]:
        plan = ViewPlan.of(offsets.until)
        before = self._before(offsets.after, plan)
        try:
            self._lease(plan)
            places = self._places(plan)
        except VersionExpired as error:
            raise SourceUnavailable(
                f"an input version of view {self.settings.pipeline!r} has expired before it was read; the newest"
                f" version is read instead: {error}"
            ) from error
        inputs = {
            name: ViewInput(self._service(name), self._pipelines.spec(each), places[name], before.get(name))
            for name, each in self.settings.inputs.items()
        }
        with self._explain_expired(plan):
            yield Batch(epoch, None, offsets, self.format, inputs=inputs)
        self._pipelines.published = True

    @contextmanager
    def _explain_expired(self, plan: ViewPlan) -> Iterator[None]:
        """Work that reads the inputs by a plan.

        Files that came and went between two leased versions are in neither, and may be deleted while changes are read.
        So the work is tried once more. If it meets an expired version again, a file was lost, perhaps one of the view's
        own tables.

        Raises:
            SourceUnavailable: it has met an expired version for the first time.
            VersionExpired: it has met one again.
        """
        try:
            yield
        except VersionExpired as error:
            if plan == self._tried_again:
                raise
            self._tried_again = plan
            raise SourceUnavailable(
                f"a version that view {self.settings.pipeline!r} needs has expired while it was read; it is tried once"
                f" more: {error}"
            ) from error

    def check_complete(self, beginning: Offsets | None, until: Offsets) -> None:
        """Nothing to check: the newest versions of the inputs are whole."""

    def lag(self, after: Offsets | None) -> str:
        self._pipelines.refresh()
        last = None if after is None else ViewPlan.of(after)
        found = self._next(last)
        if isinstance(found, Blocker):
            return str(found)
        was = last.inputs if last else {}
        names = {each.pipeline: name for name, each in self.settings.inputs.items()}.values()
        return show_epochs((found.inputs[name], was.get(name, NOTHING_YET)) for name in names)

    def alarms(self, after: Offsets | None, now: Now) -> Iterator[Alarm]:  # noqa: ARG002 - the port's
        """The reasons why the view is held back: an input that cannot be read yet, and inputs that lag."""
        self._pipelines.refresh()
        found = self._next(None if after is None else ViewPlan.of(after))
        if isinstance(found, Blocker):
            yield Alarm(f"{found}{found.remedy}", f"held back by input {found.input}")
        if not self.settings.aligned:
            return
        marks = {name: mark for name in self.settings.inputs if (mark := self._watermark(name))}
        if not marks:
            return
        ahead = max(marks, key=lambda name: marks[name])
        for name, mark in marks.items():
            if marks[ahead] - mark > self.settings.lag:
                behind = show_duration(timedelta(seconds=int((marks[ahead] - mark).total_seconds())))
                text = f"input {name} lags {behind} behind {ahead}: the view is held back at {format_time(mark)}"
                yield Alarm(text, f"input {name} lags")

    # ---- the moment ------------------------------------------------------------------------------------------------

    def _next(self, last: ViewPlan | None) -> ViewPlan | Blocker:
        """Plan the newest moment at which all inputs can be read, or return what blocks it."""
        latest: dict[str, Publication] = {}
        for name, each in self.settings.inputs.items():
            if (publication := self._pipelines.latest(each.pipeline)) is None:
                return Blocker(name, f"pipeline {each.pipeline!r} has published nothing yet")
            latest[name] = publication
        return self._plan_aligned(latest, last) if self.settings.aligned else self._plan_newest(latest)

    def _plan_newest(self, latest: Mapping[str, Publication]) -> ViewPlan:
        exact = {self._service(name).exact_as_of(publication) for name, publication in latest.items()}
        as_of = exact.pop() if len(exact) == 1 else None
        return self._plan_of(latest, as_of, lowest(self._complete_to(latest).values()))

    def _plan_aligned(self, latest: Mapping[str, Publication], last: ViewPlan | None) -> ViewPlan | Blocker:
        reached = dict[str, datetime]()
        for name, mark in self._complete_to(latest).items():
            if mark is None:
                return Blocker(name, "it has no watermark yet")
            if mark - _FIRST < self.settings.slack:
                return Blocker(name, f"its watermark is {format_time(_FIRST)}, before which nothing can be shown")
            reached[name] = mark
        limit = min(reached.values())
        moment = self._shared_moment(limit - self.settings.slack)
        if isinstance(moment, Blocker):
            return moment
        shown = last and (last.as_of or (last.watermark and last.watermark - self.settings.slack))
        if shown and moment < shown:
            slowest = min(reached, key=lambda name: reached[name])
            return Blocker(slowest, f"it has not reached {format_time(shown)} yet, which the view already shows")
        read = self._find_all(latest, moment)
        return read if isinstance(read, Blocker) else self._plan_of(read, moment, moment + self.settings.slack)

    def _plan_of(self, read: Mapping[str, Publication], as_of: datetime | None, watermark: datetime | None) -> ViewPlan:
        """The plan that reads these publications of the inputs."""
        epochs = {name: each.epoch.number for name, each in read.items()}
        published = {name: each.published_at.isoformat() for name, each in read.items()}
        views = self._pipelines.settings_of(self.settings.inputs)
        return ViewPlan(epochs, as_of, watermark, self._fingerprint, published, views)

    def _shared_moment(self, limit: datetime) -> datetime | Blocker:
        """The newest moment up to a limit at which all materialized views among the inputs have a publication."""
        common: set[datetime] | None = None
        for name in self._views:
            shown = {moment for _, moment in self._moments(name) if moment <= limit}
            common = shown if common is None else common & shown
            if not common:
                edited = any(self._service(name).recomputes(each.fingerprint) for each in self._known(name))
                since = " since it was edited" if edited else ""
                return Blocker(
                    name,
                    f"it has no publication up to {format_time(limit)}{since} at a moment that the other views share;"
                    ' if that lasts, read the tables below the views, or set align = "newest"',
                )
        return limit if common is None else max(common)

    @property
    def _views(self) -> tuple[str, ...]:
        """The inputs whose publications are each exact as of one event time: materialized views."""
        found = []
        for name, each in self.settings.inputs.items():
            latest = self._pipelines.latest(each.pipeline)
            if latest and self._service(name).exact_as_of(latest) is not None:
                found.append(name)
        return tuple(found)

    def _moments(self, name: str) -> Iterator[tuple[Publication, datetime]]:
        """Yield publications of a view since it was last edited, with the moments that they show, newest first."""
        service = self._service(name)
        for publication in self._known(name):
            if service.recomputes(publication.fingerprint):
                return
            if (moment := service.exact_as_of(publication)) is not None:
                yield publication, moment

    def _known(self, name: str) -> Iterable[Publication]:
        return self._pipelines.ledger(self.settings.inputs[name].pipeline).known(_LOOK_BACK)

    def _find_all(self, latest: Mapping[str, Publication], moment: datetime) -> dict[str, Publication] | Blocker:
        """Find the publications at which the inputs are read for a moment, which may be long before all watermarks.

        Others are read up to the watermark up to which views that show the moment have read theirs, perhaps with
        another `align`.
        """
        shown = {name: next(each for each, at in self._moments(name) if at == moment) for name in self._views}
        limit = max([moment + self.settings.slack, *filter(None, self._complete_to(shown).values())])
        read = {}
        for name, publication in latest.items():
            found = shown.get(name) or self._find(name, publication, moment, limit)
            if isinstance(found, Blocker):
                return found
            if self._pipelines.has_expired(self.settings.inputs[name].pipeline, found):
                return _expired(name, limit)
            read[name] = found
        return read

    def _find(self, name: str, latest: Publication, moment: datetime, limit: datetime) -> Publication | Blocker:
        """Find the publication at which an input that shows no moments is read; `limit`: see `_find_all`."""
        each, service = self.settings.inputs[name], self._service(name)
        spec = self._pipelines.spec(each)
        if spec.timed:
            why = service.held_back(spec.name, ReadAt(self._pipelines.ledger(each.pipeline).snapshot(latest), moment))
            remedy = f"; all inputs have reached {format_time(limit)}: {_LATER}"
            return latest if why is None else Blocker(name, why, remedy)
        try:
            found = self._newest_up_to(each.pipeline, limit)
        except VersionExpired:  # where the tables' history ends
            return _expired(name, limit)
        return found or Blocker(name, f"it has no publication up to {format_time(limit)}", f": {_LATER}")

    def _newest_up_to(self, pipeline: str, limit: datetime) -> Publication | None:
        """The newest publication whose watermark is not beyond a limit; None if the first one is later.

        Raises:
            VersionExpired: it is not known any more.
        """
        known = self._pipelines.ledger(pipeline).publications()
        marked = ((each, self._pipelines.complete_to(pipeline, each)) for each in known)
        return next((each for each, mark in marked if mark is not None and mark <= limit), None)

    def _is_current(self, plan: ViewPlan) -> bool:
        """Whether a plan reads the inputs as they are: they may have been built again or edited since."""
        read = {name: self._publication(name, epoch) for name, epoch in plan.inputs.items()}
        return self._plan_of(read, plan.as_of, plan.watermark).reads_same(plan)

    # ---- what is read ----------------------------------------------------------------------------------------------

    @property
    def _fingerprint(self) -> str:
        """The view's own fingerprint; see `MaterializedView`."""
        return self.runner(self.settings.pipeline).service.fingerprint

    def _service(self, name: str) -> Service:
        return self.runner(self.settings.inputs[name].pipeline).service

    def _watermark(self, name: str) -> datetime | None:
        pipeline = self.settings.inputs[name].pipeline
        return self._pipelines.complete_to(pipeline, self._pipelines.latest(pipeline))

    def _complete_to(self, read: Mapping[str, Publication]) -> dict[str, datetime | None]:
        """The event time (UTC) up to which the input of each publication was complete; see `Service.complete_to`."""
        return {
            name: self._pipelines.complete_to(self.settings.inputs[name].pipeline, publication)
            for name, publication in read.items()
        }

    def _places(self, plan: ViewPlan) -> dict[str, ReadAt]:
        """The snapshot at which each input is read, with the event time if its view supports one."""
        found = {}
        for name, each in self.settings.inputs.items():
            timed = self._pipelines.spec(each).timed and self.settings.aligned
            snapshot = self._pipelines.at(each.pipeline, plan.inputs[name])
            found[name] = ReadAt(snapshot, plan.as_of if timed else None)
        return found

    def _before(self, after: Offsets | None, now: ViewPlan) -> Mapping[str, ReadAt]:
        """The snapshots of the last epoch.

        Empty if they have expired, if the view was edited, or if an input was edited or built again, or is read at an
        earlier epoch now: up to 0.1.0 a view over views could read it too late.
        """
        if after is None:
            return {}
        plan = ViewPlan.of(after)
        if plan.settings != self._fingerprint or any(now.inputs[name] < plan.inputs[name] for name in now.inputs):
            return {}
        try:
            self._lease(plan)
            if self._is_current(plan) and not any(self._edited(plan, name) for name in plan.inputs):
                return self._places(plan)
        except (VersionExpired, VersionNotFound):
            pass
        return {}

    def _publication(self, name: str, epoch: int) -> Publication:
        publication = self._pipelines.at(self.settings.inputs[name].pipeline, epoch).publication
        assert publication is not None  # else nothing would have been planned
        return publication

    def _edited(self, plan: ViewPlan, name: str) -> bool:
        """Whether an input's view was edited after the epoch that a plan of an old version reads.

        Plans of later versions record by which settings they read.
        """
        view = self._pipelines.spec(self.settings.inputs[name]).name
        read = self._publication(name, plan.inputs[name])
        return name not in plan.views and view in self._service(name).changed_views(read.fingerprint)

    def _lease(self, plan: ViewPlan) -> None:
        for name, epoch in plan.inputs.items():
            pipeline = self.settings.inputs[name].pipeline
            if (pipeline, epoch) not in self._pins:
                self._pins[pipeline, epoch] = self._pipelines.pin(pipeline, self._publication(name, epoch))

    def _keep(self, last: ViewPlan | None, now: datetime) -> None:
        """Renew the leases on what the last epoch read, and release all others."""
        last = last if last and last.settings == self._fingerprint else None
        wanted = {(self.settings.inputs[name].pipeline, at) for name, at in last.inputs.items()} if last else set()
        old = {place: pin for place, pin in self._pins.items() if place not in wanted or pin.left(now) < HOLD / 2}
        for place in old:
            del self._pins[place]
        if last:  # first, so that there is no gap between leases
            with suppress(VersionExpired, VersionNotFound):  # it has expired: the whole view is computed
                self._lease(last)
        for pin in old.values():
            pin.release()
        pipelines = (each.pipeline for each in self.settings.inputs.values())
        self._pipelines.release_left(pipelines, [pin.publication for pin in self._pins.values()])


def _expired(name: str, limit: datetime) -> Blocker:
    return Blocker(name, f"its publications up to {format_time(limit)} have expired; let it keep more (retain)")
