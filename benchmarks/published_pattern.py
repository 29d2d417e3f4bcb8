"""Rank the orders on which a published lookup-join pattern goes wrong, a day an epoch at full speed, and count errors.

    python -m benchmarks.published_pattern --data DIR [--backends delta memory] [--days 8]

DIR holds `orders_day/*.parquet`, a file a day of arrival in order of event time, and `oracle_rank.parquet`, the true
row number (`rn`) of each `order_id` within its group, ties by `order_id`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from time import perf_counter

import narwhals as nw
import polars as pl
from attrs import frozen

from headwater import Headwater
from headwater.app.run.progress import progress

_FOLDER = Path("var/published_pattern")
_CONFIG = """
[backend]
name = "{backend}"
path = "lake"
[sources.orders]
kind = "files"
path = "in"
format = "parquet"
schema = "order_id bigint, group_id bigint, event_ms bigint, arrival_ms bigint, amount_cents bigint"
[pipelines.orders]
service = "ranking"
source = "orders"
group = ["group_id"]
id = ["order_id"]
order_by = "event_ms"
method = "row_number"
tie_break = ["order_id"]
segment = 86400000  # a day, in the column's milliseconds
"""


@frozen
class Result:
    """The result of one backend.

    Args:
        backend: the name of the backend.
        rows: the number of input rows.
        missing: the number of rows without a rank.
        wrong: the number of ranks that differ from the window over all rows.
        wrong_by_peer: the number of ranks that differ from `oracle_rank.parquet`.
        seconds: the duration of the run without the start of the engine.
    """

    backend: str
    rows: int
    missing: int
    wrong: int
    wrong_by_peer: int
    seconds: float

    @property
    def right(self) -> bool:
        return not (self.missing or self.wrong or self.wrong_by_peer)

    def __str__(self) -> str:
        return (
            f"{self.backend}: {self.rows:,} rows in, {self.missing:,} without a rank, {self.wrong:,} wrong ranks by the"
            f" window over all rows, {self.wrong_by_peer:,} by oracle_rank.parquet, {self.seconds:.1f} s"
        )


def main() -> int:
    """Replay the days on each backend; return 0 if every rank is right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder with orders_day/ and oracle_rank.parquet")
    parser.add_argument("--backends", nargs="+", default=["delta", "memory"])
    parser.add_argument("--days", type=int, default=8, help="how many files of orders_day/ (default 8)")
    options = parser.parse_args()
    days = sorted(options.data.joinpath("orders_day").glob("*.parquet"))[: options.days]
    results = [_measured(backend, days, options.data / "oracle_rank.parquet") for backend in options.backends]
    print(*results, sep="\n")
    return 0 if days and all(result.right for result in results) else 1


def _measured(backend: str, days: list[Path], peer: Path) -> Result:
    orders, truth = pl.read_parquet(days), pl.read_parquet(peer).select("order_id", peer="rn")
    ranks, seconds = _run(backend, days)
    held = orders.select("order_id", window=_row_number()).join(ranks, on="order_id", how="left")
    held = held.join(truth, on="order_id", how="left")
    return Result(
        backend,
        orders.height,
        held["rank"].null_count(),
        held.filter(pl.col("rank") != pl.col("window")).height,
        held.filter(~pl.col("rank").eq_missing(pl.col("peer"))).height,
        seconds,
    )


def _row_number() -> pl.Expr:
    place = pl.struct("event_ms", "order_id").rank("ordinal")
    return place.over("group_id").cast(pl.Int64)


def _run(backend: str, days: list[Path]) -> tuple[pl.DataFrame, float]:
    """Run all days; return the ranks and the seconds of the run."""
    config = _prepared(backend, days)
    with Headwater.from_config(config, report=lambda epoch: print(progress(epoch), flush=True)) as headwater:
        headwater.start()
        began = perf_counter()
        headwater.run(until_idle=True)
        seconds = perf_counter() - began
        ranks = nw.from_native(headwater.view("orders")).lazy().select("order_id", "rank")
        return ranks.collect(backend="polars").to_native(), seconds


def _prepared(backend: str, days: list[Path]) -> Path:
    """Write a configuration, and the days' files into the folder that it reads; there are no tables yet."""
    shutil.rmtree(_FOLDER, ignore_errors=True)
    landing = _FOLDER / "in"
    landing.mkdir(parents=True)
    for day in days:
        landing.joinpath(day.name).symlink_to(day.absolute())
    config = _FOLDER / "orders.toml"
    config.write_text(_CONFIG.format(backend=backend))
    return config


if __name__ == "__main__":
    sys.exit(main())
