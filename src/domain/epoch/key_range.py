"""Ranges of the first key column of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

MOST = 64
"""Maximum number of ranges that `merge_ranges` returns."""


@frozen
class KeyRange:
    """Values of a table's first key column from `low` to `high`, inclusive; None: no bound on that side."""

    low: Any | None = None
    high: Any | None = None


def merge_ranges(ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
    """Merge overlapping ranges into as few as possible, in order.

    There are at most `MOST`; to keep to that, the last one may cover gaps.

    >>> [(each.low, each.high) for each in merge_ranges([KeyRange(5, 9), KeyRange(1, 2), KeyRange(2, 6), KeyRange(12)])]
    [(1, 9), (12, None)]
    """
    found: list[KeyRange] = []
    for each in sorted(ranges, key=_start):
        last = found[-1] if found else None
        if last is None or (last.high is not None and each.low is not None and each.low > last.high):
            found.append(each)
        else:
            found[-1] = _hull(last, each)
    if len(found) > MOST:
        found = [*found[: MOST - 1], _hull(found[MOST - 1], found[-1])]
    return tuple(found)


def join_between(ranges: Iterable[KeyRange], others: Sequence[KeyRange]) -> tuple[KeyRange, ...]:
    """Join ranges that follow each other, with what is between them, if none of the others is there.

    A range that overlaps one of the others by more than a bound is left out. There is at most one more than others.

    >>> ranges = [KeyRange(1, 2), KeyRange(5, 7), KeyRange(20, 30), KeyRange(40, 50)]
    >>> [(each.low, each.high) for each in join_between(ranges, [KeyRange(10, 12), KeyRange(45)])]
    [(1, 7), (20, 30)]
    >>> [(each.low, each.high) for each in join_between([KeyRange(0, 0), KeyRange(12, 12)], [KeyRange(0, 4)])]
    [(0, 0), (12, 12)]
    """
    apart = [each for each in ranges if not any(_overlap(each, other) for other in others)]
    both = [*((other, False) for other in others), *((each, True) for each in apart)]
    ordered = sorted(both, key=lambda at: (_start(at[0]), _end(at[0])))  # a point comes before a range from there on
    found: list[KeyRange] = []
    goes_on = False
    for each, wanted in ordered:
        if wanted:
            found[-1:] = [_hull(found[-1], each)] if goes_on else [*found[-1:], each]
        goes_on = wanted
    return tuple(found)


def _overlap(one: KeyRange, other: KeyRange) -> bool:
    """Whether two ranges have more in common than a bound."""
    return _is_below(one.low, other.high) and _is_below(other.low, one.high)


def _is_below(low: Any | None, high: Any | None) -> bool:
    return low is None or high is None or low < high


def _start(each: KeyRange) -> tuple[bool, Any]:
    """The sort key of ranges: those without a lower bound come first."""
    return (False, 0) if each.low is None else (True, each.low)


def _end(each: KeyRange) -> tuple[bool, Any]:
    """The sort key of ranges with one lower bound: those without an upper bound come last."""
    return (True, 0) if each.high is None else (False, each.high)


def _hull(first: KeyRange, last: KeyRange) -> KeyRange:
    ends: list[Any] = [first.high, last.high]
    return KeyRange(first.low, None if None in ends else max(ends))
