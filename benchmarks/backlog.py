"""Catching up: Maxwell messages that wait, in files or in Kafka, are counted by state from cold; every total checked.

python -m benchmarks.backlog [--sides files kafka flink] [--rows 10000000] [--files 20] [--backend delta:auto]
[--flink FOLDER]

Sides `files` and `kafka` are one `headwater run --until-idle` each, in its own process, timed from its start. On side
`flink`, Flink SQL counts the messages of the files, into Paimon. Needs Kafka's jars, which the first run downloads.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from attrs import frozen

from headwater import Headwater
from headwater.testing.kafka_broker import kafka_broker

from . import orders, retraction_headwater
from .deployment import fresh
from .sides import Ran, run_until_idle, totals_of
from .tables import print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .memory import Used

_FOLDER = Path("var/bench/backlog")
_HEAD = ("side", "wall s", "cpu s", "peak MiB", "messages/s", "wrong")
_FILES, _KAFKA, _FLINK = "files", "kafka", "flink"
_IN_FILES = f'kind = "{_FILES}"\npath = "in"'
_TOPIC = "orders"


def _write(folder: Path, rows: int, files: int) -> dict[str, list[int]]:
    """Write the messages; return the expected totals."""
    rmtree(folder, ignore_errors=True)
    shop = orders.write(folder, files, rows // files)
    rmtree(folder / "rows")
    return {state: [count, shop.cents[state]] for state, count in shop.totals.items() if count}


@contextmanager
def _topic(folder: Path) -> Iterator[str]:
    """The messages in a topic of a broker; returns its servers."""
    with kafka_broker() as broker:
        broker.create_topic(_TOPIC)
        for file in sorted((folder / "messages").iterdir()):
            with file.open("rb") as lines:
                broker.produce(_TOPIC, (line.rstrip(b"\n") for line in lines), 0)
        yield broker.servers


def _work(servers: str | None) -> str:
    """The sources and the pipeline; they read Kafka if there are servers."""
    if servers is None:
        return retraction_headwater.COUNTING
    broker = f'kind = "{_KAFKA}"\nservers = "{servers}"\ntopics = ["{_TOPIC}"]'
    return retraction_headwater.COUNTING.replace(_IN_FILES, broker)


@frozen
class Side:
    """The figures of one side: seconds, what it used, and its totals by state."""

    wall: float
    used: Used
    totals: dict[str, list[int]]


def _run(name: str, backend: str, servers: str | None = None) -> Side:
    config = fresh(_FOLDER / name, backend, upkeep="", work=_work(servers))
    wall, used = run_until_idle(config, _FOLDER / "messages", _FOLDER / f"{name}.log")
    with Headwater.from_config(config) as headwater:
        rows = headwater.view("order_states.totals").select("state", "orders", "amount").rows()
    return Side(wall, used, totals_of(rows))


def _run_flink(flink: Path) -> Side:
    ran = Ran.on_flink(flink, "retraction_flink.py", "heap", folder=_FOLDER)
    return Side(ran.whole, ran.used, ran.figures.totals)


def _run_side(name: str, options: argparse.Namespace) -> Side:
    if name == _FLINK:
        return _run_flink(options.flink)
    if name == _FILES:
        return _run(name, options.backend)
    with _topic(_FOLDER) as servers:
        return _run(name, options.backend, servers)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", nargs="+", choices=[_FILES, _KAFKA, _FLINK], default=[_FILES, _KAFKA])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--backend", default="delta:auto")
    parser.add_argument("--flink", metavar="FOLDER", type=Path, help="with PyFlink in venv, and its jars in jars")
    return parser.parse_args()


def main() -> int:
    """Measure, and print the table; return 0 if every total is right."""
    options, lines, wrong = _options(), [[*_HEAD]], 0
    right = _write(_FOLDER, options.rows, options.files)
    for name in options.sides:
        side = _run_side(name, options)
        bad = sum(side.totals.get(state) != right.get(state) for state in side.totals | right)
        rate, used = options.rows / side.wall, side.used
        lines.append([name, f"{side.wall:.1f}", f"{used.cpu:.1f}", f"{used.peak:.0f}", f"{rate:,.0f}", str(bad)])
        print(" ".join(lines[-1]), file=sys.stderr, flush=True)
        wrong += bad
    print_table(lines)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
