"""Retention: which versions of a pipeline's tables are kept, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from typing import TypeAlias

from attrs import define, evolve, field, frozen

from ..duration import show_duration
from ..epoch.epoch import Epoch, Publication
from ..epoch.watermark import format_second
from ..errors import ConfigError
from ..ports import Commit, Version
from ..table.lease import Lease
from .upcoming import Upcoming

Rule: TypeAlias = "Callable[[int], Reason | None]"
"""Returns why the publication at an index of the list (0: the latest) is kept; None if the rule does not apply."""

_NEXT = "the next publication"
_NEWER = "a newer publication of the table"
_FIRST = datetime.min.replace(tzinfo=UTC)


@frozen
class Retention:
    """How long the past is kept. With both set, a version is kept if either rule keeps it. With neither, all are kept.

    Args:
        versions: keep the latest n publications.
        duration: keep each publication for this long after the next one has superseded it.
    """

    versions: int | None = field(default=None)
    duration: timedelta | None = None

    @versions.validator
    def _check_versions(self, _attribute: object, value: int | None) -> None:
        if value is not None and value < 1:
            raise ConfigError(f"versions = {value}: at least the newest publication is always kept; write 1 or more")

    @property
    def endless(self) -> bool:
        """Whether nothing ever expires."""
        return self.versions is None and self.duration is None

    def lasts(self, interval: timedelta | None) -> timedelta | None:
        """How long a query may take that begins when its version is published, with a version every `interval`.

        That is (n + 1) x interval if n superseded versions are kept besides the latest. A `duration` is counted from
        the time when the version is superseded. None: without limit.

        Args:
            interval: the time from one version to the next, by the clock; None if versions may come at any time.
        """
        if self.endless:
            return None
        every = interval or timedelta()
        numbered = (self.versions or 1) * every
        return numbered if self.duration is None else max(numbered, every + self.duration)

    def left(
        self, publications: Sequence[Publication], epoch: Epoch, upcoming: Upcoming, now: datetime
    ) -> timedelta | None:
        """How long a publication is kept from now on, if further ones come no earlier; None: without limit.

        Args:
            publications: newest first, as far back as they can be found.
            epoch: the epoch of the publication.
            upcoming: when further publications come.
            now: the present time (UTC).
        """
        if self.endless:
            return None
        place = next((place for place, each in enumerate(publications) if each.epoch == epoch), len(publications))
        still = (self.versions or 1) - place  # further publications that keep it
        numbered = upcoming.until(still) if still > 0 else timedelta()
        if self.duration is None or place == len(publications):
            return numbered
        since = superseded_at(publications, now)[place] or now
        return max(numbered, self.duration + (since - now if place else upcoming.first))

    def check_query(self, longest: timedelta, interval: timedelta | None) -> None:
        """Check that the longest expected query can finish under this retention.

        Args:
            longest: how long the query may take.
            interval: the same as in `lasts`.

        Raises:
            ConfigError: it cannot; the message has the calculation, and the number of versions or the duration to set.
        """
        lasts = self.lasts(interval)
        if lasts is None or longest <= lasts:
            return
        reason = self._too_short(longest) if interval is None else self._too_few(longest, lasts, interval)
        raise ConfigError(f"a query of {show_duration(longest)} could not end: {reason}")

    def _too_short(self, longest: timedelta) -> str:
        now = "not set" if self.duration is None else show_duration(self.duration)
        return (
            f"new versions may come at any time, so only retain.duration counts ({now});"
            f" set retain.duration to at least {show_duration(longest)}"
        )

    def _too_few(self, longest: timedelta, lasts: timedelta, interval: timedelta) -> str:
        wanted = -(-longest // interval)
        return (
            f"with a version every {show_duration(interval)}, retain keeps one for {show_duration(lasts)}"
            f" ({self._sums(interval)}); set retain.versions to at least {wanted}"
        )

    def _sums(self, interval: timedelta) -> str:
        superseded, every = (self.versions or 1) - 1, show_duration(interval)
        numbered = f"{superseded} superseded besides the latest: ({superseded} + 1) x {every}"
        return numbered if self.duration is None else f"{numbered}, or {every} + {show_duration(self.duration)}"

    def __str__(self) -> str:
        """The retention as it is written in the configuration."""
        versions = [] if self.versions is None else [f"versions = {self.versions}"]
        duration = [] if self.duration is None else [f'duration = "{show_duration(self.duration)}"']
        return f"retain = {{ {', '.join(versions + duration)} }}"


@frozen
class Reason:
    """Why a version is kept, and the event that ends it, for display."""

    why: str
    until: str = ""


@frozen
class TableHistory:
    """One table: its commits (newest first), its leases, and the versions that can no longer be read."""

    commits: Sequence[Commit]
    leases: Sequence[Lease] = ()
    expired: Collection[Version] = ()


@frozen
class Verdict:
    """Why a version of a table is still kept. Without a reason it may expire, or has expired already.

    Args:
        table: its name.
        commit: the commit that made the version.
        reasons: why it is kept, for display.
        expired: whether it can no longer be read.
        superseded_at: when a publication of another version superseded it (UTC); None if none has, or if unknown.
        until: the events, for display, that must all happen before it may expire.
    """

    table: str
    commit: Commit
    reasons: tuple[str, ...]
    expired: bool = False
    superseded_at: datetime | None = None
    until: tuple[str, ...] = ()

    @property
    def may_go(self) -> bool:
        """Whether it may expire: nothing keeps it, and it has not expired yet."""
        return not (self.reasons or self.expired)


def superseded_at(publications: Sequence[Publication], now: datetime) -> list[datetime | None]:
    """When each publication was superseded (UTC): the time of the first later one that is credible.

    A time later than now is not credible: a clock was ahead. A time before that of an earlier publication is not
    credible either: a clock was behind. Until a credible one follows, nothing says how long ago it was superseded.

    Args:
        publications: newest first.
        now: the present time (UTC).

    Returns:
        A time for each publication; None for the latest one, and if no later one has a credible time.
    """
    times = [each.published_at for each in publications]
    latest = list(accumulate((at if at <= now else _FIRST for at in reversed(times)), max))
    found: list[datetime | None] = []
    since = None
    for at, newest in zip(times, reversed(latest), strict=True):
        found.append(since)
        since = at if at == newest else since
    return found


def judge(
    retention: Retention, publications: Sequence[Publication], tables: Mapping[str, TableHistory], now: datetime
) -> list[Verdict]:
    """Decide for each version of each table whether it is kept, and why.

    Args:
        retention: the configured retention.
        publications: the pipeline's publications, newest first, as far back as they can be found.
        tables: the pipeline's tables by name.
        now: the present time (UTC).

    Returns:
        One verdict per version, table by table, newest first. Always kept: the latest publication, newer commits (an
        epoch may be in progress), and leased versions.
    """
    leases = [lease for history in tables.values() for lease in history.leases if lease.live(now)]
    case = _Case(retention, publications, now, _bridges(publications, leases))
    return [verdict for table, history in tables.items() for verdict in case.verdicts(table, history)]


@define(eq=False)
class _Case:
    """The inputs of all verdicts on a pipeline; publications are identified by their index in the list.

    Args:
        bridges: see `_bridges`.
    """

    retention: Retention
    publications: Sequence[Publication]
    now: datetime
    bridges: Collection[tuple[str, str]]
    _pinned: dict[tuple[str, str], list[int]] = field(init=False, factory=lambda: defaultdict(list))
    _superseded: Sequence[datetime | None] = field(init=False)
    _rules: Sequence[Rule] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._superseded = superseded_at(self.publications, self.now)
        self._rules = [*_rules(self.retention, self._superseded, self.now), _missing_in_sink(self.publications)]
        for place, publication in enumerate(self.publications):
            for table, version in publication.tables.items():
                self._pinned[table, version].append(place)

    def verdicts(self, table: str, history: TableHistory) -> Iterator[Verdict]:
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

    def _reasons(self, table: str, history: TableHistory, commit: Commit, *, ahead: bool) -> Iterator[Reason]:
        if ahead:
            yield Reason("newer than the newest publication: an epoch or upkeep may build on it", _NEWER)
        yield from self._publication_reasons(self._pinned[table, commit.version])
        yield from _lease_reasons(history.leases, commit, self.now)
        if (table, commit.version) in self.bridges:
            yield Reason("the table begins with it: a leased publication of before is found through it", "that lease")
        if self.retention.endless:
            yield Reason("no retention is set", "a retention")

    def _publication_reasons(self, places: Sequence[int]) -> Iterator[Reason]:
        """Why a version is kept for its publications: at most one reason per rule, that of the latest publication."""
        for rule in self._rules:
            matches = [(place, reason) for place in places if (reason := rule(place))]
            if matches:
                (newest, reason), (oldest, _) = matches[0], matches[-1]
                last, first = (self.publications[place].epoch.number for place in (newest, oldest))
                epochs = f"epoch {last}" if first == last else f"epochs {first} to {last}"
                yield evolve(reason, why=f"{epochs}: {reason.why}")


def _bridges(publications: Sequence[Publication], leases: Collection[Lease]) -> set[tuple[str, str]]:
    """The versions with which tables begin after leased publications, by table.

    Publications are found one after the other, each in a commit of the table that was last at its time. The log of a
    table that was added since must thus reach back to its beginning.
    """
    leased = {(lease.table, str(lease.version)) for lease in leases}
    places = [place for place, each in enumerate(publications) if not leased.isdisjoint(each.tables.items())]
    since = publications[: max(places, default=0) + 1]
    return {found for newer, older in pairwise(since) for found in newer.tables.items() if found[0] not in older.tables}


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

    def within_duration(place: int) -> Reason | None:
        if not place or retention.duration is None:
            return None
        return _within(retention.duration, superseded[place], now)

    return [newest, among_the_last, within_duration]


def _missing_in_sink(publications: Sequence[Publication]) -> Rule:
    """Keeps the epoch that the sink held when the newest one was published, and those after it."""

    def missing(place: int) -> Reason | None:
        held = publications[0].sink_epoch
        if held is None or publications[place].epoch.number < held:
            return None
        return Reason(f"the sink held epoch {held} when the newest one was published", _NEXT)

    return missing


def _within(duration: timedelta, since: datetime | None, now: datetime) -> Reason | None:
    if since is None:
        until = f"{show_duration(duration)} after {_NEXT}"
        return Reason("superseded at an unknown time, because a clock was wrong", until)
    if now - since >= duration:
        return None
    until = format_second(since + duration)
    return Reason(f"superseded at {format_second(since)}, kept until {until}", until)


def _lease_reasons(leases: Sequence[Lease], commit: Commit, now: datetime) -> Iterator[Reason]:
    for lease in leases:
        if lease.version == commit.version and lease.live(now):
            until = format_second(lease.until)
            yield Reason(f"leased by {lease.holder} until {until} ({lease.id})", until)
