"""What a pipeline reads of others: their views, each at one publication, and plain tables as they are."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from attrs import define, field

from ..domain.epoch import OffsetRange
from ..domain.errors import SourceUnavailable, VersionExpired, VersionNotFound
from ..domain.input import PlainInput, ViewInput
from ..domain.ledger import Snapshot
from ..domain.ports import InputSource
from ..domain.service import ReadAt
from ..domain.snapshots import NOTHING_YET, PlainTable, Plan, ViewOf
from ..domain.upkeep import Upkeep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from ..domain.epoch import Offsets, Publication
    from ..domain.input import Input
    from ..domain.ports import Pace, QueryEngine
    from ..domain.service import ViewSpec
    from ..domain.snapshots import Schedule, SnapshotSettings
    from ..domain.upkeep import Pin
    from .runner import Runner

HOLD = timedelta(hours=12)
"""How long a lease on an input lasts whose epoch never ends: longer than any does."""


@define(eq=False)
class Pipelines:
    """The pipelines of a deployment, as one of them reads the others.

    Args:
        reader: its name.
        runner: of a pipeline by its name.
    """

    reader: str
    runner: Callable[[str], Runner]

    def spec(self, each: ViewOf) -> ViewSpec:
        """The view that an input is."""
        service = self.runner(each.pipeline).service
        return service.known(each.view) if each.view else service.views[0]

    def latest(self, pipeline: str) -> Publication | None:
        """The newest publication of a pipeline."""
        return self.runner(pipeline).standing().latest

    def at(self, pipeline: str, epoch: int) -> Snapshot:
        """A pipeline's tables at an epoch.

        Raises:
            VersionExpired: it has been cleaned away.
        """
        ledger = self.runner(pipeline).standing()
        return Snapshot(ledger.store, None) if epoch == NOTHING_YET else ledger.snapshot(ledger.as_of_epoch(epoch))

    def pin(self, pipeline: str, publication: Publication) -> Pin:
        """Keep a publication of a pipeline readable, for `HOLD` at most.

        Raises:
            VersionExpired: it has gone.
        """
        runner = self.runner(pipeline)
        upkeep = Upkeep(runner.standing(), runner.keeper, runner.options.retention)
        return upkeep.pin(publication, f"pipeline {self.reader}", HOLD)


@define(eq=False)
class PipelineInputs(InputSource):
    """Views of other pipelines of the deployment, and plain tables.

    Args:
        settings: of the pipeline that reads them.
        schedule: when the next epoch is due.
        runner: of a pipeline by its name.
        queries: reads plain tables.
    """

    settings: SnapshotSettings
    schedule: Schedule
    runner: Callable[[str], Runner]
    queries: QueryEngine
    _pipelines: Pipelines = field(init=False)

    format = "inputs"

    def __attrs_post_init__(self) -> None:
        self._pipelines = Pipelines(self.settings.pipeline, self.runner)

    def plan(self, after: Offsets | None, pace: Pace, now: datetime) -> OffsetRange | None:
        last = Plan.of(after) if after is not None else None
        if not self.schedule.looks(last, now, pace):
            return None
        found = self._newest(now)
        if not self.schedule.due(last, found, pace) or not self._has_columns(found):
            return None
        return OffsetRange(after, found.to_offsets())

    def readable(self, offsets: OffsetRange) -> bool:
        plan = Plan.of(offsets.until)
        if plan.settings != self.settings.fingerprint:
            return False
        if any(plan.inputs[name] != state for name, state in self._states().items()):
            return False
        try:
            with ExitStack() as holding:
                self._pinned(plan, holding)
        except (VersionExpired, VersionNotFound):
            return False
        return True

    @contextmanager
    def hold(self, offsets: OffsetRange) -> Iterator[Mapping[str, Input]]:
        with ExitStack() as holding:
            try:
                snapshots = self._pinned(Plan.of(offsets.until), holding)
            except VersionExpired as error:
                raise SourceUnavailable(
                    f"what pipeline {self.settings.pipeline!r} was to read has just been given up; what is there now is"
                    " read instead"
                ) from error
            yield {name: self._input(each, snapshots) for name, each in self.settings.inputs.items()}

    def lag(self, after: Offsets | None) -> str:
        was = {} if after is None else Plan.of(after).inputs
        names = {pipeline: name for name, pipeline in self.settings.pipelines.items()}
        moved = sum(
            _epoch(self._pipelines.latest(pipeline)) - _number(was.get(name)) for pipeline, name in names.items()
        )
        return f"{moved} epoch{'' if moved == 1 else 's'} of inputs"

    def _newest(self, now: datetime) -> Plan:
        """The inputs as they stand: views of one pipeline at the same publication."""
        views = self.settings.pipelines
        latest = {pipeline: self._pipelines.latest(pipeline) for pipeline in dict.fromkeys(views.values())}
        marks = [publication.watermark if publication else None for publication in latest.values()]
        known = [mark for mark in marks if mark is not None]
        watermark = min(known) if known and len(known) == len(marks) else None
        epochs = {name: _epoch(latest[at]) for name, at in views.items()}
        return Plan({**epochs, **self._states()}, watermark, now, self.settings.fingerprint)

    def _has_columns(self, plan: Plan) -> bool:
        """Whether every input can be queried: a published table has no columns before its first version."""
        views = ((plan.inputs[name], each) for name, each in self.settings.inputs.items() if isinstance(each, ViewOf))
        return all(at != NOTHING_YET or self._pipelines.spec(each).schema.columns for at, each in views)

    def _states(self) -> dict[str, str]:
        """The plain tables as they are."""
        tables = ((name, each) for name, each in self.settings.inputs.items() if isinstance(each, PlainTable))
        return {name: self.queries.state(each.path, each.format) for name, each in tables}

    def _pinned(self, plan: Plan, holding: ExitStack) -> dict[str, Snapshot]:
        """The inputs' pipelines at the plan's publications, kept readable until `holding` ends."""
        found: dict[str, Snapshot] = {}
        for name, each in self.settings.inputs.items():
            if isinstance(each, ViewOf) and each.pipeline not in found:
                found[each.pipeline] = self._held(each.pipeline, _number(plan.inputs[name]), holding)
        return found

    def _held(self, pipeline: str, epoch: int, holding: ExitStack) -> Snapshot:
        snapshot = self._pipelines.at(pipeline, epoch)
        if snapshot.publication is not None:
            holding.enter_context(self._pipelines.pin(pipeline, snapshot.publication))
        return snapshot

    def _input(self, each: ViewOf | PlainTable, snapshots: Mapping[str, Snapshot]) -> Input:
        if isinstance(each, PlainTable):
            return PlainInput(self.queries.scan(each.path, each.format))
        service, at = self.runner(each.pipeline).service, ReadAt(snapshots[each.pipeline])
        return ViewInput(service, self._pipelines.spec(each), at)


def _epoch(publication: Publication | None) -> int:
    return publication.epoch.number if publication else NOTHING_YET


def _number(at: int | str | None) -> int:
    """The epoch that an input was read at, which was a plain table or none before, perhaps."""
    return at if isinstance(at, int) else NOTHING_YET
