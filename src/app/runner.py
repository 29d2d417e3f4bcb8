"""The shell around a service: reads an epoch, lets the service step, commits, publishes, keeps the tables in shape."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from datetime import datetime, timedelta
from time import perf_counter
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from ..domain import dead_letter
from ..domain.change import Change
from ..domain.changelog.net import to_change
from ..domain.epoch import Batch, Epoch, OffsetRange
from ..domain.errors import ConfigError, HeadwaterError, Transient
from ..domain.ledger import Ledger
from ..domain.ports import Version
from ..domain.retention import Retention
from ..domain.table import Layout, TableSpec
from ..domain.upkeep import Upkeep
from ..domain.watermark import advance
from .replay import Replay, Replayed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..domain.ledger import Snapshot
    from ..domain.ports import Clock, FrameEngine, StreamSource, TableKeeper, TableStore
    from ..domain.service import Service, Step, ViewSpec
    from .outlet import Outlet

_log = logging.getLogger(__name__)


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
    """

    epoch: Epoch
    rows: int
    dead_letters: int
    written: int
    watermark: datetime | None
    lag: str
    seconds: Mapping[str, float]
    task: str | None = None


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
    source: StreamSource
    store: TableStore
    keeper: TableKeeper
    engine: FrameEngine
    clock: Clock
    writer: str
    options: RunOptions = field(factory=RunOptions)
    report: Callable[[EpochReport], None] = field(default=lambda _report: None)
    outlet: Outlet | None = None
    _ledger: Ledger | None = field(init=False, default=None)
    _stopping: threading.Event = field(init=False, factory=threading.Event)
    _rows: int | None = field(init=False, default=None)
    _last_rows: datetime | None = field(init=False, default=None)

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
        """The pipeline's ledger, opened; tables are made on first use."""
        if self._ledger is None:
            self._ledger = self.open_ledger(self.tables)
        return self._ledger

    def open_ledger(self, tables: Sequence[TableSpec]) -> Ledger:
        """A ledger over tables of the pipeline, made where they are not there yet."""
        for spec in tables:
            self.store.ensure(spec)
        names = [spec.name for spec in tables]
        ledger = Ledger(self.store, self.pipeline, names, self.clock, self.writer, self.service.fingerprint)
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

    def advance(self) -> bool:
        """Run one epoch, trying again after passing faults; False if there was nothing to read."""
        wait = self.options.retry_wait
        for left in range(self.options.retries, -1, -1):
            try:
                with self.engine.explaining():
                    return self._epoch()
            except Transient as fault:
                if left == 0 or self.stopping:
                    raise
                _log.warning("%s: %s; trying again in %.0f s", self.pipeline, fault, wait.total_seconds())
                self.clock.sleep(wait)
                wait *= 2
                self._ledger = None
        return False

    def _epoch(self) -> bool:
        self._deliver(_Phases())  # what a run before, or the last try, could not
        phase, ledger = _Phases(), self.ledger
        with phase("read"):
            offsets = ledger.unfinished or self.source.plan(ledger.latest.offsets if ledger.latest else None)
            if offsets is None:
                return self._idle()
            self._last_rows = self.clock.now()
            lag = self.source.lag(offsets.until)
        try:
            step, written = self._step_and_publish(offsets, phase)
        finally:
            self.engine.release()
        self._rows, epoch = step.rows, ledger.next_epoch.number - 1
        watermark = ledger.latest.watermark if ledger.latest else None
        counts = (step.rows, step.dead_letters, written)
        try:
            self._deliver(phase)
            self._keep_up(epoch, phase)
        finally:  # the epoch is published, whatever becomes of the upkeep
            self.report(EpochReport(Epoch(self.pipeline, epoch), *counts, watermark, lag, phase.seconds))
        return True

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
            with self.engine.explaining():
                epoch = self.ledger.begin(OffsetRange(latest.offsets, latest.offsets), task)
                with phase("step"):
                    step = work(epoch, self.ledger.snapshot())
                written = self._commit(step, phase)
        except HeadwaterError:
            self._ledger = None
            raise
        finally:
            self.engine.release()
        counts = (step.rows, step.dead_letters, written)
        watermark = self.ledger.latest.watermark if self.ledger.latest else None
        self._deliver(phase)
        self.report(EpochReport(epoch, *counts, watermark, "", phase.seconds, task))
        return step

    def replay(self) -> Replayed:
        """Read the dead letters once more, as an epoch; none is made where none can be read.

        A letter goes with the publication that has its rows. One that fails again is kept with its new reason.

        Raises:
            ConfigError: the pipeline keeps no dead letters.
            HeadwaterError: it failed; nothing is changed, so it can be asked for again.
        """
        work = Replay(self.service, self.source, self._letters())
        self._ledger = None  # another process may have run the pipeline meanwhile
        with self.engine.explaining():
            found = work.count(self.ledger.snapshot())
        if not found.read:
            return found
        step = self.amend("replay", work.step)
        used, left = step.rows - step.dead_letters, step.dead_letters + found.unreadable
        return Replayed(found.read, used, left, found.unreadable)

    def _letters(self) -> str:
        name = dead_letter.table(self.pipeline)
        if name not in {spec.name for spec in self.service.tables}:
            raise ConfigError(f"pipeline {self.pipeline!r} keeps no dead letters")
        return name

    def _deliver(self, phase: _Phases) -> None:
        """Bring the outlet level with the ledger."""
        if self.outlet:
            with phase("publish"):
                self.outlet.catch_up(self.ledger, self._rows)

    def _step_and_publish(self, offsets: OffsetRange, phase: _Phases) -> tuple[Step, int]:
        """Do what the epoch asks for; the step, and the rows written."""
        epoch = self.ledger.begin(offsets)
        if self._rows is not None:  # the next epoch is likely to be as large as the one before
            self.engine.expect(self._rows)
        with phase("read"):
            rows = self.source.read(offsets)
        with phase("step"):
            step = self.service.step(Batch(epoch, rows, offsets, self.source.format), self.ledger.snapshot())
        return step, self._commit(step, phase)

    def _commit(self, step: Step, phase: _Phases) -> int:
        """Commit every table that changes, the last one always, and with it the publication; the rows written."""
        ledger, before = self.ledger, self.ledger.snapshot()
        so_far = before.publication.watermark if before.publication else None
        written = 0
        *others, anchor = self.tables
        for spec in others:
            with phase(_short(spec)):
                change = self._change(spec, step)
                if not change.empty:
                    written += self._written(spec, ledger.commit(spec.name, change))
        with phase(_short(anchor)):
            watermark = step.watermark or advance(so_far, step.newest, self.options.watermark_delay)
            published = ledger.publish(self._change(anchor, step), watermark)
            written += self._written(anchor, published.tables[anchor.name])
        return written

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

    Raises:
        HeadwaterError: as `Runner.run`.
    """
    while not any(runner.stopping for runner in runners):
        progressed = [runner.advance() for runner in runners if not runner.stopping]
        if any(progressed):
            continue
        if until_idle or not runners:
            return
        runners[0].clock.sleep(min(runner.options.poll for runner in runners))
