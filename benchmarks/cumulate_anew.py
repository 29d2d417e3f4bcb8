"""One side of `benchmarks.cumulate`: in each epoch, Spark counts the whole day so far, for the newest minute only.

python -m benchmarks.cumulate_anew FOLDER HOME

It appends one tick per epoch to Delta, while the other sides make one tick for each minute.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter, time
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it

from headwater.adapters.delta import package
from headwater.adapters.spark.session import open_session

from .page_views import START, curve_of, reached
from .reading import drain
from .sides import Figures, folder_bytes, spark_settings

_COUNTED = "SELECT page, count(*) AS pv, count(DISTINCT visitor) AS uv FROM views GROUP BY GROUPING SETS ((page), ())"


def _tick(session: Any, files: list[Path], table: str) -> float:
    """Make the tick of the newest complete minute; return the seconds."""
    began = perf_counter()
    views = session.read.parquet(*map(str, files))
    over = reached(views.agg(F.max(F.unix_timestamp("at"))).first()[0])
    views.where(F.col("at") < F.lit(over)).createOrReplaceTempView("views")
    told = session.sql(_COUNTED).select(
        F.lit(START).alias("window_start"), F.lit(over).alias("tick"), "page", "pv", "uv"
    )
    told.write.format("delta").mode("append").save(table)
    return perf_counter() - began


def main() -> int:
    """Measure, and write the figures to a file."""
    folder, home = map(Path, sys.argv[1:])
    session = open_session(
        spark_settings(home), packages=package.PACKAGES, extensions=package.EXTENSIONS, defaults=package.SETTINGS
    )
    files, table = sorted((folder / "rows").iterdir()), home.resolve() / "lake"
    began = time()
    took = [_tick(session, files[:each], str(table)) for each in range(1, len(files) + 1)]
    asked = perf_counter()
    drain(session.read.format("delta").load(str(table)))
    viewed = perf_counter() - asked
    curve_of(session.read.format("delta").load(str(table))).write.parquet(str(home.resolve() / "rows"))
    Figures(began, sum(took), folder_bytes(table), epochs=took, view=viewed).write(home)
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
