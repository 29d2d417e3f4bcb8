"""Versioned tables in memory, on Polars: versions stay until they expire, and share unchanged rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from threading import RLock
from typing import Any

import narwhals as nw
from attrs import define, evolve, field, frozen

from ...domain.epoch.epoch import Mark
from ...domain.errors import VersionExpired, VersionNotFound
from ...domain.ports import Commit, Expiry, KeptStore, Version
from ...domain.table.change import Change, Matching
from ...domain.table.lease import Lease
from ...domain.table.net_changes import net_changes
from ...domain.table.schema import Schema
from ...domain.table.spec import Ensured, TableSpec
from ..polars.schema import lazy, stack
from .content import Content
from .read import read
from .write import apply_change, compute_change


@frozen(eq=False)
class _State:
    """One version: its commit and its rows; None once it has expired."""

    commit: Commit
    content: Content | None
    schema: Schema

    @property
    def frames(self) -> dict[int, int]:
        """The size of its frames in memory, in bytes, by frame."""
        return {} if self.content is None else self.content.frames()


@define(eq=False)
class _Table:
    """A table: all its versions, oldest first, and its leases by name."""

    spec: TableSpec
    states: list[_State] = field(factory=list)
    leases: dict[str, Lease] = field(factory=dict)

    def state(self, version: Version) -> _State:
        number = int(version) if version.isdecimal() else -1
        if not 0 <= number < len(self.states):
            raise VersionNotFound(
                f"table {self.spec.name} has no version {version}; it has {len(self.states)} from 0 on"
            )
        return self.states[number]

    def content(self, version: Version | None) -> Content:
        if version is None:
            return Content(self.spec.partition_by, {})
        if (content := self.state(version).content) is None:
            raise VersionExpired(
                f"version {version} of table {self.spec.name} has expired; read a newer one, pin what you read, or keep"
                " versions for longer"
            )
        return content

    def to_expire(self, keep: Collection[Version], now: datetime) -> list[_State]:
        """The versions that expire, oldest first."""
        newest = max(map(int, keep), default=0)
        held = {*keep, *(lease.version for lease in self.leases.values() if lease.live(now))}
        there = (state for state in self.states[:newest] if state.content is not None)
        return [state for state in there if state.commit.version not in held]

    def mark_expired(self, states: Iterable[_State]) -> None:
        for state in states:
            self.states[int(state.commit.version)] = _State(state.commit, None, state.schema)

    def remove_ended(self, now: datetime) -> None:
        """Remove the leases that have ended on expired versions. Others stay: the clock may be ahead."""
        expired = {state.commit.version for state in self.states if state.content is None}
        held = self.leases.items()
        self.leases = {name: lease for name, lease in held if lease.live(now) or lease.version not in expired}

    @property
    def newest(self) -> Version | None:
        return self.states[-1].commit.version if self.states else None

    def spec_after(self, change: Change) -> TableSpec:
        """The spec with the columns that it has after a change."""
        if not self.spec.whole:
            return self.spec
        schema = self.schema(self.newest) if change.overwrite is None else Schema.of(change.overwrite)
        return evolve(self.spec, schema=schema)

    def check_next(self, mark: Mark) -> None:
        newest = self.states[-1].commit.mark if self.states else None
        mark.check_follows(newest.sequence if newest else 0, self.spec.name)

    def schema(self, version: Version | None) -> Schema:
        """The columns of a version; those of the table, unless it is replaced as a whole."""
        return self.state(version).schema if self.spec.whole and version is not None else self.spec.schema

    def add(self, content: Content, schema: Schema, mark: Mark, written: int) -> Version:
        version = Version(str(len(self.states)))
        self.states.append(_State(Commit(version, datetime.now(UTC), mark, written), content, schema))
        return version


class MemoryStore(KeptStore):
    """All tables of a process, which end with it. Threads may share a store."""

    def __init__(self) -> None:
        self._tables: Ensured[_Table] = Ensured()
        self._lock = RLock()

    def ensure(self, spec: TableSpec, published: Mapping[str, Version] | None = None) -> Schema:
        with self._lock:
            added = Schema(())
            table = self._tables.setdefault(spec.name, _Table(spec))
            if table.newest is not None:
                counted = table.newest if published is None else published.get(spec.name)
                columns = spec.schema if counted is None else table.state(counted).schema
                added = table.spec.with_schema(columns).added_columns(spec)
            table.spec = spec
            return added

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        stored = self._tables[table]
        return lazy(read(stored.content(at), stored.schema(at), matching))

    def size(self, table: str, at: Version) -> int:
        """A file is a frame, as in `expire`."""
        return sum(self._tables[table].content(at).frames().values())

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        stored = self._tables[table]
        stored.spec.check_takes(change)
        spec = stored.spec_after(change)
        parts = compute_change(change, spec)
        with self._lock:
            stored.check_next(mark)
            return stored.add(apply_change(stored.content(stored.newest), parts, spec), spec.schema, mark, parts.rows)

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        stored = self._tables[table]
        with self._lock:
            stored.check_next(mark)
            schema = stored.spec.schema if to is None else stored.state(to).schema
            return stored.add(stored.content(to), schema, mark, written=0)

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        stored = self._tables[table]
        stored.spec.check_compared()
        old, new = stored.content(after), stored.content(until)
        before, now = (stack(stored.spec.schema, rows) for rows in (old.rows_missing_in(new), new.rows_missing_in(old)))
        return net_changes(lazy(before), lazy(now), stored.spec.key)

    def versions(self, table: str) -> Iterator[Commit]:
        states = self._tables[table].states if table in self._tables else []
        for number in reversed(range(len(states))):
            yield states[number].commit

    def version(self, table: str, version: Version) -> Commit:
        return self._tables[table].state(version).commit

    def compact(self, table: str) -> Version | None:
        """Always None: commits merge small runs themselves."""
        self._tables[table]
        return None

    def expire(self, table: str, keep: Collection[Version], *, now: datetime, dry_run: bool) -> Expiry:
        """A file is a frame, which several versions may share."""
        stored = self._tables[table]
        with self._lock:
            going = stored.to_expire(keep, now)
            staying = {frame for state in set(stored.states).difference(going) for frame in state.frames}
            freed = {frame: size for state in going for frame, size in state.frames.items() if frame not in staying}
            if not dry_run:
                stored.mark_expired(going)
                stored.remove_ended(now)
        return Expiry(table, tuple(state.commit.version for state in going), len(freed), sum(freed.values()))

    def expired(self, table: str) -> Collection[Version]:
        return {state.commit.version for state in self._tables[table].states if state.content is None}

    def pin(self, lease: Lease) -> None:
        stored = self._tables[lease.table]
        with self._lock:
            stored.content(Version(lease.version))
            stored.leases[lease.id] = lease

    def unpin(self, table: str, lease_id: str) -> None:
        with self._lock:
            self._tables[table].leases.pop(lease_id, None)

    def leases(self, table: str) -> Sequence[Lease]:
        return tuple(self._tables[table].leases.values())
