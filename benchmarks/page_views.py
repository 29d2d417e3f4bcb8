"""Views of pages in one day, a little out of order, and the curves that they come to.

The same at every run. Behind the last view comes one of a later day, so that this one is over.
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
"""Of `RIGHT`, and of what a side writes for the check: the minute that a tick ends, from the day's start; a page, or
null for all of them; its views and visitors by then."""

_MINUTES, _VISITORS = DAY // timedelta(minutes=1), 50_000
_DISORDER = 30  # seconds, less than the minute that a tick waits
_CURVE_KINDS = {"minute": pl.Int64, "page": pl.String, "pv": pl.Int64, "uv": pl.Int64}


def write(folder: Path, rows: int, epochs: int, share: float) -> None:
    """Write views: `rows/0000.parquet` and so on, an epoch each; `stream` has all in one file, `RIGHT` the curves.

    Args:
        folder: where.
        rows: how many.
        epochs: how many files.
        share: of the first page; the others have as much as each other.
    """
    views, size = _views(rows, share), -(-rows // epochs)
    for name in ("rows", STREAM):
        (folder / name).mkdir(parents=True)
    end = pl.DataFrame({"at": [START + 3 * DAY], "page": ["page-0"], "visitor": [0]})
    arriving = views.vstack(end.cast(dict(views.schema)))
    for number in range(epochs):
        length = size if number < epochs - 1 else None
        arriving.slice(number * size, length).write_parquet(folder / "rows" / f"{number:04d}.parquet")
    # Flink's reader is given whole numbers: what it makes of Parquet's timestamps depends on how they were written.
    arriving.with_columns(pl.col("at").dt.epoch("ms")).write_parquet(folder / STREAM / "views.parquet")
    curves(views).write_parquet(folder / RIGHT)


def curves(views: pl.DataFrame) -> pl.DataFrame:
    """What a batch says at the end of every minute, of every page from its first view on, and of all."""
    minute = (pl.col("at") - START).dt.total_minutes() + 1
    placed = views.select(minute.alias("minute"), "page", "visitor")
    parts = [_counted(each) for each in (placed, placed.with_columns(page=pl.lit(None, pl.String)))]
    return pl.concat(parts).select(*CURVE)


def wrong(found: pl.DataFrame, right: pl.DataFrame, epochs: int) -> int:
    """How many ticks are other than they should be, too many or missing.

    A side that drew as many minutes as there are epochs is asked for those alone, else for all of them.
    """
    told = found.select(pl.col(name).cast(kind) for name, kind in _CURVE_KINDS.items())
    drawn = told.select("minute").unique()
    expected = right.join(drawn, on="minute", how="semi") if drawn.height == epochs else right
    same = expected.join(told.unique(), on=[*CURVE], how="semi", nulls_equal=True).height
    return told.height + expected.height - 2 * same


def reached(newest: int) -> datetime:
    """The end of the day's newest minute that is over when the newest view is of a second since 1970."""
    return min(datetime.fromtimestamp(newest // 60 * 60, UTC) - timedelta(minutes=1), START + DAY)


def curve_of(ticks: Any) -> Any:
    """The columns `CURVE` of the day's ticks, of a frame of Spark that has `window_start` and `tick`."""
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
