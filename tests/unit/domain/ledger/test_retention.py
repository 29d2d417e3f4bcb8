"""Which versions are kept, and why: only the policy, over publications made in the test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from headwater.domain.epoch.epoch import Epoch, Publication
from headwater.domain.errors import ConfigError
from headwater.domain.ledger.retention import Retention, TableHistory, judge, superseded_at
from headwater.domain.ledger.upcoming import estimate, pace_of
from headwater.domain.ports import Commit, Version
from headwater.domain.table.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Sequence

START = datetime(2024, 3, 10, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def publication(number: int, minute: int | None = None, **tables: str) -> Publication:
    """An epoch published at a minute, of its own number if none is given, with a version of that number in table a."""
    at = START + (number if minute is None else minute) * MINUTE
    return Publication(Epoch("p", number), {"a": str(number), **tables}, {}, None, at, "settings")


def published(count: int) -> list[Publication]:
    return [publication(number) for number in reversed(range(count))]


def history(*versions: int, leases: Sequence[Lease] = (), expired: Sequence[int] = ()) -> TableHistory:
    commits = [Commit(Version(str(version)), START, None) for version in sorted(versions, reverse=True)]
    return TableHistory(commits, leases, {Version(str(version)) for version in expired})


def kept(
    retention: Retention, publications: Sequence[Publication], table: TableHistory, minute: float = 1000
) -> list[int]:
    """The versions of table a that are kept."""
    verdicts = judge(retention, publications, {"a": table}, START + minute * MINUTE)
    return [int(verdict.commit.version) for verdict in verdicts if verdict.reasons]


def reasons(
    retention: Retention, publications: Sequence[Publication], table: TableHistory, minute: float = 1000
) -> dict[str, tuple[str, ...]]:
    verdicts = judge(retention, publications, {"a": table}, START + minute * MINUTE)
    return {verdict.commit.version: verdict.reasons for verdict in verdicts}


def minutes(publications: Sequence[Publication], minute: float) -> list[float | None]:
    """The minute at which each publication was superseded."""
    times = superseded_at(publications, START + minute * MINUTE)
    return [None if each is None else (each - START) / MINUTE for each in times]


class TestPublications:
    def test_nothing_goes_where_no_retention_is_set(self) -> None:
        told = reasons(Retention(), published(3), history(*range(3)))
        assert told["0"] == ("no retention is set",)
        assert told["2"] == ("epoch 2: the newest publication", "no retention is set")

    def test_the_last_few_stay(self) -> None:
        assert kept(Retention(2), published(5), history(*range(5))) == [4, 3]
        assert kept(Retention(9), published(5), history(*range(5))) == [4, 3, 2, 1, 0]
        assert reasons(Retention(2), published(5), history(*range(5)))["3"] == (
            "epoch 3: among the last 2 publications",
        )

    def test_the_newest_stays_however_old(self) -> None:
        assert kept(Retention(duration=timedelta()), published(5), history(*range(5))) == [4]

    def test_at_least_one_has_to_stay(self) -> None:
        with pytest.raises(ConfigError, match="write 1 or more"):
            Retention(0)

    def test_a_duration_counts_from_when_the_next_one_came(self) -> None:
        two_hours_apart = [publication(2, 240), publication(1, 120), publication(0, 0)]
        brief = Retention(duration=10 * MINUTE)
        assert kept(brief, two_hours_apart, history(0, 1, 2), 240) == [2, 1]
        assert kept(brief, two_hours_apart, history(0, 1, 2), 249.9) == [2, 1]
        assert kept(brief, two_hours_apart, history(0, 1, 2), 250) == [2]
        told = reasons(brief, two_hours_apart, history(0, 1, 2), 241)
        assert told["1"] == ("epoch 1: superseded at 2024-03-10T16:00:00Z, kept until 2024-03-10T16:10:00Z",)

    def test_what_either_asks_for_stays(self) -> None:
        five = published(5)
        assert kept(Retention(1, 2 * MINUTE), five, history(*range(5)), 4) == [4, 3, 2]
        assert kept(Retention(4, 2 * MINUTE), five, history(*range(5)), 4) == [4, 3, 2, 1]

    def test_what_the_sink_may_lack_stays(self) -> None:
        newest, *older = published(6)
        behind = [evolve(newest, sink_epoch=3), *older]
        assert kept(Retention(versions=1), behind, history(*range(6))) == [5, 4, 3]
        why = reasons(Retention(versions=1), behind, history(3, 5))["3"]
        assert why == ("epoch 3: the sink held epoch 3 when the newest one was published",)
        ahead = [evolve(newest, sink_epoch=9), *older]  # the tables were restored
        assert kept(Retention(versions=1), ahead, history(*range(6))) == [5]

    def test_one_version_of_several_publications_stays_for_the_last_of_them(self) -> None:
        same = [publication(3), publication(2, a="1"), publication(1), publication(0)]
        assert kept(Retention(2), same, history(0, 1, 3)) == [3, 1]
        told = reasons(Retention(3), same, history(0, 1, 3))
        assert told["1"] == ("epochs 1 to 2: among the last 3 publications",)

    def test_tables_are_judged_each_by_its_own_versions(self) -> None:
        two = [publication(1, b="x"), publication(0, b="x")]
        tables = {"a": history(0, 1), "b": TableHistory([Commit(Version("x"), START, None)])}
        verdicts = judge(Retention(1), two, tables, START + 1000 * MINUTE)
        assert [(each.table, each.commit.version, each.may_go) for each in verdicts] == [
            ("a", "1", False),
            ("a", "0", True),
            ("b", "x", False),
        ]


class TestWhatHasToCome:
    @pytest.mark.parametrize(
        ("retention", "told"),
        [
            (Retention(), [("a retention",), ("a retention",), ("a retention",)]),
            (Retention(1), [("the next publication",), (), ()]),
            (
                Retention(3),
                [("3 more publications",), ("2 more publications",), ("the next publication",)],
            ),
            (
                Retention(duration=2 * HOUR),
                [("2h after the next publication",), ("2024-03-10T14:02:00Z",), ("2024-03-10T14:01:00Z",)],
            ),
            (
                Retention(2, HOUR),
                [
                    ("1h after the next publication", "2 more publications"),
                    ("the next publication", "2024-03-10T13:02:00Z"),
                    ("2024-03-10T13:01:00Z",),
                ],
            ),
        ],
    )
    def test_before_a_version_may_go(self, retention: Retention, told: list[tuple[str, ...]]) -> None:
        verdicts = judge(retention, published(3), {"a": history(0, 1, 2)}, START + 3 * MINUTE)
        assert [each.until for each in verdicts] == told
        since = [START + minute * MINUTE for minute in (2, 1)]
        assert [each.superseded_at for each in verdicts] == [None, *since]

    def test_a_lease_is_waited_for_as_well(self) -> None:
        leased = history(0, 1, leases=[Lease("p-1", "a", "0", "nightly", START + HOUR)])
        _, verdict = judge(Retention(2), published(2), {"a": leased}, START)
        assert verdict.until == ("the next publication", "2024-03-10T13:00:00Z")


class TestHowLongItLasts:
    EVERY = 15 * MINUTE

    @pytest.mark.parametrize(
        ("retention", "lasts"),
        [
            (Retention(), None),
            (Retention(1), 15 * MINUTE),
            (Retention(5), 75 * MINUTE),
            (Retention(duration=2 * HOUR), 135 * MINUTE),
            (Retention(5, HOUR), 75 * MINUTE),
            (Retention(5, 2 * HOUR), 135 * MINUTE),
        ],
    )
    def test_n_superseded_versions_beside_the_newest(self, retention: Retention, lasts: timedelta | None) -> None:
        assert retention.lasts(self.EVERY) == lasts

    def test_a_number_of_versions_that_come_at_any_time_is_no_time(self) -> None:
        lasts = [each.lasts(None) for each in (Retention(), Retention(9), Retention(9, HOUR))]
        assert lasts == [None, timedelta(), HOUR]

    def test_what_it_says_is_what_it_keeps(self) -> None:
        """A version read as it is published stays until just before the time is over, whatever is kept."""
        for retention in (Retention(1), Retention(4), Retention(duration=50 * MINUTE), Retention(2, 40 * MINUTE)):
            lasts = retention.lasts(10 * MINUTE)
            assert lasts is not None
            for passed, there in ((lasts - MINUTE, True), (lasts, False)):
                newest = passed // (10 * MINUTE)
                publications = [publication(number, 10 * number) for number in range(newest, -1, -1)]
                found = kept(retention, publications, history(*range(newest + 1)), passed / MINUTE)
                assert (0 in found) == there, (retention, passed)

    def test_a_query_that_could_not_end_is_refused_with_the_arithmetic(self) -> None:
        Retention(5).check_query(75 * MINUTE, self.EVERY)
        Retention().check_query(999 * HOUR, self.EVERY)
        with pytest.raises(ConfigError) as told:
            Retention(5).check_query(76 * MINUTE, self.EVERY)
        assert str(told.value) == (
            "a query of 1h16m could not end: with a version every 15m, retain keeps one for 1h15m (4 superseded"
            " besides the latest: (4 + 1) x 15m); set retain.versions to at least 6"
        )
        with pytest.raises(ConfigError, match=r"\(0 \+ 1\) x 15m, or 15m \+ 1h\); set retain.versions to at least 8"):
            Retention(duration=HOUR).check_query(2 * HOUR, self.EVERY)

    def test_if_versions_come_at_any_time_a_query_needs_a_duration(self) -> None:
        Retention().check_query(999 * HOUR, None)
        Retention(1, HOUR).check_query(HOUR, None)
        with pytest.raises(ConfigError) as told:
            Retention(99).check_query(36 * HOUR, None)
        assert str(told.value) == (
            "a query of 1d12h could not end: new versions may come at any time, so only retain.duration counts (not set);"
            " set retain.duration to at least 1d12h"
        )
        with pytest.raises(ConfigError, match=r"counts \(10m\); set retain\.duration to at least 1h15m$"):
            Retention(5, 10 * MINUTE).check_query(75 * MINUTE, None)

    @pytest.mark.parametrize(
        ("retention", "number", "minute", "left"),
        [
            (Retention(), 4, 4, None),
            (Retention(3), 4, 4, 3),
            (Retention(3), 4, 4.5, 2.5),
            (Retention(3), 3, 4.5, 1.5),
            (Retention(3), 2, 4.5, 0.5),
            (Retention(3), 1, 4.5, 0),
            (Retention(3), 4, 60, 2),
            (Retention(duration=HOUR), 4, 4.5, 60.5),
            (Retention(duration=HOUR), 3, 4.5, 59.5),
            (Retention(3, HOUR), 0, 4.5, 56.5),
            (Retention(3), 9, 4.5, 0),
        ],
    )
    def test_how_long_a_publication_is_kept_from_now_on(
        self, retention: Retention, number: int, minute: float, left: float | None
    ) -> None:
        """Five publications, a minute apart; the newest came at minute 4."""
        now = START + minute * MINUTE
        found = retention.left(published(5), Epoch("p", number), estimate(published(5), now), now)
        assert found == (None if left is None else left * MINUTE)

    def test_without_a_pace_the_next_ones_may_come_at_any_time(self) -> None:
        assert pace_of(published(1)) is None
        unknown = estimate(published(1), START)
        assert Retention(5).left(published(1), Epoch("p", 0), unknown, START) == timedelta()
        assert Retention(5, HOUR).left(published(1), Epoch("p", 0), unknown, START) == HOUR
        assert pace_of(published(30)) == MINUTE
        assert pace_of([publication(1, 0), publication(0, 5)]) == timedelta()

    def test_it_is_told_as_the_configuration_has_it(self) -> None:
        assert str(Retention(3, HOUR)) == 'retain = { versions = 3, duration = "1h" }'


class TestClock:
    def test_a_clock_set_back_makes_nothing_go_early(self) -> None:
        """Epoch 1 came at minute 120, epochs 2 and 3 by a clock that had been set back by an hour."""
        set_back = [publication(3, 70), publication(2, 61), publication(1, 120), publication(0, 0)]
        assert minutes(set_back, 75) == [None, 70, 61, 61]
        assert kept(Retention(duration=10 * MINUTE), set_back, history(*range(4)), 75) == [3, 2]
        assert minutes(set_back, 130) == [None, None, None, 120]
        assert kept(Retention(duration=10 * MINUTE), set_back, history(*range(4)), 130) == [3, 2, 1]
        later = [publication(4, 130), *set_back]
        assert minutes(later, 140) == [None, 130, 130, 130, 120]
        assert kept(Retention(duration=10 * MINUTE), later, history(*range(5)), 140) == [4]

    def test_a_clock_that_was_once_far_ahead_keeps_nothing_forever(self) -> None:
        """Epoch 1 came at minute 20 by a clock that was 64 years ahead."""
        years = 64 * 365 * 24 * 60
        once = [publication(3, 60), publication(2, 40), publication(1, years), publication(0, 0)]
        assert minutes(once, 65) == [None, 60, 40, 40]
        assert kept(Retention(duration=10 * MINUTE), once, history(*range(4)), 65) == [3, 2]

    def test_a_version_is_kept_until_it_is_known_how_long_ago_it_was_superseded(self) -> None:
        ahead = [publication(2, 5000), publication(1, 6000), publication(0, 0)]
        told = reasons(Retention(duration=10 * MINUTE), ahead, history(*range(3)))
        assert told["1"] == ("epoch 1: superseded at an unknown time, because a clock was wrong",)
        assert told["0"] == ("epoch 0: superseded at an unknown time, because a clock was wrong",)
        now = START + 1000 * MINUTE
        left = Retention(duration=10 * MINUTE).left(ahead, Epoch("p", 0), estimate(ahead, now), now)
        assert left == 10 * MINUTE
        _, verdict, _ = judge(Retention(duration=10 * MINUTE), ahead, {"a": history(*range(3))}, now)
        assert (verdict.until, verdict.superseded_at) == (("10m after the next publication",), None)

    def test_a_clock_before_all_publications_keeps_everything(self) -> None:
        assert kept(Retention(duration=MINUTE), published(3), history(*range(3)), -1000) == [2, 1, 0]

    def test_one_publication_or_none_was_never_superseded(self) -> None:
        assert minutes(published(1), 1000) == [None]
        assert minutes([], 1000) == []


class TestWhatNoPublicationPins:
    def test_work_under_way_stays(self) -> None:
        told = reasons(Retention(1), published(2), history(0, 1, 2, 3))
        assert [version for version, why in told.items() if why] == ["3", "2", "1"]
        assert told["3"] == ("newer than the newest publication: an epoch or upkeep may build on it",)

    def test_all_stays_before_the_first_publication(self) -> None:
        assert kept(Retention(1), [], history(0, 1)) == [1, 0]

    def test_all_of_a_table_stays_that_the_newest_publication_does_not_have(self) -> None:
        first = [Publication(Epoch("p", 0), {"b": "7"}, {}, None, START, "settings")]
        assert kept(Retention(1), first, history(0, 1)) == [1, 0]

    def test_what_lies_between_publications_goes(self) -> None:
        assert kept(Retention(2), [publication(5), publication(3)], history(2, 3, 4, 5)) == [5, 3]


class TestLeases:
    LEASE = Lease("p-1", "a", "0", "nightly", START + 1001 * MINUTE)

    def test_what_is_leased_stays_until_the_lease_ends(self) -> None:
        leased = history(0, 1, 2, leases=[self.LEASE])
        assert kept(Retention(1), published(3), leased, 1000) == [2, 0]
        assert kept(Retention(1), published(3), leased, 1001) == [2]
        told = reasons(Retention(1), published(3), leased)
        assert told["0"] == ("leased by nightly until 2024-03-11T04:41:00Z (p-1)",)

    @pytest.mark.parametrize(("minute", "stays"), [(1000, ["9", "7"]), (1001, ["9"])])
    def test_a_table_that_came_after_a_leased_publication_is_kept_from_its_beginning(
        self, minute: int, stays: list[str]
    ) -> None:
        of_b = {0: {"b": "1"}, 1: {}, 2: {"b": "7"}, 3: {"b": "8"}, 4: {"b": "9"}}  # it was taken out for an epoch
        publications = [publication(number, **of_b[number]) for number in reversed(range(5))]
        tables = {"a": history(*range(5), leases=[evolve(self.LEASE, version="1")]), "b": history(1, 7, 8, 9)}
        verdicts = judge(Retention(1), publications, tables, START + minute * MINUTE)
        assert [each.commit.version for each in verdicts if each.table == "b" and each.reasons] == stays

    def test_a_lease_is_written_and_read_back(self) -> None:
        assert Lease.from_json(self.LEASE.to_json()) == self.LEASE

    def test_what_has_expired_is_neither_kept_nor_to_go(self) -> None:
        verdicts = judge(Retention(1), published(3), {"a": history(0, 1, 2, expired=[0])}, START)
        assert [(each.may_go, each.expired) for each in verdicts] == [(False, False), (True, False), (False, True)]
