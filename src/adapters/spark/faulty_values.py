"""Values that have their declared type and make a dead letter: times out of range, and texts that are not UTF-8."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from ...domain.duration import FIRST_MICRO, LAST_MICRO
from ...domain.table import schema
from ...domain.table.schema import TIMES, DataType

_DAY = 86_400_000_000  # microseconds
_UTF_8 = "UTF-8"


def times_out_of_range(source: Column, value: Column, column: schema.Column) -> Iterator[Column]:
    """The error of rows with a time outside the years 1 to 9999 in UTC; none if the column cannot have one.

    Args:
        source: the value as it came.
        value: the value in its declared type.
        column: the declared column.
    """
    if faulty := _find(value, column.type, {each: partial(_outside, kind=each) for each in TIMES}):
        text = source.cast("string")
        yield F.when(faulty[0], _wanted(column, text, " (out of range: 0001-01-01 to 9999-12-31 in UTC)"))


def texts_not_utf8(value: Column, column: schema.Column) -> Iterator[Column]:
    """The error of rows with a text that is not UTF-8; none if the column cannot have one."""
    if faulty := _find(value, column.type, {"string": lambda text: text != _replaced(text)}):
        yield F.when(faulty[0], _wanted(column, _replaced(value.cast("string")), " (not UTF-8)"))


def _wanted(column: schema.Column, text: Column, why: str) -> Column:
    return F.concat(F.lit(f"column {column.name!r}: {column.type.declared} wanted, not "), text, F.lit(why))


def _find(value: Column, kind: DataType, faulty: Mapping[str, Callable[[Column], Column]]) -> list[Column]:
    """Whether a value, or one inside of a nested one, is faulty; empty if none can be."""
    if faulty.keys().isdisjoint(leaf.name for _, leaf in kind.leaves()):
        return []
    if kind.element is not None:
        element = kind.element
        return [F.exists(value, lambda each: _find(each, element, faulty)[0])]
    if kind.fields:
        found = (some for each in kind.fields for some in _find(value[each.name], each.type, faulty))
        return [reduce(or_, (F.coalesce(each, F.lit(False)) for each in found))]
    return [faulty[kind.name](value)]


def _replaced(text: Column) -> Column:
    """The text, with a sign in place of bytes that are not UTF-8."""
    return F.decode(text.cast("binary"), _UTF_8)


def _outside(value: Column, kind: str) -> Column:
    """Whether a time lies outside the years 1 to 9999 in UTC."""
    if kind == "timestamp":
        return ~F.unix_micros(value).between(FIRST_MICRO, LAST_MICRO)
    if kind == "date":
        return ~F.unix_date(value).between(FIRST_MICRO // _DAY, LAST_MICRO // _DAY)
    first, last = (F.lit(text).cast("timestamp_ntz") for text in ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"))
    return ~value.between(first, last)
