"""Totals of the day so far at New York's airports, from Kafka: check every point, then draw again with other epochs.

python -m examples.flights.curve [--backend delta|hudi-mor|hudi-cow|memory] [--days 3 --rows 400 --again 1000]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import polars as pl

from headwater import Headwater
from headwater.app.run.progress import moment, progress
from headwater.testing.kafka_broker import kafka_broker

from .demo import ROOT, polars
from .departures import MEASURES, TICK, batch, messages, sent

if TYPE_CHECKING:
    from datetime import datetime

    from headwater.app.run.report import EpochReport

_CONFIG = Path(__file__).with_name("curve.toml")
_PIPELINE, _TOPIC = "day_so_far", "departures"
_ROWS = "HEADWATER_SOURCES__DEPARTURES__MAX_ROWS_PER_EPOCH"


def main() -> int:
    """Run the demo; return 0 if every tick of every epoch is right, and the second curve is the same."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", default="delta", help="delta (default), hudi-mor, hudi-cow or memory")
    parser.add_argument("--days", type=int, default=365, help="only the departures of the year's first days")
    parser.add_argument("--rows", type=int, default=7_000, help="departures an epoch: a week's")
    parser.add_argument("--again", type=int, default=20_000, help="departures an epoch when the curve is drawn again")
    options = parser.parse_args()
    print("Fetching the flights of 2013 …", flush=True)
    departures = sent(options.days)
    with kafka_broker() as broker:
        broker.create_topic(_TOPIC)
        broker.produce(_TOPIC, messages(departures), partition=0)
        os.environ |= {"HEADWATER_BACKEND__NAME": options.backend, "FLIGHTS_SERVERS": broker.servers}
        once, wrong = _drawn(departures, options.rows)
        again, more = _drawn(departures, options.again)
    differ = once.height + again.height - 2 * once.join(again, on=once.columns, how="semi", nulls_equal=True).height
    print(f"{differ} of {once.height:,} revisions differ when they are made in epochs of {options.again} departures")
    if options.backend != "memory":  # its tables are lost when the run ends
        _draw(again["window_start"].max())
    return 1 if wrong or more or differ else 0


def _drawn(departures: pl.DataFrame, rows: int) -> tuple[pl.DataFrame, int]:
    """Run over the topic with `rows` rows per epoch; return all revisions, and the number of ticks that are wrong."""
    os.environ[_ROWS] = str(rows)
    shutil.rmtree(ROOT / "curve", ignore_errors=True)
    began = perf_counter()
    with Headwater.from_config(_CONFIG, report=_tell) as headwater:
        headwater.run(until_idle=True)
        seconds, epochs = perf_counter() - began, headwater.epoch(_PIPELINE) + 1
        checked = [_mismatches(headwater, departures, epoch) for epoch in range(epochs)]
        revisions = polars(headwater.answer(f"{_PIPELINE}.revisions").frame)
    ticks, wrong = (sum(each) for each in zip(*checked, strict=True))
    revised = revisions.filter(pl.col("revision") > 0).height
    print(f"\n{epochs} epochs in {seconds:.0f} s: {departures.height:,} departures, {revised:,} revisions by late ones")
    print(f"{wrong:,} mismatches of {ticks:,} ticks, those of each epoch held against the batch over what it had read")
    print("The end of the last day:")
    print(revisions.sort(*TICK).tail(4))
    return revisions, wrong


def _draw(window: datetime) -> None:
    """Draw the last whole day with `headwater plot`: the curve of each airport, and the curve of all airports."""
    for curve, measure in (("curve", "departures"), ("curve_total", "aircraft")):
        picture = ROOT / "curve" / f"{curve}.png"
        plot = [sys.executable, "-m", "headwater", "plot", str(_CONFIG), f"{_PIPELINE}.{curve}"]
        asked = ["--measure", measure, "--as-of", moment(window), "--output", str(picture)]
        subprocess.run([*plot, *asked], check=True)


def _tell(epoch: EpochReport) -> None:
    print(progress(epoch), flush=True)


def _mismatches(headwater: Headwater, departures: pl.DataFrame, epoch: int) -> tuple[int, int]:
    """The number of ticks as of an epoch, and the number of ticks that only the view or only the batch has."""
    publication = headwater.snapshot(_PIPELINE, epoch).publication
    assert publication
    assert publication.watermark
    expected = batch(departures[: publication.offsets[_TOPIC]["0"]], publication.watermark)
    shown = polars(headwater.answer(f"{_PIPELINE}.ticks", at=epoch).frame).select(*TICK, *MEASURES)
    shown = shown.with_columns(pl.col("window_start", "tick").dt.cast_time_unit("us"))
    same = expected.join(shown, on=expected.columns, how="semi", nulls_equal=True).height
    return shown.height, shown.height + expected.height - 2 * same


if __name__ == "__main__":
    sys.exit(main())
