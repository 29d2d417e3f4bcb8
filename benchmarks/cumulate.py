"""Cumulate windows over a growing day, with views spread evenly over pages, and with one page that has nearly all.

python -m benchmarks.cumulate [--backend delta] [--rows 100000] [--epochs 12] [--share 0.9]
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import polars as pl
from attrs import define, field, frozen

from headwater import Headwater

from .deployment import fresh
from .floors import floor_of
from .tables import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .floors import Floor

_DAY = datetime(2024, 3, 1, tzinfo=UTC)
_PAGES, _VISITORS = 100, 50_000
_WARM = 4  # epochs that are not counted
_WORK = """
[sources.views]
kind = "files"
path = "in"
format = "parquet"
schema = "at timestamp, page string, visitor bigint"
event_time = "at"
[pipelines.page_views]
service = "cumulate"
source = "views"
step = "1m"
dimensions = [["page"], []]
measures = { pv = "count(*)", uv = "count(distinct visitor)" }
"""


@frozen
class Views:
    """Views of a minute each.

    Args:
        rows: of each minute.
        share: of the first page.
    """

    rows: int
    share: float

    def minute(self, number: int) -> pl.DataFrame:
        """The views of a minute of the day, in no order."""
        chance = Random(number)
        others = (1 - self.share) / (_PAGES - 1)
        pages = chance.choices(range(_PAGES), [self.share, *[others] * (_PAGES - 1)], k=self.rows)
        visitors = chance.choices(range(_VISITORS), k=self.rows)
        within = chance.choices(range(60_000_000), k=self.rows)
        return pl.DataFrame(
            {
                "at": [_DAY + timedelta(minutes=number)] * self.rows,
                "page": [f"page-{each}" for each in pages],
                "visitor": visitors,
            }
        ).with_columns(pl.col("at") + pl.Series(within).cast(pl.Duration("us")))


@define(eq=False)
class Run:
    """One day, a minute an epoch."""

    folder: Path
    views: Views
    headwater: Headwater
    floor: Floor
    epochs: list[float] = field(factory=list)
    floors: list[float] = field(factory=list)

    def minute(self, number: int) -> None:
        """Let a minute's views come."""
        file = self.folder / "in" / f"{number:05}.parquet"
        self.views.minute(number).write_parquet(file)
        began = perf_counter()
        self.headwater.run(until_idle=True)
        self.epochs.append(perf_counter() - began)
        self.floors.append(self.floor.append(file))

    def wrong(self) -> int:
        """How many of the last ticks are not what a batch over their rows says."""
        files = sorted((self.folder / "in").glob("*.parquet"))[:-1]  # the last minute has no tick yet
        rows = pl.concat(map(pl.read_parquet, files))
        counted = {"pv": pl.len().cast(pl.Int64), "uv": pl.col("visitor").n_unique().cast(pl.Int64)}
        whole = rows.select(pl.lit("").alias("page"), **counted)
        expected = set(pl.concat([rows.group_by("page").agg(**counted), whole]).rows())
        last = _DAY + timedelta(minutes=len(files))
        told = self.headwater.answer("page_views.ticks").frame.collect(backend="polars").to_native()
        at_last = told.filter(pl.col("tick") == last).with_columns(pl.col("page").fill_null(""))
        return len(expected ^ set(at_last.select("page", "pv", "uv").rows()))


def _measured(folder: Path, backend: str, views: Views, epochs: int) -> list[str]:
    config = fresh(folder, backend, upkeep="", spark={"spark.driver.memory": "2g"}, work=_WORK)
    with Headwater.from_config(config, report=lambda _report: None) as headwater:
        headwater.start()
        run = Run(folder, views, headwater, floor_of(backend, folder))
        for number in range(epochs):
            run.minute(number)
        early, late = run.epochs[_WARM : _WARM + 3], run.epochs[-3:]
        floor = median(run.floors[_WARM:])
        told = (f"{views.share:.0%}", f"{views.rows:,}", f"{median(early):.2f}", f"{median(late):.2f}")
        return [*told, f"{floor:.2f}", f"{median(run.epochs[_WARM:]) / floor:.1f}", str(run.wrong())]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table; 1 if a tick is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=["delta", "hudi-mor", "hudi-cow"], default="delta")
    parser.add_argument("--rows", type=int, default=100_000, help="of an epoch, which is a minute")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--share", type=float, default=0.9, help="of the largest page")
    parser.add_argument("--folder", type=Path, default=Path("var/cumulate"))
    options = parser.parse_args(arguments)
    shares = (1 / _PAGES, options.share)
    lines = [_measured(options.folder, options.backend, Views(options.rows, share), options.epochs) for share in shares]
    names = ["largest page", "rows an epoch", "early epoch s", "late epoch s", "floor s", "x floor", "wrong"]
    print_table([names, *lines])
    return int(any(line[-1] != "0" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
