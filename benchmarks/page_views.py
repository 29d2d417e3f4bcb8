"""Views of pages in one day, a little out of order, and the expected curves. The same at every run.

After the last view comes one of a later day, which closes this day.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2024, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
PAGES = 100
RIGHT, STREAM = "right.parquet", "stream"
COLUMNS = "at timestamp, page string, visitor bigint"
CURVE = ("minute", "page", "pv", "uv")
"""Columns of `RIGHT`, and of the file that a side writes for the check: the minute of the day at which the tick ends;
the page, or null for all pages; views and visitors until then."""

_MINUTES, _VISITORS = DAY // timedelta(minutes=1), 50_000
_DISORDER = 30  # seconds, less than the minute that a tick waits
_CURVE_KINDS = {"minute": pl.Int64, "page": pl.String, "pv": pl.Int64, "uv": pl.Int64}


def write(folder: Path, rows: int, epochs: int, share: float) -> None:
    """Write the views: `rows/0000.parquet` and so on for each epoch, `stream` with all in one file, `RIGHT` the curves.

    Args:
        folder: the folder to write to.
        rows: the number of views.
        epochs: the number of files.
        share: the share of the first page, from 0 to 1; all other pages have equal shares.
    """
    views, size = _views(rows, share), -(-rows // epochs)
    for name in ("rows", STREAM):
        (folder / name).mkdir(parents=True)
    end = pl.DataFrame({"at": [START + 3 * DAY], "page": ["page-0"], "visitor": [0]})
    arriving = views.vstack(end.cast(dict(views.schema)))
    for number in range(epochs):
        length = size if number < epochs - 1 else None
        arriving.slice(number * size, length).write_parquet(folder / "rows" / f"{number:04d}.parquet")
    # Whole numbers for Flink's reader: how it reads timestamps from Parquet depends on how they were written.
    arriving.with_columns(pl.col("at").dt.epoch("ms")).write_parquet(folder / STREAM / "views.parquet")
    curves(views).write_parquet(folder / RIGHT)


def curves(views: pl.DataFrame) -> pl.DataFrame:
    """The expected ticks by a batch query: every minute, for each page from its first view on, and for all pages."""
    minute = (pl.col("at") - START).dt.total_minutes() + 1
    placed = views.select(minute.alias("minute"), "page", "visitor")
    parts = [_counted(each) for each in (placed, placed.with_columns(page=pl.lit(None, pl.String)))]
    return pl.concat(parts).select(*CURVE)


def wrong(found: pl.DataFrame, right: pl.DataFrame, epochs: int) -> int:
    """The number of ticks that are wrong, missing or extra.

    If a side wrote as many minutes as there are epochs, only these minutes are checked, else all minutes.
    """
    told = found.select(pl.col(name).cast(kind) for name, kind in _CURVE_KINDS.items())
    drawn = told.select("minute").unique()
    expected = right.join(drawn, on="minute", how="semi") if drawn.height == epochs else right
    same = expected.join(told.unique(), on=[*CURVE], how="semi", nulls_equal=True).height
    return told.height + expected.height - 2 * same


def reached(newest: int) -> datetime:
    """The end of the newest complete minute of the day, given the time of the newest view in seconds since 1970."""
    return min(datetime.fromtimestamp(newest // 60 * 60, UTC) - timedelta(minutes=1), START + DAY)


def curve_of(ticks: Any) -> Any:
    """The ticks of the day in the columns `CURVE`, from a Spark frame with the columns `window_start` and `tick`."""
    minute = "CAST((unix_timestamp(tick) - unix_timestamp(window_start)) / 60 AS bigint) AS minute"
    return ticks.where(f"unix_timestamp(window_start) = {START.timestamp():.0f}").selectExpr(minute, "page", "pv", "uv")


def _views(rows: int, share: float) -> pl.DataFrame:
    chance = Random(rows)
    weights = [share, *[(1 - share) / (PAGES - 1)] * (PAGES - 1)]
    at = chance.choices(range(_MINUTES * 60_000_000), k=rows)
    views = pl.DataFrame(
        {
            "at": at,
            "page": chance.choices([f"page-{number}" for number in range(PAGES)], weights, k=rows),
            "visitor": chance.choices(range(_VISITORS), k=rows),
            "takes": chance.choices(range(_DISORDER * 1_000_000), k=rows),
        }
    )
    arriving = views.sort(pl.col("at") + pl.col("takes"), "visitor")
    return arriving.select(pl.lit(START) + pl.duration(microseconds="at"), "page", "visitor").rename({"literal": "at"})


def _counted(placed: pl.DataFrame) -> pl.DataFrame:
    new = placed.group_by("page", "visitor").agg(pl.col("minute").min()).group_by("page", "minute").agg(uv=pl.len())
    came = placed.group_by("page", "minute").agg(pv=pl.len())
    first = came.group_by("page").agg(first=pl.col("minute").min())
    minutes = pl.DataFrame({"minute": range(1, _MINUTES + 1)}, schema={"minute": came.schema["minute"]})
    steps = first.join(minutes, how="cross").filter(pl.col("minute") >= pl.col("first")).drop("first")
    for each in (came, new):
        steps = steps.join(each, on=["page", "minute"], how="left", nulls_equal=True)
    sums = (pl.col(name).fill_null(0).cum_sum().over("page", order_by="minute").cast(pl.Int64) for name in ("pv", "uv"))
    return steps.with_columns(sums)
