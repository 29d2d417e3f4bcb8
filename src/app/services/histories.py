"""Opens the histories of a wide table's topics as one source."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from ...domain.errors import ConfigError, NotSupported
from ...domain.ports import FrameEngine, QueryEngine, Source, StreamSource
from ...domain.service.base import Service
from ...domain.service.history_load import NoHistory
from ...domain.service.wide_table import WideTable, WideTableSettings
from ...domain.source.changelog.settings import ChangeSpec
from ...domain.source.csv_format import RFC_4180
from ...domain.source.record_spec import LINES, PLAIN_FORMATS, RecordSpec
from ...domain.source.topic_group import TopicGroup
from ..deployment.deployment import FilesInput, SourceSettings, StreamInput
from ..document.paths import check_local
from ..document.plain import check_type
from ..registry.backends import Sources
from ..run.bootstrap import HistoryTable


@frozen(eq=False)
class Histories:
    """Opens histories on a backend, by its sources and its engines of frames and of SQL."""

    sources: Sources
    engine: FrameEngine
    queries: QueryEngine

    def open(
        self,
        settings: WideTableSettings,
        sources: Mapping[str, SourceSettings],
        tables: Mapping[str, HistoryTable],
        files: int,
    ) -> tuple[Service, Source]:
        """Open the history of a wide table as a source, and create the service that reads it.

        Raises:
            ConfigError: a table is of no topic, or `files` is 0.
            NotSupported: the backend does not read a table's format.
        """
        if check_type(files, int, "a number of files") < 1:
            raise ConfigError("no file to read in a chunk: files_per_chunk (--files-per-chunk) must be 1 or more")
        topics = [topic.name for topic in settings.topics]
        if unknown := [topic for topic in tables if topic not in topics]:
            raise ConfigError(
                f"pipeline {settings.pipeline!r} has no topic {unknown[0]!r}; it has: {', '.join(topics)}"
            )
        formats = {topic: table.format if table.format in PLAIN_FORMATS else "json" for topic, table in tables.items()}
        read = evolve(
            settings,
            topics=[
                evolve(topic, format=_letters(formats[topic.name], sources[topic.name].records))
                if topic.name in formats
                else topic
                for topic in settings.topics
            ],
            tombstones=None,  # a history deletes nothing
        )
        members: dict[str, StreamSource] = {}
        for topic in settings.topics:
            source, table = sources[topic.name], tables.get(topic.name)
            members[topic.name] = (
                NoHistory(source.records.columns, source.records.format)
                if table is None
                else self._open(_plain(source, formats[topic.name], partial=topic.absent == "keep"), table, files)
            )
        return WideTable(read, self.engine, self.queries), TopicGroup(members)

    def _open(self, source: SourceSettings, table: HistoryTable, files: int) -> StreamSource:
        """Open the history of one topic."""
        if table.format in PLAIN_FORMATS:
            return self.sources.open(evolve(source, input=FilesInput(check_local(table.path), files)))
        handed = self.sources.open(evolve(source, input=StreamInput()))
        if handed.submit is None:
            remedy = "write the table to Parquet files, or use a backend on Spark, such as delta"
            raise NotSupported(f"histories of format {table.format}", "this backend", remedy)
        rows = self.queries.scan(table.path, table.format)
        there = rows.collect_schema().names()
        wanted = [each for each in source.records.schema.names if each in there]
        handed.submit(str(table), 0, rows.select(*wanted).to_native())
        return handed


def _letters(format_: str, records: RecordSpec) -> str:
    """The format of a history's dead letters: one of its own if the topic's source would take them for other rows."""
    return format_ if (format_, records.format, records.row_kind) == ("json", "json", None) else f"history {format_}"


def _plain(source: SourceSettings, format_: str, *, partial: bool) -> SourceSettings:
    """Return the source for a history: plain rows without row kinds, because a history has no deletes."""
    records = evolve(
        source.records,
        schema=source.records.columns,
        row_kind=None,
        format=format_,
        changes=ChangeSpec(),
        csv=source.records.csv if format_ == "csv" else RFC_4180,
        layout=source.records.layout if format_ == "json" else LINES,
        tells_absent=partial and format_ == "json",
    )
    return evolve(source, records=records)
