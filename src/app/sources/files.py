"""Files of a folder, read in the order of their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ...domain.source.record_spec import FORMATS
from ..deployment.deployment import FilesInput
from ..document.value_types import LOCAL_PATH, TEXT, Key, whole
from ..registry.sources import SourceKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...domain.ports import StreamSource
    from ...domain.source.record_spec import RecordSpec
    from ..document.section import Section


class FilesKind(SourceKind[FilesInput]):
    """``kind = "files"``."""

    formats = FORMATS
    keys: ClassVar[Mapping[str, Key]] = {
        "path": Key(LOCAL_PATH, required=True),
        "files_per_epoch": Key(whole(1), 1),
        "delimiter": Key(TEXT, ","),
    }

    def parse(self, table: Section) -> FilesInput:
        return FilesInput(table.resolve(table["path"]), table["files_per_epoch"])

    def open_polars(self, settings: FilesInput, records: RecordSpec, backend: str) -> StreamSource:
        from ...adapters.files.listing import FilesSettings
        from ...adapters.files.polars_source import PolarsFileSource

        return PolarsFileSource(FilesSettings(settings.path, settings.files_per_epoch), records)

    def open_spark(self, settings: FilesInput, records: RecordSpec, session: Any, backend: str) -> StreamSource:
        from ...adapters.files.listing import FilesSettings
        from ...adapters.files.spark_source import SparkFileSource

        return SparkFileSource(FilesSettings(settings.path, settings.files_per_epoch), records, session)
