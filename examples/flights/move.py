"""Rank half a year of flights on one backend, move to another, and rank the other half there.

python -m examples.flights.move [--from delta] [--to hudi-mor]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from headwater import EpochReport, Headwater
from headwater.app.config import Deployment, load
from headwater.app.registry.backends import on_one_session
from headwater.app.run.progress import progress

from .demo import CONFIG, PIPELINE, ROOT, compare, polars
from .prepare import write

_EPOCHS = 13


def main() -> int:
    """Run the example; return 0 if every rank is right in the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--from", dest="one", default="delta", metavar="BACKEND")
    parser.add_argument("--to", dest="other", default="hudi-mor", metavar="BACKEND")
    arguments = parser.parse_args()
    write(ROOT / "landings")
    here, there = on_one_session(_on(arguments.one, "moving-from"), _on(arguments.other, "moving-to"))
    with Headwater(here, report=_tell) as headwater:
        (runner,) = headwater.start()
        for _ in range(_EPOCHS):
            runner.advance()
        with Headwater(there, report=_tell) as target:
            moved = headwater.move(target)[PIPELINE]
            print(f"\nMoved from {arguments.one} to {arguments.other} as of epoch {moved.epoch.number}.\n", flush=True)
            target.run(until_idle=True)
            return compare(polars(target.answer(f"{PIPELINE}.ranks").frame))


def _tell(report: EpochReport) -> None:
    print(progress(report), flush=True)


def _on(backend: str, folder: str) -> Deployment:
    shutil.rmtree(ROOT / folder, ignore_errors=True)
    chosen = {"HEADWATER_BACKEND__NAME": backend, "HEADWATER_BACKEND__PATH": str(ROOT / folder)}
    return load(CONFIG, {**os.environ, **chosen})


if __name__ == "__main__":
    sys.exit(main())
