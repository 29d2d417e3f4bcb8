"""Merge two topics by their key: Headwater's wide table, a plain append, a join on Spark, and Paimon's tables.

python -m benchmarks.wide_table [--keys 200000] [--rows 50000] [--backends delta hudi-mor] [--flink FOLDER]

Each side runs in its own process, over the same records and with the same heap; all must have the same rows.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import polars as pl

from . import items
from .results import WARM_UP, Trial, tell
from .sides import wrong_rows

_FOLDER = Path("var/bench/wide_table")


def _prepared(count: int, rows: int) -> Trial:
    """A trial with its records written."""
    folder = _FOLDER / str(count)
    shutil.rmtree(folder, ignore_errors=True)
    items.write(folder, count, rows)
    (records,) = pl.scan_parquet(folder / "rows" / "*.parquet").select(pl.len()).collect()["len"]
    right = pl.read_parquet(folder / items.RIGHT)
    return Trial(folder, rows, records, lambda found: wrong_rows(found, right, items.KEY))


def _sides(options: argparse.Namespace) -> dict[str, list[str]]:
    """The command of each side; the folder of the records and the side's own folder are appended to it."""
    here = [sys.executable, "-m"]
    sides = {backend: [*here, "benchmarks.wide_headwater", backend] for backend in options.backends}
    sides["spark-join"] = [*here, "benchmarks.wide_rejoin", str(options.every)]
    if options.flink is None:
        print("Paimon is left out: no --flink says where Flink is, see docs/benchmarks.md", file=sys.stderr)
        return sides
    there = [str(options.flink / "venv" / "bin" / "python"), "benchmarks/wide_paimon.py"]
    return sides | {f"paimon-{way}": [*there, way] for way in ("epochs", "stream")}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=200_000, help="number of keys; each topic has all of them")
    parser.add_argument("--rows", type=int, default=50_000, help="records per epoch, of both topics together")
    parser.add_argument("--backends", nargs="+", default=["delta", "hudi-mor"], help="the first one measures the floor")
    parser.add_argument("--every", type=int, default=1, help="number of epochs between two joins by Spark")
    parser.add_argument("--flink", metavar="FOLDER", type=Path, help="with PyFlink in venv, and its jars in jars")
    options = parser.parse_args()
    if 2 * options.keys <= WARM_UP * options.rows:
        parser.error(f"--rows: the first {WARM_UP} epochs warm up, and are not counted; make them smaller")
    return options


def main() -> int:
    """Measure, print the table, and write it as JSON; return 0 if every row is right."""
    options = _options()
    results = _prepared(options.keys, options.rows).measured(_sides(options))
    return tell(results, _FOLDER / f"wide-table-{options.keys}.json")


if __name__ == "__main__":
    sys.exit(main())
