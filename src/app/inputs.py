"""What a pipeline reads of others: their views, each at one publication, and plain tables as they are."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from attrs import define

from ..domain.epoch import OffsetRange
from ..domain.errors import SourceUnavailable, VersionExpired, VersionNotFound
from ..domain.ledger import Snapshot
from ..domain.ports import InputSource
from ..domain.snapshots import NOTHING_YET, PlainTable, Plan, ViewOf
from ..domain.upkeep import Upkeep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    import narwhals as nw

    from ..domain.epoch import Offsets, Publication
    from ..domain.ports import Pace, QueryEngine
    from ..domain.service import ViewSpec
    from ..domain.snapshots import Input, Schedule, SnapshotSettings
    from .runner import Runner

_HOLD = timedelta(hours=12)
"""How long a lease on an input lasts whose epoch never ends: longer than any does."""


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

    format = "inputs"

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
    def hold(self, offsets: OffsetRange) -> Iterator[Mapping[str, nw.LazyFrame[Any]]]:
        with ExitStack() as holding:
            try:
                snapshots = self._pinned(Plan.of(offsets.until), holding)
            except VersionExpired as error:
                raise SourceUnavailable(
                    f"what pipeline {self.settings.pipeline!r} was to read has just been given up; what is there now is"
                    " read instead"
                ) from error
            yield {name: self._rows(each, snapshots) for name, each in self.settings.inputs.items()}

    def lag(self, after: Offsets | None) -> str:
        was = {} if after is None else Plan.of(after).inputs
        pipelines = {name: each.pipeline for name, each in self.settings.inputs.items() if isinstance(each, ViewOf)}
        newest = {pipeline: _epoch(self._latest(pipeline)) for pipeline in set(pipelines.values())}
        moved = sum(newest[pipeline] - _number(was.get(name)) for name, pipeline in pipelines.items())
        return f"{moved} epoch{'' if moved == 1 else 's'} of inputs"

    def _newest(self, now: datetime) -> Plan:
        """The inputs as they stand: views of one pipeline at the same publication."""
        views = {name: each.pipeline for name, each in self.settings.inputs.items() if isinstance(each, ViewOf)}
        latest = {pipeline: self._latest(pipeline) for pipeline in dict.fromkeys(views.values())}
        marks = [publication.watermark if publication else None for publication in latest.values()]
        known = [mark for mark in marks if mark is not None]
        watermark = min(known) if known and len(known) == len(marks) else None
        epochs = {name: _epoch(latest[at]) for name, at in views.items()}
        return Plan({**epochs, **self._states()}, watermark, now, self.settings.fingerprint)

    def _has_columns(self, plan: Plan) -> bool:
        """Whether every input can be queried: a published table has no columns before its first version."""
        views = ((plan.inputs[name], each) for name, each in self.settings.inputs.items() if isinstance(each, ViewOf))
        return all(at != NOTHING_YET or self._view(each).schema.columns for at, each in views)

    def _view(self, each: ViewOf) -> ViewSpec:
        service = self.runner(each.pipeline).service
        return service.known(each.view) if each.view else service.views[0]

    def _states(self) -> dict[str, str]:
        """The plain tables as they are."""
        tables = ((name, each) for name, each in self.settings.inputs.items() if isinstance(each, PlainTable))
        return {name: self.queries.state(each.path, each.format) for name, each in tables}

    def _latest(self, pipeline: str) -> Publication | None:
        return self.runner(pipeline).standing().latest

    def _pinned(self, plan: Plan, holding: ExitStack) -> dict[str, Snapshot]:
        """The inputs' pipelines at the plan's publications, kept readable until `holding` ends."""
        found: dict[str, Snapshot] = {}
        for name, each in self.settings.inputs.items():
            if isinstance(each, ViewOf) and each.pipeline not in found:
                found[each.pipeline] = self._held(each.pipeline, _number(plan.inputs[name]), holding)
        return found

    def _held(self, pipeline: str, epoch: int, holding: ExitStack) -> Snapshot:
        runner = self.runner(pipeline)
        ledger = runner.standing()
        if epoch == NOTHING_YET:
            return Snapshot(ledger.store, None)
        publication = ledger.as_of_epoch(epoch)
        upkeep = Upkeep(ledger, runner.keeper, runner.options.retention)
        holding.enter_context(upkeep.pin(publication, f"pipeline {self.settings.pipeline}", _HOLD))
        return ledger.snapshot(publication)

    def _rows(self, each: Input, snapshots: Mapping[str, Snapshot]) -> nw.LazyFrame[Any]:
        if isinstance(each, PlainTable):
            return self.queries.scan(each.path, each.format)
        return self.runner(each.pipeline).service.view(self._view(each).name, snapshots[each.pipeline])


def _epoch(publication: Publication | None) -> int:
    return publication.epoch.number if publication else NOTHING_YET


def _number(at: int | str | None) -> int:
    """The epoch that an input was read at, which was a plain table or none before, perhaps."""
    return at if isinstance(at, int) else NOTHING_YET
