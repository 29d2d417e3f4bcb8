"""A table of a database to be loaded in bulk: chunks by ranges of its key, each read by one query, as Spark frames."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen
from pyspark.sql import functions as F

from ...domain.bulk import CHUNK, SEARCH_TS, BulkSpec, KeyRange, merged, reach_of
from ...domain.epoch import BATCH_COLUMNS, POSITION
from ...domain.errors import BadInput, ConfigError, SourceUnavailable
from ...domain.ports import BulkSource
from ...domain.schema import INTEGERS
from ..chunks import CHUNK_POSITIONS, Chunks, Progress
from ..spark.schema import lazy, named, spark_type
from ..spark.table_rows import TableRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import narwhals as nw
    from pyspark.sql import Column, DataFrame

    from ...domain.epoch import OffsetRange, Offsets
    from ...domain.schema import Column as TableColumn
    from ...domain.schema import Schema
    from ..chunks import Chunk, Frontier, Piece
    from .database import Database, Key

_END = "end"
"""The frontier behind the last chunk, which has no bound above."""
_WALKED = INTEGERS | {"decimal", "date", "string"}
_BACKSLASHES = ("mysql", "mariadb")


@frozen
class TableSettings:
    """What is read of a database, and how much at once.

    Args:
        table: its name with its schema, each part as the database has it.
        clock: a statement that asks the database for the time; None: its usual one.
        position: a statement that asks it how far its log has come, one column for each of the changelog's position.
        chunk_rows: so many rows make a chunk.
        chunks_per_epoch: at most so many chunks make an epoch.
    """

    table: str
    clock: str | None = None
    position: str | None = None
    chunk_rows: int = 1_000_000
    chunks_per_epoch: int = 1


@frozen(eq=False)
class _Read:
    """A chunk that was read: its rows, when at the latest, and where the log stood before and after."""

    rows: DataFrame
    at: datetime
    low: tuple[str, ...]
    high: tuple[str, ...]


@define(eq=False)
class JdbcBulk(BulkSource):
    """A table that goes on changing while it is read.

    A chunk is read whole when it is planned, and kept for its epoch: one that the database does not give holds nothing
    up but itself, and no query is made twice. Its moment is the database's own time after the query, its position
    where the log stood before, and it reaches to where that stood after.

    Args:
        database: where the table is.
        settings: what is read of it.
        spec: the rows wanted.
    """

    database: Database
    settings: TableSettings
    spec: BulkSpec
    schema: Schema = field(init=False)
    repeatable: bool = field(init=False, default=False)
    _rows: TableRows = field(init=False)
    _chunks: Chunks = field(init=False)
    _fetched: dict[str, _Read] = field(init=False, factory=dict)
    _key: tuple[TableColumn, ...] | None = field(init=False, default=None)
    _uncut: str | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.schema = self.spec.records.columns
        self._check()
        self._rows = TableRows(self.settings.table, evolve(self.spec.records, schema=self.schema.without(self._asked)))
        self._chunks = Chunks(self._cut, self._attempt, self.settings.chunks_per_epoch)

    def plan(self, after: Offsets | None, watermark: datetime | None) -> OffsetRange | None:  # noqa: ARG002 - the port's
        """The next chunks, read already; see `BulkSource.plan`.

        Raises:
            BadInput: the table lacks a declared column.
            NotInstalled: there is no driver for the database.
        """
        self._fetched.clear()
        return self._chunks.plan(after)

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of a range's chunks; see `BulkSource.read`. One that another process planned is read anew.

        Raises:
            SourceUnavailable: the database does not give it.
        """
        frames = [self._told(at, chunk) for at, chunk in enumerate(Progress.of(offsets.until).reads)]
        whole = frames[0]
        for each in frames[1:]:
            whole = whole.unionByName(each)
        return lazy(whole)

    def readable(self, offsets: OffsetRange) -> bool:
        return all(json.dumps(chunk.piece) in self._fetched for chunk in Progress.of(offsets.until).reads)

    def remaining(self, after: Offsets | None) -> tuple[KeyRange, ...]:
        so_far = Progress.of(after)
        ranges = [self._range(chunk.piece) for chunk in so_far.left]
        if so_far.frontier != _END:
            ranges.append(self._range([so_far.frontier, None]))
        return merged(ranges)

    def ranges(self, offsets: OffsetRange) -> Mapping[int, KeyRange]:
        return {chunk.number: self._range(chunk.piece) for chunk in Progress.of(offsets.until).reads}

    def lag(self, after: Offsets | None) -> str:
        so_far = Progress.of(after)
        failed = f"{len(so_far.left)} failed" if so_far.left else ""
        if so_far.frontier == _END:
            return failed
        more = f"rows of {self.settings.table}{f' behind {so_far.frontier}' if so_far.frontier else ''}"
        return ", ".join(filter(None, (more, failed)))

    def trouble(self) -> tuple[str, ...]:
        uncut = () if self._uncut is None else (f"the next chunk: {self._uncut}",)
        return (*self._chunks.trouble, *uncut)

    def _check(self) -> None:
        for column in (self.spec.records.columns.select((name,)).columns[0] for name in self.spec.key):
            kind = column.type.name
            if kind not in _WALKED:
                raise ConfigError(
                    f"a table is walked along its key, and column {column.name!r} is a {column.type.ddl}; use:"
                    f" {', '.join(sorted(_WALKED))}"
                )
            if kind == "string" and self.database.settings.kind in _BACKSLASHES:
                raise ConfigError(
                    f"key column {column.name!r} is a string, whose backslashes MySQL reads as its own; write the table"
                    " to Parquet files, and load those"
                )

    @property
    def _asked(self) -> tuple[str, ...]:
        """The columns of the position that the database is asked for; else the table has them, row by row."""
        return self.spec.position if self.settings.position else ()

    def _cut(self, frontier: Frontier) -> tuple[Piece, Frontier] | None:
        """The chunk behind a key; see `chunks.Cut`."""
        if frontier == _END:
            return None
        try:
            key = self._key_columns()
            last = self.database.nth(self.settings.table, key, frontier, self.settings.chunk_rows)
        except SourceUnavailable as error:
            self._uncut = str(error)
            return None
        self._uncut = None
        return [frontier, last], _END if last is None else last

    def _attempt(self, piece: Piece) -> tuple[Piece, str | None]:
        """Read a chunk; see `chunks.Try`."""
        try:
            found = self._fetch(piece)
        except SourceUnavailable as error:
            return piece, str(error)
        # Offsets that tell the moment are those of this read alone, so that no other read is taken for it.
        told = [*piece[:2], found.at.isoformat()]
        self._fetched[json.dumps(told)] = found
        return told, None

    def _fetch(self, piece: Piece) -> _Read:
        low = self._position()
        rows = self.database.table(self.settings.table)
        with self.database.explained(f"reading {self.settings.table}"):
            chosen = rows.filter(condition) if (condition := self._within(rows, piece)) is not None else rows
            wanted = chosen.select(*map(named, self._rows.names(rows.columns).values()))
            # Rows that were lost must not be asked for once more: by then they are others.
            kept = wanted.localCheckpoint(eager=True)
        return _Read(self._rows.typed(kept), self.database.now(self.settings.clock), low, self._position())

    def _within(self, rows: DataFrame, piece: Piece) -> Column | None:
        """The condition for a chunk's keys, in the table's own types, so that the database itself can look for them."""
        after, until, *_read_at = piece
        own = [column.name for column in self._key_columns()]
        types = {each.name: each.dataType for each in rows.schema.fields}
        columns = [named(name) for name in own]

        def bound(key: Key) -> list[Column]:
            return [F.lit(value).cast(types[name]) for name, value in zip(own, key, strict=True)]

        low = None if after is None else _behind(columns, bound(after))
        high = None if until is None else ~_behind(columns, bound(until))
        if low is None or high is None:
            return high if low is None else low
        return low & high

    def _position(self) -> tuple[str, ...]:
        asked = self.settings.position
        if asked is None or not self.spec.position:
            return ()
        found = self.database.row(asked)
        if found is None or len(found) != len(self.spec.position) or None in found:
            wanted = ", ".join(self.spec.position)
            raise BadInput(f"{asked!r} must give one row with a column for each of the position: {wanted}")
        return tuple(map(str, found))

    def _key_columns(self) -> tuple[TableColumn, ...]:
        """The key's columns, as the database names them."""
        if self._key is None:
            own = self._rows.names(self.database.table(self.settings.table).columns)
            declared = self.schema.select(self.spec.key).columns
            self._key = tuple(evolve(each, name=own[each.name]) for each in declared)
        return self._key

    def _range(self, piece: Piece) -> KeyRange:
        """What a chunk may hold; a text is not bounded, since databases order texts in their own ways."""
        first = self.schema[self.spec.key[0]]
        if first.name not in INTEGERS:
            return KeyRange()
        low, high = (None if key is None else key[0] for key in piece[:2])
        return KeyRange(low, high)

    def _told(self, at: int, chunk: Chunk) -> DataFrame:
        """The rows of a chunk, with what is known of them all."""
        known = self._fetched.get(json.dumps(chunk.piece)) or self._fetch(chunk.piece)
        kinds = [spark_type(self.schema[name]) for name in self._asked]
        low, high = (
            {name: F.lit(value).cast(kind) for name, value, kind in zip(self._asked, told, kinds, strict=True)}
            for told in (known.low, known.high)
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


def _behind(columns: Sequence[Column], key: Sequence[Column]) -> Column:
    """Whether a row's key lies behind another, column by column."""
    *first, last = zip(columns, key, strict=True)
    beyond = last[0] > last[1]
    for column, value in reversed(first):
        beyond = (column > value) | ((column == value) & beyond)
    return beyond
