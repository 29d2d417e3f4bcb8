"""The upkeep of one pipeline: tables kept in shape, the past given up as asked, and publications held for readers."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from datetime import timedelta
from secrets import token_hex
from typing import TYPE_CHECKING

from attrs import field, frozen

from .duration import show_duration
from .errors import ConfigError, LeaseNotFound, RetentionTooShort
from .lease import Lease
from .retention import History, Retention, Verdict, judge, pace_of, superseded_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from .epoch import Publication
    from .ledger import Ledger
    from .ports import Expiry, TableKeeper, Version


@frozen(eq=False)
class Pin:
    """A publication that stays readable: until `release`, or the end of the block it manages, or `until` at last.

    Args:
        lease: the name that its leases, one a table, share.
        publication: what is held.
        leases: the leases themselves.
    """

    lease: str
    publication: Publication
    leases: tuple[Lease, ...]
    _unpin: Callable[[str, str], None] = field(repr=False)

    @property
    def epoch(self) -> int:
        """The number of the epoch that is held, to be asked for as ``at=``."""
        return self.publication.epoch.number

    def release(self) -> None:
        """Let it go; doing so twice is no harm."""
        for lease in self.leases:
            self._unpin(lease.table, lease.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@frozen
class PublishedVersion:
    """A publication, and how it stands with those who may read it.

    Args:
        publication: which.
        superseded_at: when the next one took its place; None for the newest.
        readable: whether all its tables can still be read.
        leases: the names of those that hold all its tables.
    """

    publication: Publication
    superseded_at: datetime | None
    readable: bool
    leases: tuple[str, ...]


@frozen(eq=False)
class Upkeep:
    """What can be done for the tables of one pipeline.

    Args:
        ledger: opened; it says where the pipeline stands.
        keeper: of the same tables.
        retention: how long the past is kept.
    """

    ledger: Ledger
    keeper: TableKeeper
    retention: Retention

    def compact(self) -> dict[str, Version | None]:
        """Compact every table, where that pays: the version made, by table."""
        return {table: self.keeper.compact(table) for table in self.ledger.tables}

    def verdicts(self) -> list[Verdict]:
        """Of every version of every table why it is kept, or that it may go."""
        tables = {table: self._history(table) for table in self.ledger.tables}
        return judge(self.retention, self.ledger.known(), tables, self.ledger.clock.now())

    def expire(self, *, dry_run: bool) -> list[Expiry]:
        """Give up every version that nothing keeps, or only tell which would go."""
        verdicts, now = self.verdicts(), self.ledger.clock.now()
        return [
            self.keeper.expire(table, _kept(table, verdicts), now=now, dry_run=dry_run) for table in self.ledger.tables
        ]

    def versions(self) -> list[PublishedVersion]:
        """How each publication stands, newest first, as far back as they can be told of."""
        publications, held = self.ledger.known(), self._held()
        expired = {(table, version) for table in self.ledger.tables for version in self.keeper.expired(table)}
        return [
            PublishedVersion(
                publication,
                superseded,
                expired.isdisjoint(pinned := self._pinned(publication)),
                tuple(name for name, versions in held.items() if versions == pinned),
            )
            for publication, superseded in zip(publications, superseded_at(publications), strict=True)
        ]

    def check_lasts(self, publication: Publication, longest: timedelta, every: timedelta | None) -> None:
        """Refuse a read that may take longer than the publication is sure to be kept.

        Args:
            publication: what is read.
            longest: how long the read may take.
            every: the time from one publication to the next; None to go by that of the last ones.

        Raises:
            RetentionTooShort: with the arithmetic; a lease is the remedy.
        """
        publications, now = self.ledger.known(), self.ledger.clock.now()
        pace = every or pace_of(publications)
        lasts = self.retention.left(publications, publication.epoch, pace, now)
        if lasts is None or longest <= max(lasts, self._leased_for(publication, now)):
            return
        how = "configured" if every else "as lately"
        told = f"a publication every {show_duration(pace)}, {how}" if pace else "publications at an unknown pace"
        raise RetentionTooShort(
            f"a read of {show_duration(longest)} may not end: epoch {publication.epoch.number} of pipeline"
            f" {self.ledger.pipeline!r} is kept for {show_duration(lasts)} from now ({told}; {self.retention}); pin it"
            f" first: headwater pin … {self.ledger.pipeline} --at {publication.epoch.number} --for"
            f" {show_duration(longest)}"
        )

    def _leased_for(self, publication: Publication, now: datetime) -> timedelta:
        """How long leases hold all tables of a publication."""
        pinned, held = self._pinned(publication), self._held()
        ends = [lease.until - now for lease in self.leases() if held.get(lease.id) == pinned]
        return max(ends, default=timedelta())

    def pin(self, publication: Publication, holder: str, hold: timedelta) -> Pin:
        """Keep all tables of a publication readable for a while.

        Raises:
            ConfigError: `hold` is no time at all.
            VersionExpired: one of them has gone, or is about to; nothing is held then.
        """
        if hold <= timedelta():
            raise ConfigError(f"hold = {hold}: a lease needs some time; write timedelta(hours=2), say")
        name, until = f"{self.ledger.pipeline}-{token_hex(6)}", self.ledger.clock.now() + hold
        pinned = sorted(self._pinned(publication))
        leases = tuple(Lease(name, table, version, holder, until) for table, version in pinned)
        with ExitStack() as undo:
            for lease in leases:
                undo.callback(self.keeper.unpin, lease.table, lease.id)
                self.keeper.pin(lease)
            undo.pop_all()
        return Pin(name, publication, leases, self.keeper.unpin)

    def _held(self) -> Mapping[str, set[tuple[str, str]]]:
        """The versions of tables that live leases hold, by the leases' names."""
        now = self.ledger.clock.now()
        held = defaultdict(set)
        for lease in self.leases():
            if lease.live(now):
                held[lease.id].add((lease.table, lease.version))
        return held

    def _pinned(self, publication: Publication) -> set[tuple[str, str]]:
        return {(table, version) for table, version in publication.tables.items() if table in self.ledger.tables}

    def _history(self, table: str) -> History:
        commits = tuple(self.ledger.store.versions(table))
        return History(commits, self.keeper.leases(table), self.keeper.expired(table))

    def leases(self) -> list[Lease]:
        """All leases on the pipeline's tables; ended ones may be among them."""
        return [lease for table in self.ledger.tables for lease in self.keeper.leases(table)]

    def unpin(self, lease: str) -> None:
        """Take the leases of a name back.

        Raises:
            LeaseNotFound: there are none.
        """
        if not (found := [each for each in self.leases() if each.id == lease]):
            raise LeaseNotFound(
                f"pipeline {self.ledger.pipeline!r} has no lease {lease!r}: it ended, or was taken back; `headwater"
                " versions` lists those there are"
            )
        for each in found:
            self.keeper.unpin(each.table, each.id)


def _kept(table: str, verdicts: Sequence[Verdict]) -> set[Version]:
    return {each.commit.version for each in verdicts if each.table == table and each.reasons}
