"""Refuses Parquet files whose dates and times count in another calendar than everybody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ...domain.errors import EngineLimit

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow.parquet as pq

_MARKS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""What Spark writes into a file of its former calendar, which it reads back as it was."""


def check_calendar(path: Path, footer: pq.FileMetaData) -> None:
    """Check that the dates and times of a file can be read by others than Spark.

    Raises:
        EngineLimit: old ones would be another day or hour here.
    """
    if any(mark in (footer.metadata or {}) for mark in _MARKS) and any(
        pa.types.is_temporal(each) for each in footer.schema.to_arrow_schema().types
    ):
        raise EngineLimit(
            f"file {path} was written by Spark with datetimeRebaseModeInWrite = LEGACY, and only Spark reads its dates"
            ' before 1582 and times before 1900 as they were: set engine = "spark"',
            lasting=True,
        )
