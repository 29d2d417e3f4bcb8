"""Versioned tables in memory, over Polars: every version is kept, and each shares what it did not change."""

from __future__ import annotations

from datetime import UTC, datetime
from threading import RLock
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from ...domain.changelog.net import net_changes
from ...domain.errors import ConfigError, VersionNotFound
from ...domain.ports import Commit, KeptStore, Version
from ...domain.table import Ensured, TableSpec
from .committing import changed, computed
from .content import Content
from .reading import read
from .schema import lazy, stack

if TYPE_CHECKING:
    from collections.abc import Iterator

    import narwhals as nw

    from ...domain.change import Change, Matching
    from ...domain.epoch import Mark


@frozen(eq=False)
class _State:
    """One version: its commit and its rows."""

    commit: Commit
    content: Content


@define(eq=False)
class _Table:
    """A table and all its versions, oldest first."""

    spec: TableSpec
    states: list[_State] = field(factory=list)

    def state(self, version: Version) -> _State:
        number = int(version) if version.isdecimal() else -1
        if not 0 <= number < len(self.states):
            raise VersionNotFound(
                f"table {self.spec.name} has no version {version}; it has {len(self.states)} from 0 on"
            )
        return self.states[number]

    def content(self, version: Version | None) -> Content:
        return Content(self.spec.partition_by, {}) if version is None else self.state(version).content

    @property
    def newest(self) -> Version | None:
        return self.states[-1].commit.version if self.states else None

    def check_next(self, mark: Mark) -> None:
        newest = self.states[-1].commit.mark if self.states else None
        mark.check_follows(newest.sequence if newest else 0, self.spec.name)

    def add(self, content: Content, mark: Mark, written: int) -> Version:
        version = Version(str(len(self.states)))
        self.states.append(_State(Commit(version, datetime.now(UTC), mark, written), content))
        return version


class MemoryStore(KeptStore):
    """All tables of a process, gone with it. Threads may share one."""

    def __init__(self) -> None:
        self._tables: Ensured[_Table] = Ensured()
        self._lock = RLock()

    def ensure(self, spec: TableSpec) -> None:
        with self._lock:
            table = self._tables.setdefault(spec.name, _Table(spec))
            table.spec.widened_by(spec)
            table.spec = spec

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        stored = self._table(table)
        return lazy(read(stored.content(at), stored.spec.schema, matching))

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        stored = self._table(table)
        parts = computed(change, stored.spec)
        with self._lock:
            stored.check_next(mark)
            return stored.add(changed(stored.content(stored.newest), parts, stored.spec), mark, parts.rows)

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        stored = self._table(table)
        with self._lock:
            stored.check_next(mark)
            return stored.add(stored.content(to), mark, written=0)

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        stored = self._table(table)
        if not stored.spec.key:
            raise ConfigError(f"table {table} has no key, so its changes cannot be told; declare one")
        old, new = stored.content(after), stored.content(until)
        before, now = (stack(stored.spec.schema, rows) for rows in (old.beyond(new), new.beyond(old)))
        return net_changes(lazy(before), lazy(now), stored.spec.key)

    def versions(self, table: str) -> Iterator[Commit]:
        states = self._tables[table].states if table in self._tables else []
        for number in reversed(range(len(states))):
            yield states[number].commit

    def version(self, table: str, version: Version) -> Commit:
        return self._table(table).state(version).commit

    def compact(self, table: str) -> Version | None:
        """None: commits merge small runs as they go."""
        self._table(table)
        return None

    def _table(self, name: str) -> _Table:
        return self._tables[name]
