"""The shell around a service: reads an epoch, lets the service step, commits, publishes, keeps the tables in shape."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from time import perf_counter
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from ..domain import dead_letter
from ..domain.bulk import BulkGroup
from ..domain.change import Change
from ..domain.changelog.net import to_change
from ..domain.epoch import Batch, Epoch, OffsetRange, Tally
from ..domain.errors import ConfigError, HeadwaterError, Transient, noting
from ..domain.ledger import Ledger
from ..domain.loading import loading_table
from ..domain.ports import InputSource, Pace, Version
from ..domain.retention import Retention
from ..domain.service import Step
from ..domain.table import Layout, TableSpec
from ..domain.upkeep import Upkeep
from ..domain.watermark import advance, furthest, slowest
from .losses import Loss, Losses
from .replay import Replay, Replayed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..domain.epoch import Offsets, Publication
    from ..domain.ledger import Snapshot
    from ..domain.ports import Clock, FrameEngine, StreamSource, TableKeeper, TableStore
    from ..domain.service import Service, ViewSpec
    from .outlet import Outlet

_log = logging.getLogger(__name__)
_REPLAY = "replay"


@frozen
class RunOptions:
    """How a pipeline is run.

    Args:
        materialize: views that are also kept as plain tables.
        watermark_delay: how far the newest event time runs ahead of completeness.
        idle_after: how long a source brings nothing until its watermark follows the clock, so far behind; None: never.
        compact_every: epochs between two looks at whether tables want compaction; 0 for never.
        retention: how long the past is kept.
        expire_every: epochs after which what is not to be kept is given up; 0 for never.
        poll: how long to wait when a source has nothing new.
        retries: how often an epoch is tried again after a passing fault.
        retry_wait: before the first retry; doubled each time.
        place: where the pipeline is written, for messages.
        source_place: where its source is written, for messages; nothing where it has several.
        dead_letter_limit: an epoch that loses more of its rows is warned of.
        dead_letter_stop: the run stops where the pipeline's first rows, at least so many, are all lost; 0 for never.
    """

    materialize: tuple[str, ...] = ()
    watermark_delay: timedelta = timedelta()
    idle_after: timedelta | None = None
    compact_every: int = 16
    retention: Retention = field(factory=Retention)
    expire_every: int = 0
    poll: timedelta = timedelta(seconds=1)
    retries: int = 5
    retry_wait: timedelta = timedelta(seconds=1)
    place: str = ""
    source_place: str = ""
    dead_letter_limit: dead_letter.Limit = dead_letter.USUAL_LIMIT
    dead_letter_stop: int = 1000


@frozen
class EpochReport:
    """What one epoch did.

    Args:
        epoch: which.
        rows: rows that came in.
        dead_letters: those of them that could not be used.
        written: rows written to the pipeline's tables.
        watermark: event time (UTC) up to which input is taken to be complete.
        lag: what waits in the source, in words.
        seconds: by phase: ``read``, ``step``, each table's name without the pipeline's, ``publish``, ``compact``,
            ``expire``.
        task: what it did where it read nothing of its source.
        repeats: rows that were passed over, as they had been read before.
        passed_over: how many messages of which tables were not read.
    """

    epoch: Epoch
    rows: int
    dead_letters: int
    written: int
    watermark: datetime | None
    lag: str
    seconds: Mapping[str, float]
    task: str | None = None
    repeats: int = 0
    passed_over: Mapping[str, int] = field(factory=dict)


@define(eq=False)
class _Phases:
    seconds: dict[str, float] = field(factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        began = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - began


@define(eq=False)
class Runner:
    """Runs one pipeline, epoch by epoch.

    Args:
        pipeline: its name.
        service, source, store, keeper, engine, clock: what it is made of.
        writer: identifies this run; no two runs share one.
        options: how it is run.
        report: told of every epoch published.
        outlet: publishes a view of it elsewhere, where that is wanted.
    """

    pipeline: str
    service: Service
    source: StreamSource | InputSource
    store: TableStore
    keeper: TableKeeper
    engine: FrameEngine
    clock: Clock
    writer: str
    options: RunOptions = field(factory=RunOptions)
    report: Callable[[EpochReport], None] = field(default=lambda _report: None)
    outlet: Outlet | None = None
    losses: Losses = field(init=False)
    _ledger: Ledger | None = field(init=False, default=None)
    _stopping: threading.Event = field(init=False, factory=threading.Event)
    _rows: int | None = field(init=False, default=None)
    _last_rows: datetime | None = field(init=False, default=None)
    _warned: set[str] = field(init=False, factory=set)

    @losses.default
    def _counted_from_here(self) -> Losses:
        return Losses(self.pipeline, self.options.dead_letter_limit, self.options.dead_letter_stop)

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        """All tables, in the order of their commits."""
        views = [self._views[name] for name in self.options.materialize]
        kept = (
            TableSpec(f"{self.pipeline}.{view.name}", view.schema, key=view.key, layout=Layout.MERGED) for view in views
        )
        return (*self.service.tables, *kept)

    @property
    def _views(self) -> dict[str, ViewSpec]:
        return {view.name: view for view in self.service.views}

    @property
    def ledger(self) -> Ledger:
        """The pipeline's ledger, opened; nothing is written by that."""
        if self._ledger is None:
            self._ledger = self.open_ledger(self.tables)
        return self._ledger

    def open_ledger(self, tables: Sequence[TableSpec]) -> Ledger:
        """A ledger over tables of the pipeline, each held to its spec; the first commit of a table creates it.

        Raises:
            SchemaConflict: a table differs from its spec by more than new columns.
        """
        ledger = self._ledger_over([spec.name for spec in tables])  # first: what it says of settings is clearer
        for spec in tables:
            self.store.ensure(spec, ledger.snapshot())
        return ledger

    def standing(self) -> Ledger:
        """A ledger as the tables are now, for a reader: a run, here or elsewhere, goes on undisturbed."""
        return self._ledger_over(self.ledger.tables)

    def _ledger_over(self, tables: Sequence[str]) -> Ledger:
        built, changed = self.service.fingerprint, self.service.changed
        ledger = Ledger(self.store, self.pipeline, tables, self.clock, self.writer, built, changed)
        ledger.open()
        return ledger

    def stop(self) -> None:
        """Ask the run to end after the epoch under way; safe in a signal handler."""
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        """Whether the run was asked to end."""
        return self._stopping.is_set()

    def run(self, *, until_idle: bool) -> None:
        """Run epoch after epoch until stopped, or until the source has nothing new.

        Raises:
            HeadwaterError: a fault that does not pass, or did not within the retries. Nothing is lost: the next run
                goes on from the newest publication.
        """
        run_all([self], until_idle=until_idle)

    def advance(self, pace: Pace = Pace.SCHEDULE) -> bool:
        """Run one epoch, trying again after passing faults; False if there was nothing to read.

        Args:
            pace: what paces a pipeline that reads others.
        """
        wait = self.options.retry_wait
        for left in range(self.options.retries, -1, -1):
            try:
                with noting(self.options.place), self.engine.working():
                    return self._epoch(pace)
            except Transient as fault:
                if left == 0 or self.stopping:
                    raise
                _log.warning("%s: %s; trying again in %.0f s", self.pipeline, fault, wait.total_seconds())
                self.clock.sleep(wait)
                wait *= 2
                self._ledger = None
        return False

    def _epoch(self, pace: Pace) -> bool:
        self._deliver(_Phases())  # what a run before, or the last try, could not
        phase, ledger = _Phases(), self.ledger
        self._check_loaded()
        with phase("read"), noting(self.options.source_place):
            offsets = self._planned(ledger.unfinished, ledger.latest.offsets if ledger.latest else None, pace)
            if offsets is None:
                return self._idle()
            self._last_rows = self.clock.now()
            lag = self.source.lag(offsets.until)
        try:
            step, written, loss = self._step_and_publish(offsets, phase)
        finally:
            self.engine.release()
        epoch = ledger.next_epoch.number - 1
        if not isinstance(self.source, InputSource):  # which reads more than comes
            self._rows = step.rows
        watermark = ledger.latest.watermark if ledger.latest else None
        counts, passed_over = (step.rows, step.dead_letters, written), self._passed_over()
        try:
            self._deliver(phase)
            self._keep_up(epoch, phase)
        finally:  # the epoch is published, whatever becomes of the upkeep
            place, seconds = Epoch(self.pipeline, epoch), phase.seconds
            told = EpochReport(place, *counts, watermark, lag, seconds, repeats=step.repeats, passed_over=passed_over)
            self.report(told)
            self._warn(step)
            self.losses.add(step, loss, passed_over)
        return True

    def _passed_over(self) -> Mapping[str, int]:
        return {} if isinstance(self.source, InputSource) else self.source.passed_over()

    def _planned(self, begun: OffsetRange | None, after: Offsets | None, pace: Pace) -> OffsetRange | None:
        """What the next epoch reads: the same as one that was begun, if that is still there."""
        if isinstance(self.source, BulkGroup):
            if begun and self.source.readable(begun):
                return begun
            latest = self.ledger.latest
            return self.source.plan_at(after, latest.watermark if latest else None)
        if not isinstance(self.source, InputSource):
            return begun or self.source.plan(after)
        if begun and self.source.readable(begun):
            return begun
        return self.source.plan(after, pace, self.clock.now())

    def _idle(self) -> bool:
        """Let the watermark of a source that has nothing new follow the clock, where that changes an answer."""
        after, latest = self.options.idle_after, self.ledger.latest
        if after is None or latest is None:
            return False
        if self._last_rows is None:  # a run before may have seen the last of them
            self._last_rows = latest.published_at
        now = self.clock.now()
        if now - self._last_rows < after:
            return False
        try:
            step = self.service.idle(now - after - self.options.watermark_delay, self.ledger.snapshot())
            if step is None:
                return False
            self.amend("idle", lambda _epoch, _snapshot: step)
        finally:
            self.engine.release()
        self._keep_up(self.ledger.next_epoch.number - 1, _Phases())
        return True

    @property
    def upkeep(self) -> Upkeep:
        """The upkeep of the pipeline's tables, as its ledger stands."""
        return Upkeep(self.ledger, self.keeper, self.options.retention)

    def _keep_up(self, epoch: int, phase: _Phases) -> None:
        """Do the upkeep that an epoch's number asks for."""
        if _due(epoch, self.options.compact_every):
            with phase("compact"), self._left_for_next_time("compact"):
                self.upkeep.compact()
        if _due(epoch, self.options.expire_every):
            with phase("expire"), self._left_for_next_time("expire"):
                self.upkeep.expire(dry_run=False)

    @contextmanager
    def _left_for_next_time(self, what: str) -> Iterator[None]:
        """Go on after a fault: no row depends on it that upkeep is done now."""
        try:
            yield
        except HeadwaterError as fault:
            _log.warning("%s: %s failed, and will be tried again: %s", self.pipeline, what, fault)

    def amend(self, task: str, work: Callable[[Epoch, Snapshot], Step]) -> Step:
        """Do a piece of work on the tables as an epoch of its own, which reads nothing of the source.

        Args:
            task: what it is, for its commits.
            work: what it does to the tables, given the newest publication.

        Raises:
            ConfigError: nothing is published yet that could be worked on.
            HeadwaterError: it failed; nothing is changed, so it can be asked for again.
        """
        latest = self.ledger.latest
        if latest is None:
            raise ConfigError(f"pipeline {self.pipeline!r} has published nothing yet; run it first")
        phase = _Phases()
        try:
            with self.engine.working():
                epoch = self.ledger.begin(OffsetRange(latest.offsets, latest.offsets), task)
                with phase("step"):
                    step = work(epoch, self.ledger.snapshot())
                gone = step.dead_letters - step.rows if task == _REPLAY else 0
                written = self._commit(step, phase, latest.tally and latest.tally.plus(0, gone))
        except HeadwaterError:
            self._ledger = None
            raise
        finally:
            self.engine.release()
        counts = (step.rows, step.dead_letters, written)
        watermark = self.ledger.latest.watermark if self.ledger.latest else None
        with self.engine.working():
            self._deliver(phase)
        self.report(EpochReport(epoch, *counts, watermark, "", phase.seconds, task, step.repeats))
        self._warn(step)
        return step

    def _warn(self, step: Step) -> None:
        """Tell the warnings of a step, each text once in a run."""
        for text in step.warnings:
            if text not in self._warned:
                self._warned.add(text)
                _log.warning("%s: %s", self.pipeline, text)

    def load(self, gathered: Publication, changes: Mapping[str, Change]) -> Publication:
        """Publish whole contents of tables as the pipeline's first epoch.

        Args:
            gathered: gives its number, its offsets and its watermarks.
            changes: by table.

        Raises:
            ConfigError: there are publications here already.
            HeadwaterError: it failed; readers see nothing of it, so it can be asked for again.
        """
        phase = _Phases()
        try:
            with self.engine.working():
                epoch = self.ledger.adopt(gathered)
                written = self._commit(Step(changes, 0, 0, None), phase, gathered.tally, gathered)
        except HeadwaterError:
            self._ledger = None
            raise
        finally:
            self.engine.release()
        with self.engine.working():
            self._deliver(phase)
        self.report(EpochReport(epoch, 0, 0, written, gathered.watermark, "", phase.seconds, "history loaded"))
        latest = self.ledger.latest
        assert latest is not None
        return latest

    def replay(self) -> Replayed:
        """Read the dead letters once more, as an epoch; none is made where none can be read.

        A letter goes with the publication that has its rows. One that fails again is kept with its new reason.

        Raises:
            ConfigError: the pipeline keeps no dead letters.
            HeadwaterError: it failed; nothing is changed, so it can be asked for again.
        """
        letters = self._letters()
        assert not isinstance(self.source, InputSource)  # of which none is kept
        work = Replay(self.service, self.source, letters)
        self._ledger = None  # another process may have run the pipeline meanwhile
        with self.engine.working():
            found = work.count(self.ledger.snapshot())
        if not found.read:
            return found
        step = self.amend(_REPLAY, work.step)
        used, left = step.rows - step.dead_letters, step.dead_letters + found.unreadable
        return Replayed(found.read, used, left, found.unreadable)

    def _letters(self) -> str:
        name = dead_letter.table(self.pipeline)
        if name not in {spec.name for spec in self.service.tables}:
            raise ConfigError(f"pipeline {self.pipeline!r} keeps no dead letters")
        return name

    @property
    def loading(self) -> bool:
        """Whether a load of its history has begun, and nothing is published yet."""
        if self.ledger.latest is not None:
            return False
        return next(self.store.versions(loading_table(self.service.tables[-1].name)), None) is not None

    def _check_loaded(self) -> None:
        if self.loading:
            raise ConfigError(
                f"pipeline {self.pipeline!r} is being loaded: end that with the `headwater bootstrap` command that"
                " began it, or remove its folder to begin anew"
            )

    def _deliver(self, phase: _Phases) -> None:
        """Bring the outlet level with the ledger."""
        if self.outlet:
            with phase("publish"):
                self.outlet.catch_up(self.ledger, self._rows)

    def _step_and_publish(self, offsets: OffsetRange, phase: _Phases) -> tuple[Step, int, Loss | None]:
        """Do what the epoch asks for; the step, the rows written, and what it loses if that is much.

        Raises:
            BadInput: all rows that the pipeline has ever read are lost; nothing is committed.
        """
        epoch = self.ledger.begin(offsets)
        self._passed_over()  # by a try that failed
        if self._rows is not None:  # the next epoch is likely to be as large as the one before
            self.engine.expect(self._rows)
        with ExitStack() as holding:
            with phase("read"), noting(self.options.source_place):
                batch = self._batch(epoch, offsets, holding)
            with phase("step"):
                step = self.service.step(batch, self.ledger.snapshot())
                so_far = self._so_far
                tally = so_far and so_far.plus(step.rows, step.dead_letters)
                loss = self.losses.check(epoch, step, tally)
            return step, self._commit(step, phase, tally), loss

    @property
    def _so_far(self) -> Tally | None:
        """What the pipeline has read up to its newest publication."""
        return self.ledger.latest.tally if self.ledger.latest else Tally()

    def _batch(self, epoch: Epoch, offsets: OffsetRange, holding: ExitStack) -> Batch:
        """What an epoch reads; inputs stay readable until `holding` ends."""
        if not isinstance(self.source, InputSource):
            return self.source.batch(epoch, offsets)
        inputs = holding.enter_context(self.source.hold(offsets))
        nothing = self.store.read(self.tables[-1].name, None)
        return Batch(epoch, nothing, offsets, self.source.format, inputs=inputs)

    def _commit(self, step: Step, phase: _Phases, tally: Tally | None, gathered: Publication | None = None) -> int:
        """Commit every table that changes, the last one always, and with it the publication; the rows written.

        The publication has the watermarks that the step leads to, or those of what was gathered before.
        """
        ledger, before = self.ledger, self.ledger.snapshot()
        written = 0
        *others, anchor = self.tables
        for spec in others:
            with phase(_short(spec)):
                change = self._change(spec, step)
                if not change.empty:
                    written += self._written(spec, ledger.commit(spec.name, change))
        with phase(_short(anchor)):
            watermark, reached = self._watermarks(step, before.publication)
            if gathered:
                watermark, reached = gathered.watermark, gathered.watermarks
            published = ledger.publish(self._change(anchor, step), watermark, reached, tally)
            written += self._written(anchor, published.tables[anchor.name])
        return written

    def _watermarks(
        self, step: Step, before: Publication | None
    ) -> tuple[datetime | None, Mapping[str, datetime] | None]:
        """The watermark after a step, and those of its topics where it has several."""
        so_far = before.watermark if before else None
        if step.watermarks is None:
            return step.watermark or advance(so_far, step.newest, self.options.watermark_delay), None
        reached = furthest(before.watermarks if before else {}, step.watermarks)
        return slowest(so_far, step.watermarks, reached), reached

    def _written(self, spec: TableSpec, version: str) -> int:
        return self.store.version(spec.name, Version(version)).written or 0

    def _change(self, spec: TableSpec, step: Step) -> Change:
        if (view := _short(spec)) not in self.options.materialize:
            return step.changes.get(spec.name, Change())
        before, ahead = self.ledger.snapshot(), self.ledger.ahead()
        if before.publication and before.version(spec.name) is None:  # kept from now on: begin with all there is
            return Change(overwrite=self.service.view(view, ahead))
        net = self.engine.persist(self.service.view_changes(view, before, ahead))
        return to_change(net, self._views[view])


def _due(epoch: int, every: int) -> bool:
    return every > 0 and (epoch + 1) % every == 0


def _short(spec: TableSpec) -> str:
    return spec.name.split(".", 1)[1]


def run_all(runners: Sequence[Runner], *, until_idle: bool) -> None:
    """Run pipelines side by side, one epoch each in turn, until they stop or (if asked) all sources are drained.

    Those that read other pipelines are then no longer paced by the clock, and publish what has moved in the end.

    Raises:
        HeadwaterError: as `Runner.run`.
    """
    pace = Pace.DRAIN if until_idle else Pace.SCHEDULE
    while not any(runner.stopping for runner in runners):
        if _round(runners, pace) or (until_idle and _round(runners, Pace.CLOSE)):
            continue
        if until_idle or not runners:
            break
        runners[0].clock.sleep(min(runner.options.poll for runner in runners))
    for runner in runners:
        runner.losses.summarize()


def _round(runners: Sequence[Runner], pace: Pace) -> bool:
    """One epoch of each; whether there was any."""
    progressed = [runner.advance(pace) for runner in runners if not runner.stopping]
    return any(progressed)
