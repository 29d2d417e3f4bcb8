"""What the store contract needs from a backend, and helpers for its tests to commit and read in one line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import narwhals as nw
import pytest
from attrs import define, evolve

from ..domain.epoch.epoch import Epoch, Mark, OffsetRange
from ..domain.ports import KeptStore, Version
from ..domain.table.change import POSITION, Change, Matching
from ..domain.table.schema import Schema, column
from ..domain.table.spec import Layout, TableSpec
from .expected import hashable, rows_of

Row: TypeAlias = tuple[Any, ...]
Bag: TypeAlias = "Counter[Row]"

_MOMENT, _WALL = datetime(2024, 3, 10, 7, 59, 59, 999999, UTC), datetime.fromisoformat("1969-12-31T23:59:59.000001")
_LOW = (-(2**63), -128, -(2**15), -(2**31), -1.5, -1e300, Decimal("-99999999999999999999.999999999999999999"))
_HIGH = (2**63 - 1, 127, 2**15 - 1, 2**31 - 1, 1.5, 1e300, Decimal("0.000000000000000001"))
EVERY_TYPE = (
    "id bigint, tiny tinyint, small smallint, n int, real float, precise double, amount decimal(38,18),"
    " price decimal(18,2), text string, flag boolean, raw binary, on date, at timestamp, wall timestamp_ntz"
)
OF_EVERY_TYPE = (
    (*_LOW, Decimal("-1.10"), "", False, b"", date(1, 1, 3), datetime(1900, 1, 1, tzinfo=UTC), _WALL),
    (*_HIGH, Decimal("1.10"), "数 \\ ' \" \n", True, b"\x00\xff'", date(9999, 12, 31), _MOMENT, _WALL),
    (0, *[None] * 13),
)
"""Rows of `EVERY_TYPE`: two with values at the ends of their types, and one that is null but for its key."""

both_layouts = pytest.mark.parametrize("layout", list(Layout), ids=lambda layout: layout.value)


class StoreHarness(ABC):
    """A backend under test. A subclass inherits the contract too, and defines `reopen` and `frame`."""

    @abstractmethod
    def reopen(self) -> KeptStore:
        """A store over this test's tables, of which there are none at first.

        Each call returns a new object over the same tables, unless the backend keeps its tables in the object.
        """

    @abstractmethod
    def frame(self, rows: Sequence[Row], schema: Schema) -> nw.LazyFrame[Any]:
        """A frame of the backend's engine, from rows: tuples of values in the order of the schema's columns."""

    def rows(self, frame: nw.LazyFrame[Any]) -> list[Row]:
        """The rows of a frame as tuples of Python values; timestamps are aware, in UTC."""
        return rows_of(frame)

    def explaining(self) -> AbstractContextManager[None]:
        """The block in which frames are computed; see `FrameEngine.explaining`."""
        return nullcontext()

    @pytest.fixture
    def store(self) -> KeptStore:
        return self.reopen()

    def table(self, store: KeptStore, spec: TableSpec) -> TableDriver:
        """Ensure a table, and return its driver."""
        store.ensure(spec)
        return TableDriver(self, store, spec)


def bag(*rows: Row) -> Bag:
    """Rows as a multiset: without order, with duplicates counted."""
    return Counter(map(hashable, rows))


def spec_of(ddl: str, key: Sequence[str] = (), *, name: str = "pipeline.items", **more: Any) -> TableSpec:
    """The spec of a table, with its columns as DDL; `more` are further fields of `TableSpec`."""
    return TableSpec(name, Schema.parse(ddl), tuple(key), **more)


def mark_of(sequence: int, **more: Any) -> Mark:
    """The mark of a table's commit number `sequence`, from 1; each epoch reads one row. `more` replaces fields."""
    after = {"at": sequence - 1} if sequence > 1 else None
    epoch = Epoch("pipeline", sequence - 1)
    mark = Mark(epoch, OffsetRange(after, {"at": sequence}), sequence, "writer", "settings", "pipeline.items")
    return evolve(mark, **more)


@define(eq=False)
class TableDriver:
    """One table of a store. Numbers its commits in order, and reads the newest version that was made through it."""

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
        """Commit rows with the next mark. Values are in the order of the columns; `delete` takes values of the key.

        Rows of `merge` may have their `_position` at the end.
        """
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
        """Load rows (`Change.load`), in the same form as `merge` takes."""
        return self.commit_change(Change(load=self.harness.frame(rows, self._positioned(rows))))

    def commit_change(self, change: Change) -> Version:
        """Commit a change with the next mark."""
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
        """Compact the table; `newest` becomes the version of the compaction, if it made one."""
        self.newest = self.store.compact(self.spec.name) or self.newest

    def frame(self, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """A frame of the newest version's rows, not yet computed."""
        return self.store.read(self.spec.name, self.newest, matching)

    def rows(self, matching: Matching | None = None) -> Bag:
        """The rows of the newest version."""
        return bag(*self.harness.rows(self.frame(matching)))

    def rows_at(self, version: Version | None) -> Bag:
        """The rows of a version."""
        return bag(*self.harness.rows(self.store.read(self.spec.name, version)))

    def changes(self, after: Version | None, until: Version) -> Bag:
        """Net changes between two versions, each row with its row kind at the end."""
        frame = self.store.changes(self.spec.name, after, until)
        return bag(*self.harness.rows(frame.select(*self.spec.schema.names, "_row_kind")))

    def changed_keys(self, after: Version | None, until: Version) -> set[Any]:
        """The keys that may have changed between two versions."""
        frame = self.store.changed_keys(self.spec.name, after, until)
        return set(self.harness.rows(frame.select(*self.spec.key)))

    def matching(self, keys: Sequence[Row] | None = None, on: Sequence[str] = (), /, **within: Any) -> Matching:
        """A filter: keys in the columns `on`, and literals (`within`) by column."""
        frame = None if keys is None else self.harness.frame(keys, self.spec.schema.select(on))
        return Matching(frame, within)

    def _positioned(self, rows: Sequence[Row]) -> Schema:
        schema = self.spec.schema
        has_position = bool(rows) and len(rows[0]) > len(schema.columns)
        return schema.plus(column(POSITION, "bigint")) if has_position else schema
