"""Runs a pipeline on two engines over the same tables: each epoch on the one that fits it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, TypeVar

import narwhals as nw
from attrs import define, field, frozen

from ...adapters.memory_limit import limited_to
from ...domain.epoch.epoch import OffsetRange
from ...domain.errors import BadInput, ConfigError, EngineLimit, NotSupported
from ...domain.ports import Expiry, KeptStore, LeasingKeeper, Now, Pace, QueryEngine, Version
from ...domain.table.lease import Lease
from .report import Phases
from .runner import Runner

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@define(eq=False)
class AutoRunner(Runner):
    """The runner of a small engine, which hands what is beyond it to the runner of a large engine.

    Whatever only reads is done by the small engine. Work that changes tables is tried there first, with a limit to what
    it may hold in memory. If it is beyond that engine (`EngineLimit`), the large engine does it from the beginning:
    nothing is published yet, and what the first try has committed is rolled back, because its marks name its engine.

    Args:
        make_large: creates the runner of the large engine, which starts that engine; called at most once.
        limit: what an epoch may hold in the memory of the small engine, in bytes.
        find_refusal: returns why the small engine can never run the pipeline; None if it can. Called at most once.
        large_frames: whether programs get frames of the large engine; else of the small one.
    """

    make_large: Callable[[AutoRunner], Runner] = field(kw_only=True)
    limit: int = field(kw_only=True)
    find_refusal: Callable[[], str | None] = field(kw_only=True)
    large_frames: bool = field(kw_only=True, default=False)
    _large: Runner | None = field(init=False, default=None)
    _refusal: str | None = field(init=False, default=None)
    _looked: bool = field(init=False, default=False)
    _last: Runner | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.keeper = LargeCompactions(self.keeper, self._large_keeper, self.limit)

    @property
    def large(self) -> Runner:
        """The runner of the large engine, to read with; it starts that engine."""
        with self._opening:
            if self._large is None:
                self._large = self.make_large(self)
            return self._large

    @property
    def refusal(self) -> str | None:
        """Why the small engine does not run the pipeline; None if it does."""
        if not self._looked:
            self._looked, self._refusal = True, self.find_refusal()
        return self._refusal

    def advance(self, pace: Pace = Pace.SCHEDULE, *, idle: bool = True, idle_at: datetime | None = None) -> bool:
        return self.do(lambda runner: Runner.advance(runner, pace, idle=idle, idle_at=idle_at))

    def publish_missing(self) -> None:
        self.do(Runner.publish_missing)

    def do(self, work: Callable[[Runner], _T]) -> _T:
        """Do work on the small engine if it can, else on the large one; the work must start from the runner's parts."""
        with self.turn:
            if self.refusal is None:
                try:
                    with limited_to(self.limit):
                        return work(self._turn_to(self))
                except EngineLimit as beyond:
                    _log.info("%s: beyond engine %s: %s", self.pipeline, self.engine_name, beyond)
                    if beyond.lasting:
                        self._refusal = str(beyond)
            return work(self.for_large())

    def for_large(self) -> Runner:
        """The runner of the large engine, for work that is always large."""
        return self._turn_to(self.large)

    def for_programs(self) -> Runner:
        return self.large if self.large_frames else self

    def memory_beside(self) -> AbstractContextManager[None]:
        """Half of what an epoch may hold, because one runs at the same time."""
        return limited_to(self.limit // 2)

    def publish_to_sink(self, phase: Phases) -> None:
        """See `Runner.publish_to_sink`; the epoch itself is published already, so only this is done elsewhere."""
        try:
            super().publish_to_sink(phase)
        except EngineLimit:
            large = self.large
            large.reopen()
            with large.engine.working():
                large.publish_to_sink(phase)

    def _plan_epoch(self, now: Now) -> OffsetRange | None:
        """See `Runner`; an epoch that the large engine has begun is finished by it."""
        if self.ledger.begun_by not in {None, self.engine_name}:
            raise EngineLimit(f"engine {self.ledger.begun_by} has begun this epoch")
        return super()._plan_epoch(now)

    def _turn_to(self, runner: Runner) -> Runner:
        """Make a runner the one that writes; the other one has published since it wrote last."""
        former = self._last or self
        if former is not runner:
            if former.beside is not None:  # the other one claims the sink
                former.beside.settle()
            self._last = runner
            runner.follow(former)
        return runner

    def _large_keeper(self) -> LeasingKeeper:
        """The keeper of the large engine, which knows the tables."""
        self.large.open_ledger(self.large.tables)
        return self.large.keeper


@frozen(eq=False)
class LargeCompactions(LeasingKeeper):
    """A keeper of a small engine whose compactions beyond a limit are done by the keeper of a large one.

    Args:
        small: keeps the tables.
        large: returns the other keeper; its tables are ensured.
        limit: what a compaction may hold in memory, in bytes.
    """

    small: LeasingKeeper
    large: Callable[[], LeasingKeeper]
    limit: int

    def compact(self, table: str) -> Version | None:
        try:
            with limited_to(self.limit):
                return self.small.compact(table)
        except EngineLimit:
            return self.large().compact(table)

    def expire(self, table: str, keep: Collection[Version], *, now: datetime, dry_run: bool) -> Expiry:
        return self.small.expire(table, keep, now=now, dry_run=dry_run)

    def expired(self, table: str) -> Collection[Version]:
        return self.small.expired(table)

    def pin(self, lease: Lease) -> None:
        self.small.pin(lease)

    def unpin(self, table: str, lease_id: str) -> None:
        self.small.unpin(table, lease_id)

    def leases(self, table: str) -> Sequence[Lease]:
        return self.small.leases(table)

    def sibling(self) -> KeptStore | None:
        """A sibling of the small store alone: what is beyond its memory is done between the epochs."""
        return self.small.sibling()


@frozen(eq=False)
class TriedQueries(QueryEngine):
    """User-supplied SQL on a small engine: what it refuses is beyond it, and another engine is asked.

    Args:
        queries: runs the SQL.
    """

    queries: QueryEngine

    def query(self, sql: str, tables: Mapping[str, nw.LazyFrame[Any]], *, lenient: bool = False) -> nw.LazyFrame[Any]:
        try:
            return self.queries.query(sql, tables, lenient=lenient)
        except BadInput as error:  # the other engine may have an answer for the value
            raise EngineLimit(str(error)) from error
        except (ConfigError, NotSupported) as error:
            raise EngineLimit(str(error), lasting=True) from error

    def scan(self, path: str, format: str) -> nw.LazyFrame[Any]:  # noqa: A002 - the port's word
        try:
            return self.queries.scan(path, format)
        except (ConfigError, NotSupported) as error:
            raise EngineLimit(str(error), lasting=True) from error

    def state(self, path: str, format: str) -> str:  # noqa: A002 - the port's word
        """Refused: each engine tells a state in its own way, so a change of engines would look like a change of rows.

        Raises:
            EngineLimit: always.
        """
        raise EngineLimit(f"it follows the {format} table at {path}", lasting=True)


@define(eq=False)
class _Deferred:
    """Stands for an object that is created when one of its attributes is first used."""

    _make: Callable[[], Any]
    _made: Any = field(init=False, default=None)

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = self._make()
        return getattr(self._made, name)


def deferred(make: Callable[[], _T]) -> _T:
    """An object that is created when one of its attributes is first used."""
    found: Any = _Deferred(make)
    return found  # type: ignore[no-any-return]
