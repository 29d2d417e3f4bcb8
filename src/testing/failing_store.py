"""A store that dies at a chosen commit, as a process would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, frozen

from ..domain.errors import StoreUnavailable
from ..domain.ports import TableStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    import narwhals as nw

    from ..domain.change import Change, Matching
    from ..domain.epoch import Mark
    from ..domain.ledger import Snapshot
    from ..domain.ports import Commit, Version
    from ..domain.table import TableSpec


class Crash(BaseException):
    """The process is gone; nothing that handles errors may handle this."""


@frozen
class Fault:
    """When to fail, once: before or after a commit, by its number from 1, or (None) the one that publishes.

    Args:
        before: the commit is not made; else it is made, and nobody hears of it.
        commit: which.
        passing: the store was away for a moment; else the process is gone.
    """

    before: bool
    commit: int | None = None
    passing: bool = False


@define(eq=False)
class FailingStore(TableStore):
    """A real store that fails as told."""

    store: TableStore
    fault: Fault
    _commits: int = 0
    _failed: bool = False

    def ensure(self, spec: TableSpec, published: Snapshot | None = None) -> None:
        """As the store does."""
        self.store.ensure(spec, published)

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """As the store does."""
        return self.store.read(table, at, matching)

    def size(self, table: str, at: Version) -> int:
        """As the store does."""
        return self.store.size(table, at)

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        """As the store does, unless it is time to fail."""
        self._commits += 1
        due = not self._failed and self._is_due(mark)
        if due and self.fault.before:
            self._fail()
        version = self.store.commit(table, change, mark)
        if due:
            self._fail()
        return version

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        """As the store does."""
        return self.store.rollback(table, to, mark)

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        """As the store does."""
        return self.store.changes(table, after, until)

    def versions(self, table: str) -> Iterator[Commit]:
        """As the store does."""
        return self.store.versions(table)

    def version(self, table: str, version: Version) -> Commit:
        """As the store does."""
        return self.store.version(table, version)

    def _is_due(self, mark: Mark) -> bool:
        return mark.publication is not None if self.fault.commit is None else self._commits == self.fault.commit

    def _fail(self) -> None:
        self._failed = True
        if self.fault.passing:
            raise StoreUnavailable("the store is told to be away for a moment")
        raise Crash
