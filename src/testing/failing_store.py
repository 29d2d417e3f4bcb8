"""A store that fails at a chosen commit, as if its process died there."""

from __future__ import annotations

from typing import Any

from attrs import define, frozen

from ..domain.epoch.epoch import Mark
from ..domain.errors import StoreUnavailable
from ..domain.ports import Version, VersionedStore
from ..domain.table.change import Change


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
class FailingStore:
    """A `VersionedStore` with one `Fault`; all but `commit` is as in the real store."""

    store: VersionedStore
    fault: Fault
    _commits: int = 0
    _failed: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

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

    def _is_due(self, mark: Mark) -> bool:
        return mark.publication is not None if self.fault.commit is None else self._commits == self.fault.commit

    def _fail(self) -> None:
        self._failed = True
        if self.fault.passing:
            raise StoreUnavailable("the test made the store unavailable once")
        raise Crash
