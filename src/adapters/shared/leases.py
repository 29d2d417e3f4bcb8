"""Lease files: the leases on a table's versions, and the record of its expired versions.

Leases and records are small files in a hidden folder of the table, which no table format and no reader looks into. So
any store that keeps each table in a folder can use them. There is no lock. An expiry writes its record first and then
reads the leases; a reader writes its lease first and then reads the record. So at least one of the two sees the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar
from uuid import uuid4

from attrs import define, field

from ...domain.errors import BadInput, StoreUnavailable, VersionExpired
from ...domain.ports import SmallFiles
from ...domain.table.lease import Lease
from .utf8 import check_utf8

_FOLDER = ".headwater"
_TRIES = 5
_T = TypeVar("_T")


@define(eq=False)
class LeaseFiles:
    """The leases on one table and the record of its expired versions.

    Args:
        path: the table's folder.
        open_folder: opens the small files of a folder, given its path.
    """

    path: str
    open_folder: Callable[[str], SmallFiles]
    _leases: SmallFiles = field(init=False)
    _expired: SmallFiles = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._leases = self.open_folder(f"{self.path}/{_FOLDER}/leases")
        self._expired = self.open_folder(f"{self.path}/{_FOLDER}/expired")

    def leases(self) -> tuple[Lease, ...]:
        """All leases, sorted by their end."""
        found = self._parse_all("leases", self._read(self._leases), Lease.from_json)
        return tuple(sorted(found, key=lambda lease: (lease.until, lease.id)))

    def leased_versions(self, now: datetime) -> set[str]:
        """The versions under a live lease."""
        return {lease.version for lease in self.leases() if lease.live(now)}

    def expired(self) -> set[str]:
        """The versions that can no longer be read: recorded as expired, and without a lease from before the record."""
        recorded = self._recorded()
        return recorded and recorded.difference(lease.version for lease in self.leases())

    def check_readable(self, version: str) -> None:
        """Check that a version has not expired.

        Raises:
            VersionExpired: it has expired.
        """
        if version in self.expired():
            raise self._error(version)

    def pin(self, lease: Lease) -> None:
        """Write a lease.

        Raises:
            VersionExpired: the version is recorded as expired; the lease is removed again.
        """
        self._leases.write(_file(lease.id), lease.to_json())
        if lease.version in self._recorded():
            self.unpin(lease.id)
            raise self._error(lease.version)

    def unpin(self, lease_id: str) -> None:
        """Remove a lease, if it exists."""
        self._leases.delete(_file(lease_id))

    def record_expiry(self, listed: Sequence[str], keep: Collection[str], now: datetime, *, dry_run: bool) -> set[str]:
        """Record that the versions older than the newest of `keep` expire, except kept and leased ones. The record is
        final. Then remove the leases that have ended, of versions that nobody reads from now on. An ended lease on
        another version stays with it: the clock may be ahead.

        Args:
            listed: all versions that the table format still lists, oldest first; others need no record.
            keep: the versions to keep; if none of them is listed, nothing expires.
            now: the current time (UTC).
            dry_run: write no record, and remove nothing.

        Returns:
            All listed versions that are recorded, or would be, and that no lease holds.
        """
        wanted = _older_than_kept(listed, keep).difference(keep, self.leased_versions(now))
        recorded = self._recorded() if dry_run else self._record(wanted, set(listed))
        if not dry_run:
            self._remove_ended(now, set(listed) - recorded)
        return recorded.union(wanted).intersection(listed).difference(self.leased_versions(now))

    def _record(self, versions: set[str], listed: set[str]) -> set[str]:
        """Add versions to the record and drop those that are no longer listed; returns the record."""
        earlier = self._read(self._expired)
        recorded = self._versions(earlier)
        wanted = recorded.union(versions).intersection(listed)
        if wanted != recorded:
            # The new file is written before the earlier ones are deleted, so that no reader misses their versions.
            self._expired.write(_file(uuid4().hex), json.dumps(sorted(wanted)))
            for name in earlier:
                self._expired.delete(name)
        return wanted

    def _remove_ended(self, now: datetime, staying: set[str]) -> None:
        for lease in self.leases():
            if not lease.live(now) and lease.version not in staying:
                self.unpin(lease.id)

    def _recorded(self) -> set[str]:
        return self._versions(self._read(self._expired))

    def _versions(self, files: Mapping[str, str]) -> set[str]:
        return {version for versions in self._parse_all("expired", files, json.loads) for version in versions}

    def _parse_all(self, folder: str, files: Mapping[str, str], parse: Callable[[str], _T]) -> Iterator[_T]:
        for name, text in files.items():
            try:
                check_utf8(text)
                yield parse(text)
            except (ValueError, TypeError, KeyError) as error:
                raise BadInput(
                    f"{self.path}/{_FOLDER}/{folder}/{name} is damaged ({error}): remove it, once no one reads an old"
                    " version of the table"
                ) from error

    def _read(self, files: SmallFiles) -> Mapping[str, str]:
        """All files of a folder; the folder is read again if a file was replaced meanwhile."""
        for _ in range(_TRIES):
            if (found := files.read()) is not None:
                return found
        raise StoreUnavailable(
            f"the lease files in {self.path}/{_FOLDER} changed {_TRIES} times while they were read; try again later"
        )

    def _error(self, version: str) -> VersionExpired:
        return VersionExpired(
            f"version {version} of {self.path} has expired; read a newer one, pin what you read, or keep versions for"
            " longer"
        )


def _older_than_kept(listed: Sequence[str], keep: Collection[str]) -> set[str]:
    """The versions before the newest one to keep."""
    newest = max((place for place, version in enumerate(listed) if version in keep), default=0)
    return set(listed[:newest])


def _file(name: str) -> str:
    return f"{name}.json"
