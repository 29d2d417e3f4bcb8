"""Values that have their declared type and make a dead letter: times out of range, and texts that are not UTF-8."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from ...domain.duration import DAY_MICROS, FIRST_MICRO, LAST_MICRO
from ...domain.table import schema
from ...domain.table.schema import TIMES, DataType

_UTF_8 = "UTF-8"


def times_out_of_range(source: Column, value: Column, column: schema.Column) -> Iterator[Column]:
    """The error of rows with a time outside the years 1 to 9999 in UTC; none if the column cannot have one.

    Args:
        source: the value as it came.
        value: the value in its declared type.
        column: the declared column.
    """
    faulty = _find(value, column.type, {each: partial(_outside, kind=each) for each in TIMES})
    if faulty is not None:
        text = source.cast("string")
        yield F.when(faulty, _explain(column, text, " (out of range: 0001-01-01 to 9999-12-31 in UTC)"))


def texts_not_utf8(value: Column, column: schema.Column) -> Iterator[Column]:
    """The error of rows with a text that is not UTF-8; none if the column cannot have one."""
    faulty = _find(value, column.type, {"string": lambda text: text != _replace_malformed(text)})
    if faulty is not None:
        yield F.when(faulty, _explain(column, _replace_malformed(value.cast("string")), " (not UTF-8)"))


def _explain(column: schema.Column, text: Column, why: str) -> Column:
    return F.concat(F.lit(f"column {column.name!r}: {column.type.declared} wanted, not "), text, F.lit(why))


def _find(value: Column, kind: DataType, faulty: Mapping[str, Callable[[Column], Column]]) -> Column | None:
    """Whether a value, or one inside of a nested one, is faulty; None if none can be."""
    none_can_be = faulty.keys().isdisjoint(leaf.name for _, leaf in kind.leaves())
    return None if none_can_be else _find_inside(value, kind, faulty)


def _find_inside(value: Column, kind: DataType, faulty: Mapping[str, Callable[[Column], Column]]) -> Column:
    if kind.element is not None:
        element = kind.element
        return F.exists(value, lambda each: _find_inside(each, element, faulty))
    if kind.fields:
        found = (_find(value[each.name], each.type, faulty) for each in kind.fields)
        return reduce(or_, (F.coalesce(each, F.lit(False)) for each in found if each is not None))
    return faulty[kind.name](value)


def _replace_malformed(text: Column) -> Column:
    """The text, with a sign in place of bytes that are not UTF-8."""
    return F.decode(text.cast("binary"), _UTF_8)


def _outside(value: Column, kind: str) -> Column:
    """Whether a time lies outside the years 1 to 9999 in UTC."""
    if kind == "timestamp":
        return ~F.unix_micros(value).between(FIRST_MICRO, LAST_MICRO)
    if kind == "date":
        return ~F.unix_date(value).between(FIRST_MICRO // DAY_MICROS, LAST_MICRO // DAY_MICROS)
    first, last = (F.lit(text).cast("timestamp_ntz") for text in ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"))
    return ~value.between(first, last)
