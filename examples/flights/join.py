"""The batch join of the three topics, and the rankings over it, in plain Polars: what the pipelines must come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from .topics import DELETE, KEY, TOLD, corrects

if TYPE_CHECKING:
    from collections.abc import Mapping

_YEAR = 2013
_SCHEDULED = pl.col("scheduled").is_not_null()


def joined(topics: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """One row for each flight that any topic has told of, but for those taken off: the newest that each has told of it.

    Args:
        topics: records of each, in the order in which they were sent.
    """
    reports = topics["weather"].filter(pl.col("temp").is_not_null())
    in_full = _newest(reports.filter(~corrects()), "observed_at")
    told = {
        "flights": _newest(topics["flights"], "updated_at").select(KEY, *TOLD, "state", gone=pl.col("op") == DELETE),
        "temp": _newest(reports, "observed_at", "revision").select(KEY, "temp"),
        "wind": in_full.select(KEY, "wind_speed", wet=(pl.col("precip") > 0) | (pl.col("visib") < 3)),
        "planes": _newest(topics["planes"], "assignment").select(
            KEY, "tailnum", "model", "seats", age=_YEAR - pl.col("built")
        ),
    }
    keys = pl.concat([each.select(KEY) for each in told.values()]).unique()
    for each in told.values():
        keys = keys.join(each, on=KEY, how="left")
    return keys.filter(~pl.col("gone").fill_null(value=False)).drop("gone")


def told_of(topics: dict[str, pl.DataFrame]) -> dict[str, int]:
    """Of how many flights each topic has told, be it that they are taken off."""
    used = topics | {"weather": topics["weather"].filter(pl.col("temp").is_not_null())}
    return {name: records[KEY].n_unique() for name, records in used.items()}


def carrier_days(rows: pl.DataFrame) -> pl.DataFrame:
    """Of each day and carrier its flights, and its place by mean arrival delay; null where none has landed."""
    by_day = rows.filter(_SCHEDULED).group_by(pl.col("scheduled").dt.date().alias("day"), "carrier").agg(*_measures())
    return by_day.with_columns(place=pl.col("mean_arr_delay").rank("min").over("day").cast(pl.Int32))


def carriers(rows: pl.DataFrame) -> pl.DataFrame:
    """The same of each carrier's flights so far, whatever the day."""
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
    """The record of each flight with the highest sequence, nulls being lowest; of equal ones the last sent."""
    sent = records.select(KEY, *sequence, sent=pl.int_range(pl.len()))
    ordered = sent.sort(*sequence, "sent", nulls_last=False)
    return records[ordered.unique(KEY, keep="last", maintain_order=True)["sent"]]


def mismatches(ours: pl.DataFrame, batch: pl.DataFrame, *key: str) -> int:
    """How many keys have other rows in one than in the other, repeated ones counted."""
    mine = ours.select(pl.col(name).cast(type_) for name, type_ in batch.schema.items())
    both = pl.concat([mine, batch])
    differing = both.filter(~both.is_duplicated()).select(key).n_unique()
    return differing + ours.select(key).is_duplicated().sum() + batch.select(key).is_duplicated().sum()
