"""Skips data files that cannot hold matching rows, by their partition and Delta's column statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

from ...domain.epoch.watermark import instant
from ...domain.table.change import Between
from ...domain.table.schema import INTEGERS, DataType, Schema
from ..shared.match import literal
from .actions import DataFile

_MILLISECOND = timedelta(milliseconds=1)
_ROUNDING = Decimal(2) ** -48
"""delta-rs computes bounds of decimals as floats, in a few steps: the largest part of its value by which one is off."""
_CUT_OFF = frozenset({Decimal(2**63 - 1), Decimal(-(2**63))})
"""What delta-rs writes for bounds of decimals beyond 64 bits."""


def prune(files: Iterable[DataFile], within: Mapping[str, tuple[Any, ...] | Between], schema: Schema) -> list[DataFile]:
    """The files that may hold a row within the literals."""
    wanted = {name: (_span(values, schema[name]), schema[name]) for name, values in within.items()}
    return [file for file in files if all(_may_hold(file, name, span, kind) for name, (span, kind) in wanted.items())]


def _span(values: tuple[Any, ...] | Between, data_type: DataType) -> tuple[Any, ...] | Between:
    if isinstance(values, Between):
        return Between(literal(values.low, data_type), literal(values.high, data_type))
    return tuple(literal(value, data_type) for value in values)


def _may_hold(file: DataFile, name: str, wanted: tuple[Any, ...] | Between, data_type: DataType) -> bool:
    bounds = _bounds(file, name, data_type)
    if bounds is None:
        return True
    low, high = bounds
    try:
        if isinstance(wanted, Between):
            return bool(wanted.low <= high and low <= wanted.high)
        return any(low <= value <= high for value in wanted if value is not None)
    except TypeError:  # the types of literal and column differ: Spark casts, so the file may match
        return True


def _bounds(file: DataFile, name: str, data_type: DataType) -> tuple[Any, Any] | None:
    """The lowest and highest value of a column in a file; None if unknown."""
    if name in file.partition:
        value = _value(file.partition[name], data_type)
        return None if value is None else (value, value)
    low, high = (_value(bounds.get(name), data_type) for bounds in (file.lowest, file.highest))
    if low is None or high is None:
        return None
    if isinstance(high, datetime):  # Delta truncates times to the millisecond
        return low, _add_millisecond(high)
    return _widened(low, high) if isinstance(high, Decimal) else (low, high)


def _widened(low: Decimal, high: Decimal) -> tuple[Decimal, Decimal] | None:
    """Bounds of decimals that hold even if delta-rs has written them; None if it has cut them off."""
    if not _CUT_OFF.isdisjoint((low, high)):
        return None
    return low - abs(low) * _ROUNDING, high + abs(high) * _ROUNDING


def _add_millisecond(moment: datetime) -> datetime:
    last = datetime.max.replace(tzinfo=moment.tzinfo)
    return moment + min(_MILLISECOND, last - moment)


def _value(text: Any, data_type: DataType) -> Any:
    """A value parsed from Delta's log; None if it cannot be parsed."""
    if text is None or data_type.name not in _READERS:
        return None
    try:
        return _READERS[data_type.name](text)
    except (ValueError, ArithmeticError):
        return None


def _double(text: Any) -> float | None:
    number = float(text)
    return number if isfinite(number) else None


_READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(INTEGERS, int),
    "decimal": lambda text: Decimal(str(text)),
    # Not float: the log rounds its bounds to fewer digits than a literal may have.
    "double": _double,
    "string": str,
    "date": date.fromisoformat,
    "timestamp": lambda text: instant(datetime.fromisoformat(text)),
    "timestamp_ntz": datetime.fromisoformat,
}
