"""One side of `benchmarks.cumulate`: Flink's window function CUMULATE in one streaming job, into Paimon.

FLINK/venv/bin/python benchmarks/cumulate_flink.py FOLDER HOME

See `flink_side` for what it needs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter, time
from typing import Any

from flink_side import ran, start, tell

_SETTINGS = {"state.backend.type": "hashmap", "table.local-time-zone": "UTC"}
# All views are in one file, because Flink would read several files at the same time, and out of order.
_VIEWS = """
CREATE TEMPORARY TABLE page_views (
  `at` BIGINT, page STRING, visitor BIGINT,
  moment AS TO_TIMESTAMP_LTZ(`at`, 3), WATERMARK FOR moment AS moment - INTERVAL '1' MINUTE
)
WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{path}')
"""
_TICKS = """
CREATE TABLE lake.`default`.ticks (
  window_start TIMESTAMP(3), window_end TIMESTAMP(3), page STRING, pv BIGINT, uv BIGINT, made TIMESTAMP_LTZ(3)
)
"""
# `made` is the time when the watermark passed the tick's minute, at which the window emits the tick.
_DRAW = """
INSERT INTO lake.`default`.ticks
SELECT window_start, window_end, page, count(*) AS pv, count(DISTINCT visitor) AS uv, CURRENT_TIMESTAMP AS made
FROM TABLE(CUMULATE(TABLE page_views, DESCRIPTOR(moment), INTERVAL '1' MINUTE, INTERVAL '1' DAY))
GROUP BY window_start, window_end, GROUPING SETS ((page), ())
"""
_CURVE = "`minute` INT, page STRING, pv BIGINT, uv BIGINT"
_FILES = """
CREATE TEMPORARY TABLE found ({columns}) WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{path}')
"""
_FIRST_DAY = """
SELECT TIMESTAMPDIFF(MINUTE, window_start, window_end) AS `minute`, page, pv, uv
FROM lake.`default`.ticks WHERE window_start = TIMESTAMP '2024-03-01 00:00:00'
"""
_COMMITS = "SELECT snapshot_id, commit_time FROM lake.`default`.`ticks$snapshots` WHERE commit_kind = 'APPEND'"
_PUBLISHED = """
SELECT CAST(min(made) AS TIMESTAMP(3))
FROM lake.`default`.ticks /*+ OPTIONS('incremental-between' = '{before},{snapshot}') */
GROUP BY window_end
"""


def _waits(tables: Any) -> list[float]:
    """For each minute, the seconds from when the watermark passed it until its ticks were published."""
    waits = []
    for snapshot, published in tables.execute_sql(_COMMITS).collect():
        made = tables.execute_sql(_PUBLISHED.format(before=snapshot - 1, snapshot=snapshot)).collect()
        waits += [(published - at).total_seconds() for (at,) in made]
    return waits


def _read(tables: Any, home: Path) -> float:
    """Read the ticks, then write them as Parquet for the check; return the seconds of reading."""
    tables.execute_sql(f"CREATE TEMPORARY TABLE nowhere ({_CURVE}) WITH ('connector' = 'blackhole')")
    tables.execute_sql(_FILES.format(columns=_CURVE, path=(home / "rows").as_uri()))
    began = perf_counter()
    tables.execute_sql(f"INSERT INTO nowhere {_FIRST_DAY}").wait()
    took = perf_counter() - began
    tables.execute_sql(f"INSERT INTO found {_FIRST_DAY}").wait()
    return took


def main() -> int:
    """Measure, and write the figures to a file."""
    folder, home = (Path(each).resolve() for each in sys.argv[1:])
    environment = start(home, _SETTINGS)
    streaming = environment("streaming")
    streaming.execute_sql(_VIEWS.format(path=(folder / "stream").as_uri()))
    streaming.execute_sql(_TICKS)
    seconds = ran(streaming.execute_sql(_DRAW))
    began = time() - seconds
    batch = environment("batch")
    read = _read(batch, home)
    kept = sum(each.stat().st_size for each in (home / "lake").rglob("*") if each.is_file())
    tell(home, began=began, seconds=seconds, state_bytes=kept, view=read, waits=_waits(batch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
