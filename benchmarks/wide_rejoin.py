"""One side of `benchmarks.wide_table`: Spark joins the newest records of both topics and writes the whole table again.

python -m benchmarks.wide_rejoin EVERY FOLDER HOME

It does so after every EVERY epochs, from all Parquet files written until then, to Delta.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter, time
from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it

from headwater.adapters.delta import package
from headwater.adapters.spark.session import open_session

from .items import KEY, TOPICS, columns, sequence
from .reading import drain
from .sides import Figures, folder_bytes, spark_settings


def _newest(session: Any, topic: str, files: list[Path]) -> Any:
    """The newest record of each item."""
    rows = session.read.parquet(*map(str, files))
    newest_first = Window.partitionBy(KEY).orderBy(F.desc(sequence(topic)))
    return rows.withColumn("n", F.row_number().over(newest_first)).filter("n = 1").select(KEY, *columns(topic))


def _refresh(session: Any, folder: Path, epochs: int, table: str) -> float:
    """Write the table as of the first `epochs` epochs; return the seconds."""
    began = perf_counter()
    price, stock = (_newest(session, topic, sorted((folder / topic).iterdir())[:epochs]) for topic in TOPICS)
    joined = price.join(stock, KEY, "full")
    joined.write.format("delta").mode("overwrite").save(table)
    return perf_counter() - began


def main() -> int:
    """Measure, and write the figures to a file."""
    every, (folder, home) = int(sys.argv[1]), (Path(each).resolve() for each in sys.argv[2:])
    session = open_session(
        spark_settings(home), packages=package.PACKAGES, extensions=package.EXTENSIONS, defaults=package.SETTINGS
    )
    epochs, table = len(list((folder / TOPICS[0]).iterdir())), home / "lake"
    began = time()
    took = [
        _refresh(session, folder, each, str(table)) for each in range(1, epochs + 1) if each % every == epochs % every
    ]
    asked = perf_counter()
    drain(session.read.format("delta").load(str(table)))
    viewed = perf_counter() - asked
    session.read.format("delta").load(str(table)).write.parquet(str(home / "rows"))
    Figures(began, sum(took), folder_bytes(table), epochs=took, view=viewed).write(home)
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
