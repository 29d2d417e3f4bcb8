"""One side of `benchmarks.retraction`: Flink SQL, a groupBy over the normalized changelog, its state in full.

PYTHON_WITH_PYFLINK benchmarks/retraction_flink.py FOLDER

Needs nothing but PyFlink (`pip install apache-flink`), in an environment of its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
from pathlib import Path
from time import perf_counter
from typing import Any

_EVERY_SECONDS = 0.2
_SETTINGS = {
    "parallelism.default": "2",
    "taskmanager.memory.managed.size": "128m",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "rest.port": "0",
    "state.backend.type": "hashmap",
    "execution.checkpointing.interval": "5 s",
    # A message that comes again is known by the row's key: this keeps every row.
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
_QUERY = "SELECT state, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY state"


def _environment(home: Path) -> Any:
    os.environ["JVM_ARGS"] = f"-Xmx2g -Xlog:gc:file={home / 'gc.log'}"
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    settings = Configuration()
    places = {"execution.checkpointing.dir": (home / "checkpoints").as_uri(), "io.tmp.dirs": str(home / "tmp")}
    for name, value in (_SETTINGS | places).items():
        settings.set_string(name, value)
    streaming = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings)
    return TableEnvironment.create(streaming.build())


def _one_file(folder: Path, home: Path) -> Path:
    """All messages in one file: of several, Flink reads some at the same time, and a row's changes out of order."""
    whole = home / "in" / "messages.json"
    whole.parent.mkdir()
    with whole.open("wb") as out:
        for each in sorted(folder.glob("messages/*.json")):
            out.write(each.read_bytes())
    return whole.parent


def _totals(result: Any) -> dict[str, list[int]]:
    """The newest total of each state, from the changelog of the answer."""
    totals: dict[str, list[int]] = {}
    with result.collect() as changes:
        for row in changes:
            state, orders, amount = row
            if str(row.get_row_kind()) in {"RowKind.INSERT", "RowKind.UPDATE_AFTER"}:
                totals[state] = [orders, round(amount * 100)]
            else:
                totals.pop(state, None)
    return totals


def _largest_checkpoint(folder: Path, ended: threading.Event, sizes: list[int]) -> None:
    while not ended.wait(_EVERY_SECONDS):
        sizes.extend(_bytes(each) for each in folder.glob("*/chk-*"))


def _bytes(folder: Path) -> int:
    """A checkpoint's size; 0 if it goes meanwhile."""
    try:
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    except FileNotFoundError:
        return 0


def main() -> int:
    """Measure, and write the figures down."""
    folder = Path(sys.argv[1]).resolve()
    home = folder / "flink"
    shutil.rmtree(home, ignore_errors=True)
    (home / "tmp").mkdir(parents=True)
    tables = _environment(home)
    tables.execute_sql(_SOURCE.format(path=_one_file(folder, home).as_uri()))
    ended, sizes = threading.Event(), [0]
    watching = threading.Thread(target=_largest_checkpoint, args=(home / "checkpoints", ended, sizes))
    watching.start()
    began = perf_counter()
    totals = _totals(tables.execute_sql(_QUERY))
    seconds = perf_counter() - began
    ended.set()
    watching.join()
    live = max(map(int, re.findall(r"->(\d+)M\(", (home / "gc.log").read_text())), default=0)
    figures = {"seconds": [seconds], "state_bytes": max(sizes), "state_rows": 0, "totals": totals, "live_heap": live}
    (home / "figures.json").write_text(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
