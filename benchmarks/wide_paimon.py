"""One side of `benchmarks.wide_table`: Flink SQL into a partial-update table of Paimon, one sequence group per topic.

FLINK/venv/bin/python benchmarks/wide_paimon.py stream|epochs FOLDER HOME

`stream` is one streaming job over all records, published at each checkpoint; `epochs` is a batch job for each epoch.
See `flink_side` for what it needs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter, time
from typing import Any

from flink_side import ran, start, tell

_SETTINGS = {
    "taskmanager.memory.managed.size": "256m",  # memory for sorting in batch jobs; Paimon's writers use the heap
    "table.exec.sink.upsert-materialize": "NONE",
}
_KINDS = {"seq": "BIGINT", "at": "BIGINT", "units": "BIGINT", "value": "DOUBLE", "note": "STRING"}
_TOPICS = ("price", "stock")
_COLUMNS = {topic: [f"{topic}_{name}" for name in _KINDS] for topic in _TOPICS}
_ALL = [name for topic in _TOPICS for name in _COLUMNS[topic]]
_TYPED = {name: _KINDS[name.partition("_")[2]] for name in _ALL}
_WIDE = "lake.`default`.wide"
_FILES = """
CREATE TEMPORARY TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{path}')
"""


def _wide(tables: Any) -> None:
    groups = ", ".join(f"'fields.{of[0]}.sequence-group' = '{','.join(of[1:])}'" for of in _COLUMNS.values())
    columns = ", ".join(f"{name} {kind}" for name, kind in _TYPED.items())
    tables.execute_sql(
        f"CREATE TABLE {_WIDE} (item_id BIGINT, {columns}, PRIMARY KEY (item_id) NOT ENFORCED)"
        f" WITH ('bucket' = '2', 'merge-engine' = 'partial-update', {groups})"
    )


def _topic(tables: Any, topic: str, files: Path, name: str) -> str:
    """Make a table of a topic's files; return the SELECT of its columns, with nulls for those of the other topic."""
    columns = ", ".join(["item_id BIGINT", *(f"{each} {_TYPED[each]}" for each in _COLUMNS[topic])])
    tables.execute_sql(_FILES.format(name=name, columns=columns, path=files.as_uri()))
    values = (each if each in _COLUMNS[topic] else f"CAST(NULL AS {_TYPED[each]})" for each in _ALL)
    return f"SELECT item_id, {', '.join(values)} FROM {name}"


def _merge(tables: Any, files: dict[str, Path], number: int = 0) -> float:
    """Write the records of both topics; return the seconds that the job ran."""
    parts = [_topic(tables, topic, each, f"{topic}_{number}") for topic, each in files.items()]
    return ran(tables.execute_sql(f"INSERT INTO {_WIDE} {' UNION ALL '.join(parts)}"))


def _epoch(tables: Any, files: dict[str, Path], number: int) -> float:
    """Write the records of an epoch; return the seconds from the call until the job is done."""
    began = perf_counter()
    _merge(tables, files, number)
    return perf_counter() - began


def _read(tables: Any, home: Path) -> float:
    """Read all rows of the table, then write them as Parquet for the check; return the seconds of reading."""
    names = ["item_id", *(name for name in _ALL if not name.endswith("_seq"))]
    columns = ", ".join(f"{name} {_TYPED.get(name, 'BIGINT')}" for name in names)
    tables.execute_sql(f"CREATE TEMPORARY TABLE nowhere ({columns}) WITH ('connector' = 'blackhole')")
    tables.execute_sql(_FILES.format(name="found", columns=columns, path=(home / "rows").as_uri()))
    rows = f"SELECT {', '.join(names)} FROM {_WIDE}"
    began = perf_counter()
    tables.execute_sql(f"INSERT INTO nowhere {rows}").wait()
    took = perf_counter() - began
    tables.execute_sql(f"INSERT INTO found {rows}").wait()
    return took


def main() -> int:
    """Measure, and write the figures to a file."""
    way, (folder, home) = sys.argv[1], (Path(each).resolve() for each in sys.argv[2:])
    environment = start(home, _SETTINGS)
    batch = environment("batch")
    _wide(batch)
    if way == "stream":
        epochs = []
        seconds = _merge(environment("streaming"), {topic: folder / topic for topic in _TOPICS})
    else:
        names = sorted(each.name for each in (folder / _TOPICS[0]).iterdir())
        files = ({topic: folder / topic / name for topic in _TOPICS} for name in names)
        epochs = [_epoch(batch, each, number) for number, each in enumerate(files)]
        seconds = sum(epochs)
    began, read = time() - seconds, _read(batch, home)
    kept = sum(each.stat().st_size for each in (home / "lake").rglob("*") if each.is_file())
    tell(home, began=began, seconds=seconds, state_bytes=kept, epochs=epochs, view=read)
    return 0


if __name__ == "__main__":
    sys.exit(main())
