"""The inputs of a pipeline: views of other pipelines, each at one publication, and plain tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta

from attrs import define, evolve, field

from ...domain.epoch.batch import Batch, Input
from ...domain.epoch.epoch import Epoch, OffsetRange, Offsets, Publication
from ...domain.epoch.watermark import lowest
from ...domain.errors import (
    ConfigError,
    EngineLimit,
    HeadwaterError,
    SourceUnavailable,
    Transient,
    VersionExpired,
    VersionNotFound,
    first_line,
)
from ...domain.ledger.generation import folder_name
from ...domain.ledger.ledger import Ledger, Snapshot
from ...domain.ledger.upkeep import Pin, Upkeep
from ...domain.ports import Now, QueryEngine, Source
from ...domain.service.base import ReadAt
from ...domain.service.input import PlainInput, ViewInput
from ...domain.service.snapshots import NOTHING_YET, PlainTable, Plan, Schedule, SnapshotSettings, ViewOf
from ...domain.table.view_spec import ViewSpec
from .runner import Runner

HOLD = timedelta(hours=12)
"""The duration of a lease on what is read; longer than any epoch takes. What is killed keeps versions no longer."""


@define(eq=False)
class Pipelines:
    """The pipelines of a deployment, read by one of them.

    Their ledgers are opened once for each piece of work, not for each question: see `refresh`.

    Args:
        reader: the name of the pipeline that reads, which holds its leases.
        runner: returns the runner of a pipeline by its name.
        generation: of the reader's tables that is being built; None for the current one.
        published: whether this process has published an epoch of the reader since the last `release_left`.
    """

    reader: str
    runner: Callable[[str], Runner]
    generation: int | None = None
    published: bool = field(init=False, default=False)
    _opened: dict[str, tuple[Runner, Ledger]] = field(init=False, factory=dict)

    def refresh(self) -> None:
        """From now on, see what the pipelines have published by now."""
        self._opened.clear()

    def ledger(self, pipeline: str) -> Ledger:
        return self._open(pipeline)[1]

    def spec(self, each: ViewOf) -> ViewSpec:
        return each.of(self.runner(each.pipeline).service)

    def settings_of(self, inputs: Mapping[str, ViewOf | PlainTable]) -> dict[str, str]:
        """The present settings of the inputs' views, by input, without views that have none."""
        views = {name: each for name, each in inputs.items() if isinstance(each, ViewOf)}
        found = {
            name: self.runner(each.pipeline).service.view_settings(self.spec(each).name) for name, each in views.items()
        }
        return {name: settings for name, settings in found.items() if settings is not None}

    def latest(self, pipeline: str) -> Publication | None:
        return self.ledger(pipeline).latest

    def complete_to(self, pipeline: str, publication: Publication | None) -> datetime | None:
        """The event time (UTC) up to which the input of a publication was complete; None if it has no watermark."""
        return self.runner(pipeline).service.complete_to(publication) if publication else None

    def at(self, pipeline: str, epoch: int) -> Snapshot:
        """A pipeline's tables at an epoch.

        Raises:
            VersionExpired: that version has expired.
        """
        ledger = self.ledger(pipeline)
        return Snapshot(ledger.store, None) if epoch == NOTHING_YET else ledger.snapshot(ledger.find_epoch(epoch))

    def pin(self, pipeline: str, publication: Publication) -> Pin:
        """Keep a publication of a pipeline readable, for `HOLD` at most.

        Raises:
            VersionExpired: that version has expired.
        """
        return self._upkeep(pipeline).pin(publication, self._holder, HOLD)

    def release_left(self, pipelines: Iterable[str], keep: Collection[Publication] = ()) -> None:
        """Release what earlier processes have leased of these pipelines for the reader, and left when they were killed.

        It waits until this process has published an epoch: until then, another one may be at work on the next epoch.

        Args:
            pipelines: the reader's inputs.
            keep: the publications that the reader still needs.
        """
        if self.published:
            for pipeline in set(pipelines):
                self._upkeep(pipeline).release(self._holder, keep)
            self.published = False

    def has_expired(self, pipeline: str, publication: Publication) -> bool:
        """Whether the rows of a publication of a pipeline have expired; never those of the newest."""
        return publication != self.latest(pipeline) and self._upkeep(pipeline).has_expired(publication)

    @property
    def _holder(self) -> str:
        return holder_of(self.reader, self.generation or 1)

    def _upkeep(self, pipeline: str) -> Upkeep:
        runner, ledger = self._open(pipeline)
        return Upkeep(ledger, runner.keeper, runner.options.retention)

    def _open(self, pipeline: str) -> tuple[Runner, Ledger]:
        """A pipeline's runner, and its ledger, which that runner has opened: the keeper then knows the tables."""
        if pipeline not in self._opened:
            runner = self.runner(pipeline)
            self._opened[pipeline] = (runner, runner.current_ledger())
        return self._opened[pipeline]


@define(eq=False)
class PipelineInputs(Source):
    """Views of other pipelines of the deployment, and plain tables.

    Args:
        settings: of the pipeline.
        schedule: says when an epoch is due.
        runner: returns the runner of a pipeline by its name.
        queries: reads the plain tables.
        generation: of the pipeline's tables that is being built; None for the current one.
    """

    settings: SnapshotSettings
    schedule: Schedule
    runner: Callable[[str], Runner]
    queries: QueryEngine
    generation: int | None = None
    _pipelines: Pipelines = field(init=False)

    format = "inputs"

    def __attrs_post_init__(self) -> None:
        self._pipelines = Pipelines(self.settings.pipeline, self.runner, self.generation)

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:
        """The newest state of all inputs, if the schedule says that an epoch is due."""
        self._pipelines.refresh()
        self._pipelines.release_left(self.settings.pipelines.values())
        last = Plan.of(after) if after is not None else None
        if not self.schedule.needs_inputs(last, now.time, now.pace):
            return None
        found = self._newest(now.time, last)
        if not self.schedule.is_due(last, found, now.pace) or not self._has_columns(found):
            return None
        return OffsetRange(after, found.to_offsets())

    def readable(self, offsets: OffsetRange) -> bool:
        self._pipelines.refresh()
        plan = Plan.of(offsets.until)
        if plan.settings != self.settings.fingerprint:
            return False
        if any(plan.inputs[name] != state for name, state in self._states(plan).items()):
            return False
        try:
            with ExitStack() as holding:
                snapshots = self._pin_inputs(plan, holding)
                now = {at: each.publication for at, each in snapshots.items()}
        except (VersionExpired, VersionNotFound):
            return False
        views = self._pipelines.settings_of(self.settings.inputs)
        return plan.is_like(evolve(plan, published=self._published(now), views=views))

    @contextmanager
    def open(self, epoch: Epoch, offsets: OffsetRange) -> Iterator[Batch]:
        plan = Plan.of(offsets.until)
        with ExitStack() as holding:
            try:
                snapshots = self._pin_inputs(plan, holding)
            except VersionExpired as error:
                raise SourceUnavailable(
                    f"an input version of pipeline {self.settings.pipeline!r} has expired just before it was read; the"
                    " newest version is read instead"
                ) from error
            with self._explain_changes(plan):
                inputs = {name: self._input(each, snapshots) for name, each in self.settings.inputs.items()}
                yield Batch(epoch, None, offsets, self.format, inputs=inputs)
            self._pipelines.published = True

    @contextmanager
    def _explain_changes(self, plan: Plan) -> Iterator[None]:
        """Work that reads the inputs; an engine may read them only when it computes the version.

        Raises:
            SourceUnavailable: it failed, and a plain table is not in the state that was planned: the work is tried
                again with the present state.
        """
        try:
            yield
        except (Transient, EngineLimit):
            raise
        except Exception as error:  # each engine has its own for a file that goes or changes
            if (changed := self._find_changed(plan)) is None:
                raise
            raise SourceUnavailable(
                f"{changed} changed while it was read; it is read again: {first_line(error)}"
            ) from error

    def check_complete(self, beginning: Offsets | None, until: Offsets) -> None:
        """Nothing to check: the newest versions of the inputs are whole."""

    def lag(self, after: Offsets | None) -> str:
        self._pipelines.refresh()
        was = {} if after is None else Plan.of(after).inputs
        names = {pipeline: name for name, pipeline in self.settings.pipelines.items()}
        return show_epochs(
            (_epoch(self._pipelines.latest(pipeline)), _number(was.get(name))) for pipeline, name in names.items()
        )

    def _newest(self, now: datetime, last: Plan | None) -> Plan:
        """Plan the newest state of the inputs after the last plan: all views of a pipeline at the same publication."""
        views = self.settings.pipelines
        latest = {pipeline: self._pipelines.latest(pipeline) for pipeline in dict.fromkeys(views.values())}
        watermark = lowest(self._pipelines.complete_to(pipeline, each) for pipeline, each in latest.items())
        epochs = {name: _epoch(latest[at]) for name, at in views.items()}
        published, settings = self._published(latest), self._pipelines.settings_of(self.settings.inputs)
        return Plan({**epochs, **self._states(last)}, watermark, now, self.settings.fingerprint, published, settings)

    def _published(self, read: Mapping[str, Publication | None]) -> dict[str, str]:
        """The times at which publications of the inputs were made, by input; `read` has them by pipeline."""
        views = self.settings.pipelines
        return {name: each.published_at.isoformat() for name, pipeline in views.items() if (each := read[pipeline])}

    def _has_columns(self, plan: Plan) -> bool:
        """Whether every input has columns: the table of a query has none before its first version."""
        views = ((plan.inputs[name], each) for name, each in self.settings.inputs.items() if isinstance(each, ViewOf))
        return all(at != NOTHING_YET or self._pipelines.spec(each).schema.columns for at, each in views)

    def _states(self, before: Plan | None) -> dict[str, str]:
        """The present states of the plain tables, by input.

        Args:
            before: an earlier plan.

        Raises:
            ConfigError: a table is not there, and was not read by the earlier plan.
            SourceUnavailable: it is not there, though the earlier plan has read it.
        """
        known = before.inputs if before and before.settings == self.settings.fingerprint else {}
        return {name: self._state(name, each, known) for name, each in self._plain_tables().items()}

    def _state(self, name: str, table: PlainTable, known: Collection[str]) -> str:
        try:
            return self.queries.state(table.path, table.format)
        except ConfigError as error:
            if name in known:
                raise SourceUnavailable(f"input {name!r}, which has been read before: {error}") from error
            raise

    def _plain_tables(self) -> dict[str, PlainTable]:
        return {name: each for name, each in self.settings.inputs.items() if isinstance(each, PlainTable)}

    def _find_changed(self, plan: Plan) -> str | None:
        """A plain table that is not in the state of a plan, for display; None if all are."""
        for name, each in self._plain_tables().items():
            with suppress(HeadwaterError):  # it is not there
                if self.queries.state(each.path, each.format) == plan.inputs[name]:
                    continue
            return f"input {name!r}, the {each.format} table at {each.path},"
        return None

    def _pin_inputs(self, plan: Plan, holding: ExitStack) -> dict[str, Snapshot]:
        """Pin the inputs' pipelines at the plan's publications until `holding` is closed."""
        found: dict[str, Snapshot] = {}
        for name, each in self.settings.inputs.items():
            if isinstance(each, ViewOf) and each.pipeline not in found:
                snapshot = self._pipelines.at(each.pipeline, _number(plan.inputs[name]))
                if snapshot.publication is not None:
                    holding.enter_context(self._pipelines.pin(each.pipeline, snapshot.publication))
                found[each.pipeline] = snapshot
        return found

    def _input(self, each: ViewOf | PlainTable, snapshots: Mapping[str, Snapshot]) -> Input:
        if isinstance(each, PlainTable):
            return PlainInput(self.queries.scan(each.path, each.format))
        service, at = self.runner(each.pipeline).service, ReadAt(snapshots[each.pipeline])
        return ViewInput(service, self._pipelines.spec(each), at)


def holder_of(pipeline: str, generation: int) -> str:
    """The holder of the leases of a pipeline on its inputs.

    A rebuild has a name of its own: it runs beside other processes, and must leave their leases alone.

    Args:
        pipeline: its name.
        generation: of its tables that is being built; 1 for a run.
    """
    return f"pipeline {folder_name(pipeline, generation)}"


def show_epochs(inputs: Iterable[tuple[int, int]]) -> str:
    """The number of epochs of inputs that have not been read, for display.

    >>> show_epochs([(4, 3), (7, 7)]), show_epochs([(2, 8)])
    ('1 epoch of inputs', '3 epochs of inputs')

    Args:
        inputs: of each input its newest epoch, and the one that was read. If that is the later one, the input has been
            built again since, and nothing of it has been read.
    """
    count = sum(newest - (read if read <= newest else NOTHING_YET) for newest, read in inputs)
    return f"{count} epoch{'' if count == 1 else 's'} of inputs"


def _epoch(publication: Publication | None) -> int:
    return publication.epoch.number if publication else NOTHING_YET


def _number(at: int | str | None) -> int:
    """The epoch at which an input was read; `NOTHING_YET` for a plain table or a new input."""
    return at if isinstance(at, int) else NOTHING_YET
