"""Rank a year of flights epoch by epoch, then compare the result with one batch window over all rows.

python -m examples.flights.demo [--backend delta|hudi-mor|hudi-cow|memory]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import narwhals as nw
import polars as pl

from headwater import Headwater
from headwater.app.run.progress import progress

from .prepare import write

_HERE = Path(__file__).parent
ROOT = _HERE.parents[1] / "var" / "flights"
CONFIG = _HERE / "flights.toml"
PIPELINE = "flight_rank"


def main() -> int:
    """Run the demo; return 0 if every rank is right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", default="delta", help="memory, delta (default), hudi-mor or hudi-cow")
    backend = parser.parse_args().backend
    os.environ |= {"HEADWATER_BACKEND__NAME": backend}
    print("Fetching and sorting the flights of 2013 …", flush=True)
    write(ROOT / "landings")
    shutil.rmtree(ROOT / "lake", ignore_errors=True)
    began = perf_counter()
    with Headwater.from_config(CONFIG, report=lambda epoch: print(progress(epoch), flush=True)) as headwater:
        headwater.run(until_idle=True)
        print(f"\n{headwater.epoch(PIPELINE) + 1} epochs in {perf_counter() - began:.0f} s on {backend}")
        _show_sample(headwater)
        _show_corrections(headwater)
        return compare(polars(headwater.view(f"{PIPELINE}.ranks")))


def polars(frame: Any) -> pl.DataFrame:
    """The rows of a view as a Polars frame; here they are few enough for that."""
    rows: pl.DataFrame = nw.from_native(frame).lazy().collect(backend="polars").to_native()
    return rows


def _show_sample(headwater: Headwater) -> None:
    ranks = nw.from_native(headwater.view(f"{PIPELINE}.ranks"))
    sample = polars(ranks.filter(nw.col("tailnum") == "N14228").to_native()).sort("rank")
    print("\nThe first flights of one aircraft's year:")
    print(sample.select("tailnum", "flight_id", "carrier", "flight", "origin", "dest", "scheduled", "rank").head(8))


def _show_corrections(headwater: Headwater) -> None:
    last = headwater.epoch(PIPELINE)
    moved = polars(headwater.changes(PIPELINE, after=last - 1, until=last)).filter(pl.col("row_kind") == "+U")
    print(
        f"\nRows whose rank the last epoch corrected, because an earlier flight became known after them: {moved.height}"
    )
    print(moved.select("tailnum", "flight_id", "scheduled", "old_rank", "new_rank").sort("tailnum", "new_rank").head(8))


def compare(ranks: pl.DataFrame, landings: Path = ROOT / "landings") -> int:
    """Compare ranks with the window function over all input at once; return 0 if every rank is right."""
    everything = pl.concat([pl.read_ndjson(file) for file in sorted(landings.glob("*.json"))])
    known = everything.filter(pl.col("tailnum").is_not_null())
    window = known.select("flight_id", pl.col("scheduled").rank("dense").over("tailnum").cast(pl.Int64).alias("batch"))
    ours = ranks.select("flight_id", "rank")
    both = window.join(ours, on="flight_id", how="full", coalesce=True)
    wrong = both.filter(~pl.col("batch").eq_missing(pl.col("rank"))).height
    dead = everything.height - known.height
    print(f"\n{everything.height:,} rows came in, {dead:,} without a tail number went to the dead letters.")
    print(f"{wrong:,} mismatches of {known.height:,} ranks against the batch window over all rows.")
    return 1 if wrong or ours.height != known.height else 0


if __name__ == "__main__":
    sys.exit(main())
