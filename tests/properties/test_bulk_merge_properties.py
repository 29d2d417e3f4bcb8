"""A bulk load beside its changelog, against the database that both come from, at every publication.

Over random histories: chunks read before, between and after the changes; batches cut anywhere; repeats; crashes.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import polars as pl
import pytest
from attrs import define, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.domain.service.base import ReadAt
from headwater.domain.table.row_kind import DELETE, INSERT, ROW_KIND, UPDATE_AFTER, UPDATE_BEFORE
from headwater.testing.failing_store import Crash, Fault
from headwater.testing.trial import Trial
from tests.spark_fixtures import compact_few_files

from .effort import examples
from .simulated_database import KEY, START, Chunk, Database, Message, Write, chunks, cuts, debezium, histories, maxwell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime
    from pathlib import Path

    import narwhals as nw
    from pyspark.sql import SparkSession

    from headwater.app.run.runner import Runner
    from headwater.domain.epoch.epoch import Publication

    from .simulated_database import Row, Rows, Tell

_KEYS = 8
_MANY = 1000
"""More keys than any schedule uses."""
_TABLE, _OTHER = "accounts", "notes"
_COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "owner": st.sampled_from(["ann", "bob", None]),
    "balance": st.integers(-2, 9),
}
_TABLES: dict[str, dict[str, st.SearchStrategy[Any]]] = {_TABLE: _COLUMNS, _OTHER: {"text": st.sampled_from("ab")}}
_LOGS: dict[str, tuple[Tell, str]] = {
    "maxwell-json": (maxwell, "log_position"),
    "debezium-json": (debezium, "log_position"),
}
_DEPLOYMENT = """
[backend]
name = "memory"
compact_every = 3

[sources.log]
kind = "files"
path = "log"
format = "FORMAT"
tables = ["shop.accounts"]
schema = "id bigint, owner string, balance int, pos bigint, at timestamp"
metadata = { pos = "log_position", at = "commit_time" }
event_time = "at"
watermark_delay = "2s"
TRANSACTIONS

[pipelines.accounts]
service = "bulk_merge"
key = ["id"]
columns = ["owner", "balance"]
changelog = "log"
bulk = { path = "bulk", format = "parquet", chunk_rows = 1, SEARCH }
mode = "MODE"
delay = "1s"
"""
_CLOCKS_DIFFER = 2
_CLOSED = timedelta(hours=1)
_NEXT = 10
"""As of how many moments a publication is compared with the one before it."""


@frozen
class Options:
    """How the pipeline is told to take what comes.

    Args:
        position: whether bulk rows and changes share one.
        mode: `exact` or `upsert`.
        format: of the log.
        together: whether the changes of other tables come by the same source, which passes them over.
    """

    position: bool
    mode: str
    format: str
    together: bool


@frozen
class Turn:
    """Batches that arrive, and a run, of some epochs or until idle, that may die."""

    batches: int
    epochs: int | None
    fault: Fault | None


@frozen
class Schedule:
    """A history, when its chunks were read, how its log is delivered, and what runs when."""

    options: Options
    database: Database
    chunks: list[Chunk]
    batches: list[list[Message]]
    turns: list[Turn]


@st.composite
def faults(draw: st.DrawFn) -> Fault | None:
    """A crash at any commit, or none."""
    if draw(st.integers(0, 2)):
        return None
    return Fault(before=draw(st.booleans()), commit=draw(st.integers(1, 7)), passing=draw(st.booleans()))


@st.composite
def schedules(
    draw: st.DrawFn, most: int, options: st.SearchStrategy[Options], keys: int = _KEYS, *, empty: bool = False
) -> Schedule:
    """Any schedule of at most so many transactions.

    Args:
        draw: by Hypothesis.
        most: so many.
        options: what is drawn of them.
        keys: how many there are; of few, each is changed often.
        empty: the table was empty when the log began, so all can be told from then on; rows go as often as they come.
    """
    chosen = draw(options)
    # Of a transaction whose last row comes by another source, this one cannot know when it was committed.
    took = 1 if chosen.together else 0
    database = draw(
        histories(
            _TABLES,
            keys=keys,
            most=most,
            statements_take=took,
            clocks_differ=_CLOCKS_DIFFER,
            deletes=3 if empty else 1,
            reads=2 if empty else 0,
            empty=empty,
        )
    )
    history = database.transactions
    close(database)
    read = draw(chunks(database, keys, database.loaded, database.loaded if empty else history))
    tell, _ = _LOGS[chosen.format]
    messages = tell(database, database.tables if chosen.together else [_TABLE])
    batches = draw(cuts(messages))
    if chosen.position:
        batches = [again + batch for again, batch in zip(_repeats(draw, batches), batches, strict=True)]
    turn = st.builds(Turn, st.integers(0, 3), st.none() | st.integers(1, 4), faults())
    return Schedule(chosen, database, read, batches, draw(st.lists(turn, max_size=4)))


@st.composite
def short_stays(draw: st.DrawFn, most: int) -> Schedule:
    """A schedule in each batch of which rows may come and go, each of a key of its own.

    Messages have no position, so the deletion of a key that was never published leaves nothing in the current rows.

    Args:
        draw: by Hypothesis.
        most: transactions in a batch.
    """
    options = draw(_BY_TIME)
    database = Database(tuple(_TABLES))
    tell, _ = _LOGS[options.format]
    ends = [0]
    for _ in range(draw(st.integers(2, 3))):
        for _ in range(draw(st.integers(3, most))):
            _come_or_go(draw, database)
        ends.append(database.transactions)
    close(database)
    ends.append(database.transactions)
    log = tell(database, database.tables if options.together else [_TABLE])
    batches = [[each for each in log if low < each.transaction <= high] for low, high in pairwise(ends)]
    return Schedule(options, database, [Chunk(1, _MANY, 0)], batches, [Turn(1, None, None) for _ in batches])


def _come_or_go(draw: st.DrawFn, database: Database) -> None:
    """Commit a transaction some seconds later: a row of a key never used comes, or the newest row goes."""
    rows = database.rows(_TABLE, database.transactions)
    used = max(database.touched(_TABLE, 0, database.transactions), default=1)
    new = Write(_TABLE, used + 1, {KEY: used + 1, "owner": "ann", "balance": draw(st.integers(0, 9))})
    goes = used in rows and draw(st.booleans())
    moment = database.now + timedelta(seconds=draw(st.integers(3, 9)))
    database.commit(moment, [Write(_TABLE, used, None) if goes else new])


def close(database: Database) -> None:
    """Touch the table twice more, much later: all before is whole then, and the watermark is beyond it."""
    for _ in range(2):
        row = database.rows(_TABLE, database.transactions).get(1, {KEY: 1, "owner": "cat", "balance": 0})
        row = {**row, "balance": row["balance"] + 1}
        database.commit(database.now + _CLOSED, [Write(_TABLE, 1, row)])


def _repeats(draw: st.DrawFn, batches: list[list[Message]]) -> Iterator[list[Message]]:
    """What a producer that crashed sends again before each batch: the end of what it had sent."""
    sent: list[Message] = []
    for batch in batches:
        yield sent[len(sent) - draw(st.integers(0, 3)) :] if sent else []
        sent += batch


@define(eq=False)
class MergeTrial:
    """One pipeline, held against the database at every publication."""

    trial: Trial
    schedule: Schedule
    delivered: int = 0

    def run(self) -> None:
        """Take the whole schedule."""
        options = self.schedule.options
        text = _DEPLOYMENT.replace("FORMAT", options.format).replace("MODE", options.mode)
        search = 'search_ts = "read_at"' if not options.position else ""
        counted = 'transactions = "counted"' if options.format == "debezium-json" else ""
        text = text.replace("TRANSACTIONS", counted)
        text = text.replace(", SEARCH", f", {search}" if search else "")
        self.trial.deploy(text + ('position = "pos"\n' if options.position else ""))
        self._write_chunks()
        for turn in self.schedule.turns:
            self._deliver(turn.batches)
            with suppress(Crash):
                self._run(turn)
        self._deliver(len(self.schedule.batches))
        self.trial.run()

    @property
    def _chunks(self) -> list[Chunk]:
        """Those that held rows when they were read; of the others there is no file."""
        return [chunk for chunk in self.schedule.chunks if chunk.rows(self.schedule.database, _TABLE)]

    def _deliver(self, count: int) -> None:
        for batch in self.schedule.batches[self.delivered : self.delivered + count]:
            self.trial.feed("log", [message.text for message in batch])
            self.delivered += 1

    def _run(self, turn: Turn) -> None:
        if turn.epochs is None:
            self.trial.run(fault=turn.fault)
            return
        (runner,) = self.trial.open(fault=turn.fault).start(["accounts"])
        for _ in range(turn.epochs):
            runner.advance()

    def _write_chunks(self) -> None:
        """A file a chunk: with where in the log, or when, it was read."""
        folder = self.trial.folder / "bulk"
        folder.mkdir()
        database, by_position = self.schedule.database, self.schedule.options.position
        types: dict[str, Any] = {KEY: pl.Int64, "owner": pl.String, "balance": pl.Int32}
        types |= {"pos": pl.Int64} if by_position else {"read_at": pl.Datetime("us", "UTC")}
        for number, chunk in enumerate(self._chunks):
            told = {"pos": database.position(chunk.read_after)} if by_position else {"read_at": self._read_at(chunk)}
            rows = [{**row, **told} for row in chunk.rows(database, _TABLE)]
            pl.DataFrame(rows, schema=types).write_parquet(folder / f"{number}.parquet")

    def _read_at(self, chunk: Chunk) -> Any:
        return max(self.schedule.database.commits[: chunk.read_after], default=START)

    # ---- what must hold

    def check(self) -> None:
        """Hold each publication against the database."""
        publications = self.trial.publications("accounts")[::-1]
        replayed: Rows = {}
        for publication in publications:
            shown = by_key(self._rows("rows", publication))
            self._check_rows(publication, shown)
            number = publication.epoch.number
            changes = self.trial.reader.difference("accounts.rows", after=number - 1, until=number).frame
            replay(replayed, changes.collect(backend="polars").rows(named=True))
            assert replayed == shown, f"epoch {number}: its row kinds lead elsewhere"
        database = self.schedule.database
        assert shown == database.rows(_TABLE, database.transactions)
        settled = self._rows("settled", publications[-1])
        assert all(row["settled"] for row in settled), settled
        assert not self._stored("tombstones")
        if self.schedule.options.mode == "exact":
            assert not self._stored("waiting")
            # Where no chunk had a row, nothing says since when: the log begins behind what is loaded.
            begins = max(database.commits[: database.loaded], default=START)
            self._check_past(publications[-1], max((row["exact_from"] for row in settled), default=begins))
            self._check_between(publications)
        letters = self.trial.reader.answer("accounts.dead_letters").frame.collect(backend="polars").rows()
        assert not letters

    def _check_past(self, publication: Publication, since: datetime) -> None:
        """The rows as of each time since the load are those of then."""
        database = self.schedule.database
        for moment in sorted({each for each in database.commits[database.loaded :] if each >= since}):
            shown = by_key(self._rows("rows", publication, as_of=moment))
            after = moment + timedelta(microseconds=1)
            past = [database.rows_before(_TABLE, after, in_order=each) for each in (True, False)]
            assert shown in past, (moment, shown, past)

    def _check_between(self, publications: list[Publication]) -> None:
        """What a view is told of changes leads from what it read before to what it reads now, whatever it is held at.

        Each publication is read as of the newest moment it can be, and the next one as of moments from there on.
        """
        (runner,) = self.trial.open().start(["accounts"])
        rows = runner.service.known("rows")
        places = [self._moments(runner, publication) for publication in publications]
        for earlier, later in pairwise([each for each in places if each]):
            before = earlier[-1]
            assert before.as_of is not None
            for after in [each for each in later if each.as_of is not None and each.as_of >= before.as_of][:_NEXT]:
                shown, expected = (by_key(_collected(runner.service.view(rows.name, at))) for at in (before, after))
                replay(shown, _collected(runner.service.changes_between(rows.name, before, after)))
                assert shown == expected, (before.as_of, after.as_of)

    def _moments(self, runner: Runner, publication: Publication) -> list[ReadAt]:
        """The commits as of which a publication can be read, in order."""
        snapshot, until = runner.current_ledger().snapshot(publication), publication.watermark
        commits = sorted({each for each in self.schedule.database.commits if until is not None and each <= until})
        places = [ReadAt(snapshot, each) for each in commits]
        return [each for each in places if runner.service.held_back("rows", each) is None]

    def _stored(self, table: str) -> list[Any]:
        _, frame = self.trial.stored(f"accounts.{table}")
        return frame.collect(backend="polars").rows()

    def _rows(self, view: str, publication: Publication, **how: Any) -> list[Row]:
        answer = self.trial.reader.answer(f"accounts.{view}", at=publication.epoch.number, **how)
        return answer.frame.collect(backend="polars").rows(named=True)

    def _check_rows(self, publication: Publication, shown: Rows) -> None:
        database = self.schedule.database
        surely, possibly = self._whole(publication)
        if self.schedule.options.mode == "upsert":
            self._check_upserted(publication, shown, possibly)
            return
        wrong = {}
        for until in range(surely, possibly + 1):
            rows = database.rows(_TABLE, until)
            due = self._due(publication, until)
            wrong[until] = {
                key: (shown.get(key), rows.get(key))
                for key in {*shown, *(due & rows.keys())}
                if shown.get(key) != rows.get(key)
            }
            if not wrong[until]:
                return
        raise AssertionError(f"epoch {publication.epoch.number}: shown, and in the database after so many: {wrong}")

    def _check_upserted(self, publication: Publication, shown: Rows, until: int) -> None:
        """Each row is as it was at some time not after the newest of its changes and its chunk."""
        database = self.schedule.database
        read = list(self._chunks[: _chunks_read(publication)])
        for key, row in shown.items():
            ends = [until, *(chunk.read_after for chunk in read if chunk.holds(key))]
            states = [database.rows(_TABLE, at).get(key) for at in range(database.loaded, max(ends) + 1)]
            assert row in states, (publication.epoch.number, row, states)
        due = {key for chunk in read for key in range(chunk.low, chunk.high + 1)}
        for key in due & database.rows(_TABLE, until).keys() - database.touched(
            _TABLE, database.loaded, database.transactions
        ):
            assert key in shown, (publication.epoch.number, key)

    def _due(self, publication: Publication, until: int) -> set[int]:
        """The keys that are known by then: they were touched, or their chunk was read, and the log is beyond it."""
        database = self.schedule.database
        read = self._chunks[: _chunks_read(publication)]
        if self.schedule.options.position:
            mine = [each.position for each in database.told if each.table == _TABLE and each.transaction <= until]
            settled = [chunk for chunk in read if database.position(chunk.read_after) <= max(mine, default=0)]
        else:
            mark = publication.watermark
            settled = [chunk for chunk in read if mark and mark > self._read_at(chunk) + timedelta(seconds=1)]
        in_chunks = {key for chunk in settled for key in range(chunk.low, chunk.high + 1)}
        return in_chunks | database.touched(_TABLE, database.loaded, until)

    def _whole(self, publication: Publication) -> tuple[int, int]:
        """How many transactions are known to be whole by then, and how many may be."""
        files = publication.offsets.get("changelog")
        seen = [message for batch in self.schedule.batches[: files["count"] if files else 0] for message in batch]
        if not seen:
            return (self.schedule.database.loaded,) * 2
        newest = max(message.transaction for message in seen)
        if self.schedule.options.mode == "upsert":  # which holds nothing back
            return newest, newest
        texts = {message.text for message in seen}
        whole = all(message.text in texts for message in self._messages if message.transaction == newest)
        return newest - 1, newest if whole else newest - 1

    @property
    def _messages(self) -> Iterator[Message]:
        return (message for batch in self.schedule.batches for message in batch)


def _collected(frame: nw.LazyFrame[Any]) -> list[Row]:
    rows: list[Row] = frame.collect(backend="polars").rows(named=True)
    return rows


def _chunks_read(publication: Publication) -> int:
    """How many chunks had been read by then."""
    offsets = publication.offsets.get("bulk")
    return offsets["chunks"] if offsets else 0


def by_key(rows: Iterable[Row]) -> Rows:
    """Rows by their key, of which none stands twice."""
    found: Rows = {}
    for row in rows:
        assert row[KEY] not in found, "a key stands twice"
        found[row[KEY]] = row
    return found


def replay(rows: dict[Any, Row], changes: Iterable[Row], key_column: str = KEY) -> None:
    """Follow net changes: nothing is taken back that is not there, nothing comes that is there already."""
    came: dict[Any, tuple[str, Row]] = {}
    went: dict[Any, tuple[str, Row]] = {}
    for change in changes:
        row = {name: value for name, value in change.items() if name != ROW_KIND}
        side = went if change[ROW_KIND] in (UPDATE_BEFORE, DELETE) else came
        key = row[key_column]
        assert key not in side, f"more than one change of key {key}"
        side[key] = (change[ROW_KIND], row)
    for key, (kind, row) in went.items():
        assert rows.pop(key, None) == row, f"{kind} of a row that is not there: {row}"
        assert (kind == UPDATE_BEFORE) == (key in came), f"{kind} alone of key {key}"
    for key, (kind, row) in came.items():
        assert key not in rows, f"{kind} of a key that is there: {row}"
        assert kind == (UPDATE_AFTER if key in went else INSERT)
        rows[key] = row


def _hold(trial: Trial, schedule: Schedule) -> None:
    held = MergeTrial(trial, schedule)
    held.run()
    held.check()


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / uuid4().hex
    folder.mkdir()
    return folder


_OPTIONS = st.builds(
    Options,
    position=st.booleans(),
    mode=st.sampled_from(["exact", "exact", "exact", "upsert"]),
    format=st.sampled_from(sorted(_LOGS)),
    together=st.booleans(),
)


@given(schedule=schedules(10, _OPTIONS))
@settings(
    max_examples=examples(30),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_rows_are_the_databases_on_memory(tmp_path: Path, exits: ExitStack, schedule: Schedule) -> None:
    _hold(Trial(_folder(tmp_path), "memory", exits), schedule)


_BY_TIME = st.builds(
    Options,
    position=st.just(value=False),
    mode=st.just("exact"),
    format=st.sampled_from(sorted(_LOGS)),
    together=st.booleans(),
)


@given(schedule=schedules(14, _BY_TIME, keys=3, empty=True))
@settings(
    max_examples=examples(30),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_rows_that_change_often_are_the_databases_on_memory(
    tmp_path: Path, exits: ExitStack, schedule: Schedule
) -> None:
    _hold(Trial(_folder(tmp_path), "memory", exits), schedule)


@given(schedule=short_stays(6))
@settings(
    max_examples=15,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_rows_that_come_and_go_in_one_batch_show_between_on_memory(
    tmp_path: Path, exits: ExitStack, schedule: Schedule
) -> None:
    _hold(Trial(_folder(tmp_path), "memory", exits), schedule)


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("delta", marks=pytest.mark.delta),
        pytest.param("hudi-mor:local", marks=pytest.mark.hudi),
        pytest.param("hudi-cow:local", marks=pytest.mark.hudi),
    ],
)
@given(schedule=schedules(5, _OPTIONS))
@settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
def test_rows_are_the_databases_on_spark(
    spark: SparkSession, tmp_path: Path, exits: ExitStack, backend: str, schedule: Schedule
) -> None:
    _hold(Trial(_folder(tmp_path), backend, exits, compact_few_files), schedule)
