"""Views and visitors so far, one tick per minute: Headwater, Flink's CUMULATE, and a full count on Spark.

python -m benchmarks.cumulate [--rows 1000000] [--epochs 20] [--share 0.01] [--backends delta] [--flink FOLDER]

Each side runs in its own process, over the same views and with the same heap; all must have the same ticks. With
`--share 0.9`, nearly all views are of one page. A tick waits from the time when the watermark passes its minute until
it is published. If a side makes ticks in consecutive epochs, that is the duration of an epoch.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import polars as pl

from . import page_views
from .results import WARM_UP, Result, Trial, tell
from .sides import typical_and_slow
from .tables import print_table

_FOLDER = Path("var/bench/cumulate")


def _prepared(rows: int, epochs: int, share: float) -> Trial:
    """A trial with its views written."""
    folder = _FOLDER / f"{rows}-{share:g}"
    shutil.rmtree(folder, ignore_errors=True)
    page_views.write(folder, rows, epochs, share)
    right = pl.read_parquet(folder / page_views.RIGHT)
    return Trial(folder, rows // epochs, rows, lambda found: page_views.wrong(found, right, epochs))


def _sides(options: argparse.Namespace) -> dict[str, list[str]]:
    """The command of each side; the folder of the views and the side's own folder are appended to it."""
    here = [sys.executable, "-m"]
    sides = {backend: [*here, "benchmarks.cumulate_headwater", backend] for backend in options.backends}
    sides["spark-anew"] = [*here, "benchmarks.cumulate_anew"]
    if options.flink is None:
        print("Flink is left out: no --flink says where it is, see docs/benchmarks.md", file=sys.stderr)
        return sides
    return sides | {"flink": [str(options.flink / "venv" / "bin" / "python"), "benchmarks/cumulate_flink.py"]}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="total number of views")
    parser.add_argument("--epochs", type=int, default=20, help="number of epochs")
    parser.add_argument(
        "--share", type=float, default=1 / page_views.PAGES, help="share of the first page; the others are equal"
    )
    parser.add_argument("--backends", nargs="+", default=["delta"], help="the first one measures the floor")
    parser.add_argument("--flink", metavar="FOLDER", type=Path, help="with PyFlink in venv, and its jars in jars")
    options = parser.parse_args()
    if options.epochs <= WARM_UP:
        parser.error(f"--epochs: the first {WARM_UP} warm up, and are not counted")
    return options


def main() -> int:
    """Measure, print the table, and write it as JSON; return 0 if every tick is right."""
    options = _options()
    trial = _prepared(options.rows, options.epochs, options.share)
    results = trial.measured(_sides(options))
    told = tell(results, _FOLDER / f"cumulate-{options.rows}-{options.share:g}.json")
    print_table([["side", "tick waits p50 s", "p95 s"], *map(_waits, results)])
    return told


def _waits(result: Result) -> list[str]:
    figures = result.ran.figures
    typical, slow = typical_and_slow(figures.waits or figures.epochs[WARM_UP:])
    return [result.side, f"{typical:.2f}", f"{slow:.2f}"]


if __name__ == "__main__":
    sys.exit(main())
