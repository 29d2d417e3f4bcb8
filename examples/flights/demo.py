"""Rank a year of flights epoch by epoch, then compare the result with one batch window over all rows.

python -m examples.flights.demo [--backend delta|hudi-mor|hudi-cow|memory]

On Delta, the first half of the year is a backlog: one epoch on Spark. The epochs after it are small and need no Spark.
HEADWATER_BACKEND__ENGINE=spark|local|auto chooses the engine for all epochs.
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
from attrs import evolve

from headwater import Deployment, EpochReport, FilesInput, Headwater
from headwater.app.config import load
from headwater.app.run.progress import progress

from .prepare import write

_HERE = Path(__file__).parent
ROOT = _HERE.parents[1] / "var" / "flights"
CONFIG = _HERE / "flights.toml"
PIPELINE = "flight_rank"
_BACKLOG = 13
_ENGINE = "HEADWATER_BACKEND__ENGINE"


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
    deployment = load(CONFIG)
    if backend == "delta" and _ENGINE not in os.environ:
        _run_backlog(deployment)
    with Headwater(deployment, report=_tell) as headwater:
        headwater.run(until_idle=True)
        print(f"\n{headwater.epoch(PIPELINE) + 1} epochs in {perf_counter() - began:.0f} s on {backend}")
        _show_sample(headwater)
        _show_corrections(headwater)
        return compare(polars(headwater.answer(f"{PIPELINE}.ranks").frame))


def polars(frame: Any) -> pl.DataFrame:
    """The rows of a view as a Polars frame; here they are few enough for that."""
    lazy = frame if isinstance(frame, nw.LazyFrame) else nw.from_native(frame).lazy()
    rows: pl.DataFrame = lazy.collect(backend="polars").to_native()
    return rows


def _run_backlog(deployment: Deployment) -> None:
    """Run the first half of the year as one epoch on Spark."""
    source = evolve(deployment.sources["landings"], input=FilesInput(str(ROOT / "landings"), _BACKLOG))
    backlog = evolve(deployment, backend=evolve(deployment.backend, engine="spark"), sources={"landings": source})
    with Headwater(backlog, report=_tell) as headwater:
        headwater.pipeline(PIPELINE).runner.advance()


def _tell(epoch: EpochReport) -> None:
    print(progress(epoch), flush=True)


def _show_sample(headwater: Headwater) -> None:
    ranks = headwater.answer(f"{PIPELINE}.ranks").frame
    sample = polars(ranks.filter(nw.col("tailnum") == "N14228")).sort("rank")
    print("\nThe first flights of one aircraft's year:")
    print(sample.select("tailnum", "flight_id", "carrier", "flight", "origin", "dest", "scheduled", "rank").head(8))


def _show_corrections(headwater: Headwater) -> None:
    last = headwater.epoch(PIPELINE)
    changes = headwater.answer(f"{PIPELINE}.changes", at=last, since=last - 1).frame
    moved = polars(changes).filter(pl.col("row_kind") == "+U")
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
