"""One side of `benchmarks.retraction`: Structured Streaming, a groupBy over deduplicated messages, with full state.

python -m benchmarks.retraction_streaming heap|rocksdb FOLDER HOME
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter, time
from typing import Any

from pyspark.sql import functions

from headwater.adapters.delta import package
from headwater.adapters.spark.session import open_session

from .sides import Figures, spark_settings, totals_of

_STATE = "org.apache.spark.sql.execution.streaming.state"
_STORES = {"heap": f"{_STATE}.HDFSBackedStateStoreProvider", "rocksdb": f"{_STATE}.RocksDBStateStoreProvider"}
_MESSAGE = """
    type string, position string, data struct<state: string, amount: string>, old map<string, string>
"""
_OLD = "if(map_contains_key(m.old, '{0}'), m.old['{0}'], m.data.{0})"
_IMAGE = "named_struct('sign', {}, 'state', {}, 'amount', {})"
_GONE = _IMAGE.format(-1, _OLD.format("state"), _OLD.format("amount"))
_IS, _WAS = (_IMAGE.format(sign, "m.data.state", "m.data.amount") for sign in (1, -1))
_IMAGES = (
    f"CASE m.type WHEN 'insert' THEN array({_IS}) WHEN 'delete' THEN array({_WAS})"
    f" WHEN 'update' THEN array({_GONE}, {_IS}) END"
)


def _totals(session: Any, messages: Path) -> Any:
    """The running totals; a repeated message is recognised by its position in the binlog."""
    read = session.readStream.option("maxFilesPerTrigger", 1).text(str(messages.resolve()))
    parsed = read.selectExpr(f"from_json(value, '{_MESSAGE}') AS m")
    once = parsed.selectExpr("m", "m.position AS position").dropDuplicates(["position"])
    signed = once.selectExpr(f"inline({_IMAGES})").selectExpr(
        "state", "sign", "sign * cast(amount AS decimal(18, 2)) AS amount"
    )
    return signed.groupBy("state").agg(functions.sum("sign").alias("orders"), functions.sum("amount").alias("amount"))


def _run(totals: Any, home: Path) -> list[Any]:
    """Write the totals to a Delta table, one batch per file; return the progress report of each batch."""
    writer = totals.writeStream.format("delta").outputMode("complete")
    query = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True)
    running = query.start(str(home / "totals"))
    running.awaitTermination()
    return [each for each in running.recentProgress if each["numInputRows"]]


def _state_bytes(home: Path, states: list[Any]) -> int:
    """Bytes on disk of the newest version of the state: RocksDB's tables, or the files that a restart would read."""
    sizes = [each["customMetrics"].get("rocksdbSstFileSize") for each in states]
    if None not in sizes:
        return sum(sizes)
    return sum(map(_to_be_read, (home / "checkpoint" / "state").glob("*/*")))


def _to_be_read(partition: Path) -> int:
    """Bytes of the newest snapshot of a partition and of all its delta files since."""
    snapshots = {int(file.stem): file for file in partition.rglob("*.snapshot")}
    newest = max(snapshots, default=0)
    changes = [file for file in partition.rglob("*.delta") if int(file.stem) > newest]
    return sum(file.stat().st_size for file in [*changes, *([snapshots[newest]] if snapshots else [])])


def main() -> int:
    """Measure, and write the figures to a file."""
    store, (folder, home) = _STORES[sys.argv[1]], (Path(each).resolve() for each in sys.argv[2:])
    wanted = {
        "spark.sql.streaming.stateStore.providerClass": store,
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    session = open_session(
        spark_settings(home) | wanted,
        packages=package.PACKAGES,
        extensions=package.EXTENSIONS,
        defaults=package.SETTINGS,
    )
    totals = _totals(session, folder / "messages")
    began, starting = time(), perf_counter()
    progress = _run(totals, home)
    seconds = perf_counter() - starting
    states = progress[-1]["stateOperators"]
    rows = session.read.format("delta").load(str(home / "totals")).collect()
    Figures(
        began,
        seconds,
        state_bytes=_state_bytes(home, states),
        totals=totals_of((row["state"], row["orders"], row["amount"]) for row in rows),
        state_rows=sum(each["numRowsTotal"] for each in states),
        epochs=[each["durationMs"]["triggerExecution"] / 1000 for each in progress],
    ).write(home)
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
