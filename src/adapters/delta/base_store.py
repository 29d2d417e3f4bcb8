"""The part of the stores of Delta tables that both engines share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import Any, Protocol, TypeVar

import narwhals as nw

from ...domain.errors import StoreUnavailable, VersionExpired
from ...domain.ports import Commit, Expiry, Version
from ...domain.table.net_changes import net_changes
from ...domain.table.spec import Ensured
from ..shared.kept_store import FolderStore
from ..shared.leases import LeaseFiles
from .actions import total_bytes
from .expire import Sweep, SweepPolicy
from .followed_log import FollowedLog, UsedTable

TRIES = 5
"""So often a commit is tried if others come in between."""
UsedT = TypeVar("UsedT", bound=UsedTable[Any, Any])


class BaseDeltaStore(FolderStore, Protocol[UsedT]):
    """Tables in Delta Lake, ``pipeline.table`` at ``<root>/<pipeline>/<table>``.

    Args:
        root: where the tables are.
        sweep: how long `expire` keeps unneeded files.
    """

    root: str
    sweep: SweepPolicy
    _tables: Ensured[UsedT]

    @abstractmethod
    def _log(self, table: str) -> FollowedLog:
        """The log of a table that need not have been ensured."""

    def _faults(self, table: str, log: FollowedLog) -> AbstractContextManager[None]:  # noqa: ARG002 - none by default
        """Errors of the engine while it uses a log are translated."""
        return nullcontext()

    @abstractmethod
    def _held(self, rows: Any) -> nw.LazyFrame[Any]:
        """Rows as read from a version, to be used more than once."""

    def size(self, table: str, at: Version) -> int:
        used = self._tables[table]
        with self._faults(table, used.log):
            return total_bytes(used.readable_version(at).files)

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        used = self._tables[table]
        used.spec.check_compared()
        with self._faults(table, used.log):
            before = None if after is None else used.readable_version(after)
            old, new = used.readable_version(until).sides(before)
            return net_changes(self._held(old), self._held(new), used.spec.key)

    def versions(self, table: str) -> Iterator[Commit]:
        log = self._log(table)
        with self._faults(table, log):
            newest = log.newest()
        for number in range(newest, -1, -1):
            try:
                with self._faults(table, log):
                    commit = log.described(number)
            except VersionExpired:
                return
            yield commit

    def version(self, table: str, version: Version) -> Commit:
        log = self._log(table)
        with self._faults(table, log):
            return log.described(log.number(version))

    def expire(self, table: str, keep: Collection[Version], *, now: datetime, dry_run: bool) -> Expiry:
        used = self._tables[table]
        with self._faults(table, used.log):
            if used.log.newest() < 0:
                return Expiry(table)
            return Sweep(table, used.log, used.lease_files, self.sweep, now).expire(keep, dry_run=dry_run)

    @contextmanager
    def _lease_files(self, table: str) -> Iterator[LeaseFiles]:
        used = self._tables[table]
        with self._faults(table, used.log):
            yield used.lease_files

    def _check_listed(self, table: str, version: str) -> None:
        log = self._tables[table].log
        log.check_listed(log.number(version))


def other_commits(table: str) -> StoreUnavailable:
    """The error of a commit that has been tried `TRIES` times."""
    return StoreUnavailable(f"table {table}: other commits came in between {TRIES} times in a row; try again later")
