"""A store that fails at a chosen commit, as if its process died there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import narwhals as nw
from attrs import define, frozen

from ..domain.epoch.epoch import Mark
from ..domain.errors import StoreUnavailable
from ..domain.ports import Commit, Version, VersionedStore
from ..domain.table.change import Change, Matching
from ..domain.table.schema import Schema
from ..domain.table.spec import TableSpec


class Crash(BaseException):
    """Simulates the death of the process; error handlers must not catch it."""


@frozen
class Fault:
    """When to fail, once: before or after one commit.

    Args:
        before: if True, fail before the commit is made; else after it, before the caller learns of it.
        commit: the number of the commit, from 1; None for the commit that publishes.
        passing: if True, raise `StoreUnavailable`, as if the store was unavailable once; else `Crash`.
    """

    before: bool
    commit: int | None = None
    passing: bool = False


@define(eq=False)
class FailingStore(VersionedStore):
    """A real store with one `Fault`."""

    store: VersionedStore
    fault: Fault
    _commits: int = 0
    _failed: bool = False

    def ensure(self, spec: TableSpec, published: Mapping[str, Version] | None = None) -> Schema:
        return self.store.ensure(spec, published)

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        return self.store.read(table, at, matching)

    def size(self, table: str, at: Version) -> int:
        return self.store.size(table, at)

    def look_up(
        self, table: str, at: Version | None, asked: nw.LazyFrame[Any], matching: Matching, columns: Mapping[str, str]
    ) -> nw.LazyFrame[Any]:
        return self.store.look_up(table, at, asked, matching, columns)

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        """Commit to the store; fail before or after that if this is the chosen commit."""
        self._commits += 1
        due = not self._failed and self._is_due(mark)
        if due and self.fault.before:
            self._fail()
        version = self.store.commit(table, change, mark)
        if due:
            self._fail()
        return version

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        return self.store.rollback(table, to, mark)

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        return self.store.changes(table, after, until)

    def check_current(self, pipeline: str, *, writes: bool = False) -> None:
        self.store.check_current(pipeline, writes=writes)

    def versions(self, table: str) -> Iterator[Commit]:
        return self.store.versions(table)

    def version(self, table: str, version: Version) -> Commit:
        return self.store.version(table, version)

    def _is_due(self, mark: Mark) -> bool:
        return mark.publication is not None if self.fault.commit is None else self._commits == self.fault.commit

    def _fail(self) -> None:
        self._failed = True
        if self.fault.passing:
            raise StoreUnavailable("the test made the store unavailable once")
        raise Crash
