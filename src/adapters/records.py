"""Records to Arrow: bytes in, the columns of a batch out, alike for every source and every engine."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa
from attrs import define, field

from ..domain.changelog.decoding import decoder
from ..domain.changelog.images import NO_ROWS
from ..domain.changelog.settings import CHANGE_FORMATS
from ..domain.decode import Undecodable
from ..domain.epoch import BATCH_COLUMNS
from ..domain.schema import DataType, Schema, column
from .parsing import Parse, parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..domain.changelog.images import Rows
    from ..domain.source import RecordSpec

ROWS_A_BATCH = 10_000
_ROWS_A_TURN = 100

_ARROW: dict[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_write_json = msgspec.json.Encoder(decimal_format="number").encode


class Record(NamedTuple):
    """One record as it came: its bytes (None: Kafka's tombstone), its place in the batch, and where it is from.

    Its rows take `position` and the numbers after it, so no other record may begin among as many numbers as this one
    has bytes: a row takes more than one. Where `row_kind` is given, only its row of that kind is wanted.
    """

    raw: bytes | None
    position: int
    origin: str
    row_kind: str | None = None


def to_json(value: Any) -> str:
    """Write a value as JSON text; decimals as numbers, times as ISO-8601, bytes as base64."""
    return _write_json(value).decode()


def batch_schema(rows: Schema) -> Schema:
    """The columns of a batch: those of the rows, then `BATCH_COLUMNS`."""
    return rows.plus(*(column(name, ddl) for name, ddl in BATCH_COLUMNS.items()))


def arrow_type(type_: DataType) -> pa.DataType:
    """A column type as Arrow names it; timestamps are microseconds in UTC."""
    return pa.decimal128(type_.precision, type_.scale) if type_.name == "decimal" else _ARROW[type_.name]


def arrow_schema(schema: Schema) -> pa.Schema:
    """A schema as Arrow names it."""
    return pa.schema([(each.name, arrow_type(each.type)) for each in schema.columns])


@define(eq=False)
class RecordDecoder:
    """Decodes records into Arrow batches of `batch_schema`; what cannot be decoded keeps its bytes and the reason.

    Args:
        spec: what the records hold.
        parse: takes the bytes of a record apart; JSON, if not given.
    """

    spec: RecordSpec
    parse: Parse = field()
    _rows: Callable[[object], Rows] = field(init=False)
    _nothing: list[None] = field(init=False)
    _schema: pa.Schema = field(init=False)

    @parse.default
    def _json(self) -> Parse:
        return parser(self.spec.format)

    def __attrs_post_init__(self) -> None:
        self._rows = decoder(self.spec, to_json)
        self._nothing = [None] * len(self.spec.rows.columns)
        self._schema = arrow_schema(batch_schema(self.spec.rows))

    def batches(self, records: Iterable[Record]) -> Iterator[pa.RecordBatch]:
        """Decode records, some thousands at a time."""
        remaining = iter(records)
        for first in remaining:
            yield self.batch(chain((first,), islice(remaining, ROWS_A_BATCH - 1)))

    def batch(self, records: Iterable[Record]) -> pa.RecordBatch:
        """Decode records into one batch."""
        columns: list[list[Any]] = [[] for _ in self._schema]
        lines = self._lines(records)
        # Rows that wait in thousands to become columns make the garbage collector a third of the cost.
        while some := list(islice(lines, _ROWS_A_TURN)):
            for values, more in zip(columns, zip(*some, strict=True), strict=True):
                values.extend(more)
        arrays = [pa.array(values, each.type) for values, each in zip(columns, self._schema, strict=True)]
        return pa.record_batch(arrays, schema=self._schema)

    def _lines(self, records: Iterable[Record]) -> Iterator[tuple[Any, ...]]:
        """The values of each row, then what `BATCH_COLUMNS` say."""
        parse, decoded = self.parse, self._rows
        for record in records:
            at, origin, only = record.position, record.origin, record.row_kind
            raw, original = _visible(record.raw)
            try:
                rows = self._without_value() if record.raw is None else decoded(parse(record.raw))
                rows = rows if only is None else _of_kind(rows, only)
            except Undecodable as error:
                yield *self._nothing, only, at, origin, raw, original, str(error)
                continue
            for position, (kind, values, alone) in enumerate(rows, at):
                shown = (raw, original) if alone is None else (to_json(alone), None)
                yield *values, kind, position, origin, *shown, None

    def _without_value(self) -> Rows:
        if self.spec.format in CHANGE_FORMATS:  # it follows a delete, for Kafka's compaction
            return NO_ROWS
        raise Undecodable("no value: a tombstone says nothing in plain json")


def _visible(raw: bytes | None) -> tuple[str | None, bytes | None]:
    """The record as text; and as it is, where the text shows bytes that are no UTF-8 as backslash escapes."""
    if raw is None:
        return None, None
    try:
        return raw.decode(), None
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace"), raw


def _of_kind(rows: Rows, kind: str) -> Rows:
    """A record's row of one kind; a record that has become none of ours has no rows at all."""
    wanted = [row for row in rows if row[0] == kind]
    if rows and not wanted:
        raise Undecodable(f"read once more, it has no row {kind} any longer: it was {kind} that could not be used")
    return wanted
