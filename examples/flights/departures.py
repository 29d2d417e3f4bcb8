"""The departures of 2013 in the order in which they are sent, and a batch query for every minute of their days."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from .prepare import table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

_LATE = 45  # minutes by which one message in a hundred is delayed
TICK = ("window_start", "tick", "grouping", "origin")
MEASURES = ("departures", "aircraft")


def sent(days: int) -> pl.DataFrame:
    """The departures of the first `days` of the year, in the order in which they are sent; the same in every run.

    Columns: flight_id, origin, tailnum, departed (UTC).
    """
    begins = pl.datetime(2013, 1, 1, time_zone="America/New_York").dt.convert_time_zone("UTC")
    flights = table().filter(pl.col("scheduled") < begins + pl.duration(days=days), pl.col("dep_delay").is_not_null())
    departed = pl.col("scheduled") + pl.duration(minutes=pl.col("dep_delay"))
    mixed = pl.col("flight_id") * 2_654_435_761 % 2**32
    takes = mixed % 5 + pl.when(mixed % 100 == 0).then(_LATE).otherwise(0)
    records = flights.select("flight_id", "origin", "tailnum", departed.alias("departed"), takes.alias("takes"))
    in_order = records.sort(pl.col("departed") + pl.duration(minutes=pl.col("takes")), "flight_id")
    return in_order.drop("takes")


def messages(departures: pl.DataFrame) -> Iterator[str]:
    """The departures as JSON."""
    records = departures.with_columns(pl.col("departed").dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    return iter(records.select(pl.struct(pl.all()).struct.json_encode().alias("message"))["message"])


def batch(departures: pl.DataFrame, watermark: datetime) -> pl.DataFrame:
    """The expected ticks up to a watermark, by a batch query: one row for each minute with a departure.

    Columns: `TICK` and `MEASURES`.
    """
    local = pl.col("departed").dt.convert_time_zone("America/New_York")
    placed = departures.with_columns(
        window_start=local.dt.truncate("1d").dt.convert_time_zone("UTC"),
        tick=pl.col("departed").dt.truncate("1m") + pl.duration(minutes=1),
    )
    by_origin = placed.with_columns(grouping=pl.lit("origin"))
    in_total = placed.with_columns(grouping=pl.lit(""), origin=pl.lit(None, pl.String))
    rows = pl.concat([each.select(*TICK, "tailnum") for each in (by_origin, in_total)])
    group = ["window_start", "grouping", "origin"]
    known = pl.col("tailnum").is_not_null()
    first = known & (pl.col("tick") == pl.col("tick").min().over(*group, "tailnum"))
    again = pl.struct(*group, "tick", "tailnum").is_first_distinct()
    counted = (
        rows.with_columns(new=(first & again).cast(pl.Int64))
        .group_by(*TICK)
        .agg(pl.len().cast(pl.Int64).alias("departures"), pl.col("new").sum().alias("aircraft"))
    )
    sums = [pl.col(name).cum_sum().over(group, order_by="tick") for name in MEASURES]
    return counted.with_columns(sums).filter(pl.col("tick") <= watermark).select(*TICK, *MEASURES)
