"""Orders of 20,000 groups over 30 days. Times are whole minutes, so that ties exist. The same rows at every run."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from pathlib import Path

DDL = "order_id bigint, group_id bigint, event_time timestamp, amount bigint"
GROUPS = 20_000
EPOCH_ROWS = 10_000
_START = datetime(2026, 1, 1, tzinfo=UTC)
_DAY = 24 * 60
_PAST_DAYS = 29
_EPOCH_MINUTES = 30


def write_past(rows: int, file: Path) -> None:
    """Write the first 29 days, in order of event time; order ids 0, 1, 2 …"""
    chance = random.Random(rows)
    minutes = sorted(chance.choices(range(_PAST_DAYS * _DAY), k=rows))
    _orders(chance, 0, minutes).write_parquet(file)


def write_epoch(number: int, first_id: int, file: Path, *, late_share: float = 0.0, rows: int = EPOCH_ROWS) -> None:
    """Write the orders of half an hour from the 30th day on, a share of them late by up to 36 hours."""
    chance = random.Random(number)
    start = _PAST_DAYS * _DAY + number * _EPOCH_MINUTES
    minutes = sorted(chance.choices(range(start, start + _EPOCH_MINUTES), k=rows))
    for at in chance.sample(range(rows), k=round(rows * late_share)):
        minutes[at] -= chance.randrange(1, 36 * 60)
    _orders(chance, first_id, minutes).write_parquet(file)


def _orders(chance: random.Random, first_id: int, minutes: list[int]) -> pl.DataFrame:
    count = len(minutes)
    return pl.DataFrame(
        {
            "order_id": range(first_id, first_id + count),
            "group_id": chance.choices(range(GROUPS), k=count),
            "minute": minutes,
            "amount": chance.choices(range(100, 10_000), k=count),
        }
    ).select(
        "order_id",
        "group_id",
        (pl.lit(_START) + pl.duration(minutes=pl.col("minute"))).cast(pl.Datetime("us", "UTC")).alias("event_time"),
        "amount",
    )
