"""An example source for Headwater: the JSON records of an outbox, a SQLite table to which a program appends.

The table is ``CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT)``. SQLite has one writer at a time,
so rows are committed in the order of their ids. The last id that was read is thus all that must be remembered.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import narwhals as nw
import pyarrow as pa
from attrs import define, frozen

from headwater.adapters.records.dead_letters import JsonDeadLetters
from headwater.adapters.records.decoder import Record, RecordDecoder, batch_schema
from headwater.adapters.records.polars_rows import polars_dead_letters, polars_rows
from headwater.app.deployment.deployment import Input
from headwater.app.document.section import Section
from headwater.app.document.value_types import PATH, TEXT, Key, whole
from headwater.app.registry.sources import SourceKind
from headwater.domain.epoch.epoch import OffsetRange, Offsets
from headwater.domain.errors import SourceChanged, SourceUnavailable
from headwater.domain.ports import Now, StreamSource
from headwater.domain.source.record_spec import JSON_FORMATS, RecordSpec


@frozen
class OutboxInput(Input):
    """The settings of an outbox: its database, its table, and how many rows an epoch may read."""

    kind = "outbox"
    path: str
    table: str
    rows_per_epoch: int

    def select(self, what: str, *values: int) -> list[Any]:
        """The rows of a query, each with its own connection: a worker of Spark may run it."""
        try:
            with closing(sqlite3.connect(f"{Path(self.path).as_uri()}?mode=ro", uri=True)) as database:
                return database.execute(what.format(table=f'"{self.table}"'), values).fetchall()
        except sqlite3.OperationalError as error:
            raise SourceUnavailable(f"{self.path}: cannot read table {self.table}: {error}") from error


class OutboxKind(SourceKind[OutboxInput]):
    """``kind = "outbox"``."""

    formats = JSON_FORMATS
    keys: ClassVar[Mapping[str, Key]] = {
        "path": Key(PATH, required=True),
        "table": Key(TEXT, "outbox"),
        "rows_per_epoch": Key(whole(1), 10_000),
    }

    def parse(self, table: Section) -> OutboxInput:
        return OutboxInput(table.resolve(table["path"]), table["table"], table["rows_per_epoch"])

    def open_polars(self, settings: OutboxInput, records: RecordSpec, backend: str) -> StreamSource:
        return PolarsOutbox(settings, records)

    def open_spark(self, settings: OutboxInput, records: RecordSpec, session: Any, backend: str) -> StreamSource:
        return SparkOutbox(settings, records, session)


@frozen
class Reader:
    """Decodes the rows of a range; called with the batches of a Spark partition, or with one empty one for Polars."""

    outbox: OutboxInput
    spec: RecordSpec
    offsets: OffsetRange

    def __call__(self, parts: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        for _ in parts:
            yield from RecordDecoder(self.spec).batches(self._records())

    def _records(self) -> Iterator[Record]:
        after, until = _id(self.offsets.after), _id(self.offsets.until)
        query = "SELECT id, CAST(body AS BLOB) FROM {table} WHERE id > ? AND id <= ? ORDER BY id"
        rows, position = self.outbox.select(query, after, until), 0
        if len(rows) != self.offsets.until["rows"]:
            raise SourceChanged(f"{self.outbox.path}: rows {after + 1} to {until} have changed; put them back")
        for id_, body in rows:
            yield Record(body, position, f"{self.outbox.table}@{id_}")
            position += len(body or b"") + 1


def _id(offsets: Offsets | None) -> int:
    return int(offsets["id"]) if offsets else 0


@define(eq=False)
class OutboxSource(StreamSource):
    """An outbox as a stream; engines add `read` and `reread`."""

    outbox: OutboxInput
    spec: RecordSpec

    def __attrs_post_init__(self) -> None:
        self.schema, self.format, self.reread_formats = self.spec.rows, self.spec.format, self.spec.reread_formats

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:
        query = "SELECT id FROM {table} WHERE id > ? ORDER BY id LIMIT ?"
        rows = self.outbox.select(query, _id(after), self.outbox.rows_per_epoch)
        return OffsetRange(after, {"id": rows[-1][0], "rows": len(rows)}) if rows else None

    def end(self) -> Offsets | None:
        ((last,),) = self.outbox.select("SELECT max(id) FROM {table}")
        return None if last is None else {"id": last, "rows": 0}

    def lag(self, after: Offsets | None) -> str:
        ((count,),) = self.outbox.select("SELECT count(*) FROM {table} WHERE id > ?", _id(after))
        return f"{count} rows"


class PolarsOutbox(OutboxSource):
    """An outbox as Polars frames."""

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        return polars_rows(Reader(self.outbox, self.spec, offsets)([None]), self.schema)

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return polars_dead_letters(letters, JsonDeadLetters(self.spec), self.schema)


@define(eq=False)
class SparkOutbox(OutboxSource):
    """An outbox as Spark frames: one worker reads a range."""

    session: Any

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        from headwater.adapters.spark.arrow_map import map_in_arrow

        reader = Reader(self.outbox, self.spec, offsets)
        return nw.from_native(map_in_arrow(self.session.range(0, 1, 1, 1), reader, batch_schema(self.schema)))

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        from headwater.adapters.spark.dead_letters import spark_dead_letters

        return spark_dead_letters(letters, JsonDeadLetters(self.spec), self.schema)
