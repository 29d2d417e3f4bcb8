"""Arrow rows with types, as rows of a declared schema: types are widened, and what could lose a value is refused."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from ...domain.duration import FIRST_MICRO, LAST_MICRO
from ...domain.epoch.batch import BATCH_COLUMNS, BYTES, ERROR, ORIGIN, RAW
from ...domain.errors import BadInput
from ...domain.source.conversion import shown
from ...domain.source.record_spec import RecordSpec
from ...domain.table.change import POSITION
from ...domain.table.row_kind import INSERT, ROW_KIND
from ...domain.table.schema import Column, DataType
from .column_types import BINARIES, TEXTS, plain_type
from .decoder import arrow_schema, arrow_type
from .nested_arrays import Faults, convert_nested, with_plain_times, with_texts
from .object_texts import object_texts

_BYTES_OF = dict(zip(TEXTS, BINARIES, strict=True))

_A_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}
_RANGE = "(out of range: 0001-01-01 to 9999-12-31 in UTC)"
DAYS = (-719_162, 2_932_896)
"""0001-01-01 and 9999-12-31, in days since 1970-01-01."""


@frozen
class TypedRows:
    """Some rows, decoded.

    Args:
        origin: where they come from.
        first: the position of the first row.
        values: the columns of `RecordSpec.rows`.
        kinds: the row kinds (string); None: all rows are inserted.
        errors: why a row cannot be used (string), null for the others; None: all can be used.
        original: the same rows in their own columns, of which their texts are made.
    """

    origin: str
    first: int
    values: pa.RecordBatch
    kinds: pa.Array | None
    errors: pa.Array | None
    original: pa.RecordBatch

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows with the columns of `Batch.rows`."""
        return self._with(object_texts(self.original))

    @property
    def lean_batch(self) -> pa.RecordBatch:
        """As `batch`, with null for ``_raw`` if all rows can be used."""
        return self.batch if self.errors is not None else self._with(pa.nulls(self.values.num_rows, pa.string()))

    def _with(self, raw: pa.Array) -> pa.RecordBatch:
        count = self.values.num_rows
        more = {
            ROW_KIND: pa.repeat(INSERT, count) if self.kinds is None else self.kinds,
            POSITION: pl.int_range(self.first, self.first + count, eager=True).to_arrow(),
            ORIGIN: pa.repeat(self.origin, count),
            RAW: raw,
            BYTES: pa.nulls(count, pa.binary()),
            ERROR: pa.nulls(count, pa.string()) if self.errors is None else self.errors,
        }
        names = [*self.values.schema.names, *BATCH_COLUMNS]
        return pa.record_batch([*self.values.columns, *(more[name] for name in BATCH_COLUMNS)], names)


def decode_rows(
    rows: pa.RecordBatch, spec: RecordSpec, first: int, *, what: str, origin: str, instants: Collection[str] = ()
) -> TypedRows:
    """Rows in the columns of a schema; the columns have passed `check_columns`.

    Args:
        rows: the rows.
        spec: the spec of the rows.
        first: the position of the first row.
        what: has the rows, for messages.
        origin: where they come from, as dead letters tell it.
        instants: columns of times without a zone that are instants in UTC; none of them is nested.

    Raises:
        BadInput: a time is finer than a microsecond, or a text inside a nested value is not UTF-8.
    """
    rows, errors = _in_utf8(_with_plain_times(rows), what)
    kinds, more = _kinds(rows, spec)
    rows, read, late = _in_range(_in_microseconds(rows, what), spec, instants)
    errors = _either(errors, _either(more, late))
    there, columns = set(rows.schema.names), []
    for each in spec.rows.columns:
        if each.name not in there:
            columns.append(pa.nulls(rows.num_rows, arrow_type(each.type)))
            continue
        values = rows.column(each.name)
        if each.type.is_nested:
            found, late = _nested(values, each, spec, what)
            errors, shown_values = _either(errors, late), found if late is None else with_texts(values)
            read = read.set_column(read.schema.get_field_index(each.name), each.name, shown_values)
            columns.append(found)
        else:
            columns.append(_converted(values, each.type, spec, is_instant=each.name in instants))
    if errors is not None:
        usable = pc.is_null(errors)
        columns = [pc.if_else(usable, column, pa.scalar(None, column.type)) for column in columns]
    values = pa.record_batch(columns, schema=arrow_schema(spec.rows))
    return TypedRows(origin, first, values, kinds, errors, _shown(read))


def _either(errors: pa.Array | None, more: pa.Array | None) -> pa.Array | None:
    return more if errors is None else errors if more is None else pc.coalesce(errors, more)


def _nested(values: pa.Array, column: Column, spec: RecordSpec, what: str) -> tuple[pa.Array, pa.Array | None]:
    """The values of a nested column, and the errors of rows with a time out of range inside, if any."""

    def leaf(inside: pa.Array, kind: DataType) -> tuple[pa.Array, Faults]:
        inside = _micros(inside, column.name, what)
        outside, faults = _outside(inside, spec.time_zone, is_instant=False), dict[int, tuple[str, str]]()
        if outside is not None:
            texts = inside.cast(pa.string()).to_pylist()
            late = (at for at, is_late in enumerate(outside.to_pylist()) if is_late)
            faults = {at: ("", f"{kind.ddl} wanted, not {shown(texts[at])} {_RANGE}") for at in late}
            inside = pc.if_else(outside, pa.scalar(None, inside.type), inside)
        return _converted(inside, kind, spec, is_instant=False), faults

    found, faults = convert_nested(values, column.type, leaf)
    if not faults:
        return found, None
    errors: list[str | None] = [None] * len(values)
    for row, (place, why) in faults.items():
        errors[row] = f"column {column.name + place!r}: {why}"
    return found, pa.array(errors, pa.string())


def _in_utf8(rows: pa.RecordBatch, what: str) -> tuple[pa.RecordBatch, pa.Array | None]:
    """The rows with escapes for bytes that are not UTF-8, and the errors of their rows, if any."""
    errors = None
    for at, each in enumerate(rows.schema):
        try:
            rows.column(at).validate(full=True)
        except pa.ArrowInvalid as error:
            if each.type not in TEXTS and plain_type(each.type) not in TEXTS:
                raise BadInput(f"{what}: column {each.name!r} has values that are damaged: {error}") from error
            texts, found = _escaped(rows.column(at), each.name)
            rows, errors = rows.set_column(at, each.name, texts), _either(errors, found)
    return rows, errors


def _escaped(values: pa.Array, name: str) -> tuple[pa.Array, pa.Array]:
    """Texts, with escapes for bytes that are not UTF-8, and the errors of those."""
    if pa.types.is_dictionary(values.type):
        values = pc.take(values.dictionary.view(_BYTES_OF[values.type.value_type]), values.indices)
    else:
        values = values.view(_BYTES_OF[values.type])
    texts: list[str | None] = []
    errors: list[str | None] = []
    for value in values.to_pylist():
        text = None if value is None else value.decode(errors="backslashreplace")
        is_text = text is None or text.encode() == value
        texts.append(text)
        errors.append(None if is_text else f"column {name!r}: string wanted, not {shown(text)} (not UTF-8)")
    return pa.array(texts, pa.string()), pa.array(errors, pa.string())


def _in_range(
    rows: pa.RecordBatch, spec: RecordSpec, instants: Collection[str]
) -> tuple[pa.RecordBatch, pa.RecordBatch, pa.Array | None]:
    """The rows with null for times out of range, the rows with these columns as text, and the errors, if any."""
    inside = texts = rows
    errors = None
    for each in rows.schema:
        at, values = rows.schema.get_field_index(each.name), rows.column(each.name)
        outside = _outside(values, spec.time_zone, is_instant=each.name in instants)
        if outside is not None:
            text = values.cast(pa.string())
            found = pa.array(_out_of_range(each.name, spec, text, outside), pa.string())
            errors = _either(errors, found)
            inside = inside.set_column(at, each.name, pc.if_else(outside, pa.scalar(None, each.type), values))
            texts = texts.set_column(at, each.name, text)
    return inside, texts, errors


def _outside(values: pa.Array, zone: str, *, is_instant: bool) -> pa.Array | None:
    """A mask of the times outside the years 1 to 9999 in UTC, which Python cannot hold; None if all are inside."""
    if pa.types.is_date32(values.type):
        return _beyond(values.cast(pa.int32()), *DAYS)
    if not pa.types.is_timestamp(values.type):
        return None
    numbers, a_second = values.cast(pa.int64()), _A_SECOND[values.type.unit]
    low, high = FIRST_MICRO // 1_000_000 * a_second, (LAST_MICRO // 1_000_000 + 1) * a_second - 1
    if values.type.tz is not None or is_instant or zone == "UTC":
        return _beyond(numbers, low, high)
    near = _beyond(numbers, low + 2 * 86_400 * a_second, high - 2 * 86_400 * a_second)
    if near is None:
        return None
    found = zip(values, numbers.to_pylist(), near.to_pylist(), strict=True)
    return pa.array([doubtful and not (low <= at <= high and _has_instant(wall, zone)) for wall, at, doubtful in found])


def _beyond(numbers: pa.Array, low: int, high: int) -> pa.Array | None:
    found = pc.min_max(numbers).as_py()
    if found["min"] is None or (low <= found["min"] and found["max"] <= high):
        return None
    return pc.fill_null(pc.or_(pc.less(numbers, low), pc.greater(numbers, high)), fill_value=False)


def _has_instant(wall: pa.Scalar, zone: str) -> bool:
    try:
        wall.as_py().replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    except OverflowError:
        return False
    return True


def _out_of_range(name: str, spec: RecordSpec, texts: pa.Array, outside: pa.Array) -> list[str | None]:
    wanted = next((each.type.ddl for each in spec.schema.columns if each.name == name), "timestamp")
    why = f"column {name!r}: {wanted} wanted, not {{}} {_RANGE}"
    pairs = zip(texts.to_pylist(), outside.to_pylist(), strict=True)
    return [why.format(shown(text)) if late else None for text, late in pairs]


def _shown(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with instants as ISO-8601 text: ten times as fast as through Python's times with a zone."""
    for at, each in enumerate(rows.schema):
        if pa.types.is_timestamp(each.type) and each.type.tz is not None:
            text = pc.replace_substring(rows.column(at).cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
            rows = rows.set_column(at, each.name, pc.binary_join_element_wise(text, "Z", ""))
    return rows


def _kinds(rows: pa.RecordBatch, spec: RecordSpec) -> tuple[pa.Array | None, pa.Array | None]:
    """The row kind of each row, if they have some, and the errors of rows without one, if any."""
    if spec.row_kind is None:
        return None, None
    words = rows.column(spec.row_kind).to_pylist()
    kinds, why = list(map(spec.row_kinds.of, words)), spec.row_kinds.refusal(spec.row_kind)
    errors = [None if kind else why + shown(word) for word, kind in zip(words, kinds, strict=True)]
    return pa.array(kinds, pa.string()), pa.array(errors, pa.string()) if any(errors) else None


def _with_plain_times(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with times that are not in dictionaries: the range and the unit of each one are checked."""
    for at, each in enumerate(rows.schema):
        if (plain := with_plain_times(rows.column(at))).type != each.type:
            rows = rows.set_column(at, each.name, plain)
    return rows


def _in_microseconds(rows: pa.RecordBatch, what: str) -> pa.RecordBatch:
    """The rows with all times in microseconds, the precision of tables."""
    for at, each in enumerate(rows.schema):
        if pa.types.is_timestamp(each.type) and each.type.unit == "ns":
            rows = rows.set_column(at, each.name, _micros(rows.column(at), each.name, what))
    return rows


def _micros(values: pa.Array, name: str, what: str) -> pa.Array:
    """Values, in microseconds if they are times in nanoseconds."""
    if not (pa.types.is_timestamp(values.type) and values.type.unit == "ns"):
        return values
    try:
        return values.cast(pa.timestamp("us", values.type.tz))
    except pa.ArrowInvalid as error:
        raise BadInput(
            f"{what}: column {name!r} has times finer than a microsecond: {error}; round them first"
        ) from error


def _converted(values: pa.Array, kind: DataType, spec: RecordSpec, *, is_instant: bool) -> pa.Array:
    if kind.name == "timestamp" and pa.types.is_timestamp(values.type) and values.type.tz is None and not is_instant:
        return _in_zone(values, spec.time_zone)
    return values.cast(arrow_type(kind))


def _in_zone(values: pa.Array, zone: str) -> pa.Array:
    """The instants of wall times: the earlier one if there are two; in a gap, by the offset before it."""
    if zone == "UTC":
        return values.cast(pa.timestamp("us", "UTC"))
    tz: Any = ZoneInfo(zone)
    instants: list[datetime | None] = [each and each.replace(tzinfo=tz).astimezone(UTC) for each in values.to_pylist()]
    return pa.array(instants, pa.timestamp("us", "UTC"))
