"""Runs a service: reads an epoch, calls the service's step, commits and publishes, and maintains the tables."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import datetime
from typing import TypeVar

from attrs import define, evolve, field

from ...domain.epoch.epoch import Epoch, OffsetRange, Publication, Tally
from ...domain.errors import ConfigError, EngineLimit, Transient, add_place
from ...domain.ledger.ledger import Ledger, Snapshot
from ...domain.ledger.upkeep import Upkeep
from ...domain.ledger.writer import LedgerWriter
from ...domain.ports import Clock, FrameEngine, LeasingKeeper, Now, Pace, Source, VersionedStore
from ...domain.service.base import Service, Step
from ...domain.table.change import Change
from ...domain.table.spec import TableSpec
from .ahead import ReadAhead
from .commit import commit_step
from .idle import Silence, find_idle_step
from .keep_up import WorkBeside, keep_up
from .loading import check_loaded
from .losses import Loss, Losses
from .materialized import materialized_tables
from .options import RunOptions
from .report import EpochReport, EpochWatch, Phases, Warnings, unwatched
from .rounds import run_all
from .sink_publisher import SinkPublisher
from .turn import Turn

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@define(eq=False)
class Runner:
    """Runs one pipeline, epoch by epoch.

    Args:
        pipeline: its name.
        service, source, store, keeper, engine, clock: its parts.
        writer: identifies this run; unique for each run.
        options: how it is run.
        report: called with each published epoch.
        watch: sees each epoch, also if it fails.
        publisher: publishes a view to a sink, if configured.
        engine_name: the name of the engine, for marks and reports, if the deployment chooses one for each epoch.
        losses, silence: count dead letters and the time without rows; runners of the same pipeline share them.
        stop_asked: set when the run was asked to end; runners of the same pipeline share it.
        beside: works beside the epochs of a run; None between runs, and where the backend cannot.
        first_epoch: the number of the pipeline's first epoch.
        settings: the digest of all settings that the rows depend on; see `Mark`.
        turn: who writes the tables, or asks the source, has it; all runners of a deployment share it.
        ahead: reads the next epoch while one is computed; None between runs, and where the engine cannot.
        failed_pushes: the ids of frames whose push has not ended, or with an error; the last one may be published.
        warnings: those of a step, and of what holds the pipeline back, that this run has logged.
    """

    pipeline: str
    service: Service
    source: Source
    store: VersionedStore
    keeper: LeasingKeeper
    engine: FrameEngine
    clock: Clock
    writer: str
    options: RunOptions = field(factory=RunOptions)
    report: Callable[[EpochReport], None] = field(default=lambda _report: None)
    publisher: SinkPublisher | None = None
    engine_name: str | None = None
    watch: EpochWatch = field(kw_only=True, default=unwatched)
    losses: Losses = field(kw_only=True)
    silence: Silence = field(kw_only=True, factory=Silence)
    stop_asked: threading.Event = field(kw_only=True, factory=threading.Event)
    first_epoch: int = field(kw_only=True, default=0)
    settings: str | None = field(kw_only=True, default=None)
    turn: Turn = field(kw_only=True, factory=Turn)
    beside: WorkBeside | None = field(init=False, default=None)
    ahead: ReadAhead | None = field(init=False, default=None)
    failed_pushes: set[str | None] = field(init=False, factory=set)
    warnings: Warnings = field(init=False, factory=Warnings)
    _opening: threading.RLock = field(init=False, factory=threading.RLock)
    _ledger: LedgerWriter | None = field(init=False, default=None)
    _expected: int | None = field(init=False, default=None)
    _rows: int | None = field(init=False, default=None)
    _epochs: int = field(init=False, default=0)

    @losses.default
    def _make_losses(self) -> Losses:
        return Losses(self.pipeline, self.options.dead_letter_limit, self.options.dead_letter_stop)

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        """All tables, in the order of their commits."""
        return (*self.service.tables, *materialized_tables(self.service, self.pipeline, self.options.materialize))

    @property
    def ledger(self) -> LedgerWriter:
        """The pipeline's ledger, opened; opening writes nothing."""
        with self._opening:  # threads that read must not open another one than the thread that writes
            if self._ledger is None:
                self._ledger = self.open_ledger(self.tables)
                self._ledger.expected, self._expected = self._expected, None
            return self._ledger

    def open_ledger(self, tables: Sequence[TableSpec], *, copies: bool = False) -> LedgerWriter:
        """Open a ledger over tables of the pipeline (`copies`: to move it there) and check each against its spec.

        Raises:
            SchemaConflict: a table differs from its spec by more than new columns.
        """
        service, place = self.service, (self.store, self.pipeline, [spec.name for spec in tables], self.clock)
        own = (*place, service.changed, service.fingerprint, self.writer, self.engine_name, service.fingerprint_after)
        ledger = LedgerWriter(*own, first=self.first_epoch, settings=self.settings, copies=copies)
        if publisher := self.publisher:
            ledger.sink_epoch = lambda: publisher.sink_epoch
        ledger.open()  # first: its errors about settings are clearer
        for spec in tables:
            self.store.ensure(spec, ledger.snapshot().versions)
        return ledger

    def current_ledger(self) -> Ledger:
        """Open a ledger on the current tables, for reading; it does not disturb a run."""
        ledger = Ledger(self.store, self.pipeline, self.ledger.tables, self.clock, self.service.changed)
        ledger.open()
        return ledger

    def stop(self) -> None:
        """Ask the run to end after the current epoch; safe in a signal handler."""
        self.stop_asked.set()

    def follow(self, other: Runner) -> None:
        """Continue after the newest publication of another runner of the same run, which has written until now."""
        with self._opening:
            self.reopen()
            self._expected = other.next_number

    @property
    def next_number(self) -> int | None:
        """The number of the next epoch, as far as this runner knows; None if it does not know it."""
        return self._ledger.next_epoch.number if self._ledger else self._expected

    def reopen(self) -> None:
        """Read the ledger and the sink again before the next work: another runner may have published since."""
        with self._opening:
            self._ledger = self._expected = None
        if self.publisher:
            self.publisher.reopen()

    def do(self, work: Callable[[Runner], _T]) -> _T:
        """Do work that changes tables, on the engine that fits it; see `AutoRunner`."""
        with self.turn:
            return work(self)

    @property
    def large(self) -> Runner:
        """The runner of the engine for large work, to read with; see `AutoRunner`."""
        return self

    def for_large(self) -> Runner:
        """The runner for work that is always large: whole tables and histories; see `AutoRunner`."""
        return self

    def for_programs(self) -> Runner:
        """The runner of the engine whose frames programs get; see `AutoRunner`."""
        return self

    def memory_beside(self) -> AbstractContextManager[None]:
        """Limits what work beside the epochs may hold in memory; see `AutoRunner`."""
        return nullcontext()

    @property
    def stopping(self) -> bool:
        """Whether the run was asked to end."""
        return self.stop_asked.is_set()

    def run(self, *, until_idle: bool) -> None:
        """Run epoch after epoch until stopped, or until the source has nothing new.

        Raises:
            HeadwaterError: a permanent fault, or a transient one that outlasted the retries. Nothing is lost: the next
                run resumes from the newest publication.
        """
        run_all([self], until_idle=until_idle)

    def advance(self, pace: Pace = Pace.SCHEDULE, *, idle: bool = True, idle_at: datetime | None = None) -> bool:
        """Run one epoch, with retries after transient faults; return False if there was nothing to read.

        A retry finds nothing more to read if the fault came after the epoch was published.

        Args:
            pace: decides when a pipeline that reads other pipelines is due.
            idle: whether to do what is due without new rows, if there are none.
            idle_at: the latest time (UTC) as of which that is decided; None for the present one.
        """
        before = self._epochs
        return self._retry(lambda: self._epoch(pace, idle=idle, idle_at=idle_at)) or self._epochs > before

    def publish_missing(self) -> None:
        """Publish the epochs that the sink is missing, with retries after transient faults."""
        self._retry(lambda: self.publish_to_sink(Phases()))

    def _retry(self, work: Callable[[], _T]) -> _T:
        left, waits = self.options.retries, self.options.backoff.waits()
        while True:
            try:
                with self.turn, add_place(self.options.place), self._renewing_ledger(), self.engine.working():
                    return work()
            except Transient as fault:
                if left == 0 or self.stopping:
                    raise
                left, wait = left - 1, next(waits)
                _log.warning("%s: %s; trying again in %.1f s", self.pipeline, fault, wait.total_seconds())
                self.clock.sleep(wait)

    @contextmanager
    def _renewing_ledger(self) -> Iterator[None]:
        """After a fault, read the ledger again before the next work: the tables may have commits that it does not know.

        They may be those of the work that failed or was interrupted, or those of another run. The work that another
        engine takes over published nothing, so its epoch keeps its number.
        """
        try:
            yield
        except BaseException as fault:
            with self._opening:
                self._expected = self.next_number if isinstance(fault, EngineLimit) else None
                self._ledger = None
            raise

    def _epoch(self, pace: Pace, *, idle: bool, idle_at: datetime | None) -> bool:
        with self.watch(self.pipeline, self.engine_name) as phase:
            self.publish_to_sink(Phases())  # epochs that an earlier run or try has not published
            ledger = self.ledger
            check_loaded(ledger, self.service)
            with phase("read"), add_place(self.options.source_place):
                now = Now(self.silence.look(self.clock), pace, ledger.watermark)
                offsets = self._plan_epoch(now)
                self.warnings.log_trouble(self.pipeline, self.source.trouble)
                if offsets is not None:
                    self.silence.since, lag = now.time, self.source.lag(offsets.until)
            if offsets is not None:
                self._run_epoch(offsets, lag, phase)
                return True
        with add_place(self.options.source_place):
            if pace is not Pace.SCHEDULE and self.beside and self.beside.settle():
                return True  # other pipelines of the run may read what has just been published
            return idle and self._idle(min(now.time, idle_at or now.time))

    def _run_epoch(self, offsets: OffsetRange, lag: str, phase: Phases) -> None:
        """Read, publish and report an epoch, and do what is due after it."""
        try:
            step, written, loss, passed_over = self._step_and_publish(offsets, phase)
        finally:
            self.engine.release()
        ledger, epoch = self.ledger, self.ledger.next_epoch.number - 1
        counts = (step.rows, step.dead_letters, written)
        try:
            self.publish_to_sink(phase)
            keep_up(self.beside, self.upkeep, self.options, epoch, phase)
        finally:  # the epoch is published, even if the upkeep fails
            self._epochs += 1
            place, mark, seconds = Epoch(self.pipeline, epoch), ledger.watermark, phase.seconds
            report = EpochReport(place, *counts, mark, lag, seconds, repeats=step.repeats, passed_over=passed_over)
            phase.report = evolve(report, engine=self.engine_name)
            self.report(phase.report)
            self.warnings.log(self.pipeline, step.warnings)
            self.losses.add(step, loss, passed_over)

    def _plan_epoch(self, now: Now) -> OffsetRange | None:
        """Plan the next epoch: the range of an unfinished epoch, if it can still be read."""
        self.store.check_current(self.pipeline, writes=True)
        self.ledger.check_expected()
        if (begun := self.ledger.unfinished) and self.source.readable(begun):
            return begun
        return (self.ahead or self.source).plan(self.ledger.offsets, now)

    def _idle(self, now: datetime) -> bool:
        """Do what is due without new rows; return False if that changes no result."""
        if (latest := self.ledger.latest) is None:
            return False
        last_rows = self.silence.since = self.silence.since or min(latest.published_at, now)  # of an earlier run
        try:
            read = (self.service, self.source, self.ledger.snapshot())
            if (step := find_idle_step(*read, self.options, now=now, last_rows=last_rows)) is None:
                return False
            self.amend("idle", lambda _epoch, _snapshot: step)
        finally:
            self.engine.release()
        keep_up(self.beside, self.upkeep, self.options, self.ledger.next_epoch.number - 1, Phases())
        return True

    @property
    def upkeep(self) -> Upkeep:
        """The upkeep of the pipeline's tables."""
        return Upkeep(self.ledger, self.keeper, self.options.retention)

    def amend(self, task: str, work: Callable[[Epoch, Snapshot], Step], read_again: int = 0, at_least: int = 0) -> Step:
        """Change the tables in a separate epoch that reads nothing of the source.

        Args:
            task: a name for the work; stored in its commits.
            work: returns the changes of the tables, given the newest publication.
            read_again: the number of dead letters that this reads again; those that fail again are in the step.
            at_least: the smallest number that the epoch may have.

        Raises:
            ConfigError: nothing is published yet.
            HeadwaterError: the work failed; nothing is changed, and the call can be repeated.
        """
        if (latest := self.ledger.latest) is None:
            raise ConfigError(f"pipeline {self.pipeline!r} has published nothing yet; run it first")
        with self._separate_epoch(task) as phase:
            epoch = self.ledger.begin(OffsetRange(latest.offsets, latest.offsets), task, at_least)
            phase.epoch = epoch.number
            with phase("step"):
                step = work(epoch, self.ledger.snapshot())
            tally = latest.tally and latest.tally.plus(0, step.dead_letters - read_again)
            written = commit_step(self, step, phase, tally)
            counts = (step.rows, step.dead_letters, written)
            phase.report = EpochReport(epoch, *counts, self.ledger.watermark, "", phase.seconds, task, step.repeats)
        self.warnings.log(self.pipeline, step.warnings)
        return step

    def load(self, base: Publication, changes: Mapping[str, Change]) -> Publication:
        """Publish whole tables as the pipeline's first epoch.

        Args:
            base: the publication with the number, the offsets and the watermarks of that epoch.
            changes: by table.

        Raises:
            ConfigError: the pipeline already has publications.
            HeadwaterError: the load failed; readers see nothing of it, and the call can be repeated.
        """
        task = "history loaded"
        with self._separate_epoch(task) as phase:
            epoch = self.ledger.adopt(base)
            phase.epoch = epoch.number
            written = commit_step(self, Step(changes, 0, 0, None), phase, base.tally, base)
            phase.report = EpochReport(epoch, 0, 0, written, base.watermark, "", phase.seconds, task)
        latest = self.ledger.latest
        assert latest is not None
        return latest

    @contextmanager
    def _separate_epoch(self, task: str) -> Iterator[Phases]:
        """Publish and report an epoch that reads nothing of the source; its report is made inside the block."""
        with self.turn, self.watch(self.pipeline, self.engine_name, task=task) as phase:
            try:
                with self._renewing_ledger(), self.engine.working():
                    yield phase
            finally:
                self.engine.release()
            with self.engine.working():
                self.publish_to_sink(phase)
            assert phase.report is not None
            phase.report = evolve(phase.report, engine=self.engine_name)
            self.report(phase.report)

    def publish_to_sink(self, phase: Phases) -> None:
        """Publish the epochs that the sink is missing, or have them published beside the next ones."""
        if self.publisher:
            with phase("publish"):
                latest = self.ledger.next_epoch.number - 1
                if not (self.beside and self.beside.publish(self.publisher, latest, self._rows)):
                    self.publisher.catch_up(self.ledger, self._rows)

    def _step_and_publish(
        self, offsets: OffsetRange, phase: Phases
    ) -> tuple[Step, int, Loss | None, Mapping[str, int]]:
        """Run the step and publish it.

        Returns the step, the rows written, the loss if it exceeds the limit, and the skipped messages by table.

        Raises:
            BadInput: all rows that the pipeline has ever read are dead letters; nothing is committed.
        """
        epoch = self.ledger.begin(offsets)
        phase.epoch = epoch.number
        if self._rows is not None:  # the next epoch is likely to be as large as the last one
            self.engine.expect(self._rows)
        with ExitStack() as holding:
            with phase("read"), add_place(self.options.source_place):
                batch = holding.enter_context((self.ahead or self.source).open(epoch, offsets))
            with phase("step"):
                step = self.service.step(batch, self.ledger.snapshot())
                so_far = self.ledger.latest.tally if self.ledger.latest else Tally()
                tally = so_far and so_far.plus(step.rows, step.dead_letters)
                loss = self.losses.check(epoch, step, tally)
            written = commit_step(self, step, phase, tally)
            if not batch.inputs:  # these are more rows than are new
                self._rows = step.rows
                self.silence.epochs += 1
            return step, written, loss, batch.passed_over()
