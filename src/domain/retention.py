"""Which versions of a pipeline's tables are still kept, and why."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from attrs import define, field, frozen

from .errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from .epoch import Publication
    from .lease import Lease
    from .ports import Commit, Version

    Rule: TypeAlias = Callable[[int], str | None]
    """Why the publication at a place of the list, the newest at 0, is kept; None if not for this reason."""


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


@frozen
class History:
    """One table: its commits, newest first, the leases on it, and its versions that can no longer be read."""

    commits: Sequence[Commit]
    leases: Sequence[Lease] = ()
    expired: Collection[Version] = ()


@frozen
class Verdict:
    """Why a version of a table is still kept; without a reason, it may go, or has expired already."""

    table: str
    commit: Commit
    reasons: tuple[str, ...]
    expired: bool = False

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
    _rules: Sequence[Rule] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._rules = _rules(self.retention, self.publications, self.now)
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
            yield Verdict(table, commit, reasons, expired)

    def _reasons(self, table: str, history: History, commit: Commit, *, ahead: bool) -> Iterator[str]:
        if ahead:
            yield "newer than the newest publication: an epoch or upkeep may build on it"
        yield from self._published(self._pinned[table, commit.version])
        yield from _leased(history.leases, commit, self.now)
        if self.retention.endless:
            yield "no retention is set"

    def _published(self, places: Sequence[int]) -> Iterator[str]:
        """Why the publications that pin a version keep it: a reason a rule, in the words for the newest of them."""
        for rule in self._rules:
            if kept := [place for place in places if rule(place)]:
                last, first = (self.publications[place].epoch.number for place in (kept[0], kept[-1]))
                epochs = f"epoch {last}" if first == last else f"epochs {first} to {last}"
                yield f"{epochs}: {rule(kept[0])}"


def _rules(retention: Retention, publications: Sequence[Publication], now: datetime) -> list[Rule]:
    superseded = superseded_at(publications)

    def newest(place: int) -> str | None:
        return None if place else "the newest publication"

    def among_the_last(place: int) -> str | None:
        few = retention.versions
        return f"among the last {few} publications" if few is not None and place < few else None

    def lately(place: int) -> str | None:
        since = superseded[place]
        if since is None or retention.duration is None or now - since >= retention.duration:
            return None
        return f"superseded at {_told(since)}, kept until {_told(since + retention.duration)}"

    return [newest, among_the_last, lately]


def _leased(leases: Sequence[Lease], commit: Commit, now: datetime) -> Iterator[str]:
    for lease in leases:
        if lease.version == commit.version and lease.live(now):
            yield f"leased by {lease.holder} until {_told(lease.until)} ({lease.id})"


def _told(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
