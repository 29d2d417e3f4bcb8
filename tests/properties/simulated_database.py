"""A database in a few plain lines: tables, transactions over several of them, its log as others tell it, and its past.

All is decided beforehand: a database is its whole history, and whoever reads it does so at a moment of that history.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, evolve, field, frozen
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

Row: TypeAlias = "dict[str, Any]"
Rows: TypeAlias = "dict[int, Row]"
"""Rows of a table by their key."""

NAME = "shop"
KEY = "id"
"""The key of every table, a number from 1."""
START = datetime(2024, 3, 7, tzinfo=UTC)
"""When the first transaction can be committed."""
_FILE = "binlog.000007"


@frozen
class Change:
    """What a transaction did to one row of a table.

    Args:
        table: its name.
        before, after: the row; None where there was none, or is none. Keys differ where the key was changed.
        transaction: counted from 1 in the order of commits.
        position: in the log; it never goes back, and rows of one statement share it.
        said_at: the time that the log tells with it (UTC), that of its statement; of a transaction's last row, when it
            was committed.
        number: of the row in its transaction, from 0.
        last: whether it is the last row of its transaction.
    """

    table: str
    before: Row | None
    after: Row | None
    transaction: int
    position: int
    said_at: datetime
    number: int
    last: bool

    @property
    def keys(self) -> set[int]:
        """The keys that it touches, two where the key was changed."""
        return {row[KEY] for row in (self.before, self.after) if row is not None}


@frozen
class Write:
    """A statement: the row at a key becomes another one, or none; at another key, where the new row says so.

    If it only reads, the row at the key stays, and the log tells it as an insert, as a connector's snapshot does.
    """

    table: str
    key: int
    row: Row | None
    reads: bool = False


@define
class Database:
    """Tables and their log.

    Args:
        tables: their names.
        loaded: how many transactions were committed before the log that is told begins.
    """

    tables: tuple[str, ...]
    loaded: int = 0
    commits: list[datetime] = field(factory=list)
    """When each transaction was committed."""
    log: list[Change] = field(factory=list)
    _states: list[dict[str, Rows]] = field(init=False)
    _position: int = field(init=False, default=100)

    def __attrs_post_init__(self) -> None:
        self._states = [{name: {} for name in self.tables}]

    def commit(self, moment: datetime, writes: Iterable[Write], statement_took: timedelta = timedelta()) -> None:
        """Commit a transaction; one that changes nothing is none.

        Args:
            moment: when; transactions that touch one row are committed in the order of their moments.
            writes: its statements, in order. One that moves a row to a key that is taken does nothing.
            statement_took: how long before it the statements of all rows but the last began.
        """
        state = {name: dict(rows) for name, rows in self._states[-1].items()}
        done: list[Change] = []
        for write in writes:
            images = _written(state[write.table], write)
            if images is not None:
                self._position += 10
                done.append(Change(write.table, *images, len(self._states), self._position, moment, len(done), False))
        if done:
            self.log += [evolve(each, said_at=moment - statement_took) for each in done[:-1]]
            self.log.append(evolve(done[-1], last=True))
            self.commits.append(moment)
            self._states.append(state)

    @property
    def transactions(self) -> int:
        """How many there were."""
        return len(self.commits)

    @property
    def told(self) -> list[Change]:
        """The log from where it is told."""
        return [change for change in self.log if change.transaction > self.loaded]

    @property
    def now(self) -> datetime:
        """When its last transaction was committed."""
        return max(self.commits, default=START)

    def rows(self, table: str, after: int) -> Rows:
        """A table as it stood after so many transactions."""
        return self._states[after][table]

    def position(self, after: int) -> int:
        """Where the log ended after so many transactions."""
        return max((change.position for change in self.log if change.transaction <= after), default=0)

    def until(self, position: int) -> int:
        """How many transactions the log holds up to a position, which is none inside a transaction."""
        return max((change.transaction for change in self.log if change.position <= position), default=0)

    def rows_before(self, table: str, moment: datetime, *, in_order: bool = False) -> Rows:
        """A table without the transactions that were committed at a moment or later.

        Args:
            table: its name.
            moment: that moment.
            in_order: take none for committed before one that stands before it in the log.
        """
        commits = [*accumulate(self.commits, max)] if in_order else self.commits
        rows: Rows = {}
        for change in self.log:
            if change.table == table and commits[change.transaction - 1] < moment:
                if change.before is not None:
                    rows.pop(change.before[KEY], None)
                if change.after is not None:
                    rows[change.after[KEY]] = change.after
        return rows

    def newest(self, table: str, row: int, until: int) -> datetime | None:
        """When a row of a table was touched last by the first `until` transactions."""
        found = (each for each in self.log if each.table == table and row in each.keys and each.transaction <= until)
        return max((self._commit_of(change) for change in found), default=None)

    def _commit_of(self, change: Change) -> datetime:
        return self.commits[change.transaction - 1]

    def touched(self, table: str, after: int, until: int) -> set[int]:
        """The keys of a table that transactions have touched, all after `after` up to and with `until`."""
        found = (each.keys for each in self.log if each.table == table and after < each.transaction <= until)
        return set().union(*found)


def _written(rows: Rows, write: Write) -> tuple[Row | None, Row | None] | None:
    """The images before and after a write, which is done; None if it changes nothing."""
    before, after = rows.get(write.key), write.row
    if write.reads:
        return None if before is None else (None, before)
    if before == after or (after is not None and after[KEY] != write.key and (before is None or after[KEY] in rows)):
        return None
    rows.pop(write.key, None)
    if after is not None:
        rows[after[KEY]] = after
    return before, after


# ---- the log as others tell it


@frozen
class Message:
    """One record of a log.

    Args:
        text: as it is sent, JSON.
        transaction: whose it is.
    """

    text: str
    transaction: int


Tell: TypeAlias = "Callable[[Database, Collection[str]], list[Message]]"


def maxwell(database: Database, tables: Collection[str]) -> list[Message]:
    """The changes of some tables as Maxwell sends them: the last row of a transaction, whosever it is, says commit."""
    return [Message(json.dumps(_maxwell(each)), each.transaction) for each in database.told if each.table in tables]


def _maxwell(change: Change) -> Row:
    data = change.before if change.after is None else change.after
    message: Row = {
        "database": NAME,
        "table": change.table,
        "type": "insert" if change.before is None else "delete" if change.after is None else "update",
        "ts": int(change.said_at.timestamp()),
        "xid": change.transaction,
        **({"commit": True} if change.last else {"xoffset": change.number}),
        "position": f"{_FILE}:{change.position}",
        "data": data,
    }
    if change.before is not None and change.after is not None:
        old = {name: was for name, was in change.before.items() if change.after[name] != was}
        message |= {"old": old} if old else {}
    return message


def debezium(database: Database, tables: Collection[str], *, marks: bool = True) -> list[Message]:
    """The changes of some tables as Debezium sends them, with or without its marks of where a transaction ends.

    A change of a key is a delete and an insert.
    """
    messages: list[Message] = []
    for transaction, changes in groupby(database.told, lambda change: change.transaction):
        events = [event for change in changes for event in _debezium(change)]
        told = [event for event in events if event["source"]["table"] in tables]
        name = _transaction(transaction)
        if marks:
            for number, event in enumerate(told, 1):
                event["transaction"] = {"id": name, "total_order": number, "data_collection_order": number}
        sent = [{"status": "BEGIN", "id": name, "event_count": None}, *told] if marks else told
        if marks:
            counts = [
                {"data_collection": f"{NAME}.{table}", "event_count": count}
                for table in sorted(tables)
                if (count := sum(event["source"]["table"] == table for event in told))
            ]
            sent.append({"status": "END", "id": name, "event_count": len(told), "data_collections": counts})
            for mark in (sent[0], sent[-1]):
                mark["ts_ms"] = _millis(database.commits[transaction - 1])
        messages += [Message(json.dumps(event), transaction) for event in sent if told]
    return messages


def _debezium(change: Change) -> list[Row]:
    if change.before is None or change.after is None:
        kind = "c" if change.before is None else "d"
        return [_event(change, kind, change.before, change.after)]
    if change.before[KEY] != change.after[KEY]:
        return [_event(change, "d", change.before, None), _event(change, "c", None, change.after)]
    return [_event(change, "u", change.before, change.after)]


def _event(change: Change, op: str, before: Row | None, after: Row | None) -> Row:
    source = {"db": NAME, "table": change.table, "ts_ms": _millis(change.said_at)}
    return {
        "op": op,
        "before": before,
        "after": after,
        "source": {**source, "file": _FILE, "pos": change.position, "row": 0, "gtid": _transaction(change.transaction)},
        "ts_ms": _millis(change.said_at) + 250,
    }


def _transaction(number: int) -> str:
    return f"file={_FILE},transaction={number}"


def _millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


# ---- bulk reads


@frozen
class Chunk:
    """A range of keys, read at one moment.

    Args:
        low, high: the keys, both included.
        read_after: how many transactions had been committed then.
    """

    low: int
    high: int
    read_after: int

    def holds(self, key: int) -> bool:
        """Whether a key is in its range."""
        return self.low <= key <= self.high

    def rows(self, database: Database, table: str) -> list[Row]:
        """What was read, in the order of keys."""
        rows = database.rows(table, self.read_after)
        return [rows[key] for key in sorted(rows) if self.holds(key)]


# ---- random histories


@st.composite
def histories(
    draw: st.DrawFn,
    tables: Mapping[str, Mapping[str, st.SearchStrategy[Any]]],
    *,
    keys: int,
    most: int,
    writes: int = 3,
    statements_take: int = 0,
    clocks_differ: int = 0,
    deletes: int = 1,
    reads: int = 0,
    empty: bool = False,
) -> Database:
    """Any history: inserts, updates, deletes, changes of keys, keys that come again; ties of commit times.

    Args:
        draw: by Hypothesis.
        tables: columns of each table, without the key, and their values.
        keys: how many there are.
        most: transactions at most before the log is told, and after.
        writes: statements at most in a transaction.
        statements_take: seconds at most between the statements of a transaction and its commit.
        clocks_differ: seconds at most that a commit is told earlier than one before it, where they touch no common row.
        deletes: how often a statement deletes, where three put a row and one moves it.
        reads: how often a connector reads a row again.
        empty: whether no transaction comes before the log is told.
    """
    database, moment = Database(tuple(tables)), START
    any_key = st.integers(1, keys)
    rows = {name: st.fixed_dictionaries({KEY: any_key, **columns}) for name, columns in tables.items()}

    def write() -> Write:
        table = draw(st.sampled_from(sorted(tables)))
        key = draw(any_key)
        does = draw(st.sampled_from(["put"] * 3 + ["delete"] * deletes + ["move"] + ["read"] * reads))
        if does in {"delete", "read"}:
            return Write(table, key, None, reads=does == "read")
        row = draw(rows[table])
        return Write(table, key, row if does == "move" else {**row, KEY: key})

    for told in (True,) if empty else (False, True):
        for _ in range(draw(st.integers(0 if not told else 1, most))):
            moment += timedelta(seconds=draw(st.sampled_from([0, 0, 1, 2, 5])))
            took = timedelta(seconds=draw(st.integers(0, statements_take)))
            early = timedelta(seconds=draw(st.integers(0, clocks_differ)))
            done = [write() for _ in range(draw(st.integers(1, writes)))]
            database.commit(max([moment - early, *_touched_last(database, done)]), done, took)
        if not told:
            database.loaded = database.transactions
    return database


def _touched_last(database: Database, writes: Iterable[Write]) -> list[datetime]:
    """When the rows that statements touch were touched before."""
    keys = {(each.table, key) for each in writes for key in (each.key, each.row[KEY] if each.row else each.key)}
    found = (database.newest(table, key, database.transactions) for table, key in keys)
    return [moment for moment in found if moment is not None]


@st.composite
def chunks(draw: st.DrawFn, database: Database, keys: int, earliest: int, latest: int) -> list[Chunk]:
    """Ranges that hold all keys, each read at any moment of some; the outermost are open, as those of a table are."""
    inner = sorted(draw(st.sets(st.integers(1, keys - 1), max_size=3)))
    moments = st.integers(max(earliest, database.loaded), max(latest, database.loaded))
    return [Chunk(low + 1, high, draw(moments)) for low, high in zip([0, *inner], [*inner, keys], strict=True)]


@st.composite
def cuts(draw: st.DrawFn, messages: list[Message], most: int = 4) -> list[list[Message]]:
    """The messages in order, in batches cut anywhere, inside of transactions too; no batch is empty."""
    inner = sorted(draw(st.sets(st.integers(1, max(1, len(messages) - 1)), max_size=most)))
    parts = (messages[a:b] for a, b in zip([0, *inner], [*inner, None], strict=True))
    return [part for part in parts if part]
