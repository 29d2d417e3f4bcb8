"""The common part of stores that keep each table in its own folder: leases and the record of expired versions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ...domain.errors import VersionExpired
from ...domain.ports import KeptStore, Version
from ...domain.table.lease import Lease
from .leases import LeaseFiles


class FolderStore(KeptStore, Protocol):
    """A store that keeps leases and the record of expired versions in lease files next to the tables."""

    @abstractmethod
    def _lease_files(self, table: str) -> AbstractContextManager[LeaseFiles]:
        """The lease files of a table; errors while they are used are translated."""

    @abstractmethod
    def _check_listed(self, table: str, version: str) -> None:
        """Check that the table format still lists a version.

        Raises:
            VersionNotFound: the version never existed.
            VersionExpired: it has been cleaned away.
        """

    def expired(self, table: str) -> Collection[Version]:
        with self._lease_files(table) as lease_files:
            return set(map(Version, lease_files.expired()))

    def pin(self, lease: Lease) -> None:
        with self._lease_files(lease.table) as lease_files:
            self._check_listed(lease.table, lease.version)
            lease_files.pin(lease)
            try:  # a version that is no longer listed is not in the record either
                self._check_listed(lease.table, lease.version)
            except VersionExpired:
                lease_files.unpin(lease.id)
                raise

    def unpin(self, table: str, lease_id: str) -> None:
        with self._lease_files(table) as lease_files:
            lease_files.unpin(lease_id)

    def leases(self, table: str) -> Sequence[Lease]:
        with self._lease_files(table) as lease_files:
            return lease_files.leases()
