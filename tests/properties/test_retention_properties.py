"""Properties of `retain.duration` under clocks that step ahead and back: what expires is compared with the real times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.domain.epoch.epoch import Epoch, Publication
from headwater.domain.ledger.retention import Retention, TableHistory, judge
from headwater.domain.ledger.upcoming import Upcoming
from headwater.domain.ports import Commit, Version

from .effort import examples

Clock: TypeAlias = Callable[[datetime], datetime]
"""What a clock shows at a real time."""

_START = datetime(2026, 3, 10, 12, tzinfo=UTC)
_DURATION = timedelta(hours=1)
_RETENTION = Retention(duration=_DURATION)
_AT_ANY_TIME = Upcoming(timedelta(), timedelta(), timedelta(), "")
_GAPS = st.integers(0, 150).map(lambda minutes: timedelta(minutes=minutes))
_LOOKS = st.integers(0, 90).map(lambda minutes: timedelta(minutes=minutes))
_FAR = timedelta(days=50 * 365)


def right(real: datetime) -> datetime:
    return real


def ahead(by: timedelta) -> Clock:
    return lambda real: real + by


_STEPS = st.integers(0, 600).map(lambda minutes: timedelta(minutes=minutes))
_WRONG = st.one_of(_STEPS.map(ahead), st.sampled_from([ahead(_FAR), ahead(-_FAR)]))


@define
class Lake:
    """A table of one pipeline: its publications, newest first, the real time of each, and what a look expires.

    Args:
        forgets: whether publications before the oldest kept one are listed no more.
    """

    forgets: bool
    publications: list[Publication] = field(factory=list)
    real: list[datetime] = field(factory=list)
    expired: set[int] = field(factory=set)
    promised: dict[int, datetime] = field(factory=dict)

    def publish(self, real: datetime, clock: Clock) -> None:
        number = len(self.real)
        self.real.append(real)
        made = Publication(Epoch("p", number), {"a": str(number)}, {}, None, clock(real), "settings")
        self.publications.insert(0, made)

    def look(self, real: datetime, clock: Clock) -> None:
        """Expire by this clock, and compare with the real time and with what earlier looks have promised."""
        now = clock(real)
        commits = [Commit(Version(each.tables["a"]), _START, None) for each in self.publications]
        verdicts = judge(_RETENTION, self.publications, {"a": TableHistory(commits)}, now)
        for number in {int(each.commit.version) for each in verdicts if each.may_go} - self.expired:
            assert real - self.real[number + 1] >= _DURATION, number
            assert real >= self.promised.get(number, real), number
            self.expired.add(number)
        if self.forgets:
            self.publications = self.publications[: 1 + max(map(self.publications.index, self.kept))]
        for each in self.kept:
            left = _RETENTION.left(self.publications, each.epoch, _AT_ANY_TIME, now)
            assert left is not None
            self.promised[each.epoch.number] = real + left

    @property
    def kept(self) -> list[Publication]:
        return [each for each in self.publications if each.epoch.number not in self.expired]


@settings(max_examples=examples(2000), deadline=None)
@given(epochs=st.lists(st.tuples(_GAPS, st.just(right) | _WRONG, _LOOKS), max_size=12), forgets=st.booleans())
def test_publications_by_clocks_that_are_wrong_for_a_while(
    epochs: list[tuple[timedelta, Clock, timedelta]], *, forgets: bool
) -> None:
    """Nothing goes early, and all goes once a later publication by the right clock is old enough."""
    lake, real = Lake(forgets), _START
    lake.publish(real, right)
    for gap, clock, look in epochs:
        lake.publish(real + gap, clock)
        real += gap + look
        lake.look(real, right)
    shown = [each.published_at for each in lake.publications if each.published_at < _START + _FAR]
    last = max(real, *shown)
    lake.publish(last, right)
    lake.look(last + _DURATION, right)
    assert lake.kept == lake.publications[:1]


@settings(max_examples=examples(1000), deadline=None)
@given(epochs=st.lists(st.tuples(_GAPS, _STEPS, _LOOKS), max_size=12), forgets=st.booleans())
def test_one_clock_that_is_set_back_again_and_again(
    epochs: list[tuple[timedelta, timedelta, timedelta]], *, forgets: bool
) -> None:
    lake, real, behind = Lake(forgets), _START, timedelta()
    lake.publish(real, right)
    for gap, step, look in epochs:
        behind += step
        lake.publish(real + gap, ahead(-behind))
        real += gap + look
        lake.look(real, ahead(-behind))
