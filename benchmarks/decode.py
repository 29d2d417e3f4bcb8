"""Decoding of changelog messages to typed rows: Headwater's decoder, the same decoder on Spark, and Spark's from_json.

Each message is an update of an order, so it becomes two rows. Rates are messages per second of processor time, and per
second of elapsed time on one core; other work on the machine lowers the latter.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import polars as pl
from attrs import frozen

from headwater.adapters.records.decoder import Record, RecordDecoder, batch_schema
from headwater.domain.source.changelog.settings import ChangeSpec
from headwater.domain.source.record_spec import RecordSpec

from .changelogs import SCHEMA, WRITERS, from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

_FOLDER = Path("var/bench/decode")
_HEAD = ("format", "bytes", "decoder /cpu s", "decoder /s", "mapInArrow /s", "from_json /cpu s", "from_json /s")


@frozen
class _OnWorker:
    """Decodes messages on a Spark worker."""

    spec: RecordSpec

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = RecordDecoder(self.spec)
        for batch in batches:
            yield decoder.batch(_records(batch.column(0).to_pylist()))


def _records(raws: Iterable[bytes]) -> Iterator[Record]:
    for at, raw in enumerate(raws):
        yield Record(raw, at * 2**20, "orders/0")


def _least(work: Callable[[], object], clock: Callable[[], float], runs: int) -> float:
    """The shortest time of some runs."""
    times = []
    for _ in range(runs):
        began = clock()
        work()
        times.append(clock() - began)
    return min(times)


def _alone(raws: list[bytes], spec: RecordSpec, runs: int) -> list[float]:
    def work() -> int:
        return sum(batch.num_rows for batch in RecordDecoder(spec).batches(_records(raws)))

    if work() != 2 * len(raws):
        raise SystemExit("a message did not become two rows")
    return [_least(work, clock, runs) for clock in (process_time, perf_counter)]


def _on_spark(raws: list[bytes], spec: RecordSpec, runs: int) -> list[float]:
    from headwater.adapters.spark.arrow_map import map_in_arrow
    from headwater.adapters.spark.jvm import java_class
    from headwater.adapters.spark.session import open_session

    session = open_session({"spark.master": "local[1]", "spark.driver.memory": "2g"})
    session.sparkContext.setLogLevel("ERROR")
    file = _FOLDER / f"{spec.format}.parquet"
    pl.DataFrame({"value": raws}).write_parquet(file)
    messages = session.read.parquet(str(file))
    ours = map_in_arrow(messages, _OnWorker(spec), batch_schema(spec.rows))
    theirs = from_json(messages, spec.format)
    _check_equal(ours.withColumnRenamed("_row_kind", "kind"), theirs)
    jvm = int(java_class(session, "java.lang.ProcessHandle").current().pid())
    return [
        _least(lambda: _drain(ours), perf_counter, runs),
        _least(lambda: _drain(theirs), lambda: _processor_seconds(jvm), runs),
        _least(lambda: _drain(theirs), perf_counter, runs),
    ]


def _processor_seconds(process: int) -> float:
    """The processor time in seconds that a process has used so far, from /proc."""
    after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def _check_equal(ours: Any, theirs: Any) -> None:
    mine, others = (frame.select("kind", *SCHEMA.names) for frame in (ours, theirs))
    if not mine.exceptAll(others).isEmpty() or not others.exceptAll(mine).isEmpty():
        raise SystemExit("from_json and the decoder make different rows")


def _drain(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-spark", action="store_true", help="only the decoder, without Java")
    arguments = parser.parse_args()
    _FOLDER.mkdir(parents=True, exist_ok=True)
    print(f"{arguments.messages:,} messages, best of {arguments.runs}; load {os.getloadavg()[0]:.1f}")
    print("  ".join(each.rjust(16) for each in _HEAD))
    for format_, write in WRITERS.items():
        raws = [write(number) for number in range(arguments.messages)]
        spec = RecordSpec(SCHEMA, format_, changes=ChangeSpec(["shop.orders"]))
        times = _alone(raws, spec, arguments.runs)
        times += [] if arguments.no_spark else _on_spark(raws, spec, arguments.runs)
        cells = [format_, str(len(raws[-1])), *(f"{len(raws) / time:,.0f}" for time in times)]
        print("  ".join(each.rjust(16) for each in cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
