"""Load a table in bulk while its changes come in: Headwater next to a plain copy of the bulk alone, the floor.

python -m benchmarks.bulk_merge [--rows 10000000] [--changes 1000000] [--chunk-rows 1000000] [--rate 2000]
                                [--backends delta]

Each side runs in a process of its own, with the same heap. A change waits from when its file arrives until a
publication has it; waits are those of changes that arrived before the load was done.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from attrs import asdict, frozen

from .accounts import Accounts
from .sides import Ran, typical_and_slow
from .tables import print_table

_FOLDER = Path("var/bench/bulk_merge")
_HEAD = (
    *("side", "rows", "changes", "load s", "x copy", "wait p50 s", "p95 s", "books MiB"),
    *("table MiB", "read s", "heap MiB", "peak MiB", "cpu s", "right"),
)


@frozen
class Result:
    """What came of one side.

    Args:
        side: its name.
        accounts: what there was to do.
        copy: seconds of the plain copy.
        right: how many rows there should be, and their sum.
        ran: how it went.
    """

    side: str
    accounts: Accounts
    copy: float
    right: tuple[int, int]
    ran: Ran

    @property
    def is_right(self) -> bool:
        """Whether the table came out as it should; of the plain copy nothing is asked."""
        found = self.ran.figures.found
        return not found or tuple(found) == self.right

    @property
    def cells(self) -> list[str]:
        """A line of the table."""
        figures, used = self.ran.figures, self.ran.used
        waits = typical_and_slow(figures.waits) if len(figures.waits) > 1 else ()
        return [
            self.side,
            f"{self.accounts.rows:,}",
            f"{self.accounts.changes:,}" if figures.found else "-",
            f"{figures.seconds:.1f}",
            f"{figures.seconds / self.copy:.1f}",
            *(f"{each:.1f}" for each in waits),
            *["-"] * (2 - len(waits)),
            f"{figures.kept_bytes / 2**20:.1f}",
            f"{figures.state_bytes / 2**20:.1f}",
            f"{figures.view:.1f}",
            str(self.ran.heap),
            f"{used.peak:.0f}",
            f"{used.cpu:.0f}",
            "yes" if self.is_right else "NO",
        ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--chunk-rows", type=int, default=1_000_000, help="of a file of the bulk: a chunk")
    parser.add_argument("--rate", type=int, default=2_000, help="changes a second")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two files of changes")
    parser.add_argument("--backends", nargs="+", default=["delta"])
    return parser.parse_args()


def main() -> int:
    """Measure, print the table, and write it as JSON; 0 if every table is right."""
    options = _options()
    accounts = Accounts(options.rows, options.changes)
    folder = _FOLDER / str(options.rows)
    shutil.rmtree(folder, ignore_errors=True)
    accounts.write_bulk(folder / "bulk", options.chunk_rows)
    accounts.write_changes(folder / "changes", max(1, round(options.rate * options.every)))
    right, results = accounts.right(), list[Result]()
    for backend in options.backends:
        here = [sys.executable, "-m"]
        copied = Ran.of([*here, "benchmarks.bulk_copy", backend], folder, f"{backend}-copy")
        merged = Ran.of([*here, "benchmarks.bulk_headwater", backend, str(options.every)], folder, backend)
        copy = copied.figures.seconds
        results += [Result(f"{backend} copy", accounts, copy, right, copied)]
        results += [Result(backend, accounts, copy, right, merged)]
    print_table([[*_HEAD], *(result.cells for result in results)])
    file = _FOLDER / f"bulk-merge-{options.rows}.json"
    file.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    print(f"written to {file}")
    return 0 if all(result.is_right for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
