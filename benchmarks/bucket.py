"""Epochs on Delta tables in an object store whose answers take long, and how many requests an epoch makes.

python -m benchmarks.bucket [--work ranking retraction cumulate wide] [--rows 2000] [--epochs 12] [--wait 0.03]

The store is moto's, in this process. Each request waits first, as for a far store; several at a time wait side by side.
The first two epochs, which create the tables, do not count.
"""

from __future__ import annotations

import argparse
import shutil
import time
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import obstore
import pytest

from headwater import Headwater
from tests.object_store import object_store

from .deployment import fresh
from .engines import WORK
from .large_epochs_side import arrive, epoch_files
from .tables import print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.app.run.report import EpochReport

_FOLDER = Path("var/bench/bucket")
_REQUESTS = ("get", "put", "head", "list", "list_with_delimiter", "delete")
_CREATING = 2


@contextmanager
def _waiting(seconds: float) -> Iterator[None]:
    """Let each request wait before it is sent."""

    def waited(request: Any) -> Any:
        @wraps(request)
        def wait(*given: Any, **named: Any) -> Any:
            time.sleep(seconds)
            return request(*given, **named)

        return wait

    with pytest.MonkeyPatch.context() as patch:
        for name in _REQUESTS:
            patch.setattr(obstore, name, waited(getattr(obstore, name)))
        yield


def _measure(name: str, options: argparse.Namespace) -> list[str]:
    """Run one work; return the cells of its line of the table."""
    folder, work = _FOLDER / name, WORK[name]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    work.write(folder, options.rows * options.epochs, options.epochs)
    took, made = list[float](), list[int]()
    reports: list[EpochReport] = []
    with object_store() as store, _waiting(options.wait):
        config = fresh(folder / "home", "delta:local", upkeep="compact_every = 0", work=work.toml)
        text = config.read_text().replace('path = "lake"', f'path = "{store.new_bucket()}/lake"')
        config.write_text(text)
        with Headwater.from_config(config, report=reports.append) as headwater:
            headwater.start()
            for file in epoch_files(folder):
                arrive(folder / "in", folder / "home/in", file.stem)
                store.asked.clear()
                headwater.run(until_idle=True)
                took.append(sum(reports[-1].seconds.values()))
                made.append(len(store.asked))
    took, made = took[_CREATING:], made[_CREATING:]
    return [name, f"{median(took):.2f}", f"{max(took):.2f}", f"{median(made):.0f}"]


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", nargs="+", choices=list(WORK), default=list(WORK))
    parser.add_argument("--rows", type=int, default=2000, help="rows of an epoch")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--wait", type=float, default=0.03, help="seconds that each request takes longer")
    options = parser.parse_args()
    head = ["work", "epoch s", "longest s", "requests"]
    print_table([head, *(_measure(name, options) for name in options.work)])


if __name__ == "__main__":
    main()
