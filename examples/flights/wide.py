"""Merge three topics of a year of flights into one wide row per flight, publish rankings as versions, check every row.

python -m examples.flights.wide [--backend delta|hudi-mor|hudi-cow|memory] [--days 365]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from time import perf_counter

import polars as pl

from headwater import Headwater
from headwater.app.run.progress import progress
from headwater.testing.kafka_broker import kafka_broker

from .demo import ROOT, polars
from .reader import LongReader
from .topics import sent
from .weeks import FLOWN, RANKED, Weeks

_CONFIG = Path(__file__).with_name("wide.toml")
_BEGINS_TO_READ_AFTER = 1  # week; an earlier version exists, which has no lease


def main() -> int:
    """Run the demo; return 0 if every row of every version is right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", default="delta", help="delta (default), hudi-mor, hudi-cow or memory")
    parser.add_argument("--days", type=int, default=365, help="only the flights of the year's first days")
    options = parser.parse_args()
    print("Fetching flights, weather and planes of 2013 …", flush=True)
    topics = sent(options.days)
    shutil.rmtree(ROOT / "wide", ignore_errors=True)
    with kafka_broker() as broker:
        for topic in topics:
            broker.create_topic(topic)
        os.environ |= {"HEADWATER_BACKEND__NAME": options.backend, "FLIGHTS_SERVERS": broker.servers}
        with Headwater.from_config(_CONFIG, report=lambda epoch: print(progress(epoch), flush=True)) as headwater:
            wrong = _follow(headwater, Weeks(headwater, broker, topics))
    return 1 if wrong else 0


def _follow(headwater: Headwater, weeks: Weeks) -> int:
    """Run all weeks while a reader reads an early version; return the number of wrong rows."""
    began, reader = perf_counter(), None
    for week in range(weeks.last + 1):
        weeks.run(week)
        if week == _BEGINS_TO_READ_AFTER:
            reader = LongReader.begin(headwater)
    dead = polars(headwater.answer(f"{FLOWN}.dead_letters").frame).height
    others = dead + weeks.check_reported() + (reader.finish() if reader else 0)
    print("\nThe last version, its first days:")
    print(polars(headwater.answer(RANKED).frame).sort("day", "place", nulls_last=True).head(6))
    return _tell(headwater, weeks, others, perf_counter() - began)


def _tell(headwater: Headwater, weeks: Weeks, others: int, seconds: float) -> int:
    """Print the results of the checks; return the number of mismatches, including `others` from other checks."""
    months = weeks.by_month()
    with pl.Config(tbl_rows=-1):
        print(months)
    wrong = others + int(months["mismatches"].sum())
    records = sum(each.height for each in weeks.topics.values())
    print(
        f"{wrong} mismatches: {records:,} records, {headwater.epoch(RANKED) + 1} versions on"
        f" {headwater.deployment.backend.name} in {seconds:.0f} s, of which the pipelines took {weeks.seconds:.0f} s"
    )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
