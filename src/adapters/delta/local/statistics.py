"""What Delta's log says of the rows of a data file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import inf
from typing import Any

import msgspec
import polars as pl
from attrs import frozen

_TEXT = 32
"""Bounds of texts have about this number of characters, as Delta's own."""
_LAST = "\U0010ffff"
"""The last of all characters."""
_NO_BOUNDS = -inf, inf
"""In place of the bounds of numbers that are not all finite, which JSON cannot write."""


@frozen
class Statistics:
    """What is known of some rows.

    Args:
        rows: their number.
        nulls: the number of nulls, by column.
        bounds: the lowest and the highest value, by column that has values, of a type with bounds.
    """

    rows: int
    nulls: Mapping[str, int]
    bounds: Mapping[str, tuple[Any, Any]]

    @classmethod
    def of(cls, rows: pl.DataFrame, columns: Sequence[str]) -> Statistics:
        """The statistics of these columns."""
        nulls = {name: rows[name].null_count() for name in columns}
        compared = (name for name in columns if _is_bounded(rows.schema[name]) and nulls[name] < rows.height)
        return cls(rows.height, nulls, {name: _range(rows[name]) for name in compared})

    def plus(self, other: Statistics) -> Statistics:
        """The statistics of these rows and of others with the same columns."""
        bounds = dict(other.bounds)
        for name, (low, high) in self.bounds.items():
            lowest, highest = bounds.get(name, (low, high))
            bounds[name] = (min(low, lowest), max(high, highest))
        nulls = {name: count + other.nulls[name] for name, count in self.nulls.items()}
        return Statistics(self.rows + other.rows, nulls, bounds)

    def to_json(self, names: Mapping[str, str]) -> str:
        """The statistics of a file for Delta's log; `names` are the columns' names in the file, if others."""
        known = {name: each for name, each in self.bounds.items() if each != _NO_BOUNDS}
        bounds = {names.get(name, name): _bounds(*each) for name, each in known.items()}
        found = {
            "numRecords": self.rows,
            "minValues": {name: low for name, (low, _) in bounds.items()},
            "maxValues": {name: high for name, (_, high) in bounds.items()},
            "nullCount": {names.get(name, name): count for name, count in self.nulls.items()},
        }
        return msgspec.json.encode(found).decode()


def _is_bounded(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or isinstance(dtype, pl.String | pl.Date | pl.Datetime)


def _range(column: pl.Series) -> tuple[Any, Any]:
    """The lowest and the highest value of a column that has values."""
    if column.dtype.is_float() and not column.is_finite().all():
        return _NO_BOUNDS
    return column.min(), column.max()


def _bounds(low: Any, high: Any) -> tuple[Any, Any]:
    """The lowest and the highest value of a column, as Delta writes them."""
    if isinstance(low, str) and isinstance(high, str):
        return low[:_TEXT], _cut_above(high)
    return _bound(low), _bound(high)


def _cut_above(text: str) -> str:
    """A text, or a shorter one that no text with the same beginning lies above."""
    end = _TEXT
    while text[end : end + 1] == _LAST:
        end += 1
    return text if len(text) <= end else text[:end] + _LAST


def _bound(value: Any) -> Any:
    if isinstance(value, datetime):
        cut = value.replace(microsecond=value.microsecond // 1000 * 1000)
        return cut.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, Decimal):  # a float would round it, and not all readers of Delta know exponents
        return msgspec.Raw(f"{value:f}".encode())
    return value.isoformat() if isinstance(value, date) else value
