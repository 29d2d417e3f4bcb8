"""Segments of numbers: equal values share one, whatever frame they come in."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from headwater.domain.service.segments import SEGMENT, Segments
from headwater.domain.table.schema import Schema
from headwater.testing.frames import polars_frame
from tests.backends import memory_backend


def number(ddl: str, interval: str, values: list[Any], offset: str = "0") -> list[int]:
    """The segments of values, all in one frame."""
    schema = Schema.parse(f"x {ddl}")
    rows = polars_frame([(each,) for each in values], schema)
    found = segments(ddl, interval, offset).assign(rows, memory_backend().engine)
    return found.collect(backend="polars")[SEGMENT].to_list()


def segments(ddl: str, interval: str, offset: str = "0") -> Segments:
    kind = Schema.parse(f"x {ddl}")["x"]
    return Segments.of("x", kind, interval=interval, offset=offset, zone="UTC", nulls_lowest=False)


@pytest.mark.parametrize(
    ("ddl", "interval", "value", "expected"),
    [
        ("bigint", "3600000", 3_600_000, 1),
        ("int", "49", 49, 1),
        ("decimal(9,1)", "0.1", Decimal("0.3"), 2),  # as doubles divide
        ("double", "0.1", 0.3, 2),
        ("double", "10", math.nextafter(30, 0), 2),
        ("double", "49", 1e300, 2**61),
        ("double", "49", -1e300, -(2**61)),
    ],
)
def test_a_number_has_one_segment_in_frames_of_all_sizes(ddl: str, interval: str, value: object, expected: int) -> None:
    for size in (1, 2, 3, 4, 9, 100, 5000):
        assert set(number(ddl, interval, [value] * size)) == {expected}


def test_segments_of_whole_numbers_begin_at_their_multiples() -> None:
    values = [at * 49 + 7 for at in range(-2000, 2000)]
    assert number("bigint", "49", values, offset="7") == list(range(-2000, 2000))


@pytest.mark.parametrize(
    ("ddl", "interval", "offset", "corrected"),
    [
        ("bigint", "1000", "0", False),
        ("bigint", "86400000", "500", False),
        ("bigint", "3600000", "0", True),
        ("int", "49", "0", True),
        ("int", "10", "0.5", True),
        ("int", "0.5", "0.5", False),
        ("double", "10", "0", True),
        ("decimal(9,1)", "0.1", "0", True),
        ("double", "4", "1", False),
        ("double", "5e-324", "0", True),
    ],
)
def test_which_segments_of_earlier_tables_may_be_wrong(
    ddl: str, interval: str, offset: str, *, corrected: bool
) -> None:
    assert segments(ddl, interval, offset).is_corrected(Schema.parse(f"x {ddl}")["x"]) is corrected


def test_segments_of_times_were_right() -> None:
    kind = Schema.parse("x timestamp")["x"]
    of_days = Segments.of("x", kind, interval="7d", offset="0s", zone="UTC", nulls_lowest=False)
    assert not of_days.is_corrected(kind)
