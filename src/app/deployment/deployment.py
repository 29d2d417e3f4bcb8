"""The settings of a deployment, read from a TOML file or built by a program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar

from attrs import field, frozen

from ...domain.errors import ConfigError
from ...domain.ledger.retention import Retention
from ...domain.service.base import ServiceSettings
from ...domain.source.csv_format import RFC_4180, CsvFormat
from ...domain.source.dead_letter import USUAL_LIMIT, Limit
from ...domain.source.record_spec import LINES, PLAIN_FORMATS, RecordSpec

_PASSWORD = re.compile(r"password|passwd|pwd=|//[^/@]*:[^/@]*@", re.IGNORECASE)


@frozen
class BackendSettings:
    """The backend that stores the tables.

    Args:
        name: the entry point of a backend (``memory``, ``delta`` …).
        path: the folder or address of the tables; None for a backend that needs none.
        compact_every: number of epochs between compaction checks; 0 for never.
        spark: settings of the Spark session, if the backend uses Spark.
        retain: which old versions are kept; by default all.
        expire_every: number of epochs between expiries by a run; 0 for never.
        file_mb: target size of data files for loads and compaction, in mebibytes.
        engine: what reads and writes the tables, if the backend has several engines; None for its default.
        local_mb: with engine ``auto``, the memory that an epoch may use on the local engine, in mebibytes; None for
            an eighth of the machine's.
    """

    name: str = "memory"
    path: str | None = None
    compact_every: int = 16
    spark: Mapping[str, str] = field(factory=dict)
    retain: Retention = field(factory=Retention)
    expire_every: int = 0
    file_mb: int = 128
    engine: str | None = None
    local_mb: int | None = None

    @property
    def location(self) -> str:
        """The name with the path, for display."""
        return f"{self.name} at {self.path}" if self.path else self.name


@frozen
class RunSettings:
    """How pipelines are run.

    Args:
        poll: the wait before an idle source is read again.
        retries: the number of retries after a transient fault.
        retry_wait: the longest wait before the first retry; it doubles with each retry.
        retry_max_wait: the longest wait before any retry.
        dead_letter_limit: a run warns of an epoch in which more rows than this are dead letters.
        dead_letter_stop: a pipeline stops if its first rows, at least this many, are all dead letters; 0 for never.
    """

    poll: timedelta = timedelta(seconds=1)
    retries: int = 5
    retry_wait: timedelta = timedelta(seconds=1)
    retry_max_wait: timedelta = timedelta(seconds=60)
    dead_letter_limit: Limit = USUAL_LIMIT
    dead_letter_stop: int = 1000


@frozen
class AlertSettings:
    """Where a run sends what an operator should know.

    Args:
        webhook: an address that takes JSON by POST; it may contain a secret. None for nowhere.
        check: the time between two looks for alarms.
        timeout: the longest time that the webhook may take.
    """

    webhook: str | None = field(default=None, repr=False)
    check: timedelta = timedelta(seconds=30)
    timeout: timedelta = timedelta(seconds=10)


@frozen
class TelemetrySettings:
    """Where traces and metrics go.

    Args:
        endpoint: the address of a collector that speaks OTLP over HTTP; it may contain a secret. None: to the providers
            that the program has set, if any.
        service_name: names the deployment; None for ``OTEL_SERVICE_NAME``, or headwater.
        metrics_every: the time between two looks at the metrics.
    """

    endpoint: str | None = field(default=None, repr=False)
    service_name: str | None = None
    metrics_every: timedelta = timedelta(seconds=30)


class Input:
    """Where a source reads: the settings of one kind of source."""

    __slots__ = ()

    kind: ClassVar[str]
    """The name of its `SourceKind`."""

    lanes: ClassVar[bool] = False
    """Whether several logs (Kafka partitions) are read in parallel."""

    submitted: ClassVar[bool] = False
    """Whether a program submits its rows; else they are read."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The Kafka topics that it reads: no view of its pipelines is published to them."""
        return ()


@frozen
class FilesInput(Input):
    """Files of a folder, read in name order: as many in one epoch as the limits allow; one, if there is no limit."""

    kind = "files"

    path: str
    files_per_epoch: int | None = None
    max_rows_per_epoch: int | None = None
    max_bytes_per_epoch: int | None = None


@frozen
class KafkaInput(Input):
    """Topics of a broker. `options` are settings of librdkafka; they may contain secrets.

    If no limit is set, an epoch has at most 200,000 records and 64 MiB. `registry` is the address of the schema
    registry for Avro and Protobuf, `registry_auth` the secret that it asks for.
    """

    kind = "kafka"
    lanes = True

    servers: str
    topics: tuple[str, ...]
    max_rows_per_epoch: int | None = None
    options: Mapping[str, str] = field(factory=dict, repr=False)
    max_bytes_per_epoch: int | None = None
    registry: str | None = None
    registry_auth: str | None = field(default=None, repr=False)
    topic_ids: str = "check"
    compaction: str = "check"


@frozen
class StreamInput(Input):
    """Frames that the program hands over; see `Headwater.push` and `Headwater.foreach_batch`."""

    kind = "stream"
    submitted = True


class BulkInput:
    """A table to load in bulk: the settings of one kind of table."""

    __slots__ = ()

    kind: ClassVar[str]
    """The name of its `BulkKind`."""

    repeatable: ClassVar[bool] = False
    """Whether a second read of a chunk returns the same rows."""

    has_nested: ClassVar[bool] = True
    """Whether it can load nested columns."""

    @property
    def grows(self) -> bool:
        """Whether chunks may be added that were not known when the load began, as files of a folder are."""
        return False

    reports_time: ClassVar[bool] = False
    """Whether it reports the time of each read itself; else `search_ts` or a position is needed."""

    @property
    def precedes_open(self) -> bool:
        """Whether the position of a chunk is from before all transactions that the chunk does not see."""
        return False

    @property
    def search_ts(self) -> datetime | str | None:
        """The time of the read (UTC), or the column with the time at which each row was read."""
        return None

    @property
    def records_format(self) -> str:
        """How its values are written; the values of tables are typed, like those of Parquet."""
        return "parquet"

    @property
    def csv(self) -> CsvFormat:
        """How its CSV is written."""
        return RFC_4180

    @property
    def layout(self) -> str:
        """How the records of its JSON files lie in them."""
        return LINES


@frozen
class BulkFiles(BulkInput):
    """A table to load in bulk: files of a folder, or a Delta table.

    Args:
        path: the folder.
        format: of the files.
        search_ts: the time of the read (UTC), or the column with the time at which each row was read.
        chunk_rows: approximate number of rows in a chunk.
        chunks_per_epoch: the greatest number of chunks in one epoch.
        csv: how CSV is written.
        layout: how the records of JSON files lie in them; see `RecordSpec`.
    """

    kind = "files"
    repeatable = True

    path: str
    format: str = "parquet"
    search_ts: datetime | str | None = None
    chunk_rows: int = 1_000_000
    chunks_per_epoch: int = 1
    csv: CsvFormat = RFC_4180
    layout: str = LINES

    @property
    def grows(self) -> bool:
        return self.format != "delta"

    @property
    def records_format(self) -> str:
        return self.format if self.format in PLAIN_FORMATS else "parquet"

    def __str__(self) -> str:
        return f"{self.format} files at {self.path}"


def _check_address(_instance: object, _attribute: object, jdbc: str) -> None:
    # The message does not show the address: it may contain a password.
    if not jdbc.startswith("jdbc:"):
        raise ConfigError("jdbc: the address must begin with 'jdbc:', such as 'jdbc:postgresql://host/database'")
    if _PASSWORD.search(jdbc):
        raise ConfigError("jdbc: the address must not contain a password: set `user` and `password`")


@frozen
class BulkJdbc(BulkInput):
    """A database table to load in bulk.

    Args:
        jdbc: the address of the database.
        table: its name with its schema, each part spelled as in the database.
        options: settings of the connection; they contain secrets.
        clock_query: a query that returns the time of the database; None for the default of the database.
        position_query: a query that returns the current position of its log.
        chunk_rows: number of rows in a chunk.
        chunks_per_epoch: the greatest number of chunks in one epoch.
    """

    kind = "jdbc"
    has_nested = False
    reports_time = True

    jdbc: str = field(validator=_check_address)
    table: str
    options: Mapping[str, str] = field(factory=dict, repr=False)
    clock_query: str | None = None
    position_query: str | None = None
    chunk_rows: int = 1_000_000
    chunks_per_epoch: int = 1

    @property
    def precedes_open(self) -> bool:
        return self.position_query is not None

    def __str__(self) -> str:
        return f"table {self.table} of a database"


@frozen
class SourceSettings:
    """A source of rows.

    Args:
        name: unique within the deployment.
        input: the files or topics.
        records: how a record is read into a row.
        event_time: the column that the watermark follows; None for no watermark.
        watermark_delay: how late rows may be.
        idle_after: after this much silence the watermark advances with the clock, staying
            `idle_after + watermark_delay` behind it; None for never.
        place: file and line of its settings, for messages.
    """

    name: str
    input: Input
    records: RecordSpec
    event_time: str | None = None
    watermark_delay: timedelta = timedelta()
    idle_after: timedelta | None = None
    place: str = field(default="", eq=False)


@frozen
class KafkaOutput:
    """A view whose changes are published to a Kafka topic.

    Args:
        servers, topic: the brokers and the topic.
        view: the name of the view; None for the pipeline's first view with a key.
        format, row_kind, tombstones, rename: see `Feed`.
        options: settings of librdkafka; they may contain secrets.
        place: file and line of its settings, for messages.
    """

    servers: str
    topic: str
    view: str | None = None
    format: str = "json"
    row_kind: str = "row_kind"
    tombstones: bool = True
    rename: Mapping[str, str] = field(factory=dict)
    options: Mapping[str, str] = field(factory=dict, repr=False)
    place: str = field(default="", eq=False)

    @property
    def topics(self) -> tuple[str, str]:
        """The topics that it writes: that of the changes, and that of the receipts."""
        return self.topic, f"{self.topic}.epochs"


@frozen
class PipelineSettings:
    """One pipeline.

    Args:
        source: the name of its source; for a wide table, by topic; None if it reads other pipelines.
        service: the settings of its service; their `pipeline` is the name of the pipeline.
        materialize: views that are also stored as plain tables.
        publish: the view whose changes are published to Kafka, if any.
        place: file and line of its settings, for messages.
        materialize_place: file and line of `materialize`, for messages.
        retain: which old versions are kept; None for the setting of the backend.
        expire_every: number of epochs between expiries; None for the setting of the backend.
        epoch_takes: the expected duration of an epoch; None to estimate it from the last epochs.
        bulk: the table that a bulk merge loads; its source is then the changelog of that table. None for others.
    """

    source: str | Mapping[str, str] | None
    service: ServiceSettings
    materialize: tuple[str, ...] = ()
    publish: KafkaOutput | None = None
    place: str = field(default="", eq=False)
    materialize_place: str = field(default="", eq=False, repr=False)
    retain: Retention | None = None
    expire_every: int | None = None
    epoch_takes: timedelta | None = None
    bulk: BulkInput | None = None

    @property
    def name(self) -> str:
        return self.service.pipeline

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of all its sources, in order; a source that several topics read is repeated."""
        if isinstance(self.source, str):
            return (self.source,)
        return tuple(self.source.values()) if self.source else ()


@frozen
class Deployment:
    """A backend, and the pipelines that run on it; sources and pipelines by name."""

    backend: BackendSettings
    sources: Mapping[str, SourceSettings]
    pipelines: Mapping[str, PipelineSettings]
    run: RunSettings = field(factory=RunSettings)
    alerts: AlertSettings = field(factory=AlertSettings)
    telemetry: TelemetrySettings = field(factory=TelemetrySettings)
