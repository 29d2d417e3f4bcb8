"""Sums that are exact, or stop with an error: what a sum's column can hold, and the error for one that does not fit."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from .errors import SumOverflow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .schema import DataType

SUM = "_sum_"
"""How the name of a measure's sum begins; behind it stands the measure's name. Other columns of ours are counts."""
MARK = "headwater-sum:"
"""What a message begins with in which an engine reports a sum that does not fit; an object in JSON follows."""

_BEGIN = re.compile(rf"(?:^|(?:Exception|Error): (?:\[\w+\] )?){MARK}")
"""Where an engine's own message stands in what it says; a plan or a query that it quotes may hold the words too."""
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}


def bounds(name: str, kind: DataType) -> tuple[int, int] | None:
    """The least and the greatest sum that a column can hold, in units of its last digit; None for a float.

    The sum of a measure can be taken back, so that its negative must fit too.
    """
    if kind.precision is not None:
        return 1 - 10**kind.precision, 10**kind.precision - 1
    if kind.name not in _BITS:
        return None
    most = 2 ** _BITS[kind.name] - 1
    return (-most if name.startswith(SUM) else -most - 1), most


def counts(name: str) -> bool:
    """Whether a column counts rows, so that its sums always fit: it is one of ours, but no measure's sum."""
    return name.startswith("_") and not name.startswith(SUM)


def named(column: str) -> str:
    """What messages call the column of a sum."""
    return f"measure {column.removeprefix(SUM)!r}" if column.startswith(SUM) else f"column {column!r}"


def shown(by: tuple[str, ...]) -> tuple[str, ...]:
    """Which of the columns of a group messages name: those that the user gave."""
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
    """A message that `read_overflow` reads, without a group."""
    return MARK + json.dumps({"sum": what, "type": ddl}, ensure_ascii=False)


def read_overflow(message: str) -> SumOverflow | None:
    """The error in an engine's message, if a sum does not fit; else None."""
    for begin in _BEGIN.finditer(message):
        try:
            found, _ = json.JSONDecoder().raw_decode(message, begin.end())
            return overflow(found["sum"], found["type"], found.get("group", {}))
        except (ValueError, KeyError):  # the message was cut off
            continue
    return None
