"""What stores that keep each table in a folder of its own have in common: leases, and the record of what expired."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol

from ...domain.errors import VersionExpired
from ...domain.ports import KeptStore, Version

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from contextlib import AbstractContextManager

    from ...domain.holds import Holds
    from ...domain.lease import Lease


class FolderStore(KeptStore, Protocol):
    """A store whose versions are held, and put on record, by small files beside the tables."""

    @abstractmethod
    def _holding(self, table: str) -> AbstractContextManager[Holds]:
        """The notes on a table's versions; faults met while they are used are translated."""

    @abstractmethod
    def _check_told(self, table: str, version: str) -> None:
        """Make sure that the table format still tells of a version.

        Raises:
            VersionNotFound: there never was such a version.
            VersionExpired: it has been cleaned away.
        """

    def expired(self, table: str) -> Collection[Version]:
        with self._holding(table) as holds:
            return set(map(Version, holds.expired()))

    def pin(self, lease: Lease) -> None:
        with self._holding(lease.table) as holds:
            self._check_told(lease.table, lease.version)
            holds.pin(lease)
            try:  # what is no longer told of is not on record either
                self._check_told(lease.table, lease.version)
            except VersionExpired:
                holds.unpin(lease.id)
                raise

    def unpin(self, table: str, lease_id: str) -> None:
        with self._holding(table) as holds:
            holds.unpin(lease_id)

    def leases(self, table: str) -> Sequence[Lease]:
        with self._holding(table) as holds:
            return holds.leases()
