"""Which versions of a pipeline's tables are still kept, and why."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from attrs import define, evolve, field, frozen

from .duration import show_duration
from .errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from .epoch import Epoch, Publication
    from .lease import Lease
    from .ports import Commit, Version

    Rule: TypeAlias = "Callable[[int], Reason | None]"
    """Why the publication at a place of the list, the newest at 0, is kept; None if not for this reason."""

_NEXT = "the next publication"
_NEWER = "a newer publication of the table"
_FEW = 11
"""Publications whose pace is taken to be that of the next ones."""


@frozen
class Retention:
    """How long the past is kept. What either says is to be kept is kept; where neither says anything, everything is.

    Args:
        versions: the newest publications, so many of them.
        duration: every publication for so long, counted from the moment the next one took its place.
    """

    versions: int | None = field(default=None)
    duration: timedelta | None = None

    @versions.validator
    def _check_versions(self, _attribute: object, value: int | None) -> None:
        if value is not None and value < 1:
            raise ConfigError(f"versions = {value}: at least the newest publication is always kept; write 1 or more")

    @property
    def endless(self) -> bool:
        """Whether nothing ever goes."""
        return self.versions is None and self.duration is None

    def lasts(self, interval: timedelta) -> timedelta | None:
        """How long a query may take that begins as its version is published, one coming every `interval`.

        That is (n + 1) x interval, n superseded versions being kept beside the newest; with a duration, it is counted
        from when the version is superseded. None: as long as it likes.
        """
        if self.endless:
            return None
        numbered = (self.versions or 1) * interval
        return numbered if self.duration is None else max(numbered, interval + self.duration)

    def left(
        self, publications: Sequence[Publication], epoch: Epoch, interval: timedelta | None, now: datetime
    ) -> timedelta | None:
        """How long a publication is kept from now on, if the next ones come at an interval; None: without an end.

        Args:
            publications: newest first, as far back as they can be told of.
            epoch: of the publication.
            interval: from one to the next; None if that cannot be told: the next ones may come at any time then.
            now: the present moment (UTC).
        """
        if self.endless:
            return None
        pace = interval or timedelta()
        following = max(publications[0].published_at + pace - now, timedelta())
        place = next((place for place, each in enumerate(publications) if each.epoch == epoch), len(publications))
        still = (self.versions or 1) - place  # so many have to come
        numbered = following + (still - 1) * pace if still > 0 else timedelta()
        if self.duration is None or place == len(publications):
            return numbered
        since = superseded_at(publications)[place]
        return max(numbered, self.duration + (following if since is None else since - now))

    def check_query(self, longest: timedelta, interval: timedelta) -> None:
        """Refuse a retention under which the longest query that is to be expected could not end.

        Raises:
            ConfigError: with the arithmetic, and how much has to be kept.
        """
        lasts = self.lasts(interval)
        if lasts is None or longest <= lasts:
            return
        every, wanted = show_duration(interval), -(-longest // interval)
        raise ConfigError(
            f"a query of {show_duration(longest)} could not end: with a version every {every}, retain keeps one for"
            f" {show_duration(lasts)} ({self._sums(interval)}); set retain.versions to at least {wanted}"
        )

    def _sums(self, interval: timedelta) -> str:
        superseded, every = (self.versions or 1) - 1, show_duration(interval)
        numbered = f"{superseded} superseded beside the newest: ({superseded} + 1) x {every}"
        return numbered if self.duration is None else f"{numbered}, or {every} + {show_duration(self.duration)}"

    def __str__(self) -> str:
        """As the configuration has it."""
        versions = [] if self.versions is None else [f"versions = {self.versions}"]
        duration = [] if self.duration is None else [f'duration = "{show_duration(self.duration)}"']
        return f"retain = {{ {', '.join(versions + duration)} }}"


@frozen
class Reason:
    """Why a version is kept, and what has to come before this keeps it no longer."""

    why: str
    until: str = ""


@frozen
class History:
    """One table: its commits, newest first, the leases on it, and its versions that can no longer be read."""

    commits: Sequence[Commit]
    leases: Sequence[Lease] = ()
    expired: Collection[Version] = ()


@frozen
class Verdict:
    """Why a version of a table is still kept; without a reason, it may go, or has expired already.

    Args:
        table: its name.
        commit: that made the version.
        reasons: why it is kept, in words.
        expired: whether it can no longer be read.
        superseded_at: when a publication of another version took its place; None where none has.
        until: what has to come, all of it, before it may go.
    """

    table: str
    commit: Commit
    reasons: tuple[str, ...]
    expired: bool = False
    superseded_at: datetime | None = None
    until: tuple[str, ...] = ()

    @property
    def may_go(self) -> bool:
        """Whether nothing keeps it, and it is still there."""
        return not (self.reasons or self.expired)


def superseded_at(publications: Sequence[Publication]) -> list[datetime | None]:
    """When each publication, newest first, was replaced by the next; None for the newest.

    That is no earlier than any publication before it, so that a clock which is set back makes no version go early.
    """
    latest_so_far = list(accumulate((each.published_at for each in reversed(publications)), max))
    return [None, *reversed(latest_so_far[1:])][: len(publications)]


def pace_of(publications: Sequence[Publication]) -> timedelta | None:
    """The mean time from one publication to the next, over the last few of them; None if there is but one."""
    some = publications[:_FEW]
    return max((some[0].published_at - some[-1].published_at) / (len(some) - 1), timedelta()) if some[1:] else None


def judge(
    retention: Retention, publications: Sequence[Publication], tables: Mapping[str, History], now: datetime
) -> list[Verdict]:
    """Tell of every version of every table why it is kept, or that it may go.

    Args:
        retention: what is asked for.
        publications: of the pipeline, newest first, as far back as they can be found.
        tables: the pipeline's tables by name.
        now: the present moment (UTC).

    Returns:
        A verdict a version, table by table, the newest first. Kept in any case are the newest publication, what is
        newer than it (an epoch may be under way), and what a lease holds.
    """
    case = _Case(retention, publications, now)
    return [verdict for table, history in tables.items() for verdict in case.verdicts(table, history)]


@define(eq=False)
class _Case:
    """What all verdicts on a pipeline rest on; publications stand by their place in the list."""

    retention: Retention
    publications: Sequence[Publication]
    now: datetime
    _pinned: dict[tuple[str, str], list[int]] = field(init=False, factory=lambda: defaultdict(list))
    _superseded: Sequence[datetime | None] = field(init=False)
    _rules: Sequence[Rule] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._superseded = superseded_at(self.publications)
        self._rules = _rules(self.retention, self._superseded, self.now)
        for place, publication in enumerate(self.publications):
            for table, version in publication.tables.items():
                self._pinned[table, version].append(place)

    def verdicts(self, table: str, history: History) -> Iterator[Verdict]:
        newest = self.publications[0].tables.get(table) if self.publications else None
        ahead = True
        for commit in history.commits:
            ahead = ahead and commit.version != newest
            expired = commit.version in history.expired
            reasons = () if expired else tuple(self._reasons(table, history, commit, ahead=ahead))
            places = self._pinned[table, commit.version]
            superseded = self._superseded[places[0]] if places else None
            until = dict.fromkeys(reason.until for reason in reasons if reason.until)
            yield Verdict(table, commit, tuple(reason.why for reason in reasons), expired, superseded, tuple(until))

    def _reasons(self, table: str, history: History, commit: Commit, *, ahead: bool) -> Iterator[Reason]:
        if ahead:
            yield Reason("newer than the newest publication: an epoch or upkeep may build on it", _NEWER)
        yield from self._published(self._pinned[table, commit.version])
        yield from _leased(history.leases, commit, self.now)
        if self.retention.endless:
            yield Reason("no retention is set", "a retention")

    def _published(self, places: Sequence[int]) -> Iterator[Reason]:
        """Why the publications that pin a version keep it: a reason a rule, in the words for the newest of them."""
        for rule in self._rules:
            kept = [(place, reason) for place in places if (reason := rule(place))]
            if kept:
                (newest, reason), (oldest, _) = kept[0], kept[-1]
                last, first = (self.publications[place].epoch.number for place in (newest, oldest))
                epochs = f"epoch {last}" if first == last else f"epochs {first} to {last}"
                yield evolve(reason, why=f"{epochs}: {reason.why}")


def _rules(retention: Retention, superseded: Sequence[datetime | None], now: datetime) -> list[Rule]:
    def newest(place: int) -> Reason | None:
        if place:
            return None
        until = f"{show_duration(retention.duration)} after {_NEXT}" if retention.duration is not None else ""
        return Reason("the newest publication", until)

    def among_the_last(place: int) -> Reason | None:
        few = retention.versions
        if few is None or place >= few:
            return None
        more = few - place
        return Reason(f"among the last {few} publications", _NEXT if more == 1 else f"{more} more publications")

    def lately(place: int) -> Reason | None:
        since = superseded[place]
        if since is None or retention.duration is None or now - since >= retention.duration:
            return None
        until = _told(since + retention.duration)
        return Reason(f"superseded at {_told(since)}, kept until {until}", until)

    return [newest, among_the_last, lately]


def _leased(leases: Sequence[Lease], commit: Commit, now: datetime) -> Iterator[Reason]:
    for lease in leases:
        if lease.version == commit.version and lease.live(now):
            yield Reason(f"leased by {lease.holder} until {_told(lease.until)} ({lease.id})", _told(lease.until))


def _told(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
