"""How long ticks wait: from when the watermark passes a tick of a cumulate window until the tick is published.

python -m benchmarks.tick_wait [--rate 50000] [--seconds 60] [--warm-up 15] [--engine local]

Views of pages come through Kafka at a steady pace, each with the time at which it was sent. Views and exact visitors so
far are published every second, for each page and for all. At the end each tick is compared with a batch in Polars.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import process_time
from typing import TYPE_CHECKING

import polars as pl

from headwater import Headwater
from headwater.testing.kafka_broker import kafka_broker

from .deployment import fresh
from .sides import typical_and_slow, wrong_rows
from .tables import print_table
from .tick_events import page_of, visitor_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.app.run.report import EpochReport
    from headwater.domain.epoch.epoch import Publication

_FOLDER = Path("var/bench/tick_wait")
_HEAD = (
    "views a second",
    "ticks",
    "p50 s",
    "p95 s",
    "publications",
    "epoch s",
    "views an epoch",
    "cpu",
    "rows",
    "wrong",
)
_TOPIC, _PIPELINE, _SENT = "views", "page_views", "sent.json"
_DELAY, _STEP = timedelta(seconds=1), timedelta(seconds=1)
_WORK = """
[run]
poll = "20ms"

[sources.views]
kind = "kafka"
servers = "{servers}"
topics = ["{topic}"]
format = "json"
schema = "at timestamp, page string, visitor bigint"
event_time = "at"
watermark_delay = "1s"

[pipelines.{pipeline}]
service = "cumulate"
source = "views"
step = "1s"
size = "1d"
dimensions = [["page"], []]
measures = {{ pv = "count(*)", uv = "count(distinct visitor)" }}
ticks = "dense"
"""


def _ticks_of(publications: list[Publication]) -> Iterator[tuple[datetime, float]]:
    """Each tick that a publication adds, with the seconds that it has waited."""
    for before, after in pairwise(publications):
        assert before.watermark
        assert after.watermark
        tick = before.watermark.replace(microsecond=0) + _STEP
        while tick <= after.watermark:
            yield tick, (after.published_at - tick - _DELAY).total_seconds()
            tick += _STEP


def _right(sent: list[tuple[int, int]], ticks: list[datetime]) -> pl.DataFrame:
    """The rows of some ticks, from what has been sent."""
    batches = pl.DataFrame(sent, ["ms", "first"], orient="row")
    size = batches["first"][1]
    number = pl.int_range(0, batches.height * size, eager=True).alias("number")
    views = pl.DataFrame([number]).select(
        batches["ms"].gather(number // size).alias("ms"),
        page_of(pl.col("number")).alias("page"),
        visitor_of(pl.col("number")).alias("visitor"),
    )
    return pl.concat(_so_far(views, tick) for tick in ticks)


def _so_far(views: pl.DataFrame, tick: datetime) -> pl.DataFrame:
    there = views.filter(pl.col("ms") < int(tick.timestamp() * 1000))
    counts = (pl.len().cast(pl.Int64).alias("pv"), pl.col("visitor").n_unique().cast(pl.Int64).alias("uv"))
    each = there.group_by("page").agg(*counts)
    every = there.select(pl.lit(None, pl.String).alias("page"), *counts)
    return pl.concat([each, every]).select(pl.lit(tick).alias("tick"), "page", "pv", "uv")


def _keyed(rows: pl.DataFrame) -> pl.DataFrame:
    tick = pl.col("tick").dt.epoch("ms").cast(pl.String)
    return rows.select(pl.concat_str(tick, pl.col("page").fill_null("")).alias("key"), "pv", "uv")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=50_000, help="views a second; a multiple of 100")
    parser.add_argument("--warm-up", type=int, default=15, help="seconds that are not counted")
    parser.add_argument("--seconds", type=int, default=60, help="how long, after that")
    parser.add_argument("--engine", default="local")
    return parser.parse_args()


def _send(servers: str, options: argparse.Namespace, file: Path) -> subprocess.Popen[bytes]:
    """Start to send views."""
    numbers = (str(options.rate), str(options.warm_up + options.seconds), str(file))
    return subprocess.Popen([sys.executable, "-m", "benchmarks.tick_events", servers, _TOPIC, *numbers])


def _run(headwater: Headwater, servers: str, options: argparse.Namespace) -> tuple[float, list[Publication]]:
    """Run while views arrive; return the processor's seconds, and the publications after the warm-up, in order."""
    (runner,) = headwater.start()
    began, used = datetime.now(UTC), process_time()
    whole = options.warm_up + options.seconds
    with _send(servers, options, _FOLDER / _SENT):
        timer = threading.Timer(whole, headwater.stop)
        timer.start()
        headwater.run()
        used = process_time() - used
    since, until = (began + timedelta(seconds=each) for each in (options.warm_up, whole))
    made = [each for each in runner.ledger.publications() if since <= each.published_at <= until]
    return used, made[::-1]


def _measure(servers: str, options: argparse.Namespace) -> list[str]:
    """Measure; return the cells of the table's line."""
    reports = list["EpochReport"]()
    work = _WORK.format(servers=servers, topic=_TOPIC, pipeline=_PIPELINE)
    config = fresh(_FOLDER, f"delta:{options.engine}", upkeep="", work=work)
    with Headwater.from_config(config, report=reports.append) as headwater:
        used, made = _run(headwater, servers, options)
        rows = pl.DataFrame(headwater.view(f"{_PIPELINE}.ticks"))
    waits = dict(_ticks_of(made))
    found = rows.filter(pl.col("tick").is_in(list(waits))).select("tick", "page", "pv", "uv")
    right = _right(json.loads((_FOLDER / _SENT).read_text()), list(waits))
    wrong = wrong_rows(_keyed(found), _keyed(right), "key")
    seconds = median(sum(each.seconds.values()) for each in reports)
    views = median(each.rows for each in reports)
    cores = used / (options.warm_up + options.seconds)
    figures = (*typical_and_slow(waits.values()), seconds, cores)
    p50, p95, epoch, cpu = (f"{each:.2f}" for each in figures)
    counts = (f"{views:,.0f}", cpu, f"{found.height:,}", str(wrong))
    return [f"{options.rate:,}", str(len(waits)), p50, p95, str(len(made)), epoch, *counts]


def main() -> int:
    """Measure and print the table; return 0 if every tick that was published in time is right."""
    options = _options()
    with kafka_broker() as broker:
        broker.create_topic(_TOPIC)
        line = _measure(broker.servers, options)
    print_table([[*_HEAD], line])
    return 0 if line[-1] == "0" else 1


if __name__ == "__main__":
    sys.exit(main())
