"""One side of `benchmarks.retraction`: Flink SQL into Paimon, a GROUP BY over the changelog, with full state.

FLINK/venv/bin/python benchmarks/retraction_flink.py heap|rocksdb FOLDER HOME

See `flink_side` for what it needs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from time import time
from typing import Any

from flink_side import ran, start, tell

_STATES = {"heap": "hashmap", "rocksdb": "rocksdb"}
_SETTINGS = {
    "taskmanager.memory.managed.size": "512m",  # RocksDB's; the heap is the JVM's
    # Flink recognises repeated messages by the key of the row; for that it keeps every row.
    "table.exec.source.cdc-events-duplicate": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
}
_SOURCE = """
CREATE TEMPORARY TABLE orders (
  order_id BIGINT, state STRING, amount DECIMAL(18, 2), PRIMARY KEY (order_id) NOT ENFORCED
)
WITH ('connector' = 'filesystem', 'format' = 'maxwell-json', 'path' = '{path}')
"""
_TOTALS = """
CREATE TABLE lake.`default`.totals (
  state STRING, orders BIGINT, amount DECIMAL(38, 2), PRIMARY KEY (state) NOT ENFORCED
)
WITH ('bucket' = '1')
"""
_COUNT = """
INSERT INTO lake.`default`.totals SELECT state, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY state
"""
_SHOW = "SELECT state, orders, amount FROM lake.`default`.totals"
_CHECKPOINT = re.compile(r"Completed checkpoint \d+ for job \w+ \((\d+) bytes")


def _one_file(folder: Path, home: Path) -> Path:
    """Put all messages into one file: Flink reads several files at the same time, and changes of a row out of order."""
    files = sorted(folder.glob("messages/*.json"))
    if len(files) == 1:
        return folder / "messages"
    whole = home / "in" / "messages.json"
    whole.parent.mkdir()
    with whole.open("wb") as out:
        for each in files:
            out.write(each.read_bytes())
    return whole.parent


def _count(tables: Any, source: Path) -> float:
    """Count all messages; return the seconds that the job ran."""
    tables.execute_sql(_SOURCE.format(path=source.as_uri()))
    tables.execute_sql(_TOTALS)
    return ran(tables.execute_sql(_COUNT))


def _totals(tables: Any) -> dict[str, list[int]]:
    with tables.execute_sql(_SHOW).collect() as rows:
        return {state: [orders, round(amount * 100)] for state, orders, amount in rows}


def _largest_checkpoint(log: Path) -> int:
    """Bytes of the largest checkpoint that Flink reports, because the last one is deleted when the job ends."""
    told = "".join(each.read_text() for each in log.glob("*.log"))
    return max(map(int, _CHECKPOINT.findall(told)), default=0)


def main() -> int:
    """Measure, and write the figures to a file."""
    state, (folder, home) = _STATES[sys.argv[1]], (Path(each).resolve() for each in sys.argv[2:])
    source = _one_file(folder, home)
    environment = start(home, _SETTINGS | {"state.backend.type": state})
    seconds = _count(environment("streaming"), source)
    began, totals = time() - seconds, _totals(environment("batch"))
    tell(home, began=began, seconds=seconds, state_bytes=_largest_checkpoint(home / "log"), totals=totals)
    return 0


if __name__ == "__main__":
    sys.exit(main())
