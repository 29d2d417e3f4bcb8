"""Large epochs on Spark, each next to its floor: a plain append of the same rows. Every row is checked.

python -m benchmarks.large_epochs [--work retraction cumulate wide ranking] [--rows 1000000] [--epochs 3] [--heap 2g]

Each work runs in its own process, with a local[2] session and the given heap; one file is one epoch, and the last epoch
is shown. With `--explain`, the plans of that epoch are written to `plans.txt` in the folder of the work.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

import polars as pl
from attrs import asdict

from .engines import WORK, wrong_rows
from .large_epochs_side import Cost
from .memory import run_and_watch
from .tables import print_table

_FOLDER = Path("var/bench/large_epochs")
_HEAD = (
    *("work", "rows", "floor s", "epoch s", "x floor", "floor cpu s", "epoch cpu s", "x floor"),
    *("jobs", "stages", "tasks", "task s", "read MiB", "shuffled MiB", "spilled MiB", "peak MiB", "wrong"),
)


def _measure(name: str, options: argparse.Namespace) -> list[str]:
    """Run one work; return the cells of its line of the table."""
    folder = _FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    right = WORK[name].write(folder, options.rows * options.epochs, options.epochs)
    given = [name, options.heap, "plans.txt" if options.explain else "-", str(folder)]
    used = run_and_watch([sys.executable, "-m", "benchmarks.large_epochs_side", *given], folder / "log")
    (floor, epoch) = (Cost(**each) for each in json.loads((folder / "costs.json").read_text())[-1])
    found = WORK[name].found(pl.read_parquet(folder / "found" / "[!_.]*"))
    (folder / "result.json").write_text(json.dumps([asdict(floor), asdict(epoch)], indent=1) + os.linesep)
    return [
        *(name, f"{options.rows:,}", f"{floor.seconds:.2f}", f"{epoch.seconds:.2f}"),
        *(f"{epoch.seconds / floor.seconds:.1f}", f"{floor.cpu:.1f}", f"{epoch.cpu:.1f}"),
        *(f"{epoch.cpu / floor.cpu:.1f}", str(epoch.jobs), str(epoch.stages), str(epoch.tasks)),
        *(f"{epoch.task_seconds:.1f}", f"{epoch.read:.0f}", f"{epoch.shuffled:.0f}", f"{epoch.spilled:.0f}"),
        *(f"{used.peak:.0f}", str(wrong_rows(found.select(right.columns), right))),
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", nargs="+", choices=list(WORK), default=list(WORK))
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of an epoch")
    parser.add_argument("--epochs", type=int, default=3, help="the last one is shown; those before it warm up")
    parser.add_argument("--heap", default="2g", help="spark.driver.memory")
    parser.add_argument("--explain", action="store_true", help="write the plans of the last epoch")
    return parser.parse_args()


def main() -> int:
    """Measure and print the table; return 0 if every row is right."""
    options, lines = _options(), list[list[str]]()
    for name in options.work:
        lines.append(_measure(name, options))
        print(" ".join(lines[-1]), file=sys.stderr, flush=True)
    print_table([[*_HEAD], *lines])
    return 1 if any(line[-1] != "0" for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
