"""Load a table in bulk while its changes arrive: Headwater, and as the floor a plain copy of the bulk.

python -m benchmarks.bulk_merge [--engines local spark] [--rows 10000000] [--changes 1000000]
    [--chunk-rows 1000000 250000] [--rate 10000]

Each side runs in its own process; on Spark with the same heap. The plain copy is made by the same engine. A change
waits from the arrival of its file until a publication contains it. Only changes that arrived before the end of the load
are counted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from statistics import median

import polars as pl
from attrs import asdict, frozen

from .accounts import KEY, Accounts
from .sides import Ran, typical_and_slow, wrong_rows
from .tables import print_table

_FOLDER = Path("var/bench/bulk_merge")
_HEAD = (
    *(
        "side",
        "rows",
        "changes",
        "rate",
        "a chunk",
        "load s",
        "x copy",
        "wait p50 s",
        "p95 s",
        "epochs",
        "epoch s",
        "busy s",
        "jobs",
    ),
    *("books MiB", "in the end", "disk MiB", "read s", "heap MiB", "peak MiB", "cpu s", "wrong"),
)


@frozen
class Result:
    """The result of one side.

    Args:
        side: the name of the side, with its engine.
        accounts: the number of accounts and changes.
        rate: changes per second.
        chunk_rows: rows in a file of the bulk.
        copy: seconds of the plain copy.
        wrong: the number of wrong rows: different, missing or extra; None for the plain copy.
        ran: the measurements of its process.
    """

    side: str
    accounts: Accounts
    rate: int
    chunk_rows: int
    copy: float
    wrong: int | None
    ran: Ran

    @property
    def cells(self) -> list[str]:
        """The cells of a line of the table."""
        figures, used = self.ran.figures, self.ran.used
        return [
            self.side,
            f"{self.accounts.rows:,}",
            *(["-"] * 2 if self.wrong is None else [f"{self.accounts.changes:,}", f"{self.rate:,}"]),
            f"{self.chunk_rows:,}",
            f"{figures.seconds:.1f}",
            f"{figures.seconds / self.copy:.1f}",
            *(["-"] * 8 if self.wrong is None else self._of_the_load()),
            f"{figures.state_bytes / 2**20:.1f}",
            f"{figures.view:.1f}",
            str(self.ran.heap),
            f"{used.peak:,.0f}",
            f"{used.cpu:.0f}",
            "-" if self.wrong is None else str(self.wrong),
        ]

    def _of_the_load(self) -> list[str]:
        figures, epochs = self.ran.figures, self.ran.figures.load_epochs
        waits = typical_and_slow(figures.waits) if len(figures.waits) > 1 else ()
        return [
            *(f"{each:.1f}" for each in waits),
            *["-"] * (2 - len(waits)),
            str(epochs),
            f"{median(figures.epochs[:epochs]):.1f}",
            f"{sum(figures.epochs[:epochs]):.1f}",
            f"{median(figures.jobs[:epochs]):.0f}",
            f"{max(figures.kept_bytes) / 2**20:.1f}",
            f"{figures.kept_bytes[-1] / 2**20:.2f}",
        ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", choices=("local", "spark", "auto"), default=["local", "spark"])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument(
        "--chunk-rows", type=int, nargs="+", default=[1_000_000], help="rows in a file of the bulk, which is a chunk"
    )
    parser.add_argument("--rate", type=int, default=10_000, help="changes a second")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two files of changes")
    return parser.parse_args()


def _measure(options: argparse.Namespace, accounts: Accounts, chunk_rows: int, right: pl.DataFrame) -> list[Result]:
    """The plain copy, and the load with its changes, on each engine."""
    folder = _FOLDER / str(accounts.rows) / str(chunk_rows)
    accounts.write_bulk(folder / "bulk", chunk_rows)
    accounts.write_changes(folder / "changes", max(1, round(options.rate * options.every)))
    here, results = [sys.executable, "-m"], list[Result]()
    for engine in options.engines:
        copied = Ran.of([*here, "benchmarks.bulk_copy", engine, str(chunk_rows)], folder, f"copy-{engine}")
        copy = copied.figures.seconds
        print(f"the plain copy on {engine}: {copy:.1f} s", file=sys.stderr)
        command = [*here, "benchmarks.bulk_headwater", engine, str(options.every), str(chunk_rows)]
        merged = Ran.of(command, folder, engine)
        wrong = wrong_rows(pl.read_parquet(folder / engine / "rows" / "[!_.]*"), right, KEY)
        results += [
            Result(f"copy, {engine}", accounts, options.rate, chunk_rows, copy, None, copied),
            Result(f"headwater, {engine}", accounts, options.rate, chunk_rows, copy, wrong, merged),
        ]
    return results


def main() -> int:
    """Measure, print the table, and write it as JSON; return 0 if every row is right."""
    options = _options()
    accounts = Accounts(options.rows, options.changes)
    shutil.rmtree(_FOLDER / str(options.rows), ignore_errors=True)
    right = accounts.right()
    results = [result for rows in options.chunk_rows for result in _measure(options, accounts, rows, right)]
    print_table([[*_HEAD], *(result.cells for result in results)])
    file = _FOLDER / f"bulk-merge-{options.rows}.json"
    file.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    print(f"written to {file}")
    return 1 if any(result.wrong for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
