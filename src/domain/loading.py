"""Loading a pipeline's history in bulk, before its stream takes over.

The history is read chunk by chunk, each an epoch of a ledger of its own, into tables beside those that are to be
loaded: what the service's step makes of a chunk, one row a key. When all of it is there, one epoch of the pipeline
loads it into the tables themselves. So readers see nothing before they see everything, and a try that is cut off is
gone on with after the last chunk that was finished.

It takes a service whose step needs nothing of the tables, and changes them by rows to merge and to append alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, evolve, field

from .change import Change
from .epoch import POSITION, OffsetRange
from .errors import ConfigError, NotSupported
from .merge import fold
from .ports import StreamSource
from .schema import column
from .service import Service, Step
from .table import TableSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from .epoch import Batch, Offsets
    from .ledger import Snapshot
    from .schema import Schema
    from .service import ViewSpec

_SUFFIX = "_loading"
_HISTORY, _TABLES, _STREAM = "history", "tables", "stream"


def loading_table(table: str) -> str:
    """The name of the table beside another one that its history is gathered in."""
    return f"{table}{_SUFFIX}"


def _gathers(spec: TableSpec) -> TableSpec:
    """What a table's history is gathered in: appended to; rows of a key are ordered by `_position`."""
    return TableSpec(
        loading_table(spec.name), spec.schema.plus(column(POSITION, "bigint")) if spec.key else spec.schema
    )


class Loading(Service):
    """The gathering of a service's history: its step does what the service's does, into tables of its own.

    Args:
        service: whose history it is.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loaded = {spec.name: spec for spec in service.tables}
        self.tables = tuple(map(_gathers, service.tables))
        self.views: tuple[ViewSpec, ...] = ()
        self.fingerprint = service.fingerprint

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """What a chunk adds; see `Service.step`."""
        step = self._service.step(batch, snapshot)
        changes = {
            loading_table(table): Change(append=self._gathered(self._loaded[table], change, batch))
            for table, change in step.changes.items()
        }
        return evolve(step, changes=changes)

    def loads(self, snapshot: Snapshot) -> dict[str, Change]:
        """The changes that load all that was gathered into the service's own tables."""
        return {
            spec.name: Change(load=snapshot.read(loading_table(spec.name)))
            for spec in self._loaded.values()
            if snapshot.version(loading_table(spec.name)) is not None
        }

    def emptied(self, snapshot: Snapshot) -> Step:
        """A step that leaves nothing in the tables of this service."""
        changes = {spec.name: Change(overwrite=snapshot.read(spec.name).head(0)) for spec in self.tables}
        return Step(changes, 0, 0, None)

    def view(
        self,
        name: str,
        snapshot: Snapshot,  # noqa: ARG002 - the port's
        *,
        as_of: datetime | None = None,  # noqa: ARG002 - the port's
        since: Snapshot | None = None,  # noqa: ARG002 - the port's
    ) -> nw.LazyFrame[Any]:
        """There is none; see `Service.view`."""
        raise _no_view(name)

    def view_changes(self, name: str, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:  # noqa: ARG002 - the port's
        """There are none; see `Service.view_changes`."""
        raise _no_view(name)

    def _gathered(self, spec: TableSpec, change: Change, batch: Batch) -> nw.LazyFrame[Any]:
        """The rows that a chunk adds to what is gathered for a table: of a keyed one, one a key."""
        if spec.key and change.merge is not None:
            rows = fold(change.merge, key=spec.key, rules=spec.column_rules, groups=spec.groups, arrival=POSITION)
            # Chunk comes after chunk; a position within one means nothing beside that of another.
            chunk = nw.lit(batch.epoch.number).cast(nw.Int64).alias(POSITION)
            return rows.select(*spec.schema.names, chunk)
        if not spec.key and change.append is not None:
            return change.append
        raise NotSupported("loading a history", f"a change of table {spec.name}", "run the stream from its beginning")


def _no_view(name: str) -> ConfigError:
    return ConfigError(f"there is no view {name!r} of a history that is being loaded; ask when it is loaded")


@define(eq=False)
class History(StreamSource):
    """A pipeline's history as chunks, with where its stream takes over.

    Offsets are those of the tables that are read, and beside them where the stream takes over: that is on record
    before the first chunk is, and stays as it was when the load is gone on with.

    Args:
        source: the history, as the pipeline's own source would bring it.
        tables: what is read, for people, by topic; a load that has begun goes on with the same alone.
        stream: where the stream takes over, for a load that begins now.
    """

    source: StreamSource
    tables: Mapping[str, str]
    stream: Offsets
    schema: Schema = field(init=False)
    format: str = field(init=False)
    rereads: Collection[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.schema, self.format, self.rereads = self.source.schema, self.source.format, self.source.rereads

    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """The next chunk; None if there is none left.

        Raises:
            ConfigError: the load began with other tables.
        """
        if after and after[_TABLES] != self.tables:
            began = ", ".join(f"{topic}={table}" for topic, table in after[_TABLES].items())
            raise ConfigError(f"the load of this history began with other tables: go on with --from {began}")
        planned = self.source.plan(after[_HISTORY] if after else None)
        stream = takes_over(after) if after else self.stream
        return planned and OffsetRange(after, {_HISTORY: planned.until, _TABLES: dict(self.tables), _STREAM: stream})

    def end(self) -> Offsets | None:
        return self.source.end()

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        after = offsets.after[_HISTORY] if offsets.after else None
        return self.source.read(OffsetRange(after, offsets.until[_HISTORY]))

    def again(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return self.source.again(letters)

    def lag(self, after: Offsets | None) -> str:
        return self.source.lag(after[_HISTORY] if after else None)


@define(eq=False)
class NoHistory(StreamSource):
    """A topic of which no history is loaded.

    Args:
        schema, format: of its records, had there been some.
    """

    schema: Schema
    format: str
    rereads: Collection[str] = ()

    def plan(self, after: Offsets | None) -> OffsetRange | None:  # noqa: ARG002 - the port's
        return None

    def end(self) -> Offsets | None:
        return None

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:  # noqa: ARG002 - the port's
        raise self._nothing()

    def again(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:  # noqa: ARG002 - the port's
        raise self._nothing()

    def lag(self, after: Offsets | None) -> str:  # noqa: ARG002 - the port's
        return "nothing"

    def _nothing(self) -> NotSupported:
        return NotSupported("reading", "a topic without a history", "name a table of it by --from")


def takes_over(gathered: Offsets) -> Offsets:
    """Where the stream takes over, from the offsets of a history that was gathered."""
    stream: Offsets = gathered[_STREAM]
    return stream
