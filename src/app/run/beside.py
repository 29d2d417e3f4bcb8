"""Publishing, compaction and expiry beside the epochs of a run, in threads of their own."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from time import perf_counter

from attrs import define, field

from ...domain.errors import EngineLimit, HeadwaterError, Transient, add_place
from ...domain.ledger.ledger import Ledger
from ...domain.ledger.upkeep import Upkeep
from ...domain.ports import KeptStore
from ...domain.table.spec import TableSpec
from .ahead import ReadAhead
from .keep_up import WorkBeside, compact, is_due, log_failure
from .report import Phases
from .runner import Runner
from .sink_publisher import SinkPublisher

_log = logging.getLogger(__name__)
_MOST_UNPUBLISHED = 4
"""The number of epochs that a sink may be behind before the next epoch waits."""
_MOST_DUE = 6
"""The number of compactions that may be due while one is under way, before the epochs wait for it."""
_REST = 10
"""After an expiry none begins for this many times as long as it took: it looks at each version in the log."""


@contextmanager
def work_beside(runners: Sequence[Runner]) -> Iterator[None]:
    """Do upkeep and publish beside the epochs that these runners run in this block, where their backend can.

    At the end of the block everything that is due has been done.

    Raises:
        HeadwaterError: publishing failed, as `Runner.advance`.
    """
    with ExitStack() as exits:
        upkeep = _open_thread("upkeep", exits)
        for runner in runners:
            _read_ahead(runner, exits)
        begun = [found for runner in runners if (found := _begin(runner, upkeep, exits))]
        try:
            yield
            for each in begun:
                each.finish()
        except BaseException:
            for each in begun:
                each.log_faults()  # the first fault is the one to raise
            raise


def _begin(runner: Runner, upkeep: ThreadPoolExecutor, exits: ExitStack) -> Beside | None:
    """Start to work beside one pipeline's epochs; None if its backend cannot."""
    store = runner.keeper.sibling() if runner.options.beside else None
    if store is None:
        return None
    publishing = _publishing_of(runner, store, exits) if runner.publisher else None
    keeping = KeepingBeside(runner, _Tables.of(runner, store), upkeep)
    runner.beside = Beside(runner, keeping, publishing)
    exits.callback(setattr, runner, "beside", None)
    return runner.beside


def _read_ahead(runner: Runner, exits: ExitStack) -> None:
    """Read the epochs of a pipeline ahead, if its engine can work in two threads."""
    if runner.options.beside and runner.engine.concurrent:
        thread = _open_thread(f"read-{runner.pipeline}", exits)
        runner.ahead = ReadAhead(runner.source, runner.engine, runner.service.prepare, runner.memory_beside, thread)
        exits.callback(setattr, runner, "ahead", None)
        exits.callback(runner.ahead.close)


def _publishing_of(runner: Runner, store: KeptStore, exits: ExitStack) -> PublishingBeside | None:
    """What publishes a pipeline beside its epochs; None if its engine cannot, or too few versions are kept."""
    kept, own = runner.options.retention.versions, store.sibling()
    # Another process may expire old versions: the sink must need none that the retention does not keep.
    most = _MOST_UNPUBLISHED if kept is None else min(_MOST_UNPUBLISHED, kept - 2)
    if not runner.engine.concurrent or own is None or most <= 0:
        return None
    return PublishingBeside(runner, _Tables.of(runner, own), _open_thread(runner.pipeline, exits), most)


def _open_thread(name: str, exits: ExitStack) -> ThreadPoolExecutor:
    """A thread; at the end it finishes what it is doing."""
    thread = ThreadPoolExecutor(1, f"headwater-{name}")
    exits.callback(thread.shutdown, cancel_futures=True)
    return thread


@define(eq=False)
class _Tables:
    """The tables of a pipeline as one thread sees them: a store and a ledger of its own."""

    store: KeptStore
    specs: Sequence[TableSpec]
    ledger: Ledger
    _ensured: bool = field(init=False, default=False)

    @classmethod
    def of(cls, runner: Runner, store: KeptStore) -> _Tables:
        specs = runner.tables
        names = [spec.name for spec in specs]
        return cls(store, specs, Ledger(store, runner.pipeline, names, runner.clock, runner.service.changed))

    def current(self) -> Ledger:
        """The ledger, opened again: the epochs have published since."""
        self.ledger.open()
        if not self._ensured:
            for spec in self.specs:
                self.store.ensure(spec, self.ledger.snapshot().versions)
            self._ensured = True
        return self.ledger


@define(eq=False)
class PublishingBeside:
    """Publishes the epochs of one pipeline to its sink, in order, while later epochs run.

    Args:
        runner: of the pipeline.
        tables: as the thread sees them.
        thread: publishes.
        most: the number of epochs that may wait to be published.
    """

    runner: Runner
    tables: _Tables
    thread: ThreadPoolExecutor
    most: int
    begun: deque[Future[None]] = field(init=False, factory=deque)
    _handed: int | None = field(init=False, default=None)
    _unsettled: bool = field(init=False, default=False)
    _ended: bool = field(init=False, default=False)

    def hand_over(self, publisher: SinkPublisher, latest: int, rows: int | None) -> bool:
        """See `WorkBeside.publish`."""
        more = latest != self._handed
        while self.begun and (self.begun[0].done() or (more and len(self.begun) >= self.most)):
            if self._failed(self.begun.popleft()):
                self.settle()
        if not self.begun and not publisher.in_step:
            self._unsettled = self._unsettled or self._handed is not None
            self._handed = None
            return False
        if more:
            self._handed, self._unsettled = latest, True
            self.begun.append(self.thread.submit(self._publish, publisher, rows))
        return True

    def settle(self) -> bool:
        """See `WorkBeside.settle`."""
        unsettled, self._unsettled = self._unsettled, False
        while self.begun:
            self._failed(self.begun.popleft())
        return unsettled

    def _publish(self, publisher: SinkPublisher, rows: int | None) -> None:
        if self._ended:  # what waits behind a fault that lasts must not claim the sink again
            return
        runner = self.runner
        try:
            with add_place(runner.options.place), runner.engine.working(), runner.memory_beside():
                publisher.catch_up(self.tables.current(), rows)
        except (EngineLimit, Transient):
            raise
        except BaseException:
            self._ended = True
            raise

    def _failed(self, done: Future[None]) -> bool:
        """Wait for the end, and log a fault that may pass.

        Any other is raised: after an `EpochConflict`, another try would take the sink from the run that has it now.
        """
        try:
            done.result()
        except EngineLimit as beyond:
            _log.info("%s: to be published between the epochs: %s", self.runner.pipeline, beyond)
        except Transient as fault:
            _log.warning("%s: publishing failed, and is tried again: %s", self.runner.pipeline, fault)
        else:
            return False
        return True


@define(eq=False)
class KeepingBeside:
    """Compacts and expires the tables of one pipeline while its epochs run.

    Args:
        runner: of the pipeline.
        tables: as the thread sees them.
        thread: does the work, for all pipelines of a run, so that one compaction is under way at most.
    """

    runner: Runner
    tables: _Tables
    thread: ThreadPoolExecutor
    _compaction: Future[bool] | None = field(init=False, default=None)
    _put_off: int = field(init=False, default=0)
    _expiries: list[Future[None]] = field(init=False, factory=list)
    _expiry: Callable[[], None] | None = field(init=False, default=None)
    _rests_until: float = field(init=False, default=0.0)

    def keep_up(self, epoch: int, published: Sequence[Future[None]], phase: Phases) -> None:
        """Begin what is due after an epoch.

        A compaction that is due before the last one has ended begins when that has. If many are due, the epochs wait:
        else files would pile up. Of the expiries that are due while one is under way, or shortly after it, only the
        last one takes place.

        Args:
            epoch: the number of the epoch.
            published: end when the sink no longer needs the epochs before it.
            phase: gets the time that the epoch had to wait.
        """
        options = self.runner.options
        due = is_due(epoch, options.compact_every)
        self._end(phase, until_done=due and self._put_off >= _MOST_DUE)
        self._put_off += due
        self._begin_compaction()
        if is_due(epoch, options.expire_every):
            self._expiry = partial(self._expire, epoch, published)
        self.expire_rested()

    def expire_rested(self) -> None:
        """Begin the expiry that is due, if any, unless one is under way, or has just ended."""
        if perf_counter() >= self._rests_until and not any(each.running() for each in self._expiries):
            self._begin_expiry()

    @property
    def begun(self) -> list[Future[None] | Future[bool]]:
        """What has begun and was not cancelled, except for what has ended before."""
        return [each for each in (self._compaction, *self._expiries) if each and not each.cancelled()]

    def finish(self) -> None:
        """Wait for all that has begun or is due."""
        self._begin_expiry()
        wait(self._expiries)
        self._end(Phases(), until_done=True)
        self._begin_compaction()
        self._end(Phases(), until_done=True)

    def _begin_compaction(self) -> None:
        """Begin the compaction that is due, if any, unless another one is under way."""
        if self._put_off and self._compaction is None:
            self._put_off, self._compaction = 0, self.thread.submit(self._compact)

    def _begin_expiry(self) -> None:
        """Begin the expiry that is due, if any; it does the work of those that have not begun, too."""
        if self._expiry:
            for each in self._expiries:
                each.cancel()
            self._expiries.append(self.thread.submit(self._expiry))
            self._expiry = None

    def _end(self, phase: Phases, *, until_done: bool) -> None:
        """Take the results of work that has ended; of the compaction, or wait for it."""
        ended = [each for each in self._expiries if each.done()]
        self._expiries = [each for each in self._expiries if not each.done()]
        for each in ended:
            if not each.cancelled():
                each.result()
        if self._compaction is None or not (until_done or self._compaction.done()):
            return
        compaction, self._compaction = self._compaction, None
        if not compaction.done():
            with phase("compact"):
                wait([compaction])
        if not compaction.result():  # the runner's own keeper may have another engine for it
            compact(self.runner.upkeep, phase)

    def _compact(self) -> bool:
        """Compact; False if that needs more memory than there is beside an epoch."""
        pipeline, began = self.runner.pipeline, perf_counter()
        with log_failure(pipeline, "compact"), self.runner.memory_beside():
            try:
                made = Upkeep(self.tables.current(), self.tables.store, self.runner.options.retention).compact()
            except EngineLimit as beyond:
                _log.info("%s: to be compacted between the epochs: %s", pipeline, beyond)
                return False
            tables = ", ".join(table for table, version in made.items() if version) or "nothing"
            _log.info("%s: compacted %s in %.2f s beside the epochs", pipeline, tables, perf_counter() - began)
        return True

    def _expire(self, epoch: int, published: Sequence[Future[None]]) -> None:
        wait(published)
        if any(each.exception() for each in published):  # the sink still needs old versions
            return
        began = perf_counter()
        with log_failure(self.runner.pipeline, "expire"):
            upkeep = Upkeep(self.tables.current(), self.tables.store, self.runner.options.retention)
            upkeep.expire(dry_run=False, as_of=epoch)
        ended = perf_counter()
        self._rests_until = ended + _REST * (ended - began)


@define(eq=False)
class Beside(WorkBeside):
    """Publishes one pipeline and does its upkeep beside its epochs.

    Args:
        runner: of the pipeline.
        keeping: does its upkeep.
        publishing: publishes it, if it has a sink and its engine can.
    """

    runner: Runner
    keeping: KeepingBeside
    publishing: PublishingBeside | None

    def publish(self, publisher: SinkPublisher, latest: int, rows: int | None) -> bool:
        return self.publishing is not None and self.publishing.hand_over(publisher, latest, rows)

    def keep_up(self, epoch: int, phase: Phases) -> None:
        self.keeping.keep_up(epoch, tuple(self.publishing.begun) if self.publishing else (), phase)

    def settle(self) -> bool:
        self.keeping.expire_rested()
        return self.publishing is not None and self.publishing.settle()

    def finish(self) -> None:
        """Finish what has begun; what could not be published is published now."""
        while self.settle():
            self.runner.publish_missing()
        self.keeping.finish()

    def log_faults(self) -> None:
        """Finish what has begun, and log its faults."""
        publishing = self.publishing.begun if self.publishing else ()
        for work in (*publishing, *self.keeping.begun):
            if fault := work.exception():
                unforeseen = None if isinstance(fault, HeadwaterError) else fault
                _log.error(
                    "%s: work beside its epochs failed too: %s", self.runner.pipeline, fault, exc_info=unforeseen
                )
