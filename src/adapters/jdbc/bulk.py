"""Bulk loads of database tables, as Spark frames: each chunk is a range of the key, read by one query."""

from __future__ import annotations

import json
from datetime import datetime
from functools import reduce
from hashlib import sha256
from time import monotonic

from attrs import define, evolve, field, frozen
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...domain.epoch.batch import BATCH_COLUMNS
from ...domain.epoch.epoch import OffsetRange, Offsets
from ...domain.epoch.key_range import KeyRange, merge_ranges
from ...domain.errors import BadInput, ConfigError, HeadwaterError, SourceChanged, SourceUnavailable
from ...domain.ports import BulkRows, BulkSource
from ...domain.source.bulk import CHUNK, SEARCH_TS, BulkSpec, reach_of
from ...domain.source.decode import INTEGER_BITS
from ...domain.table.change import POSITION
from ...domain.table.schema import INTEGERS, Schema
from ..shared.chunks import CHUNK_POSITIONS, Chunk, Chunks, Failure, Frontier, Piece, Progress
from ..spark.schema import lazy, named, spark_type
from ..spark.table_rows import TableRows
from .columns import DatabaseColumn
from .database import Database
from .keys import Key, KeyColumn
from .visible import NotVisible, Position, VisiblePositions, commits_of

_END = "end"
"""In a frontier, in place of a key: the last chunk, which has no upper bound, is done."""
_NEXT = "the next chunk"
_FAILED = "it could not be read when a run last tried; the log of that run has the reason"
_PROBE_PAUSE = 64.0
"""The seconds between two looks at the table by a process that plans no chunks."""
_KEY_TYPES = INTEGERS | {"decimal", "date", "string"}


@frozen
class TableSettings:
    """The table to read, and the number of rows of a chunk.

    Args:
        table: its name with its schema, each part spelled as in the database.
        clock: a query for the database's time; None: the usual one.
        position: a query for the position of the database's log, a column for each part of the changelog's position.
        chunk_rows: the number of rows in a chunk.
        chunks_per_epoch: the largest number of chunks in an epoch.
    """

    table: str
    clock: str | None = None
    position: str | None = None
    chunk_rows: int = 1_000_000
    chunks_per_epoch: int = 1


@frozen
class _Reached:
    """How far a load has come, as its frontier stores it.

    Args:
        after: the last key that is done; None: no key is; `_END`: all are.
        identity: what identifies the table, and a hash of the order of its key, when the load began; None: an earlier
            version has written the frontier.
    """

    after: Key | None = None
    identity: list[str] | None = None

    @classmethod
    def of(cls, frontier: Frontier) -> _Reached:
        return cls(**frontier) if isinstance(frontier, dict) else cls(frontier)

    @property
    def is_all(self) -> bool:
        return self.after == _END


@frozen(eq=False)
class _Read:
    """A chunk that was read: its rows, the latest time of the read (UTC), and the log's positions around it."""

    rows: DataFrame
    at: datetime
    low: Position
    high: Position


@define(eq=False)
class JdbcBulk(BulkSource):
    """Loads a table that keeps changing during the load.

    A chunk is read as a whole when it is planned, and is cached for its epoch. So no query is run twice, and a chunk
    that fails delays only itself. Its time is the database's time after the query. Its position is one of the log's
    before the query, up to which the query sees all changes. Its reach is the log's position after the query.
    """

    database: Database
    settings: TableSettings
    spec: BulkSpec
    schema: Schema = field(init=False)
    repeatable: bool = field(init=False, default=False)
    _rows: TableRows = field(init=False)
    _chunks: Chunks = field(init=False)
    _fetched: dict[str, _Read] = field(init=False, factory=dict)
    _identity: list[str] | None = field(init=False, default=None)
    _uncut: Failure | None = field(init=False, default=None)
    _plans: bool = field(init=False, default=False)
    _probe: tuple[float, str | None] | None = field(init=False, default=None)
    _positions: VisiblePositions = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.schema = self.spec.records.columns
        self._check()
        self._rows = TableRows(self.settings.table, evolve(self.spec.records, schema=self.schema.without(self._asked)))
        self._positions = VisiblePositions(self._position, commits_of(self.database, self.spec.delay))
        self._chunks = Chunks(self._cut, self._attempt, self.settings.chunks_per_epoch)

    def plan(self, after: Offsets | None, watermark: datetime | None) -> OffsetRange | None:  # noqa: ARG002 - the port's
        """The next chunks, which are already read; see `BulkSource.plan`.

        Raises:
            BadInput: the table lacks a declared column, or cannot be read in the order of its key.
            NotInstalled: there is no JDBC driver for the database.
            SourceChanged: the table was made again since the load began, or its key has another order.
        """
        self._fetched.clear()
        self._plans = True
        self._identity = _Reached.of(Progress.of(after).frontier).identity
        return self._chunks.plan(after)

    def read(self, offsets: OffsetRange) -> BulkRows:
        """The rows of a range's chunks; see `BulkSource.read`. A chunk that another process planned is read again.

        Raises:
            SourceUnavailable: the database does not return it.
            SourceChanged: as of `plan`.
        """
        until = Progress.of(offsets.until)
        chunks, self._identity = until.reads, _Reached.of(until.frontier).identity
        frames = [self._with_metadata(at, chunk) for at, chunk in enumerate(chunks)]
        whole = reduce(DataFrame.unionByName, frames)
        return BulkRows(lazy(whole), {chunk.number: self._range(chunk.piece) for chunk in chunks})

    def readable(self, offsets: OffsetRange) -> bool:
        return all(json.dumps(chunk.piece) in self._fetched for chunk in Progress.of(offsets.until).reads)

    def remaining(self, after: Offsets | None) -> tuple[KeyRange, ...]:
        so_far = Progress.of(after)
        ranges = [self._range(chunk.piece) for chunk in so_far.left]
        if not (reached := _Reached.of(so_far.frontier)).is_all:
            ranges.append(self._range([reached.after, None]))
        return merge_ranges(ranges)

    def lag(self, after: Offsets | None) -> str:
        so_far = Progress.of(after)
        if (reached := _Reached.of(so_far.frontier)).is_all:
            return so_far.lag("")
        return so_far.lag(f"rows of {self.settings.table}{f' behind {reached.after}' if reached.after else ''}")

    @property
    def trouble(self) -> tuple[str, ...]:
        uncut = () if self._uncut is None else (f"{_NEXT}: {self._uncut.reason}",)
        return (*self._chunks.trouble, *uncut)

    def find_trouble(self, after: Offsets | None, watermark: datetime | None) -> tuple[str, ...]:  # noqa: ARG002 - the port's
        """See `BulkSource.find_trouble`. No chunk is read; a process that plans chunks asks the database no more."""
        so_far = Progress.of(after)
        is_all = _Reached.of(so_far.frontier).is_all
        waiting = [f"chunk {chunk.number}" for chunk in so_far.left] + ([] if is_all else [_NEXT])
        if self._plans or not waiting:
            return self.trouble
        if problem := self._look():
            return (f"{waiting[0]}: {problem}",)
        return tuple(f"chunk {chunk.number}: {_FAILED}" for chunk in so_far.left)

    def _look(self) -> str | None:
        """Why the table cannot be read; None if it can. The database is asked only after a pause again."""
        now = monotonic()
        if self._probe is None or now - self._probe[0] >= _PROBE_PAUSE:
            self._probe = now, None if self._probe is None else self._probe[1]  # other threads need not wait
            try:
                self.database.columns(self.settings.table)
                found = None
            except HeadwaterError as error:
                found = str(error)
            self._probe = now, found
        return self._probe[1]

    def _check(self) -> None:
        for column in (self.spec.records.columns.select((name,)).columns[0] for name in self.spec.key):
            kind = column.type.name
            if kind not in _KEY_TYPES:
                raise ConfigError(
                    f"a table is read in the order of its key, and column {column.name!r} is a {column.type.ddl};"
                    f" use: {', '.join(sorted(_KEY_TYPES))}"
                )

    @property
    def _asked(self) -> tuple[str, ...]:
        """The position columns that a query on the database returns; empty if the table has them in each row."""
        return self.spec.position if self.settings.position else ()

    def _cut(self, frontier: Frontier) -> tuple[Piece, Frontier] | None:
        """The chunk after a key; see `chunks.Cut`."""
        reached = _Reached.of(frontier)
        if reached.is_all or (self._uncut is not None and self._uncut.pausing()):
            return None
        try:
            self._low()  # while there is none, no chunk can be read, and none need be looked for
            _, key = self._columns()
            last = self.database.nth(self.settings.table, key, reached.after, self.settings.chunk_rows)
        except NotVisible as error:  # the database answers, so it may be asked at each plan
            self._uncut = Failure(str(error))
            return None
        except SourceUnavailable as error:
            self._uncut = Failure.after(self._uncut, str(error))
            return None
        self._uncut = None
        return [reached.after, last], {"after": _END if last is None else last, "identity": self._identity}

    def _attempt(self, piece: Piece) -> tuple[Piece, str | None]:
        """Read a chunk; see `chunks.Try`."""
        try:
            found = self._fetch(piece)
        except SourceUnavailable as error:
            return piece, str(error)
        # The time in the offsets identifies this read, so that no other read is mistaken for it.
        timed_piece = [*piece[:2], found.at.isoformat()]
        self._fetched[json.dumps(timed_piece)] = found
        return timed_piece, None

    def _fetch(self, piece: Piece) -> _Read:
        low = self._low()
        table, (after, until, *_read_at) = self.settings.table, piece
        columns, key = self._columns()
        own = self._rows.names(each.name for each in columns)
        wanted = {own[each.name]: each.type for each in self._rows.spec.schema.columns if each.name in own}
        given = {each: wanted[each.name] for each in columns if each.name in wanted}
        chosen, unread = self.database.chunk(table, given, key, after, until)
        with self.database.translate_errors(f"reading {table}"):
            # Lost rows must not be queried again: they may have changed since.
            kept = chosen.localCheckpoint(eager=True)
        self._columns()  # the table may have been changed meanwhile
        return _Read(self._rows.typed(kept, unread), self.database.now(self.settings.clock), low, self._position())

    def _low(self) -> Position:
        """The position of rows that are queried next; empty if the table has it."""
        return self._positions.newest() if self._asked else ()

    def _position(self) -> Position:
        asked = self.settings.position
        if asked is None or not self.spec.position:
            return ()
        found = self.database.row(asked)
        if found is not None and asked.split(maxsplit=1)[0].lower() == "show":  # its columns cannot be chosen
            found = found[: len(self.spec.position)]
        if found is None or len(found) != len(self.spec.position) or None in found:
            wanted = ", ".join(self.spec.position)
            raise BadInput(f"{asked!r} must give one row with a column for each of the position: {wanted}")
        return tuple(map(str, found))

    def _columns(self) -> tuple[list[DatabaseColumn], tuple[KeyColumn, ...]]:
        """The columns of the table, and those of its key, under their names in the database.

        Raises:
            SourceChanged: the table is not the one whose load has begun, or its key has another order.
        """
        columns = self.database.columns(self.settings.table)
        there = {each.name: each for each in columns}
        own = self._rows.names(there)
        named = [(each.type, there[own[each.name]]) for each in self.schema.select(self.spec.key).columns]
        self._check_same([found for _, found in named])
        return columns, tuple(
            KeyColumn(found.name, kind, found.nullable, found.is_number, found.type) for kind, found in named
        )

    def _check_same(self, key: list[DatabaseColumn]) -> None:
        orders = ["number" if each.is_number else each.order for each in key]
        found = [key[0].table, sha256(json.dumps(orders).encode()).hexdigest()[:12]]
        began = self._identity = self._identity or found
        if found[0] != began[0]:
            raise SourceChanged(
                f"{self.settings.table} is not the table any more whose load has begun: it was dropped and made again,"
                " or (MySQL, MariaDB) altered; load it under another pipeline name"
            )
        if found != began:
            raise SourceChanged(
                f"the key of {self.settings.table} has another order than when its load began: the type, collation or"
                f" list of values of {', '.join(each.name for each in key)} has changed; load the table under another"
                " pipeline name"
            )

    def _range(self, piece: Piece) -> KeyRange:
        """The key range of a chunk; unbounded unless integer, since databases order texts in different ways.

        A bound that is a text is one of a column of texts, or of a dead letter, as is one that its type cannot hold.
        """
        first = self.schema[self.spec.key[0]]
        if first.name not in INTEGERS:
            return KeyRange()
        half = 2 ** (INTEGER_BITS[first.name] - 1)
        bounds = (key[0] if key else None for key in piece[:2])
        low, high = (each if isinstance(each, int) and -half <= each < half else None for each in bounds)
        return KeyRange(low, high)

    def _with_metadata(self, at: int, chunk: Chunk) -> DataFrame:
        """The rows of a chunk, with its number, its time and its positions."""
        known = self._fetched.get(json.dumps(chunk.piece)) or self._fetch(chunk.piece)
        kinds = [spark_type(self.schema[name]) for name in self._asked]
        low, high = (
            {name: F.lit(value).cast(kind) for name, value, kind in zip(self._asked, position, kinds, strict=True)}
            for position in (known.low, known.high)
        )
        reach = [high.get(name, named(name)).alias(reach_of(place)) for place, name in enumerate(self.spec.position)]
        positions = {POSITION: F.col(POSITION) + F.lit(at * CHUNK_POSITIONS)}
        return known.rows.select(
            *(low.get(name, named(name)).alias(name) for name in self.schema.names),
            F.lit(chunk.number).cast("bigint").alias(CHUNK),
            F.lit(known.at).alias(SEARCH_TS),
            *reach,
            *(positions.get(name, F.col(name)).alias(name) for name in BATCH_COLUMNS),
        )
