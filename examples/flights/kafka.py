"""Rank a year of flights from a real Kafka broker, kill the run in the middle if asked to, and check every rank.

python -m examples.flights.kafka [--backend delta|memory] [--kill]
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

from headwater.testing.kafka_broker import kafka_broker

from .demo import PIPELINE, ROOT, compare
from .killing import run_and_kill
from .prepare import write

if TYPE_CHECKING:
    from headwater.testing.kafka_broker import KafkaBroker

_CONFIG = Path(__file__).with_name("flights_kafka.toml")
_FOLDER = ROOT / "kafka"
_TOPIC = "landings"
_EPOCHS_BEFORE_THE_KILL = 10
_RUN = [sys.executable, "-m", "headwater", "run"]


def main() -> int:
    """Run the demo; return 0 if every rank is right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", default="delta", help="memory or delta (default)")
    parser.add_argument("--kill", action="store_true", help="kill -9 in the middle, and start again")
    options = parser.parse_args()
    print("Fetching and sorting the flights of 2013 …", flush=True)
    write(ROOT / "landings")
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir()
    with kafka_broker() as broker:
        _produce(broker)
        os.environ |= {"HEADWATER_BACKEND__NAME": options.backend, "FLIGHTS_SERVERS": broker.servers}
        if options.kill:
            run_and_kill([*_RUN, str(_CONFIG)], when=f"{PIPELINE} epoch {_EPOCHS_BEFORE_THE_KILL - 1}:")
        began = perf_counter()
        ranks = _run_until_idle()
        print(f"\nThe last run took {perf_counter() - began:.0f} s on {options.backend}, its start included.")
    return compare(ranks)


def _produce(broker: KafkaBroker) -> None:
    """Write the records to one partition, in the order in which they became known."""
    broker.create_topic(_TOPIC)
    for file in sorted((ROOT / "landings").glob("*.json")):
        broker.produce(_TOPIC, file.read_text().splitlines(), partition=0)


def _run_until_idle() -> pl.DataFrame:
    """Run to the end of the topic in a separate process; return the ranks that it prints."""
    command = [*_RUN, str(_CONFIG), "--until-idle"]
    output = _FOLDER / "ranks.jsonl"
    with output.open("wb") as out:
        subprocess.run([*command, "--show", PIPELINE, "--format", "jsonl"], stdout=out, check=True)
    return pl.read_ndjson(output, infer_schema_length=None)


if __name__ == "__main__":
    sys.exit(main())
