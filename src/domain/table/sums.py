"""Exact sums: the range of a sum's column, and the error for a sum that does not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ..errors import SumOverflow
from .schema import DataType

SUM = "_sum_"
"""Prefix of the column of a measure's sum; the measure's name follows. Headwater's other summed columns are counts."""
MARK = "headwater-sum:"
"""Prefix of an engine's message about a sum that does not fit; a JSON object follows."""

_BEGIN = re.compile(rf"(?:^|(?:Exception|Error): (?:\[\w+\] )?){MARK}")
"""Finds the message proper in an engine's error text, which may also quote a plan or query that contains `MARK`."""
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}


def bounds(name: str, kind: DataType) -> tuple[int, int] | None:
    """The minimum and maximum sum that fits into a column, in units of its last digit; None for a float.

    The sum of a measure can be retracted, so its negative must fit too.
    """
    if kind.precision is not None:
        return 1 - 10**kind.precision, 10**kind.precision - 1
    if kind.name not in _BITS:
        return None
    most = 2 ** _BITS[kind.name] - 1
    return (-most if name.startswith(SUM) else -most - 1), most


def counts(name: str) -> bool:
    """Whether a column counts rows, so that its sums always fit: an own column that is not the sum of a measure."""
    return name.startswith("_") and not name.startswith(SUM)


def named(column: str) -> str:
    """The name of a sum's column in messages."""
    return f"measure {column.removeprefix(SUM)!r}" if column.startswith(SUM) else f"column {column!r}"


def shown(by: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of a group that messages show: the user's columns."""
    return tuple(name for name in by if not name.startswith("_"))


def overflow(what: str, ddl: str, group: Mapping[str, object]) -> SumOverflow:
    """The error for a sum that does not fit.

    Args:
        what: measure, column or aggregate.
        ddl: the type of the sum.
        group: the columns and values that name the group.
    """
    values = ", ".join(f"{name} = {value}" for name, value in group.items())
    whose = f"of group ({values}) " if values else ""
    return SumOverflow(
        f"{what}: the sum {whose}does not fit into {ddl}. Correct the value that is too large in the source, leave it"
        " out with a condition, or add up a type that holds more, such as cast(x as decimal(28,0)), under another name"
    )


def mark(what: str, ddl: str) -> str:
    """A message for `read_overflow`, without a group."""
    return MARK + json.dumps({"sum": what, "type": ddl}, ensure_ascii=False)


def read_overflow(message: str) -> SumOverflow | None:
    """The error for an engine's message about a sum that does not fit; None for any other message."""
    for begin in _BEGIN.finditer(message):
        try:
            found, _ = json.JSONDecoder().raw_decode(message, begin.end())
            return overflow(found["sum"], found["type"], found.get("group", {}))
        except (ValueError, KeyError):  # the message was truncated
            continue
    return None
