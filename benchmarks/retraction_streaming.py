"""One side of `benchmarks.retraction`: Structured Streaming, a groupBy over deduplicated messages, its state in full.

python -m benchmarks.retraction_streaming FOLDER
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from headwater.adapters.delta import package
from headwater.adapters.spark.session import open_session

from .memory import live_heap
from .sides import Figures, totals_of

_MESSAGE = """
    type string, position string, xoffset bigint, data struct<state: string, amount: string>, old map<string, string>
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
    """The running totals; a message that comes again is known by its place in the binlog."""
    read = session.readStream.option("maxFilesPerTrigger", 1).text(str(messages.resolve()))
    parsed = read.selectExpr(f"from_json(value, '{_MESSAGE}') AS m")
    placed = parsed.selectExpr("m", "m.position AS position", "m.xoffset AS xoffset")
    once = placed.dropDuplicates(["position", "xoffset"])
    signed = once.selectExpr(f"inline({_IMAGES})").selectExpr(
        "state", "sign", "sign * cast(amount AS decimal(18, 2)) AS amount"
    )
    return signed.groupBy("state").agg({"sign": "sum", "amount": "sum"}).toDF("state", "orders", "amount")


def _run(session: Any, messages: Path, home: Path) -> list[Any]:
    """Keep the totals as a Delta table, a file a batch; what each batch told of its progress."""
    writer = _totals(session, messages).writeStream.format("delta").outputMode("complete")
    query = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True)
    running = query.start(str(home / "totals"))
    running.awaitTermination()
    return [each for each in running.recentProgress if each["numInputRows"]]


def main() -> int:
    """Measure, and write the figures down."""
    folder = Path(sys.argv[1])
    home = folder / "streaming"
    shutil.rmtree(home, ignore_errors=True)
    session = open_session(
        {"spark.driver.memory": "2g", "spark.sql.streaming.numRecentProgressUpdates": "10000"},
        packages=package.PACKAGES,
        extensions=package.EXTENSIONS,
        defaults=package.SETTINGS,
    )
    progress = _run(session, folder / "messages", home.resolve())
    states = progress[-1]["stateOperators"]
    rows = session.read.format("delta").load(str(home.resolve() / "totals")).collect()
    Figures(
        [each["durationMs"]["triggerExecution"] / 1000 for each in progress],
        sum(each["memoryUsedBytes"] for each in states),
        sum(each["numRowsTotal"] for each in states),
        totals_of((row["state"], row["orders"], row["amount"]) for row in rows),
        live_heap(session),
    ).write(home)
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
