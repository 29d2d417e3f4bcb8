"""The upkeep of one pipeline: compaction, expiry of old versions, and leases for readers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Self, TypeVar

from attrs import field, frozen

from ..duration import show_duration
from ..epoch.epoch import Publication
from ..errors import ConfigError, EngineLimit, HeadwaterError, LeaseNotFound, RetentionTooShort
from ..ports import Expiry, LeasingKeeper, Version
from ..table.lease import Lease
from .ledger import Ledger
from .retention import Retention, TableHistory, Verdict, judge, superseded_at
from .upcoming import Upcoming

_T = TypeVar("_T")


@frozen(eq=False)
class Pin:
    """A publication that stays readable until `release`, the end of its ``with`` block, or the end of its leases.

    Args:
        lease: the name that its leases, one per table, share.
        publication: the publication that is kept.
        leases: the leases.
    """

    lease: str
    publication: Publication
    leases: tuple[Lease, ...]
    _unpin: Callable[[str, str], None] = field(repr=False)
    _held: Callable[[], Mapping[str, set[tuple[str, str]]]] = field(repr=False)

    @property
    def epoch(self) -> int:
        """The number of the pinned epoch, to be passed to reads as ``at=``."""
        return self.publication.epoch.number

    def left(self, now: datetime) -> timedelta:
        """The time from now (UTC) until the first of its leases ends; zero if there are none."""
        return min((each.until - now for each in self.leases), default=timedelta())

    def release(self) -> None:
        """Release the leases. A second call does nothing."""
        for lease in self.leases:
            self._unpin(lease.table, lease.id)

    def __enter__(self) -> Self:
        """Raise `LeaseNotFound` if the leases have ended or been released: the block would read what nothing keeps."""
        if self._held().get(self.lease) != {(each.table, each.version) for each in self.leases}:
            raise LeaseNotFound(
                f"lease {self.lease!r} has ended or been released, so it keeps nothing; pin the version again"
            )
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()


@frozen
class PublishedVersion:
    """A publication, with its readability and its leases.

    Args:
        publication: the publication.
        superseded_at: when the next one superseded it (UTC); None for the latest, and if the time is unknown.
        readable: whether all its tables can still be read.
        leases: the names of the leases that hold all its tables.
    """

    publication: Publication
    superseded_at: datetime | None
    readable: bool
    leases: tuple[str, ...]


@frozen(eq=False)
class Upkeep:
    """The upkeep operations on the tables of one pipeline.

    Args:
        ledger: the pipeline's ledger, opened.
        keeper: the keeper of the same tables.
        retention: how long the past is kept.
    """

    ledger: Ledger
    keeper: LeasingKeeper
    retention: Retention

    def compact(self) -> dict[str, Version | None]:
        """Compact each table if that is worth its cost. Returns the new version by table, None if not compacted.

        Raises:
            HeadwaterError: tables cannot be compacted; all others have been.
        """
        return self._each_table(self.keeper.compact)

    def verdicts(self, as_of: int | None = None) -> list[Verdict]:
        """For each version of each table, whether it is kept, and why; see `judge`.

        Args:
            as_of: the epoch after which this is decided, as if there were no later one; None for the newest.
        """
        tables = {table: self._history(table) for table in self.ledger.tables}
        known = [each for each in self.ledger.known() if as_of is None or each.epoch.number <= as_of]
        return judge(self.retention, known, tables, self.ledger.clock.now())

    def expire(self, *, dry_run: bool, as_of: int | None = None) -> list[Expiry]:
        """Expire each version that nothing keeps; with `dry_run`, only report which versions would expire.

        Args:
            dry_run: change nothing.
            as_of: see `verdicts`; what later epochs need is kept.

        Raises:
            HeadwaterError: versions of tables cannot be expired; those of all others have been.
        """
        verdicts, now = self.verdicts(as_of), self.ledger.clock.now()

        def expire(table: str) -> Expiry:
            kept = {each.commit.version for each in verdicts if each.table == table and each.reasons}
            return self.keeper.expire(table, kept, now=now, dry_run=dry_run)

        return list(self._each_table(expire).values())

    def _each_table(self, work: Callable[[str], _T]) -> dict[str, _T]:
        """Work on each table; a fault of one keeps no other from it, and is raised in the end.

        Of several, that is an `EngineLimit` before others: the work may be done again, by another engine.
        """
        done, faults = dict[str, _T](), list[HeadwaterError]()
        for table in self.ledger.tables:
            try:
                done[table] = work(table)
            except HeadwaterError as fault:
                faults.append(fault)
        if faults:
            raise next((each for each in faults if isinstance(each, EngineLimit)), faults[0])
        return done

    def versions(self) -> list[PublishedVersion]:
        """The publications that readers could see, newest first, as far back as they can be found."""
        publications, held, expired = self.ledger.known(), self._held(), self._expired()
        superseded_times = superseded_at(publications, self.ledger.clock.now())
        return [
            PublishedVersion(
                publication,
                superseded,
                expired.isdisjoint(pinned := self._pinned(publication)),
                tuple(name for name, versions in held.items() if versions == pinned),
            )
            for publication, superseded in zip(publications, superseded_times, strict=True)
            if publication.epoch.number >= self.ledger.first_seen
        ]

    def has_expired(self, publication: Publication) -> bool:
        """Whether a table's version of a publication has expired, so that its rows cannot be read any more."""
        return not self._expired().isdisjoint(self._pinned(publication))

    def check_lasts(
        self,
        publication: Publication,
        longest: timedelta,
        expect: Callable[[Sequence[Publication], datetime], Upcoming],
    ) -> None:
        """Check that a publication is kept as long as a read may take, if further ones come as expected.

        Args:
            publication: the publication to read.
            longest: how long the read may take.
            expect: tells when further publications come; see `Service.expect`.

        Raises:
            RetentionTooShort: it is not; the message has the calculation, and a lease as the remedy.
        """
        publications, now = self.ledger.known(), self.ledger.clock.now()
        upcoming = expect(publications, now)
        lasts = self.retention.left(publications, publication.epoch, upcoming, now)
        if lasts is None or longest <= max(lasts, self._leased_for(publication, now)):
            return
        raise RetentionTooShort(
            f"a read of {show_duration(longest)} may not end: epoch {publication.epoch.number} of pipeline"
            f" {self.ledger.pipeline!r} is kept for {show_duration(lasts)} from now ({upcoming.basis};"
            f" {self.retention}); pin it first"
        )

    def _leased_for(self, publication: Publication, now: datetime) -> timedelta:
        """How long leases on all tables of a publication last from now."""
        pinned, held = self._pinned(publication), self._held()
        ends = [lease.until - now for lease in self.leases() if held.get(lease.id) == pinned]
        return max(ends, default=timedelta())

    def pin(self, publication: Publication, holder: str, hold: timedelta) -> Pin:
        """Keep all tables of a publication readable for a duration.

        Args:
            publication: the publication.
            holder: who requests it, for display.
            hold: the duration of the leases.

        Raises:
            ConfigError: `hold` is not positive, or `holder` has characters that UTF-8 lacks.
            VersionExpired: a table's version has expired or is about to; no lease is left behind.
        """
        if hold <= timedelta():
            raise ConfigError(f"hold = {hold}: a lease must be longer than 0; write timedelta(hours=2), for example")
        try:
            holder.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(f"holder {holder!r} is not UTF-8; write a name in UTF-8") from error
        name, until = f"{self.ledger.pipeline}-{token_hex(6)}", self.ledger.clock.now() + hold
        pinned = sorted(self._pinned(publication))
        leases = tuple(Lease(name, table, version, holder, until) for table, version in pinned)
        with ExitStack() as undo:
            for lease in leases:
                self.keeper.pin(lease)
                undo.callback(self.keeper.unpin, lease.table, lease.id)
            undo.pop_all()
        return Pin(name, publication, leases, self.keeper.unpin, self._held)

    def _held(self) -> Mapping[str, set[tuple[str, str]]]:
        """The leased table versions by lease name, for leases that have not ended."""
        now = self.ledger.clock.now()
        return _versions_held(lease for lease in self.leases() if lease.live(now))

    def _expired(self) -> set[tuple[str, str]]:
        return {(table, version) for table in self.ledger.tables for version in self.keeper.expired(table)}

    def _pinned(self, publication: Publication) -> set[tuple[str, str]]:
        return {(table, version) for table, version in publication.tables.items() if table in self.ledger.tables}

    def _history(self, table: str) -> TableHistory:
        commits = tuple(self.ledger.store.versions(table))
        return TableHistory(commits, self.keeper.leases(table), self.keeper.expired(table))

    def leases(self) -> list[Lease]:
        """All leases on the pipeline's tables; ended leases may be included."""
        return [lease for table in self.ledger.tables for lease in self.keeper.leases(table)]

    def release(self, holder: str, keep: Collection[Publication]) -> None:
        """Release the leases of a holder, except those that hold all tables of one of these publications."""
        leases, kept = [lease for lease in self.leases() if lease.holder == holder], list(map(self._pinned, keep))
        held = _versions_held(leases)
        for lease in leases:
            if held[lease.id] not in kept:
                self.keeper.unpin(lease.table, lease.id)

    def unpin(self, lease: str) -> None:
        """Release all leases of a name.

        Raises:
            LeaseNotFound: there is no such lease.
        """
        if not (found := [each for each in self.leases() if each.id == lease]):
            raise LeaseNotFound(
                f"pipeline {self.ledger.pipeline!r} has no lease {lease!r}: it has ended or been released; `versions`"
                " lists the present leases. One on the tables of before a rebuild ends at its time"
            )
        for each in found:
            self.keeper.unpin(each.table, each.id)


def _versions_held(leases: Iterable[Lease]) -> dict[str, set[tuple[str, str]]]:
    """The table versions that leases are on, by lease name."""
    held = defaultdict(set)
    for lease in leases:
        held[lease.id].add((lease.table, lease.version))
    return held
