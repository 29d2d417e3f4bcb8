"""Notes on a table's versions, beside the table format's own: who holds one, and which are on record to go.

Both kinds of note are files of their own in a hidden folder, which no table format and no reader looks into. Nothing is
locked: an expiry records first and reads the leases then; a reader writes its lease first and reads the record then. So
at least one of the two sees the other.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from attrs import define, field

from ...domain.errors import BadInput, VersionExpired
from ...domain.lease import Lease
from .small_files import SmallFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime

    from pyspark.sql import SparkSession

_FOLDER = ".headwater"
_T = TypeVar("_T")


@define(eq=False)
class Holds:
    """The leases on one table and the record of its expired versions, below the table's folder."""

    session: SparkSession
    path: str
    _leases: SmallFiles = field(init=False)
    _expired: SmallFiles = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._leases = SmallFiles(self.session, f"{self.path}/{_FOLDER}/leases")
        self._expired = SmallFiles(self.session, f"{self.path}/{_FOLDER}/expired")

    def leases(self) -> tuple[Lease, ...]:
        """All leases, in the order of their ends."""
        found = (_parsed(self._leases, name, text, Lease.from_json) for name, text in self._leases.read().items())
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

    def give_up(self, versions: Collection[str], among: Iterable[str], now: datetime, *, dry_run: bool) -> set[str]:
        """Put versions on record to go, for good: all that are on record then, and that no lease holds.

        Args:
            versions: those to go.
            among: all that the table format still tells of; others need no record.
            now: the present moment (UTC).
            dry_run: put nothing on record.
        """
        told = set(among)
        recorded = self._recorded() if dry_run else self._record(versions, told)
        return recorded.union(versions).intersection(told).difference(self.held(now))

    def _record(self, versions: Collection[str], told: set[str]) -> set[str]:
        """Add versions to the record, and drop those from it that are not told of; what it holds then."""
        earlier = self._expired.read()
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
        return self._versions(self._expired.read())

    def _versions(self, files: Mapping[str, str]) -> set[str]:
        lists = (_parsed(self._expired, name, text, json.loads) for name, text in files.items())
        return {version for versions in lists for version in versions}

    def _error(self, version: str) -> VersionExpired:
        return VersionExpired(
            f"version {version} of {self.path} has expired; read a newer one, pin what you read, or keep versions for"
            " longer"
        )


def _parsed(files: SmallFiles, name: str, text: str, parse: Callable[[str], _T]) -> _T:
    try:
        return parse(text)
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(
            f"{files.folder}/{name} is damaged ({error}): remove it, once no one reads an old version of the table"
        ) from error


def _file(name: str) -> str:
    return f"{name}.json"
