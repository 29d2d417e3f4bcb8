"""A frame that a program hands over, as an Arrow table.

Arrow gives each column one type. Columns of Python's values (dtype object of pandas) are checked before: Arrow would
take the zone, the time of day or the nanoseconds from some values without a word.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
from narwhals.exceptions import DuplicateError

from ...domain.errors import BadInput
from ...domain.source.conversion import shown
from ...domain.table.schema import INTEGERS, Column, DataType, Schema
from .program_frames import WHAT, collect

_TIMES = {"timestamp", "timestamp_ntz", "date"}
_NOT_OF_ARROW = (pa.ArrowException, TypeError, OverflowError, UnicodeError)
"""What PyArrow raises for columns of pandas and Polars."""
_LAST_WHOLE = 2.0**53 - 1
"""Greater doubles may stand for several whole numbers."""
_MANY_DIGITS = 38
"""The precision of Polars' decimals if the program gives none: it says nothing about the values."""


def arrow_table(rows: Any, declared: Schema) -> pa.Table:
    """A frame as an Arrow table: its declared columns if they are all there, else all columns.

    Raises:
        BadInput: it is not a frame, cannot be computed, or Arrow would change its values or cannot hold them.
    """
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    table = rows if isinstance(rows, pa.Table) else _converted(_eager(rows), declared)
    return _with_declared_digits(table, declared)


def _eager(rows: Any) -> nw.DataFrame[Any]:
    try:
        frame = nw.from_native(rows)
    except DuplicateError as error:
        raise BadInput(f"{WHAT}: {' '.join(str(error).split())}; give each column a name of its own") from error
    except TypeError as error:
        if isinstance(rows, pa.RecordBatchReader):
            raise BadInput(
                f"{WHAT} is a RecordBatchReader, which can be read only once, so a push that fails could not be"
                " repeated; push a table: its `.read_all()`"
            ) from error
        raise BadInput(
            f"{WHAT} is {type(rows).__name__!r}; push a frame of Polars, pandas, PyArrow or Spark"
        ) from error
    return collect(frame) if isinstance(frame, nw.LazyFrame) else frame


def _converted(frame: nw.DataFrame[Any], declared: Schema) -> pa.Table:
    frame = frame.select(*declared.names) if set(declared.names).issubset(frame.columns) else frame
    is_of_pandas = frame.implementation.is_pandas_like()
    if is_of_pandas:
        _check_times(frame, declared)
    try:
        table = frame.to_arrow()
    except _NOT_OF_ARROW as error:
        raise BadInput(
            f"{WHAT} has a column that Arrow cannot hold: {_fault(frame) or error}; give it values of one type, and"
            " make sparse columns of pandas dense"
        ) from error
    return _without_doubles(table, declared) if is_of_pandas else table


def _without_doubles(table: pa.Table, declared: Schema) -> pa.Table:
    """A table of pandas with nulls for floating-point columns without a value: they say nothing about their type.

    Raises:
        BadInput: a column of whole numbers has become one of doubles, as one of them is missing.
    """
    for at, found in enumerate(table.schema):
        if pa.types.is_floating(found.type):
            if table.column(at).null_count == table.num_rows:
                table = table.set_column(at, found.name, pa.nulls(table.num_rows))
            elif found.name in declared and declared[found.name].name in INTEGERS:
                _check_not_whole(table.column(at), found.name, declared)
    return table


def _check_not_whole(values: pa.ChunkedArray, name: str, declared: Schema) -> None:
    """Check floating-point values that are declared as integers."""
    values = values.cast(pa.float64())  # Arrow cannot round half floats
    if pc.all(pc.and_(pc.is_finite(values), pc.equal(values, pc.floor(values)))).as_py():
        lost = pc.max(pc.abs(values)).as_py() > _LAST_WHOLE
        where = "where it is read or made, as such large numbers have lost digits" if lost else "before the push"
        raise BadInput(
            f"{WHAT}: column {name!r} is double, which {declared[name].ddl} cannot hold without loss; its numbers are"
            f' whole, and pandas makes doubles of them if one is missing: give the column the type "Int64" {where}'
        )


def _fault(frame: nw.DataFrame[Any]) -> str | None:
    """The first column that Arrow cannot hold, with the row if a single value is at fault, and why; None if none is."""
    for name in frame.columns:
        try:
            frame.select(name).to_arrow()
        except _NOT_OF_ARROW as error:
            for row, value in enumerate(frame[name].to_list()):
                try:
                    pa.array([value], from_pandas=True)
                except _NOT_OF_ARROW as fault:
                    return f"column {name!r} has {shown(value)} in row {row} (counted from 0): {fault}"
            return f"column {name!r}: {error}"
    return None


def _check_times(frame: nw.DataFrame[Any], declared: Schema) -> None:
    """Check the columns of Python's values that are declared with times or dates.

    Raises:
        BadInput: one has times with and without a zone, times and dates, or times finer than a microsecond.
    """
    for each in declared.columns:
        is_timed = any(kind.name in _TIMES for _, kind in each.type.leaves())
        if is_timed and each.name in frame.columns and frame[each.name].to_native().dtype.kind == "O":
            values = enumerate(frame[each.name].to_list())
            places: Mapping[str, Iterable[tuple[int, Any]]] = {each.name: values}
            if each.type.is_nested:
                places = _by_place(values, each)
            for place, found in places.items():
                _check_place(place, found)


def _leaves(value: Any, kind: DataType, place: str) -> Iterator[tuple[str, Any]]:
    """The values inside a value, each with its place, as `DataType.leaves` names it."""
    if kind.element is not None and isinstance(value, Iterable) and not isinstance(value, Mapping):
        for each in value:
            yield from _leaves(each, kind.element, f"{place}[]")
    elif kind.fields and isinstance(value, Mapping):
        for field in kind.fields:
            yield from _leaves(value.get(field.name), field.type, f"{place}.{field.name}")
    else:
        yield place, value


def _by_place(values: Iterable[tuple[int, Any]], column: Column) -> Mapping[str, Iterable[tuple[int, Any]]]:
    found = defaultdict[str, list[tuple[int, Any]]](list)
    for row, value in values:
        for place, leaf in _leaves(value, column.type, column.name):
            found[place].append((row, leaf))
    return found


def _check_place(place: str, values: Iterable[tuple[int, Any]]) -> None:
    """Check the values of a column or a place inside it, each with its row."""
    first: tuple[str, int] | None = None
    for row, value in values:
        if (kind := _kind(value)) is None:
            continue
        if getattr(value, "nanosecond", 0):
            raise BadInput(
                f"{WHAT}: column {place!r} has times finer than a microsecond: {value} in row {row} (counted from 0);"
                " round them first"
            )
        first = first or (kind, row)
        if first[0] != kind:
            raise BadInput(
                f"{WHAT}: column {place!r} has {first[0]} in row {first[1]} and {kind} in row {row} (counted from 0),"
                " of which Arrow would change one; give all its values the same kind: dates, times with a zone, or"
                " times without one"
            )


def _kind(value: Any) -> str | None:
    if not isinstance(value, datetime):
        return "a date" if isinstance(value, date) else None
    if value != value:  # noqa: PLR0124 - NaT of pandas is not itself
        return None
    return "a time without a zone" if value.tzinfo is None else "a time with a zone"


def _with_declared_digits(table: pa.Table, declared: Schema) -> pa.Table:
    """The table with the declared precision for decimals that have the greatest one, as those of Polars do.

    Raises:
        BadInput: a value has more digits than declared.
    """
    for each in declared.columns:
        at, digits = table.schema.get_field_index(each.name), each.type.precision
        found = table.schema.field(at).type if at >= 0 else None
        if digits is None or found is None or not pa.types.is_decimal128(found) or found.precision != _MANY_DIGITS:
            continue
        scale = each.type.scale or 0
        if found.scale <= scale:
            values = _in_digits(table.column(at), pa.decimal128(digits, scale), each.name)
            table = table.set_column(at, each.name, values)
    return table


def _in_digits(values: pa.ChunkedArray, wanted: pa.DataType, name: str) -> pa.ChunkedArray:
    try:
        return values.cast(wanted)
    except pa.ArrowInvalid as error:
        highest = 10 ** (wanted.precision - wanted.scale)
        row, value = next(
            (row, each) for row, each in enumerate(values.to_pylist()) if each is not None and abs(each) >= highest
        )
        raise BadInput(
            f"{WHAT}: column {name!r} has {value} in row {row} (counted from 0), which"
            f" decimal({wanted.precision},{wanted.scale}) cannot hold; declare more digits in `schema`"
        ) from error
