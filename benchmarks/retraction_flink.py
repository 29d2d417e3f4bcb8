"""One side of `benchmarks.retraction`: Flink SQL into Paimon, a groupBy over the changelog, its state in full.

FLINK/venv/bin/python benchmarks/retraction_flink.py heap|rocksdb FOLDER HOME

Needs nothing but PyFlink, in an environment of its own, and beside that the jars of Paimon; see docs/benchmarks.md.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from time import time
from typing import Any

_JARS = Path(sys.prefix).parent / "jars"
_STATES = {"heap": "hashmap", "rocksdb": "rocksdb"}
_SETTINGS = {
    "parallelism.default": "2",
    "taskmanager.memory.managed.size": "512m",  # RocksDB's; the heap is the JVM's
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "jobmanager.bind-host": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "rest.port": "0",
    "execution.checkpointing.interval": "5 s",
    # Messages that come again are known by the row's key: this keeps every row.
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
_LAKE = "CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = '{path}')"
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


def _start(home: Path, state: str) -> Any:
    """What makes table environments, in a JVM with the heap that every side has."""
    os.environ |= {
        "JVM_ARGS": f"-Xmx2g -Xlog:gc:file={home / 'gc.log'}",
        "HADOOP_CLASSPATH": os.pathsep.join(map(str, sorted(_JARS.glob("*.jar")))),
        "FLINK_LOG_DIR": str(home / "log"),
    }
    (home / "log").mkdir()
    (home / "tmp").mkdir()
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    settings = Configuration()
    places = {"execution.checkpointing.dir": (home / "checkpoints").as_uri(), "io.tmp.dirs": str(home / "tmp")}
    for name, value in (_SETTINGS | places | {"state.backend.type": state}).items():
        settings.set_string(name, value)

    def environment(mode: str) -> Any:
        builder = EnvironmentSettings.new_instance().with_configuration(settings)
        tables = TableEnvironment.create(getattr(builder, f"in_{mode}_mode")().build())
        tables.execute_sql(_LAKE.format(path=(home / "lake").as_uri()))
        return tables

    return environment


def _one_file(folder: Path, home: Path) -> Path:
    """All messages in one file: of several, Flink reads some at the same time, and a row's changes out of order."""
    whole = home / "in" / "messages.json"
    whole.parent.mkdir()
    with whole.open("wb") as out:
        for each in sorted(folder.glob("messages/*.json")):
            out.write(each.read_bytes())
    return whole.parent


def _count(tables: Any, source: Path) -> float:
    """Count all messages; the seconds that the job ran, its submission not among them."""
    tables.execute_sql(_SOURCE.format(path=source.as_uri()))
    tables.execute_sql(_TOTALS)
    running = tables.execute_sql(_COUNT)
    running.wait()
    return float(running.get_job_client().get_job_execution_result().result().get_net_runtime()) / 1000


def _totals(tables: Any) -> dict[str, list[int]]:
    with tables.execute_sql(_SHOW).collect() as rows:
        return {state: [orders, round(amount * 100)] for state, orders, amount in rows}


def _largest_checkpoint(log: Path) -> int:
    """Bytes of the largest checkpoint, as Flink tells: the last one goes with the job."""
    told = "".join(each.read_text() for each in log.glob("*.log"))
    return max(map(int, _CHECKPOINT.findall(told)), default=0)


def main() -> int:
    """Measure, and write the figures down."""
    state, (folder, home) = _STATES[sys.argv[1]], (Path(each).resolve() for each in sys.argv[2:])
    source = _one_file(folder, home)
    environment = _start(home, state)
    seconds = _count(environment("streaming"), source)
    figures = {
        "began": time() - seconds,
        "seconds": seconds,
        "state_bytes": _largest_checkpoint(home / "log"),
        "totals": _totals(environment("batch")),
    }
    (home / "figures.json").write_text(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
