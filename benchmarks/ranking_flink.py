"""One side of `benchmarks.engines`: Flink SQL's ROW_NUMBER in one streaming job with full state, into Paimon.

FLINK/venv/bin/python benchmarks/ranking_flink.py FOLDER HOME

See `flink_side` for what it needs. A Top-N is the only ranking that Flink keeps right for late rows, and it has no
DENSE_RANK.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import time
from typing import Any

from flink_side import ran, start, tell

_SETTINGS = {
    "state.backend.type": "hashmap",
    "table.exec.sink.upsert-materialize": "NONE",
    "table.exec.rank.topn-cache-size": "20000000000",  # all rows of all groups, or each epoch reads its state again
}
_FILES = """
CREATE TEMPORARY TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{path}')
"""
_ORDERS = "order_id BIGINT, group_id BIGINT, event_time BIGINT, amount BIGINT"
_RANKS = """
CREATE TABLE lake.`default`.ranks (
  group_id BIGINT, `rank` BIGINT, order_id BIGINT, PRIMARY KEY (group_id, `rank`) NOT ENFORCED
)
WITH ('bucket' = '2')
"""
_RANK = """
INSERT INTO lake.`default`.ranks SELECT group_id, `rank`, order_id FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY group_id ORDER BY event_time, order_id) AS `rank` FROM orders
) WHERE `rank` <= 1000000
"""


def _write_rows(tables: Any, home: Path) -> None:
    tables.execute_sql(
        _FILES.format(name="found", columns="order_id BIGINT, `rank` BIGINT", path=(home / "rows").as_uri())
    )
    tables.execute_sql("INSERT INTO found SELECT order_id, `rank` FROM lake.`default`.ranks").wait()


def main() -> int:
    """Measure, and write the figures to a file."""
    folder, home = (Path(each).resolve() for each in sys.argv[1:])
    environment = start(home, _SETTINGS)
    streaming = environment("streaming")
    streaming.execute_sql(_FILES.format(name="orders", columns=_ORDERS, path=(folder / "in").as_uri()))
    streaming.execute_sql(_RANKS)
    seconds = ran(streaming.execute_sql(_RANK))
    began = time() - seconds
    _write_rows(environment("batch"), home)
    tell(home, began=began, seconds=seconds, state_bytes=0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
