"""Records to Arrow: bytes in, the columns of a batch out, alike for every source and every engine."""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa
from attrs import define, field

from ..domain.changelog.decoding import decoder, of_nothing
from ..domain.changelog.images import NO_ROWS, as_object
from ..domain.changelog.settings import CHANGE_FORMATS
from ..domain.decode import Undecodable
from ..domain.epoch import BATCH_COLUMNS
from ..domain.schema import DataType, Schema, column
from .lines import Lines
from .parsing import Parse, parse_json, parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..domain.changelog.images import Rows
    from ..domain.source import RecordSpec
    from .lines import Line

ROWS_A_BATCH = 10_000

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
        passed_over: counts the messages of tables that are not read; see `Tables`.
    """

    spec: RecordSpec
    parse: Parse = field()
    passed_over: Counter[str] = field(factory=Counter)
    _rows: Callable[[object], Rows] = field(init=False)
    _nothing: list[None] = field(init=False)
    _of_nothing: Callable[[object], list[Any]] = field(init=False)
    _schema: pa.Schema = field(init=False)

    @parse.default
    def _json(self) -> Parse:
        return parser(self.spec)

    def __attrs_post_init__(self) -> None:
        self._rows = decoder(self.spec, to_json, self.passed_over)
        self._nothing = [None] * len(self.spec.rows.columns)
        self._of_nothing = of_nothing(self.spec, to_json)
        self._schema = arrow_schema(batch_schema(self.spec.rows))

    def batches(self, records: Iterable[Record]) -> Iterator[pa.RecordBatch]:
        """Decode records, some thousands at a time."""
        remaining = iter(records)
        for first in remaining:
            yield self.batch(chain((first,), islice(remaining, ROWS_A_BATCH - 1)))

    def batch(self, records: Iterable[Record]) -> pa.RecordBatch:
        """Decode records into one batch."""
        lines, rows_of = Lines(self._schema), self._rows_of
        for raw, position, origin, only in records:
            rows: Sequence[Line]
            error = None
            try:
                rows = rows_of(raw) if only is None else _of_kind(rows_of(raw), only)
                if raw and rows and rows[0][2] is not None:
                    _add_each(lines, raw, position, origin, rows)
                    continue
            except Undecodable as refusal:
                rows, error = ((only, self._refused(raw), None),), str(refusal)
            lines.add(raw, position, origin, rows, error)
        return lines.batch()

    def _refused(self, raw: bytes | None) -> list[Any]:
        """The values of a record that no row can be made of."""
        try:
            return self._nothing if raw is None else self._of_nothing(self.parse(raw))
        except Undecodable:  # whose reason is told already
            return self._nothing

    def _rows_of(self, raw: bytes | None) -> Rows:
        return self._without_value() if raw is None else self._rows(self.parse(raw))

    def _without_value(self) -> Rows:
        if self.spec.format in CHANGE_FORMATS:  # it follows a delete, for Kafka's compaction
            return NO_ROWS
        raise Undecodable("no value: a tombstone says nothing in plain json")


def _add_each(lines: Lines, raw: bytes, position: int, origin: str, rows: Sequence[Line]) -> None:
    """Add the rows of a record, each shown as a record that says nothing of the others.

    Raises:
        Undecodable: what decoding passed over is no JSON; no row has been added then.
    """
    whole = as_object(parse_json(raw), "message")
    for at, row in enumerate(rows, position):
        lines.add(to_json({**whole, **(row[2] or {})}).encode(), at, origin, (row,))


def _of_kind(rows: Rows, kind: str) -> Rows:
    """A record's row of one kind; a record that has become none of ours has no rows at all."""
    wanted = [row for row in rows if row[0] == kind]
    if rows and not wanted:
        raise Undecodable(f"read once more, it has no row {kind} any longer: it was {kind} that could not be used")
    return wanted
