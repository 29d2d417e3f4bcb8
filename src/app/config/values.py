"""A deployment as values: what a TOML file says, or a program in its place."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from attrs import field, frozen

from ...domain.dead_letter import USUAL_LIMIT, Limit
from ...domain.errors import ConfigError
from ...domain.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ...domain.bulk_merge import BulkMergeSettings
    from ...domain.cumulate import CumulateSettings
    from ...domain.materialized_view import ViewSettings
    from ...domain.ranking import RankingSettings
    from ...domain.retraction import RetractionSettings
    from ...domain.snapshots import SnapshotSettings
    from ...domain.source import RecordSpec
    from ...domain.wide_table import WideTableSettings

_PASSWORD = re.compile(r"password|passwd|pwd=|//[^/@]*:[^/@]*@", re.IGNORECASE)


@frozen
class BackendSettings:
    """Where tables are kept.

    Args:
        name: the entry point of a backend (``memory``, ``delta`` …).
        path: the folder or address of the tables; None for a backend that keeps none.
        compact_every: epochs between two looks at whether tables want compaction; 0 for never.
        spark: settings of the Spark session, where the backend uses one.
        retain: how long the past is kept; everything, if not given.
        expire_every: epochs after which a run gives up what is not to be kept; 0 for never by itself.
        file_mb: how large data files are made by loads and by compaction, in mebibytes.
    """

    name: str = "memory"
    path: str | None = None
    compact_every: int = 16
    spark: Mapping[str, str] = field(factory=dict)
    retain: Retention = field(factory=Retention)
    expire_every: int = 0
    file_mb: int = 128


@frozen
class RunSettings:
    """How pipelines are run.

    Args:
        poll: the wait at an idle source.
        retries: the tries after a passing fault.
        retry_wait: before the first of them; doubled each time.
        dead_letter_limit: an epoch that loses more of its rows to the dead letters is warned of.
        dead_letter_stop: a pipeline stops whose first rows, at least so many, are all dead letters; 0 for never.
    """

    poll: timedelta = timedelta(seconds=1)
    retries: int = 5
    retry_wait: timedelta = timedelta(seconds=1)
    dead_letter_limit: Limit = USUAL_LIMIT
    dead_letter_stop: int = 1000


@frozen
class FilesInput:
    """Files of a folder, in name order, so many an epoch."""

    path: str
    files_per_epoch: int = 1


@frozen
class KafkaInput:
    """Topics of a broker, at most so many records an epoch. `options` are librdkafka's; they may hold secrets."""

    servers: str
    topics: tuple[str, ...]
    max_rows_per_epoch: int = 100_000
    options: Mapping[str, str] = field(factory=dict, repr=False)


@frozen
class BulkFiles:
    """A table to be loaded, as files of a folder or as a Delta table.

    Args:
        path: the folder.
        format: of the files.
        search_ts: when they were written (UTC), or the column that says when each row was read.
        chunk_rows: about so many rows make a chunk.
        chunks_per_epoch: at most so many chunks are read in one epoch.
    """

    path: str
    format: str = "parquet"
    search_ts: datetime | str | None = None
    chunk_rows: int = 1_000_000
    chunks_per_epoch: int = 1


def _tells_no_password(_instance: object, _attribute: object, jdbc: str) -> None:
    # The address itself stays out of the message: it may hold what it must not.
    if not jdbc.startswith("jdbc:"):
        raise ConfigError("jdbc: an address wanted that begins so, as 'jdbc:postgresql://host/database'")
    if _PASSWORD.search(jdbc):
        raise ConfigError("jdbc: the address must not hold a password: give `user` and `password`")


@frozen
class BulkJdbc:
    """A table to be loaded, in a database.

    Args:
        jdbc: the address of the database.
        table: its name with its schema, each part as the database has it.
        options: settings of the connection; they hold secrets.
        clock_query: a statement that asks the database for the time; None: its usual one.
        position_query: a statement that asks it how far its log has come.
        chunk_rows: so many rows make a chunk.
        chunks_per_epoch: at most so many chunks are read in one epoch.
    """

    jdbc: str = field(validator=_tells_no_password)
    table: str
    options: Mapping[str, str] = field(factory=dict, repr=False)
    clock_query: str | None = None
    position_query: str | None = None
    chunk_rows: int = 1_000_000
    chunks_per_epoch: int = 1


@frozen
class StreamInput:
    """Batches of a Structured Streaming query that the program runs; see `Headwater.foreach_batch`."""


ServiceSettings: TypeAlias = (
    "RankingSettings | RetractionSettings | CumulateSettings | WideTableSettings | SnapshotSettings | BulkMergeSettings"
    " | ViewSettings"
)
Input: TypeAlias = FilesInput | KafkaInput | StreamInput
BulkInput: TypeAlias = BulkFiles | BulkJdbc


@frozen
class SourceSettings:
    """Where rows come from.

    Args:
        name: unique within the deployment.
        input: the files or topics.
        records: how a record is read into a row.
        event_time: the column that the watermark follows; None for no watermark.
        watermark_delay: how far the newest event time runs ahead of completeness.
        idle_after: how long it brings nothing until its watermark follows the clock, so far behind; None: never.
        place: where it is written, for messages.
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
        servers, topic: where to.
        view: which; None for the pipeline's first view with a key.
        format, row_kind, tombstones, rename: see `Feed`.
        options: librdkafka's; they may hold secrets.
        place: where it is written, for messages.
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


@frozen
class PipelineSettings:
    """One derived answer.

    Args:
        source: the name of its source; of a topic group, that of each topic; None where it reads other pipelines.
        service: what it computes; its `pipeline` is the pipeline's name.
        materialize: views that are also kept as plain tables.
        publish: a view whose changes are published as well.
        place: where it is written, for messages.
        retain: how long its past is kept; None: as the backend says.
        expire_every: epochs after which a run gives up what is not to be kept; None: as the backend says.
        epoch_takes: how long its epochs are expected to take; None to go by the last ones.
        bulk: the table that is loaded beside its source, which then is its changelog; None where there is none.
    """

    source: str | Mapping[str, str] | None
    service: ServiceSettings
    materialize: tuple[str, ...] = ()
    publish: KafkaOutput | None = None
    place: str = field(default="", eq=False)
    retain: Retention | None = None
    expire_every: int | None = None
    epoch_takes: timedelta | None = None
    bulk: BulkInput | None = None

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.service.pipeline

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of all its sources, in order; one that several topics read stands several times."""
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
