"""Which files may hold matching rows, by the bounds in Delta's log."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from headwater.adapters.delta.actions import DataFile
from headwater.adapters.delta.prune import prune
from headwater.domain.table.change import Between
from headwater.domain.table.schema import Schema


def holds(kind: str, low: str, high: str, wanted: tuple[Any, ...] | Between) -> bool:
    """Whether a file may hold a row, from its bounds as the log writes them."""
    stats = f'{{"numRecords": 2, "minValues": {{"id": {low}}}, "maxValues": {{"id": {high}}}}}'
    json.loads(stats)
    file = DataFile.from_action({"path": "a", "partitionValues": {}, "size": 1, "stats": stats})
    return bool(prune([file], {"id": wanted}, Schema.parse(f"id {kind}")))


LARGEST = 2**64 - 1024 + 31
"""A float rounds it by nearly the largest part of its value."""
ROUNDED_DOWN, ROUNDED_UP = "1.8446744073709548e19", "1.8446744073709554e19"


@pytest.mark.parametrize(
    ("kind", "low", "high", "value"),
    [
        ("decimal(20,0)", "9223372036854775807", "9223372036854775807", Decimal(LARGEST)),
        ("decimal(20,0)", "-9223372036854775808", "-9223372036854775808", Decimal(-LARGEST)),
        ("decimal(20,0)", "-9223372036854775808", "9223372036854775807", Decimal(LARGEST)),
        ("decimal(20,0)", "1e19", ROUNDED_DOWN, Decimal(LARGEST)),
        ("decimal(20,0)", ROUNDED_UP, "1.9e19", Decimal(LARGEST)),
        ("decimal(20,0)", "-1.9e19", f"-{ROUNDED_UP}", Decimal(-LARGEST)),
        ("decimal(20,0)", f"-{ROUNDED_DOWN}", "-1", Decimal(-LARGEST)),
        ("decimal(20,2)", "0.1", "123456789012345660.0", Decimal("123456789012345678.91")),
        ("decimal(38,38)", "0.0", "0.12345678901234566", Decimal("0.12345678901234567890123456789012345678")),
    ],
)
def test_bounds_of_decimals_that_a_float_has_rounded_keep_the_file(
    kind: str, low: str, high: str, value: Decimal
) -> None:
    """As OPTIMIZE of delta-rs writes them; it also cuts them to 64 bits."""
    assert holds(kind, low, high, (value,))
    assert holds(kind, low, high, Between(value, value))


@pytest.mark.parametrize(
    ("kind", "low", "high", "within", "beyond"),
    [
        ("decimal(20,0)", "10000000000000000100", "18446744073709550591", 10**19 + 150, 9 * 10**18),
        ("decimal(9,2)", "1.00", "2.50", Decimal("2.50"), Decimal("2.51")),
        ("decimal(9,2)", "-2.50", "0", Decimal("-2.50"), Decimal("-2.51")),
        ("decimal(38,10)", "1E-10", "2E-10", Decimal("2E-10"), Decimal("3E-10")),
    ],
)
def test_exact_bounds_of_decimals_leave_files_out(
    kind: str, low: str, high: str, within: Decimal, beyond: Decimal
) -> None:
    """As Spark and Headwater write them."""
    assert holds(kind, low, high, (within,))
    assert not holds(kind, low, high, (beyond,))
    assert not holds(kind, low, high, Between(beyond, beyond))


def test_a_partition_of_decimals_is_exact() -> None:
    file = DataFile.from_action({"path": "a", "partitionValues": {"id": "9223372036854775807"}, "size": 1})
    schema = Schema.parse("id decimal(20,0)")
    assert prune([file], {"id": (Decimal(2**63 - 1),)}, schema)
    assert not prune([file], {"id": (Decimal(2**63),)}, schema)
