"""Decodes records into Arrow batches, in the same way for every source and engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec
import narwhals as nw
import pyarrow as pa
from attrs import define, field

from ...domain.epoch.batch import BATCH_COLUMNS
from ...domain.source.changelog.decoding import decoder, of_nothing
from ...domain.source.changelog.message import NO_ROWS, Rows, as_object
from ...domain.source.changelog.settings import CHANGE_FORMATS
from ...domain.source.conversion import Undecodable
from ...domain.source.record_spec import RecordSpec
from ...domain.table.schema import DataType, Schema, column
from .lines import Line, Lines
from .parsing import Parse, parse_json, parser

ROWS_A_BATCH = 10_000

_write_json = msgspec.json.Encoder(decimal_format="number").encode


class Record(NamedTuple):
    """One raw record: its bytes (None: a Kafka tombstone), its position in the batch, and its origin.

    Its rows take `position` and the following numbers. A row takes more than one byte, so the next record must begin
    at least as many positions later as this record has bytes. If `row_kind` is set, only the row of that kind counts.
    """

    raw: bytes | None
    position: int
    origin: str
    row_kind: str | None = None


def to_json(value: Any) -> str:
    """Encode a value as JSON text: decimals as numbers, times as ISO-8601, bytes as Base64."""
    return _write_json(value).decode()


def batch_schema(rows: Schema) -> Schema:
    """The columns of a batch: those of the rows, then `BATCH_COLUMNS`."""
    return rows.plus(*(column(name, ddl) for name, ddl in BATCH_COLUMNS.items()))


@lru_cache
def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type of a column type; timestamps are microseconds in UTC."""
    return nw.Schema({"": type_.narwhals}).to_arrow().field(0).type


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a schema."""
    return pa.schema([(each.name, arrow_type(each.type)) for each in schema.columns])


def take_counts(counts: Counter[str]) -> dict[str, int]:
    """What was counted; counting begins again."""
    taken = dict(counts)
    counts.clear()
    return taken


@define(eq=False)
class RecordDecoder:
    """Decodes records into Arrow batches of `batch_schema`; an undecodable record keeps its bytes and the reason.

    Args:
        spec: the spec of the records.
        parse: parses the bytes of a record; JSON if not set.
        show: makes the text of a record that is not readable itself; None: its bytes are the text.
        passed_over: counts the skipped messages of tables that are not read; see `Tables`.
    """

    spec: RecordSpec
    parse: Parse = field()
    show: Callable[[bytes], bytes] | None = field(default=None)
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
        """Decode records, `ROWS_A_BATCH` at a time."""
        remaining = iter(records)
        for first in remaining:
            yield self.batch(chain((first,), islice(remaining, ROWS_A_BATCH - 1)))

    def batch(self, records: Iterable[Record]) -> pa.RecordBatch:
        lines, rows_of = Lines(self._schema), self._rows_of
        for raw, position, origin, only in records:
            rows: Sequence[Line]
            error = None
            try:
                rows = rows_of(raw) if only is None else _of_kind(rows_of(raw), only)
                if raw and rows and rows[0][2] is not None:
                    _add_each(lines, raw, position, origin, rows)
                    continue
            except (Undecodable, RecursionError) as refusal:
                rows = ((only, self._refused(raw), None),)
                error = "nested too deeply" if isinstance(refusal, RecursionError) else str(refusal)
            if raw and self.show:
                lines.add(self.show(raw), position, origin, rows, error, original=raw)
            else:
                lines.add(raw, position, origin, rows, error)
        return lines.batch()

    def _refused(self, raw: bytes | None) -> list[Any]:
        """The values of a record that cannot be decoded into a row."""
        try:
            return self._nothing if raw is None else self._of_nothing(self.parse(raw))
        except (Undecodable, RecursionError):  # the reason is known already
            return self._nothing

    def _rows_of(self, raw: bytes | None) -> Rows:
        message = None if raw is None else self.parse(raw)
        if message is None and self.spec.format in CHANGE_FORMATS:  # a tombstone, which follows a delete
            return NO_ROWS
        if raw is None:
            raise Undecodable("no value: a tombstone says nothing in plain json")
        return self._rows(message)


def _add_each(lines: Lines, raw: bytes, position: int, origin: str, rows: Sequence[Line]) -> None:
    """Add the rows of a record, each with a raw record that contains only this row.

    Raises:
        Undecodable: a part that decoding skipped is not JSON; no row has been added then.
        RecursionError: the record is nested too deeply; no row has been added then.
    """
    whole = as_object(parse_json(raw), "message")
    texts = [to_json({**whole, **(row[2] or {})}) for row in rows]
    for at, (text, row) in enumerate(zip(texts, rows, strict=True), position):
        lines.add(text.encode(), at, origin, (row,))


def _of_kind(rows: Rows, kind: str) -> Rows:
    """A record's row of one kind; a record without any rows of ours gives none."""
    wanted = [row for row in rows if row[0] == kind]
    if rows and not wanted:
        raise Undecodable(f"read once more, it has no row {kind} any longer: it was {kind} that could not be used")
    return wanted
