"""The calendar of dates and times in Parquet files: how Spark is told of it. Files of another one are refused."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from ...domain.errors import EngineLimit
from .file_errors import explain_read_errors

CALENDAR = {"org.apache.spark.version": "3.5.0"}
"""Tells Spark which calendar dates before 1582 and times before 1900 have: without it Spark refuses to read them."""
_MARKS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""What Spark writes into a file of its former calendar, which it reads back as it was."""


def read_footer(path: Path | str, content: Path | IO[bytes] | None = None) -> pq.FileMetaData:
    """Read the footer of a Parquet file whose dates and times can be read by others than Spark.

    Args:
        path: names the file.
        content: the file, if it is not there; afterwards it is at its beginning.

    Raises:
        EngineLimit: old ones would be another day or hour here.
        HeadwaterError: as of `explain_read_errors`.
    """
    with explain_read_errors(path):
        footer = pq.read_metadata(path if content is None else content)
    if content is not None and not isinstance(content, Path):
        content.seek(0)
    if any(mark in (footer.metadata or {}) for mark in _MARKS) and any(
        pa.types.is_temporal(each) for each in footer.schema.to_arrow_schema().types
    ):
        raise EngineLimit(
            f"file {path} was written by Spark with datetimeRebaseModeInWrite = LEGACY, and only Spark reads its dates"
            ' before 1582 and times before 1900 as they were: set engine = "spark"',
            lasting=True,
        )
    return footer
