"""Loading a pipeline's history in bulk, before its stream takes over.

The history is read chunk by chunk. Each chunk is an epoch of a separate ledger: the service's step runs on it, and its
rows, one per key, are appended to loading tables next to the service's own tables. After the last chunk, one epoch of
the pipeline loads these rows into the service's tables. So readers see either nothing or the whole history, and an
interrupted load is resumed after its last finished chunk.

This works for a service whose step reads nothing from the tables, and only merges and appends rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import narwhals as nw
from attrs import define, evolve, field

from ..epoch.batch import Batch
from ..epoch.epoch import Epoch, OffsetRange, Offsets
from ..errors import ConfigError, NotSupported, add_place
from ..ledger.ledger import Snapshot
from ..ports import Now, Source, StreamSource
from ..table.change import POSITION, Change
from ..table.merge import fold
from ..table.schema import Schema, column
from ..table.spec import TableSpec
from ..table.view_spec import ViewSpec
from .base import ReadAt, Service, Step

_SUFFIX = "_loading"
HISTORY, _TABLES, _STREAM = "history", "tables", "stream"
"""Keys of the offsets; `HISTORY` is also the key of `Publication.beginning`, if a pipeline begins with a history."""


def loading_table(table: str) -> str:
    """The name of a table's loading table, which collects the history."""
    return f"{table}{_SUFFIX}"


def _loading_spec(spec: TableSpec) -> TableSpec:
    """The spec of a table's loading table. It is appended to; `_position` orders the rows of a key."""
    return TableSpec(
        loading_table(spec.name), spec.schema.plus(column(POSITION, "bigint")) if spec.key else spec.schema
    )


class HistoryLoad(Service):
    """Collects a service's history: its step runs the service's step, and appends the rows to loading tables."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._targets = {spec.name: spec for spec in service.tables}
        self.tables = tuple(map(_loading_spec, service.tables))
        self.views: tuple[ViewSpec, ...] = ()
        self.fingerprint = service.fingerprint

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """Append a chunk's rows to the loading tables; see `Service.step`."""
        step = self._service.step(batch, snapshot)
        changes = {
            loading_table(table): Change(append=self._rows_to_load(self._targets[table], change, batch))
            for table, change in step.changes.items()
        }
        return evolve(step, changes=changes)

    def loads(self, snapshot: Snapshot) -> dict[str, Change]:
        """The changes that load all rows of the loading tables into the service's own tables."""
        return {
            spec.name: Change(load=snapshot.read(loading_table(spec.name)))
            for spec in self._targets.values()
            if snapshot.version(loading_table(spec.name)) is not None
        }

    def emptied(self, snapshot: Snapshot) -> Step:
        """A step that empties the loading tables."""
        changes = {spec.name: Change(overwrite=snapshot.read(spec.name).head(0)) for spec in self.tables}
        return Step(changes, 0, 0, None)

    def changed(self, fingerprint: str) -> str | None:
        """The changed settings that prevent a load from being resumed, for display; see `Service.changed`.

        A new topic or column of a wide table is one of them: the chunks that were read lack it.
        """
        return self._service.changed(fingerprint) or super().changed(fingerprint)

    def known(self, name: str) -> NoReturn:
        """Raises `ConfigError`: there are no views during the load; see `Service.known`."""
        raise ConfigError(f"there is no view {name!r} while the history is being loaded; query it after the load")

    def read(self, spec: ViewSpec, at: ReadAt) -> NoReturn:  # noqa: ARG002 - the port's
        """Raises `ConfigError`, as `known` does; see `Service.read`."""
        self.known(spec.name)

    def read_changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> NoReturn:  # noqa: ARG002 - the port's
        """Raises `ConfigError`, as `known` does; see `Service.read_changes`."""
        self.known(spec.name)

    def _rows_to_load(self, spec: TableSpec, change: Change, batch: Batch) -> nw.LazyFrame[Any]:
        """The rows of a chunk for a table's loading table; if the table has a key, one row per key."""
        if spec.key and change.merge is not None:
            rows = fold(change.merge, key=spec.key, rules=spec.column_rules, groups=spec.groups, arrival=POSITION)
            # Positions of different chunks cannot be compared, so the chunk's number is the position.
            chunk = nw.lit(batch.epoch.number).cast(nw.Int64).alias(POSITION)
            return rows.select(*spec.schema.names, chunk)
        if not spec.key and change.append is not None:
            return change.append
        raise NotSupported("loading a history", f"a change of table {spec.name}", "run the stream from its beginning")


@define(eq=False)
class HistorySource(Source):
    """A source that reads a pipeline's history in chunks, and records the offsets where its stream takes over.

    Its offsets contain those of the history and the stream's starting offsets. These offsets are recorded with the
    first chunk, and do not change when the load is resumed.

    Args:
        source: the source of the history, with the rows of the pipeline's own source.
        tables: the tables that are read, by topic, for display; a load can be resumed only with the same tables.
        stream: the stream's starting offsets, for a new load.
    """

    source: Source
    tables: Mapping[str, str]
    stream: Offsets
    format: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.format = self.source.format

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:
        """The next chunk; None if all are read.

        Raises:
            ConfigError: the load was begun with other tables.
        """
        if after and after[_TABLES] != self.tables:
            began = ", ".join(f"{topic}={table}" for topic, table in after[_TABLES].items())
            raise ConfigError(f"the load of this history was begun with other tables: resume it with {began}")
        planned = self.source.plan(after[HISTORY] if after else None, now)
        stream = takes_over(after) if after else self.stream
        return planned and OffsetRange(after, {HISTORY: planned.until, _TABLES: dict(self.tables), _STREAM: stream})

    def empty_topics(self, now: Now) -> list[str]:
        """The topics with a table that has nothing to read."""
        return [topic for topic in self.tables if self._is_empty(topic, now)]

    def _is_empty(self, topic: str, now: Now) -> bool:
        with add_place(f"the history of topic {topic!r}"):
            return self.source.members[topic].plan(None, now) is None

    @contextmanager
    def open(self, epoch: Epoch, offsets: OffsetRange) -> Iterator[Batch]:
        after = offsets.after[HISTORY] if offsets.after else None
        with self.source.open(epoch, OffsetRange(after, offsets.until[HISTORY])) as batch:
            yield evolve(batch, offsets=offsets)

    def lag(self, after: Offsets | None) -> str:
        return self.source.lag(after[HISTORY] if after else None)


@define(eq=False)
class NoHistory(StreamSource):
    """The source of a topic for which no history is loaded; it is empty.

    Args:
        schema, format: the schema and format of the topic's records.
    """

    schema: Schema
    format: str

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:  # noqa: ARG002 - the port's
        return None

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:  # noqa: ARG002 - the port's
        raise NotSupported("reading", "a topic without a history", "load a table of it")

    def lag(self, after: Offsets | None) -> str:  # noqa: ARG002 - the port's
        return "nothing"


def takes_over(gathered: Offsets) -> Offsets:
    """The stream's starting offsets, from the offsets of a `HistorySource`."""
    stream: Offsets = gathered[_STREAM]
    return stream
