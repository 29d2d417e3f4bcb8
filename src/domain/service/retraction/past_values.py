"""Checks that the numbers of a user-supplied past can be stored as they are. An engine would wrap or round others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
from narwhals.dtypes import DType

from ...errors import BadInput
from ...table.collect import collect_small
from ...table.schema import DataType, Schema
from ...table.sums import bounds, overflow
from ..measures import Measure

_BIGINT = DataType("bigint")
_BITS: Mapping[type[DType], int] = {
    nw.Int8: 7,
    nw.Int16: 15,
    nw.Int32: 31,
    nw.Int64: 63,
    nw.UInt8: 8,
    nw.UInt16: 16,
    nw.UInt32: 32,
}
"""The bits of an integer type's greatest value. The types that are not listed have more than 63."""
_FIT = "Correct it, leave it out in the past's sql, or declare a wider type in the source's schema"


def check_integers(rows: nw.LazyFrame[Any], columns: Schema) -> None:
    """Check that all integers fit into the types of the source.

    Raises:
        BadInput: a value does not fit; the error names it.
    """
    found = rows.collect_schema()
    for each in columns.columns:
        if _is_wider(found[each.name], each.type):
            why = f"which does not fit into {each.type.ddl}. {_FIT}"
            _refuse(rows.filter(_is_outside(each.name, each.type, found[each.name])), each.name, (), why)


def check_count(totals: nw.LazyFrame[Any], name: str, group: Sequence[str]) -> None:
    """Check that all counts are whole numbers.

    Raises:
        BadInput: a count is null, has a fraction, or does not fit into a bigint; the error names its group.
    """
    count, found = nw.col(name), totals.collect_schema()[name]
    _refuse(
        totals.filter(count.is_null()), name, group, f"but it is a count: write coalesce({name}, 0) in the past's sql"
    )
    if _is_wider(found, _BIGINT):
        outside = totals.filter(_is_outside(name, _BIGINT, found))
        _refuse(outside, name, group, "which does not fit into bigint. Correct it")
    _check_exact(totals, name, _BIGINT, group)


def check_sum(totals: nw.LazyFrame[Any], measure: Measure, count: str, group: Sequence[str]) -> None:
    """Check that all sums fit into the measure's type without rounding, and that only sums of no values are null.

    Args:
        totals: the totals.
        measure: the measure of the sums.
        count: the column with the number of the values that were added up; checked before.
        group: the columns of the group.

    Raises:
        SumOverflow: a sum does not fit; the error names its group.
        BadInput: a sum would be rounded, or is null although values were counted.
    """
    name, kind, found = measure.name, measure.type, totals.collect_schema()[measure.name]
    if found != kind.narwhals and (kind != _BIGINT or _is_wider(found, kind)):
        too_large = totals.filter(_is_outside(name, kind, found)).select(*group).head(1)
        if lines := collect_small(too_large):
            raise overflow(f"measure {name!r} in the past's totals", kind.ddl, lines[0])
    _check_exact(totals, name, kind, group)
    unknown = totals.filter(nw.col(name).is_null(), nw.col(count) != 0)
    _refuse(unknown, name, group, f"but {count} is not 0, so there are values to add up. Correct one of them")


def _is_wider(found: DType, kind: DataType) -> bool:
    """Whether a type has whole numbers that do not fit into an integer type."""
    limits = bounds("", kind)
    return kind.precision is None and limits is not None and 2 ** _BITS.get(type(found), 64) - 1 > limits[1]


def _is_outside(name: str, kind: DataType, found: DType) -> nw.Expr:
    """Whether a value is outside the range of a type; a float that is not a number is."""
    value, limits = nw.col(name), bounds("", kind)
    if found.is_integer() and kind.precision is None and limits is not None:
        return (value < limits[0]) | (value > limits[1])
    limit = 2.0**63 if kind.precision is None else 10.0 ** (kind.precision - (kind.scale or 0))
    return value.cast(nw.Float64).abs() >= limit


def _check_exact(totals: nw.LazyFrame[Any], name: str, kind: DataType, group: Sequence[str]) -> None:
    """Check that no value within the range of a type would be rounded to fit into it."""
    value, found = nw.col(name), totals.collect_schema()[name]
    if found.is_integer() or found == kind.narwhals:
        return
    stored = value.cast(kind.narwhals)
    rounded = totals.filter((stored.is_null() & ~value.is_null()) | (stored.cast(found) != value))
    _refuse(rounded, name, group, f"which is not a {kind.ddl}, and is not rounded silently. Cast it in the past's sql")


def _refuse(bad: nw.LazyFrame[Any], name: str, group: Sequence[str], why: str) -> None:
    """Raise an error with the first of the bad values, if there is one."""
    found = collect_small(bad.select(*group, nw.col(name).cast(nw.String).alias("_found")).head(1))
    for line in found:
        values = ", ".join(f"{each} = {line[each]}" for each in group)
        whose = f" in group ({values})" if values else ""
        raise BadInput(f"the past's column {name!r} has the value {line['_found'] or 'null'}{whose}, {why}")
