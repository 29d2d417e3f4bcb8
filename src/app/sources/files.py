"""Files of a folder, read in the order of their names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...domain.ports import StreamSource
from ...domain.source.csv_format import RFC_4180, CsvFormat
from ...domain.source.epoch_size import EpochSize
from ...domain.source.record_spec import FORMATS, LAYOUTS, LINES, RecordSpec
from ..deployment.deployment import FilesInput
from ..document.section import Section
from ..document.value_types import ANY_TEXT, FLAG, LOCAL_PATH, TEXT, TEXT_OR_TEXTS, Key, choice, keys_of, whole
from ..registry.sources import SourceKind

if TYPE_CHECKING:
    from ...adapters.files.listing import FilesSettings

WRITTEN = {
    "layout": Key(choice(*LAYOUTS), LINES),
    **keys_of(CsvFormat, delimiter=TEXT, quote=ANY_TEXT, escape=TEXT, null_value=TEXT_OR_TEXTS, comment=TEXT),
}
"""The keys that say how text files are written, which every kind of source of files has."""


class FilesKind(SourceKind[FilesInput]):
    """``kind = "files"``."""

    formats = FORMATS
    keys: ClassVar[Mapping[str, Key]] = {
        "path": Key(LOCAL_PATH, required=True),
        "files_per_epoch": Key(whole(1)),
        "max_rows_per_epoch": Key(whole(1)),
        "max_bytes_per_epoch": Key(whole(1)),
        **WRITTEN,
        "header": Key(FLAG, RFC_4180.header),
    }

    def parse(self, table: Section) -> FilesInput:
        if table["max_rows_per_epoch"] is not None and table["format"] != "parquet":
            message = f"rows of {table['format']} files are not counted before they are read; set max_bytes_per_epoch"
            raise table.error(message, "max_rows_per_epoch")
        path = table.resolve_key("path")
        if not Path(path).is_dir() and (Path(path).is_file() or {*"*?"} & {*table["path"]}):
            what = "a file" if Path(path).is_file() else "a pattern"
            raise table.error(
                f"{table['path']!r} is {what}, not a folder; name the folder, all files of it are read", "path"
            )
        return FilesInput(**{**table.fields(FilesInput), "path": path})

    def open_polars(self, settings: FilesInput, records: RecordSpec, backend: str) -> StreamSource:
        from ...adapters.files.polars_source import PolarsFileSource

        return PolarsFileSource(_settings(settings), records)

    def open_spark(self, settings: FilesInput, records: RecordSpec, session: Any, backend: str) -> StreamSource:
        from ...adapters.files.spark_source import SparkFileSource

        return SparkFileSource(_settings(settings), records, session)


def _settings(given: FilesInput) -> FilesSettings:
    from ...adapters.files.listing import FilesSettings

    limit = EpochSize(given.max_rows_per_epoch, given.max_bytes_per_epoch)
    return FilesSettings(given.path, given.files_per_epoch, limit)
