"""A table to load in bulk from files of a folder, or from a Delta table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from ...domain.errors import ConfigError
from ...domain.ports import BulkSource
from ...domain.source.bulk import BulkSpec
from ...domain.source.csv_format import CsvFormat
from ..deployment.deployment import BulkFiles
from ..document.paths import check_local
from ..document.section import Section
from ..document.value_types import PATH, Key, Kind, choice, whole
from ..registry.backends import Gap, Part
from ..registry.sources import BulkKind
from .files import WRITTEN

READ_BY_SPARK = (
    'Spark reads them; use a backend with Spark, such as delta, and backend.engine = "auto" or "spark", or write the'
    " table to Parquet files"
)
NO_DELTA = Gap(Part.DELTA_TABLES, READ_BY_SPARK)


def _moment_or_text(value: Any) -> datetime | str:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{value!r} is not {MOMENT_OR_COLUMN.expects}")
    try:
        return _moment_or_text(datetime.fromisoformat(value))
    except ValueError:
        return value


MOMENT_OR_COLUMN = Kind("a time such as '2024-01-01T00:00:00Z', or a column of the files", _moment_or_text)
_COLUMN = re.compile(r"[^\W\d]")
"""The first character of a column name; checked if no file can be read."""
CHUNKS = {"chunk_rows": Key(whole(1), 1_000_000), "chunks_per_epoch": Key(whole(1), 1)}
"""The keys that every bulk load has."""


class BulkFilesKind(BulkKind[BulkFiles]):
    """A table ``bulk`` with a ``path``."""

    keys: ClassVar[Mapping[str, Key]] = {
        "path": Key(PATH, required=True),
        "format": Key(choice("parquet", "json", "csv", "delta"), "parquet"),
        "search_ts": Key(MOMENT_OR_COLUMN),
        **WRITTEN,
        **CHUNKS,
    }

    def parse(self, table: Section) -> BulkFiles:
        if table["format"] != "delta":  # Spark lists the files of a Delta table, Headwater all others
            table.build(lambda: check_local(table["path"]), "path")
        csv = table.build(lambda: CsvFormat(**table.fields(CsvFormat)))
        found = BulkFiles(**{**table.fields(BulkFiles), "path": table.resolve_key("path"), "csv": csv})
        if isinstance(found.search_ts, str):
            table.build(lambda: _check_search_ts(str(found.search_ts), found), "search_ts")
        return found

    def open_polars(self, settings: BulkFiles, spec: BulkSpec, backend: str) -> BulkSource:
        if settings.format == "delta":
            raise NO_DELTA.error(backend)
        from ...adapters.files.polars_bulk import PolarsFileBulk

        return PolarsFileBulk(settings.path, spec, settings.chunk_rows, settings.chunks_per_epoch)

    def open_spark(self, settings: BulkFiles, spec: BulkSpec, session: Any, backend: str) -> BulkSource:
        rows, chunks = settings.chunk_rows, settings.chunks_per_epoch
        if settings.format == "delta":
            from ...adapters.delta.bulk import DeltaBulk

            return DeltaBulk(session, settings.path, spec, rows, chunks)
        from ...adapters.files.spark_bulk import SparkFileBulk

        return SparkFileBulk(settings.path, spec, rows, chunks, spark=session)


def _check_search_ts(name: str, files: BulkFiles) -> None:
    """Refuse a text that is not a time and cannot be a column of the files.

    Raises:
        ConfigError: names what is allowed.
    """
    from ...adapters.files.columns import columns_of_first

    there = None if files.format == "delta" else columns_of_first(files.path, files.format, files.csv, files.layout)
    if there is not None and name not in there.names:
        listed = ", ".join(there.names)
        raise ConfigError(f"{name!r} is not {MOMENT_OR_COLUMN.expects}; file {there.file} has the columns: {listed}")
    if there is None and not _COLUMN.match(name):
        raise ConfigError(f"{name!r} is not {MOMENT_OR_COLUMN.expects}")
