"""A bulk load from a database that keeps changing: a chunk that is read again has other rows."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from attrs import define, field, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.domain.epoch.batch import BATCH_COLUMNS, ORIGIN, RAW
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.epoch.key_range import KeyRange
from headwater.domain.ports import BulkRows, BulkSource
from headwater.domain.source.bulk import CHUNK, SEARCH_TS, BulkGroup, reach_of
from headwater.domain.table.change import POSITION
from headwater.domain.table.row_kind import INSERT, ROW_KIND
from headwater.domain.table.schema import Column, Schema
from headwater.testing.failing_store import Crash, Fault
from headwater.testing.frames import polars_frame
from headwater.testing.trial import Trial

from .effort import examples
from .simulated_database import KEY, START, Chunk, Database, Message, Write, cuts, histories, maxwell
from .test_bulk_merge_properties import by_key, close, faults

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from headwater.app.run.runner import Runner
    from headwater.domain.epoch.epoch import Offsets

_KEYS = 6
_TABLE = "accounts"
_ROWS = {_TABLE: {"owner": st.sampled_from(["ann", "bob", None]), "balance": st.integers(0, 9)}}
_DEPLOYMENT = """
[backend]
name = "memory"

[sources.log]
kind = "files"
path = "log"
format = "maxwell-json"
tables = ["shop.accounts"]
schema = "id bigint, owner string, balance int, pos bigint, at timestamp"
metadata = { pos = "log_position", at = "commit_time" }
event_time = "at"

[pipelines.accounts]
service = "bulk_merge"
key = ["id"]
columns = ["owner", "balance"]
changelog = "log"
bulk = { path = "bulk", format = "json", search_ts = "read_at" }
"""
_SCHEMA = Schema.parse("id bigint, owner string, balance int, pos bigint")
_ADDED = {**BATCH_COLUMNS, CHUNK: "bigint", SEARCH_TS: "timestamp", reach_of(0): "bigint"}


@define(eq=False)
class LiveBulk(BulkSource):
    """A table of a database that goes on, in chunks of one key range each.

    Args:
        database: with all of its history.
        now: how many transactions have been committed when something is read.
        bounds: the highest key of each chunk but the last.
        placed: whether a read tells its position in the log; else it tells the time.
    """

    database: Database
    now: int
    bounds: list[int]
    placed: bool
    schema: Schema = _SCHEMA
    repeatable: bool = False

    def plan(self, after: Offsets | None, watermark: datetime | None) -> OffsetRange | None:  # noqa: ARG002
        done = after["chunks"] if after else 0
        return OffsetRange(after, {"chunks": done + 1, "read_after": self.now}) if done <= len(self.bounds) else None

    def readable(self, offsets: OffsetRange) -> bool:
        return bool(offsets.until["read_after"] == self.now)

    def read(self, offsets: OffsetRange) -> BulkRows:
        assert self.readable(offsets), "an epoch that was begun is read again, of a database that has gone on"
        chunk = offsets.until["chunks"] - 1
        position = self.database.position(self.now)
        found = Chunk(*self._bounds(chunk), self.now).rows(self.database, _TABLE)
        told: dict[str, Any] = {ROW_KIND: INSERT, ORIGIN: "table", RAW: "", CHUNK: chunk}
        if self.placed:
            told |= {"pos": position, reach_of(0): position}
        else:
            told[SEARCH_TS] = max(self.database.commits[: self.now], default=START)
        schema = Schema(
            (*_SCHEMA.columns, *(Column(name, Schema.parse(f"{name} {ddl}")[name]) for name, ddl in _ADDED.items()))
        )
        values = [{**row, **told, POSITION: at} for at, row in enumerate(found)]
        return BulkRows(polars_frame([tuple(row.get(name) for name in schema.names) for row in values], schema))

    def remaining(self, after: Offsets | None) -> tuple[KeyRange, ...]:
        done = after["chunks"] if after else 0
        return (KeyRange(self._bounds(done)[0], None),) if done <= len(self.bounds) else ()

    def lag(self, after: Offsets | None) -> str:
        return "" if not self.remaining(after) else "rows"

    @property
    def trouble(self) -> tuple[str, ...]:
        return ()

    def _bounds(self, chunk: int) -> tuple[int, int]:
        ends = [0, *self.bounds, _KEYS]
        return ends[chunk] + 1, ends[chunk + 1]


@frozen
class Turn:
    """How many batches of the log arrive, how many transactions are committed by then, and epochs that may die."""

    batches: int
    committed: int
    epochs: int
    fault: Fault | None


@frozen
class Schedule:
    """A history, the chunks' bounds, the log in batches, and what runs when."""

    database: Database
    bounds: list[int]
    placed: bool
    batches: list[list[Message]]
    turns: list[Turn]


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Any schedule; the database is ahead of what has been delivered of its log, more or less."""
    database = draw(histories(_ROWS, keys=_KEYS, most=8))
    close(database)
    batches = draw(cuts(maxwell(database, [_TABLE]), most=6))
    bounds = sorted(draw(st.sets(st.integers(1, _KEYS - 1), max_size=2)))
    turn = st.builds(Turn, st.integers(0, 2), st.integers(0, 4), st.integers(1, 2), faults())
    return Schedule(database, bounds, draw(st.booleans()), batches, draw(st.lists(turn, min_size=1, max_size=5)))


@define(eq=False)
class LiveTrial:
    """One pipeline over a database that goes on, held against it at every publication."""

    folder: Path
    exits: ExitStack
    schedule: Schedule
    bulk: LiveBulk = field(init=False)
    trial: Trial = field(init=False)
    delivered: int = 0

    def __attrs_post_init__(self) -> None:
        database = self.schedule.database
        self.bulk = LiveBulk(database, database.loaded, self.schedule.bounds, self.schedule.placed)
        self.trial = Trial(self.folder, "memory", self.exits, self._prepare)
        self.trial.deploy(_DEPLOYMENT + ('position = "pos"\n' if self.schedule.placed else 'delay = "1s"\n'))

    def _prepare(self, runner: Runner) -> None:
        assert isinstance(runner.source, BulkGroup)
        runner.source = BulkGroup(runner.source.changelog, self.bulk)

    def run(self) -> None:
        """Take the whole schedule; the end of the log comes last: what is read waits for a change behind it."""
        for turn in self.schedule.turns:
            self._go_on(min(turn.batches, len(self.schedule.batches) - 1 - self.delivered), turn.committed)
            (runner,) = self.trial.open(fault=turn.fault).start()
            with suppress(Crash):
                for _ in range(turn.epochs):
                    runner.advance()
        self._go_on(len(self.schedule.batches), self.schedule.database.transactions)
        self.trial.run()

    def _go_on(self, batches: int, committed: int) -> None:
        """Let time pass: the log that is delivered is never ahead of the database."""
        for batch in self.schedule.batches[self.delivered : self.delivered + batches]:
            self.trial.feed("log", [message.text for message in batch])
            self.delivered += 1
        told = [message.transaction for batch in self.schedule.batches[: self.delivered] for message in batch]
        last = self.schedule.database.transactions - (not self.schedule.placed)
        self.bulk.now = min(max([self.bulk.now + committed, *told]), last)

    def check(self) -> None:
        """No publication shows a row that is not as it was at one moment; the last one is the database."""
        database = self.schedule.database
        for publication in self.trial.publications("accounts")[::-1]:
            shown = self._shown(publication.epoch.number)
            states = [database.rows(_TABLE, at) for at in range(database.loaded, database.transactions + 1)]
            fits = [rows for rows in states if all(rows.get(key) == row for key, row in shown.items())]
            assert fits, (publication.epoch.number, shown, states)
        assert self._shown(None) == database.rows(_TABLE, database.transactions)
        for table in ("waiting", "tombstones"):
            _, stored = self.trial.stored(f"accounts.{table}")
            assert not stored.collect(backend="polars").rows(), f"{table} is not freed"

    def _shown(self, epoch: int | None) -> dict[int, dict[str, Any]]:
        answer = self.trial.reader.answer("accounts.rows", at=epoch)
        return by_key(answer.frame.collect(backend="polars").rows(named=True))


def _hold(folder: Path, exits: ExitStack, schedule: Schedule) -> None:
    held = LiveTrial(folder, exits, schedule)
    held.run()
    held.check()


def _chunk_read_twice(deletes: int, committed: int, *, placed: bool) -> Schedule:
    """Rows are read and put aside, the process dies, some of them go, and the chunk is read again."""
    rows = {key: {KEY: key, "owner": "ann", "balance": key} for key in (2, 3)}
    database = Database((_TABLE,))
    database.commit(START, [Write(_TABLE, key, row) for key, row in rows.items()])
    database.loaded = 1
    database.commit(START + timedelta(seconds=10), [Write(_TABLE, key, None) for key in sorted(rows)[-deletes:]])
    close(database)
    messages = maxwell(database, [_TABLE])
    gone = [message for message in messages if message.transaction == database.loaded + 1]
    others = [[message] for message in messages if message not in gone]
    died = Turn(0, 0, 1, Fault(before=False, commit=1))
    return Schedule(database, [], placed, [gone, *others], [died, Turn(0, committed, 1, None), Turn(1, 0, 1, None)])


_PLACED = pytest.mark.parametrize("placed", [True, False], ids=["by position", "by time"])


@_PLACED
def test_a_row_deleted_between_two_reads_of_its_chunk_does_not_come_back(
    tmp_path: Path, exits: ExitStack, *, placed: bool
) -> None:
    _hold(tmp_path, exits, _chunk_read_twice(deletes=1, committed=2, placed=placed))


@_PLACED
def test_rows_of_a_chunk_that_is_empty_when_it_is_read_again_do_not_stay_behind(
    tmp_path: Path, exits: ExitStack, *, placed: bool
) -> None:
    _hold(tmp_path, exits, _chunk_read_twice(deletes=2, committed=1, placed=placed))


@given(schedule=schedules())
@settings(
    max_examples=examples(20),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_rows_read_from_a_database_that_goes_on(tmp_path: Path, exits: ExitStack, schedule: Schedule) -> None:
    folder = tmp_path / uuid4().hex
    folder.mkdir()
    _hold(folder, exits, schedule)
