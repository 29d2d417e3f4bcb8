"""The batch join of the three topics and the rankings over it, in Polars: the expected results of the pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from .topics import DELETE, FLIGHT_COLUMNS, KEY, corrects

if TYPE_CHECKING:
    from collections.abc import Mapping

_YEAR = 2013
_SCHEDULED = pl.col("scheduled").is_not_null()


def joined(topics: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """One row for each flight in any topic, with the newest values of each topic; without deleted flights.

    Args:
        topics: the records of each topic, in the order in which they were sent.
    """
    reports = topics["weather"].filter(pl.col("temp").is_not_null())
    in_full = _newest(reports.filter(~corrects()), "observed_at")
    newest = {
        "flights": _newest(topics["flights"], "updated_at").select(
            KEY, *FLIGHT_COLUMNS, "state", gone=pl.col("op") == DELETE
        ),
        "temp": _newest(reports, "observed_at", "revision").select(KEY, "temp"),
        "wind": in_full.select(KEY, "wind_speed", wet=(pl.col("precip") > 0) | (pl.col("visib") < 3)),
        "planes": _newest(topics["planes"], "assignment").select(
            KEY, "tailnum", "model", "seats", age=_YEAR - pl.col("built")
        ),
    }
    keys = pl.concat([each.select(KEY) for each in newest.values()]).unique()
    for each in newest.values():
        keys = keys.join(each, on=KEY, how="left")
    return keys.filter(~pl.col("gone").fill_null(value=False)).drop("gone")


def reported_flights(topics: dict[str, pl.DataFrame]) -> dict[str, int]:
    """The number of flights of which each topic has records, including deleted flights."""
    used = topics | {"weather": topics["weather"].filter(pl.col("temp").is_not_null())}
    return {name: records[KEY].n_unique() for name, records in used.items()}


def carrier_days(rows: pl.DataFrame) -> pl.DataFrame:
    """For each day and carrier its measures and its `place` by mean arrival delay; null if no flight has landed."""
    by_day = rows.filter(_SCHEDULED).group_by(pl.col("scheduled").dt.date().alias("day"), "carrier").agg(*_measures())
    return by_day.with_columns(place=pl.col("mean_arr_delay").rank("min").over("day").cast(pl.Int32))


def carriers(rows: pl.DataFrame) -> pl.DataFrame:
    """The same for each carrier, over the flights of all days so far."""
    ever = rows.filter(_SCHEDULED).group_by("carrier").agg(*_measures())
    return ever.with_columns(place=pl.col("mean_arr_delay").rank("min").cast(pl.Int32))


RANKINGS = {"carrier_days": carrier_days, "carriers": carriers}
"""The batch query of each published table."""


def _measures() -> list[pl.Expr]:
    return [
        pl.len().cast(pl.Int64).alias("flights"),
        pl.col("arr_delay").count().cast(pl.Int64).alias("landed"),
        pl.col("arr_delay").mean().alias("mean_arr_delay"),
        pl.col("wet").sum().cast(pl.Int64).alias("wet"),
        pl.col("age").mean().alias("mean_age"),
    ]


def _newest(records: pl.DataFrame, *sequence: str) -> pl.DataFrame:
    """The record of each flight with the highest sequence. Nulls are lowest; among equal ones the last sent wins."""
    sent = records.select(KEY, *sequence, sent=pl.int_range(pl.len()))
    ordered = sent.sort(*sequence, "sent", nulls_last=False)
    return records[ordered.unique(KEY, keep="last", maintain_order=True)["sent"]]


def mismatches(ours: pl.DataFrame, batch: pl.DataFrame, *key: str) -> int:
    """The number of keys whose rows differ between the two, plus the number of duplicate keys."""
    mine = ours.select(pl.col(name).cast(type_) for name, type_ in batch.schema.items())
    both = pl.concat([mine, batch])
    differing = both.filter(~both.is_duplicated()).select(key).n_unique()
    return differing + ours.select(key).is_duplicated().sum() + batch.select(key).is_duplicated().sum()
