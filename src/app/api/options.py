"""The settings that sources and pipelines share, for programs; each is the key of the same name in a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, Required, TypeAlias, TypedDict

from ..read.moments import Duration

Schema: TypeAlias = str | Mapping[str, str]
"""The columns: a text such as ``"id bigint, at timestamp"``, or the type of each column."""


class RunOptions(TypedDict, total=False):
    """``[run]``; see docs/configuration.md."""

    poll: Duration
    retries: int
    retry_wait: Duration
    retry_max_wait: Duration
    dead_letter_limit: str | int
    dead_letter_stop: int


class AlertOptions(TypedDict, total=False):
    """``[alerts]``; see docs/operations.md."""

    webhook: str
    check: Duration
    timeout: Duration


class TelemetryOptions(TypedDict, total=False):
    """``[telemetry]``; see docs/monitoring.md."""

    endpoint: str
    service_name: str
    metrics_every: Duration


class RetainOptions(TypedDict, total=False):
    """Which old versions are kept; see docs/versions.md."""

    versions: int
    duration: Duration


class BackendOptions(TypedDict, total=False):
    """``[backend]``, besides its name and path; see docs/configuration.md."""

    compact_every: int
    retain: RetainOptions
    expire_every: int
    file_mb: int
    engine: Literal["auto", "spark", "local"]
    local_mb: int
    spark: Mapping[str, object]


class SourceOptions(TypedDict, total=False):
    """The keys of every source besides its schema; see docs/configuration.md."""

    event_time: str
    watermark_delay: Duration
    idle_after: Duration
    row_kind: str
    time_zone: str


class RecordOptions(SourceOptions, total=False):
    """The keys of a source of records; those from `tables` on are for changelogs, see docs/changelogs.md.

    `time_unit` is for plain JSON and CSV, too.
    """

    tables: Sequence[str]
    key: Sequence[str]
    metadata: Mapping[str, str]
    before: Literal["required", "optional"]
    time_unit: Literal["s", "ms", "us", "ns"]
    transactions: Literal["ordered", "counted", "none"]


class PublishOptions(TypedDict, total=False):
    """A view whose changes go to a Kafka topic; see docs/configuration.md."""

    servers: Required[str]
    topic: Required[str]
    view: str
    format: Literal["json", "upsert-json", "debezium-json"]
    row_kind: str
    tombstones: bool
    rename: Mapping[str, str]
    options: Mapping[str, object]


class PipelineOptions(TypedDict, total=False):
    """The keys of every pipeline; see docs/configuration.md."""

    retain: RetainOptions
    expire_every: int
    epoch_takes: Duration


class StreamOptions(PipelineOptions, total=False):
    """The keys of a pipeline whose views can be stored as tables, and published."""

    materialize: Sequence[str]
    publish: PublishOptions


class MeasureOptions(TypedDict, total=False):
    """A measure of some rows only."""

    measure: Required[str]
    where: str


Measures: TypeAlias = Mapping[str, str | MeasureOptions]
"""The SQL of each measure, such as ``{"orders": "count(*)"}``."""


class PlainTable(TypedDict, total=False):
    """A table that other programs write."""

    path: Required[str]
    format: str


class PastOptions(TypedDict, total=False):
    """A past that another program keeps: a table, or SQL over tables; see docs/retraction.md."""

    holds: Literal["rows", "totals"]
    path: str
    format: str
    sql: str
    tables: Mapping[str, PlainTable]


class TopicOptions(TypedDict, total=False):
    """A topic of a wide table; see docs/wide-tables.md."""

    source: Required[str]
    sequence: Required[Sequence[str]]
    columns: Sequence[str]
    select: Mapping[str, str]
    where: str
    owner: bool
    nulls: Literal["overwrite", "keep"]
    absent: Literal["keep", "null"]


class BulkOptions(TypedDict, total=False):
    """A table to load in bulk: files, or a table of a database; see docs/bulk-merge.md."""

    path: str
    format: str
    search_ts: str | datetime
    layout: Literal["lines", "array"]
    delimiter: str
    quote: str
    escape: str
    null_value: str | Sequence[str]
    comment: str
    chunk_rows: int
    chunks_per_epoch: int
    jdbc: str
    table: str
    user: str
    password: str
    password_file: str
    clock_query: str
    position_query: str
    options: Mapping[str, object]
