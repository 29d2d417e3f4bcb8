"""The declared columns of a view, compared with those of its query."""

from __future__ import annotations

from typing import Any

import narwhals as nw
from narwhals.dtypes import DType

from ...errors import ConfigError
from ...table.query_columns import match_names
from ...table.schema import Column, DataType, Schema

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""The decimal digits of the largest value of each integer type, from the narrowest to the widest."""
_EXACT = {
    "float": {"tinyint", "smallint"},
    "double": {"tinyint", "smallint", "int", "float"},
    "timestamp": {"date"},
    "timestamp_ntz": {"date"},
}
"""The types whose values are all exact in another type; a day is its first moment, in UTC on each engine."""


def check_declared(declared: Schema, rows: nw.LazyFrame[Any]) -> None:
    """Check that a declared schema has the columns of a query, and types that hold all of their values.

    Args:
        declared: the schema.
        rows: the query's result. A value without a type, such as a bare NULL, may have any type, at any depth.

    Raises:
        ConfigError: the columns differ, ignoring case, or a value may change in its declared type.
    """
    found = rows.collect_schema()
    there = match_names(declared.names, found.names())
    if more := [name for name in found.names() if name not in there]:
        raise ConfigError(f"column {more[0]!r} of the query is not declared; add it, or leave it out of the query")
    for name, column in zip(there, declared.columns, strict=True):
        _check_type(column, found[name])


def _check_type(column: Column, dtype: DType) -> None:
    wanted = column.type
    try:
        found = DataType.of(_with_types(dtype, wanted))
    except ConfigError as error:
        raise ConfigError(f"column {column.name!r}: {error}; write {_cast(wanted)} in the query") from error
    if not _keeps_values(found, wanted):
        raise ConfigError(
            f"column {column.name!r} is declared as {wanted.declared}, and the query returns {found.ddl}, whose values"
            f" a cast may change: write {_cast(wanted)} in the query if you want it, or declare {found.ddl}"
        )


def _with_types(dtype: Any, wanted: DataType) -> Any:
    """The narwhals type, with declared types in the places where it has none."""
    if dtype == nw.Unknown:
        return wanted.narwhals
    if isinstance(dtype, nw.List) and wanted.element is not None:
        return nw.List(_with_types(dtype.inner, wanted.element))
    if isinstance(dtype, nw.Struct):
        types = {each.name: each.type for each in wanted.fields}
        fields = ((each.name, each.dtype, types.get(each.name)) for each in dtype.fields)
        return nw.Struct([nw.Field(name, _with_types(own, kind) if kind else own) for name, own, kind in fields])
    return dtype


def _cast(wanted: DataType) -> str:
    return f"CAST(… AS {wanted.ddl})"


def _keeps_values(found: DataType, wanted: DataType) -> bool:
    """Whether a cast to a type changes no value."""
    if found.element is not None and wanted.element is not None:
        return _keeps_values(found.element, wanted.element)
    if found.fields and wanted.fields:
        names = [[each.name for each in kind.fields] for kind in (found, wanted)]
        pairs = zip(found.fields, wanted.fields, strict=False)
        return names[0] == names[1] and all(_keeps_values(one.type, other.type) for one, other in pairs)
    return found == wanted or found.name in _EXACT.get(wanted.name, ()) or _has_digits(found, wanted)


def _has_digits(found: DataType, wanted: DataType) -> bool:
    """Whether a type has all digits of another one, before the point and after it; both are whole or decimal."""
    one, other = _digits(found), _digits(wanted)
    if one is None or other is None or (found.precision is not None and wanted.precision is None):
        return False
    return all(few <= many for few, many in zip(one, other, strict=True))


def _digits(number: DataType) -> tuple[int, int] | None:
    """The digits before the point and after it; None for what is neither a whole number nor a decimal."""
    if number.precision is not None:
        scale = number.scale or 0
        return number.precision - scale, scale
    return (_DIGITS[number.name], 0) if number.name in _DIGITS else None
