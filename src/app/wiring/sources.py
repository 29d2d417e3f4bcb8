"""Opens every kind of source as frames of Polars or Spark; a backend binds the class for its engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from ..config import BulkFiles, BulkJdbc, FilesInput, KafkaInput, SourceSettings, StreamInput
from ..registry.backends import Gap, Part, Sources

if TYPE_CHECKING:
    from ...domain.ports import BulkSource, StreamSource
    from ...domain.source.bulk import BulkSpec
    from ..config import BulkInput

_NO_STREAMS = Gap(Part.STREAMS, "they hand over Spark frames; use a backend on Spark, such as delta")

_NO_DATABASES = Gap(Part.DATABASES, "Spark reads them; use a backend on Spark, or write the table to Parquet files")

_NO_DELTA = Gap(Part.DELTA_TABLES, "Spark reads them; use a backend on Spark, or write the table to Parquet files")


@frozen
class PolarsSources(Sources):
    """Sources as Polars frames.

    Args:
        backend: the name of the backend, for messages.
    """

    backend: str

    gaps = (_NO_STREAMS, _NO_DATABASES, _NO_DELTA)
    """The parts that a backend on Polars does not offer."""

    def open(self, settings: SourceSettings) -> StreamSource:
        match settings.input:
            case FilesInput(path, files_per_epoch):
                from ...adapters.files.listing import FilesSettings
                from ...adapters.files.polars_source import PolarsFileSource

                return PolarsFileSource(FilesSettings(path, files_per_epoch), settings.records)
            case KafkaInput(servers, topics, max_rows, options):
                from ...adapters.kafka.polars_source import PolarsKafkaSource
                from ...adapters.kafka.settings import KafkaSettings

                return PolarsKafkaSource(KafkaSettings(servers, topics, max_rows, options), settings.records)
            case StreamInput():
                raise _NO_STREAMS.error(self.backend)

    def open_bulk(self, settings: BulkInput, spec: BulkSpec) -> BulkSource:
        match settings:
            case BulkFiles(format="delta"):
                raise _NO_DELTA.error(self.backend)
            case BulkFiles():
                from ...adapters.files.polars_bulk import PolarsFileBulk

                return PolarsFileBulk(settings.path, spec, settings.chunk_rows, settings.chunks_per_epoch)
            case BulkJdbc():
                raise _NO_DATABASES.error(self.backend)


@frozen(eq=False)
class SparkSources(Sources):
    """Sources as frames of a Spark session."""

    session: Any

    def open(self, settings: SourceSettings) -> StreamSource:
        match settings.input:
            case FilesInput(path, files_per_epoch):
                from ...adapters.files.listing import FilesSettings
                from ...adapters.files.spark_source import SparkFileSource

                return SparkFileSource(FilesSettings(path, files_per_epoch), settings.records, self.session)
            case KafkaInput(servers, topics, max_rows, options):
                from ...adapters.kafka.settings import KafkaSettings
                from ...adapters.kafka.spark_source import SparkKafkaSource

                kafka = KafkaSettings(servers, topics, max_rows, options)
                return SparkKafkaSource(kafka, settings.records, self.session)
            case StreamInput():
                from ...adapters.spark.handed_source import HandedSource

                return HandedSource(settings.records, self.session)

    def open_bulk(self, settings: BulkInput, spec: BulkSpec) -> BulkSource:
        rows, chunks = settings.chunk_rows, settings.chunks_per_epoch
        match settings:
            case BulkFiles(format="delta"):
                from ...adapters.delta.bulk import DeltaBulk

                return DeltaBulk(self.session, settings.path, spec, rows, chunks)
            case BulkFiles():
                from ...adapters.files.spark_bulk import SparkFileBulk

                return SparkFileBulk(settings.path, spec, rows, chunks, spark=self.session)
            case BulkJdbc():
                from ...adapters.jdbc.bulk import JdbcBulk, TableSettings
                from ...adapters.jdbc.database import Database, JdbcSettings

                table = TableSettings(settings.table, settings.clock_query, settings.position_query, rows, chunks)
                return JdbcBulk(Database(self.session, JdbcSettings(settings.jdbc, settings.options)), table, spec)
