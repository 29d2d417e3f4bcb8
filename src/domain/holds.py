"""Notes on a table's versions, beside the table format's own: who holds one, and which are on record to go.

Both kinds of note are files of their own in a hidden folder, which no table format and no reader looks into. So any
store that keeps its tables in folders can use them, given a way to keep small files there. Nothing is locked: an expiry
records first and reads the leases then; a reader writes its lease first and reads the record then. So at least one of
the two sees the other.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from attrs import define, field

from .errors import BadInput, StoreUnavailable, VersionExpired
from .lease import Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from .ports import SmallFiles

_FOLDER = ".headwater"
_TRIES = 5
_T = TypeVar("_T")


@define(eq=False)
class Holds:
    """The leases on one table and the record of its expired versions.

    Args:
        path: the table's folder.
        open_folder: gives the small files of a folder, named by its path.
    """

    path: str
    open_folder: Callable[[str], SmallFiles]
    _leases: SmallFiles = field(init=False)
    _expired: SmallFiles = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._leases = self.open_folder(f"{self.path}/{_FOLDER}/leases")
        self._expired = self.open_folder(f"{self.path}/{_FOLDER}/expired")

    def leases(self) -> tuple[Lease, ...]:
        """All leases, in the order of their ends."""
        found = self._parsed("leases", self._read(self._leases), Lease.from_json)
        return tuple(sorted(found, key=lambda lease: (lease.until, lease.id)))

    def held(self, now: datetime) -> set[str]:
        """The versions that a lease holds."""
        return {lease.version for lease in self.leases() if lease.live(now)}

    def expired(self) -> set[str]:
        """The versions that can no longer be read: on record to go, and not under a lease that was there before."""
        recorded = self._recorded()
        return recorded and recorded.difference(lease.version for lease in self.leases())

    def check_readable(self, version: str) -> None:
        """Make sure that a version has not expired.

        Raises:
            VersionExpired: it has.
        """
        if version in self.expired():
            raise self._error(version)

    def pin(self, lease: Lease) -> None:
        """Write a lease.

        Raises:
            VersionExpired: the version is on record to go; the lease is taken back.
        """
        self._leases.write(_file(lease.id), lease.to_json())
        if lease.version in self._recorded():
            self.unpin(lease.id)
            raise self._error(lease.version)

    def unpin(self, lease_id: str) -> None:
        """Take a lease back, if it is there."""
        self._leases.delete(_file(lease_id))

    def give_up(self, told: Sequence[str], keep: Collection[str], now: datetime, *, dry_run: bool) -> set[str]:
        """Put on record, for good, that all versions go which are older than the newest to keep, and are not held.

        Args:
            told: all versions that the table format still tells of, oldest first; others need no record.
            keep: those that stay; where none of them is told of, none goes.
            now: the present moment (UTC).
            dry_run: put nothing on record.

        Returns:
            All that are on record then, or would be, and that no lease holds.
        """
        wanted = _older(told, keep).difference(keep, self.held(now))
        recorded = self._recorded() if dry_run else self._record(wanted, set(told))
        return recorded.union(wanted).intersection(told).difference(self.held(now))

    def _record(self, versions: set[str], told: set[str]) -> set[str]:
        """Add versions to the record, and drop those from it that are not told of; what it holds then."""
        earlier = self._read(self._expired)
        recorded = self._versions(earlier)
        wanted = recorded.union(versions).intersection(told)
        if wanted != recorded:
            # The new file takes in the earlier ones before they go, so that no reader misses what they say.
            self._expired.write(_file(uuid4().hex), json.dumps(sorted(wanted)))
            for name in earlier:
                self._expired.delete(name)
        return wanted

    def forget_ended(self, now: datetime) -> None:
        """Remove leases that have ended."""
        for lease in self.leases():
            if not lease.live(now):
                self.unpin(lease.id)

    def _recorded(self) -> set[str]:
        return self._versions(self._read(self._expired))

    def _versions(self, files: Mapping[str, str]) -> set[str]:
        return {version for versions in self._parsed("expired", files, json.loads) for version in versions}

    def _parsed(self, folder: str, files: Mapping[str, str], parse: Callable[[str], _T]) -> Iterator[_T]:
        for name, text in files.items():
            try:
                yield parse(text)
            except (ValueError, TypeError, KeyError) as error:
                raise BadInput(
                    f"{self.path}/{_FOLDER}/{folder}/{name} is damaged ({error}): remove it, once no one reads an old"
                    " version of the table"
                ) from error

    def _read(self, files: SmallFiles) -> Mapping[str, str]:
        """All files of a folder, none of them missed because another one was to replace it."""
        for _ in range(_TRIES):
            if (found := files.read()) is not None:
                return found
        raise StoreUnavailable(
            f"the notes in {self.path}/{_FOLDER} changed {_TRIES} times while they were read; try again later"
        )

    def _error(self, version: str) -> VersionExpired:
        return VersionExpired(
            f"version {version} of {self.path} has expired; read a newer one, pin what you read, or keep versions for"
            " longer"
        )


def _older(told: Sequence[str], keep: Collection[str]) -> set[str]:
    """The versions before the newest one to keep."""
    newest = max((place for place, version in enumerate(told) if version in keep), default=0)
    return set(told[:newest])


def _file(name: str) -> str:
    return f"{name}.json"
