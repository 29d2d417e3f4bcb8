"""What an epoch of a view costs, by the size of the wide table that it reads: 100 of its keys change in each epoch.

python -m benchmarks.view_lookups [--rows 100000 1000000] [--epochs 10] [--backend delta:local]
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import polars as pl
from attrs import define, field

from headwater import Headwater

from .deployment import fresh
from .tables import print_table

if TYPE_CHECKING:
    from headwater.app.run.report import EpochReport

_FOLDER = Path("var/bench/view_lookups")
_HEAD = ("table rows", "view whole s", "view epoch s", "wrong")
_CHANGED, _NAMES = 100, 1_000
_WORK = """
[sources.items]
kind = "files"
path = "in/items"
format = "parquet"
schema = "id bigint, ref bigint, price bigint, seq bigint"
[sources.names]
kind = "files"
path = "in/names"
format = "parquet"
schema = "ref bigint, name string, seq bigint"
[pipelines.item]
service = "wide_table"
key = ["id"]
topics.items = { source = "items", columns = ["ref", "price"], sequence = ["seq"] }
[pipelines.name]
service = "wide_table"
key = ["ref"]
topics.names = { source = "names", columns = ["name"], sequence = ["seq"] }
[pipelines.named]
service = "materialized_view"
inputs = { i = "item.rows", n = "name.rows" }
align = "newest"
key = ["id"]
sql = "SELECT i.id, i.price, n.name FROM i JOIN n ON n.ref = i.ref"
"""


@define(eq=False)
class Trial:
    """One size of the wide table."""

    backend: str
    rows: int
    epochs: int
    config: Path = field(init=False)
    prices: pl.DataFrame = field(init=False)
    reports: list[EpochReport] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.config = fresh(_FOLDER, self.backend, upkeep="", work=_WORK)
        for name in ("items", "names"):
            (self._landing / name).mkdir()
        names = pl.select(ref=pl.int_range(_NAMES), seq=pl.lit(0, pl.Int64))
        names.with_columns(name=pl.format("name {}", "ref")).write_parquet(self._landing / "names" / "0000.parquet")
        self.prices = pl.select(id=pl.int_range(self.rows), price=pl.lit(0, pl.Int64))

    @property
    def _landing(self) -> Path:
        return self.config.parent / "in"

    def measure(self) -> tuple[str, ...]:
        """Run, and return the cells of the table's line."""
        with Headwater.from_config(self.config, report=self.reports.append) as headwater:
            whole = self._epoch(headwater, 0, range(self.rows))
            changes = (random.Random(number).sample(range(self.rows), _CHANGED) for number in range(self.epochs))
            seconds = [self._epoch(headwater, number, sorted(ids)) for number, ids in enumerate(changes, 1)]
            found = pl.DataFrame(headwater.view("named").rows(), ["id", "price", "name"], orient="row")
        right = self.prices.with_columns(name=pl.format("name {}", pl.col("id") % _NAMES))
        wrong = right.join(found, on=right.columns, how="anti").height + abs(found.height - right.height)
        return f"{self.rows:,}", f"{whole:.2f}", f"{median(seconds):.3f}", str(wrong)

    def _epoch(self, headwater: Headwater, number: int, ids: range | list[int]) -> float:
        """Change the price of some items; return the seconds of the view's epoch."""
        changed = pl.DataFrame({"id": ids}).with_columns(price=pl.lit(number, pl.Int64))
        self.prices = self.prices.update(changed, on="id")
        items = changed.with_columns(ref=pl.col("id") % _NAMES, seq=pl.col("price"))
        items.write_parquet(self._landing / "items" / f"{number:04d}.parquet")
        headwater.run(until_idle=True)
        return sum(self.reports[-1].seconds.values())


def main() -> int:
    """Measure, and print the table; return 0 if every row is right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--backend", default="delta:local")
    options = parser.parse_args()
    lines = [Trial(options.backend, rows, options.epochs).measure() for rows in options.rows]
    print_table([[*_HEAD], *map(list, lines)])
    return int(any(line[-1] != "0" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
