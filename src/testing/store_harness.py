"""What the store contract needs of a backend, and short words for its tests to speak to a table in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import pytest
from attrs import define, evolve

from ..domain.change import Change, Matching
from ..domain.epoch import POSITION, Epoch, Mark, OffsetRange, Publication
from ..domain.ledger import Snapshot
from ..domain.schema import Schema, column
from ..domain.table import Layout, TableSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..domain.ports import KeptStore, Version

BROKEN = "this record breaks its epoch"

Row: TypeAlias = tuple[Any, ...]
Bag: TypeAlias = "Counter[Row]"

both_layouts = pytest.mark.parametrize("layout", list(Layout), ids=lambda layout: layout.value)


class StoreHarness(ABC):
    """A backend under test: subclass it with the contract, and say how frames are made and stores opened."""

    @abstractmethod
    def reopen(self) -> KeptStore:
        """A store over this test's tables, none at first; a new object at each call, where that makes sense."""

    @abstractmethod
    def frame(self, rows: Sequence[Row], schema: Schema) -> nw.LazyFrame[Any]:
        """A frame of the backend's engine: rows of values in the order of the schema's columns."""

    def rows(self, frame: nw.LazyFrame[Any]) -> list[Row]:
        """The rows of a frame, values as plain Python has them: moments aware, in UTC."""
        return frame.collect(backend="polars").rows()

    def broken(self, rows: Sequence[Row], schema: Schema) -> nw.LazyFrame[Any]:
        """A frame that cannot be computed: the error says `BROKEN`."""
        frame = self.frame(rows, schema)
        native, first = frame.to_native(), schema.columns[0]
        if frame.implementation.is_polars():
            native = native.map_batches(_break)
        else:
            failing = f"IF(true, CAST(raise_error('{BROKEN}') AS {first.type.ddl}), NULL) AS `{first.name}`"
            native = native.selectExpr(failing, *(f"`{name}`" for name in schema.names[1:]))
        broken: nw.LazyFrame[Any] = nw.from_native(native)
        return broken

    @pytest.fixture
    def store(self) -> KeptStore:
        return self.reopen()

    def table(self, store: KeptStore, spec: TableSpec) -> TableDriver:
        """Ensure a table, and speak to it."""
        store.ensure(spec)
        return TableDriver(self, store, spec)


def _break(_rows: Any) -> Any:
    raise ValueError(BROKEN)


def bag(*rows: Row) -> Bag:
    """Rows in no order, repeats counted."""
    return Counter(rows)


def spec_of(ddl: str, key: Sequence[str] = (), *, name: str = "pipeline.items", **more: Any) -> TableSpec:
    """A table's spec, from its columns as DDL."""
    return TableSpec(name, Schema.parse(ddl), tuple(key), **more)


def mark_of(sequence: int, **more: Any) -> Mark:
    """The mark of a table's commit of this sequence, by a pipeline whose every epoch is one row of its source."""
    after = {"at": sequence - 1} if sequence > 1 else None
    epoch = Epoch("pipeline", sequence - 1)
    mark = Mark(epoch, OffsetRange(after, {"at": sequence}), sequence, "writer", "settings", "pipeline.items")
    return evolve(mark, **more)


def published_at(store: KeptStore, table: str, version: Version | None) -> Snapshot:
    """The snapshot of a publication that holds a table at a version."""
    at = datetime(2024, 3, 1, tzinfo=UTC)
    return Snapshot(store, Publication(Epoch("pipeline", 0), {table: version} if version else {}, {}, None, at, ""))


@define(eq=False)
class TableDriver:
    """One table; its commits are numbered as they come, and reads are of the newest version known here."""

    harness: StoreHarness
    store: KeptStore
    spec: TableSpec
    sequence: int = 0
    newest: Version | None = None

    def commit(
        self,
        *,
        append: Sequence[Row] | None = None,
        merge: Sequence[Row] | None = None,
        delete: Sequence[Row] | None = None,
        overwrite: Sequence[Row] | None = None,
    ) -> Version:
        """Commit rows given in the order of the columns; to be merged, they may have their `_position` at the end."""
        key = self.spec.schema.select(self.spec.key)
        return self.commit_change(
            Change(
                append=None if append is None else self.harness.frame(append, self.spec.schema),
                merge=None if merge is None else self.harness.frame(merge, self._positioned(merge)),
                delete=None if delete is None else self.harness.frame(delete, key),
                overwrite=None if overwrite is None else self.harness.frame(overwrite, self.spec.schema),
            )
        )

    def load(self, rows: Sequence[Row]) -> Version:
        """Load rows, given as those to be merged are."""
        return self.commit_change(Change(load=self.harness.frame(rows, self._positioned(rows))))

    def commit_change(self, change: Change) -> Version:
        """Commit with the next mark."""
        self.newest = self.store.commit(self.spec.name, change, mark_of(self.sequence + 1))
        self.sequence += 1
        return self.newest

    def rollback(self, to: Version | None) -> Version:
        """Roll back with the next mark."""
        mark = mark_of(self.sequence + 1, rolls_back=True)
        self.newest = self.store.rollback(self.spec.name, to, mark)
        self.sequence += 1
        return self.newest

    def compact(self) -> None:
        """Compact, whether or not it pays."""
        self.newest = self.store.compact(self.spec.name) or self.newest

    def frame(self, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The newest version, unread."""
        return self.store.read(self.spec.name, self.newest, matching)

    def rows(self, matching: Matching | None = None) -> Bag:
        """The rows of the newest version."""
        return bag(*self.harness.rows(self.frame(matching)))

    def rows_at(self, version: Version | None) -> Bag:
        """The rows of a version."""
        return bag(*self.harness.rows(self.store.read(self.spec.name, version)))

    def changes(self, after: Version | None, until: Version) -> Bag:
        """Net changes between two versions, each row with its kind at the end."""
        frame = self.store.changes(self.spec.name, after, until)
        return bag(*self.harness.rows(frame.select(*self.spec.schema.names, "_row_kind")))

    def matching(self, keys: Sequence[Row] | None = None, on: Sequence[str] = (), /, **within: Any) -> Matching:
        """What to look for: keys in the columns `on`, and literals by column."""
        frame = None if keys is None else self.harness.frame(keys, self.spec.schema.select(on))
        return Matching(frame, within)

    def _positioned(self, rows: Sequence[Row]) -> Schema:
        schema = self.spec.schema
        longer = bool(rows) and len(rows[0]) > len(schema.columns)
        return schema.plus(column(POSITION, "bigint")) if longer else schema
