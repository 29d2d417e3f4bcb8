"""Snapshots: when a version is due, what it is made of, and what is written for it."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from attrs import evolve

from headwater.adapters.memory.queries import DuckQueries
from headwater.domain.epoch.epoch import Epoch, Publication
from headwater.domain.errors import ConfigError, SourceUnavailable, TableDamaged, VersionExpired
from headwater.domain.ports import Pace
from headwater.domain.service.snapshots import NOTHING_YET, Plan, Schedule
from headwater.testing.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.domain.epoch.batch import Batch
    from headwater.domain.ledger.ledger import Snapshot
    from headwater.domain.service.base import Step

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
QUARTERS = timedelta(minutes=15)
SHOPS = """\
[backend]
name = "memory"

[sources.infos]
kind = "files"
path = "in"
schema = "shop bigint, city string, at timestamp"
event_time = "at"

[sources.stocks]
kind = "files"
path = "in"
schema = "shop bigint, items bigint, at timestamp"

[pipelines.info]
service = "ranking"
source = "infos"
group = ["city"]
id = ["shop"]
order_by = "at"

[pipelines.stock]
service = "ranking"
source = "stocks"
group = ["shop"]
id = ["items"]
order_by = "at"

[pipelines.dim]
service = "snapshots"
inputs = { info = "info", stock = "stock.ranks", tags = { path = "tags.csv", format = "csv" } }
every = "15m"
retain = { versions = 2 }
keys = { cities = ["city"] }

[pipelines.dim.tables]
cities = "SELECT city, count(*) AS shops FROM info GROUP BY city"
stocks = "SELECT s.shop, i.city, s.items FROM stock s LEFT JOIN info i ON i.shop = s.shop"
tags = "SELECT tag FROM tags"
"""


def plan(at: datetime = NOON, watermark: datetime | None = None, settings: str = "same", **inputs: int | str) -> Plan:
    return Plan(inputs or {"shop": 1}, watermark, at, settings)


class TestPlans:
    def test_they_come_back_as_they_went(self) -> None:
        made = plan(NOON, NOON + timedelta(microseconds=500_000), shop=3, tags="ab12")
        made = evolve(made, published={"shop": "noon"}, views={"shop": "10"})
        assert Plan.of(made.to_offsets()) == made
        assert made.label == "2024-03-01T12:00:00.5Z"
        assert Plan.of(plan().to_offsets()).label is None

    @pytest.mark.parametrize(
        ("other", "like"),
        [
            (plan(NOON + QUARTERS, NOON), True),
            (plan(shop=2), False),
            (plan(shop=1, tags="x"), False),
            (plan(settings="edited"), False),
            (evolve(plan(), published={"shop": "noon"}, views={"shop": "10"}), True),
            (evolve(plan(), published={"shop": "later"}, views={"shop": "10"}), False),
            (evolve(plan(), published={"shop": "noon"}, views={"shop": "20"}), False),
            (evolve(plan(), published={"shop": "noon"}), True),
        ],
    )
    def test_what_the_same_comes_of(self, other: Plan, *, like: bool) -> None:
        assert evolve(plan(), published={"shop": "noon"}, views={"shop": "10"}).is_like(other) is like


class TestSchedule:
    @pytest.mark.parametrize(
        ("minutes", "due"),
        [
            pytest.param(14, False, id="within the interval"),
            pytest.param(15, True, id="at its end"),
            pytest.param(100, True, id="after several"),
            pytest.param(-1, False, id="set back a little"),
            pytest.param(-14, False, id="set back by less than an interval"),
            pytest.param(-15, True, id="set back by an interval"),
            pytest.param(-9999, True, id="set back by days"),
        ],
    )
    def test_the_clock(self, minutes: int, *, due: bool) -> None:
        schedule, now = Schedule(QUARTERS, by_watermark=False), NOON + timedelta(minutes=minutes)
        assert schedule.is_due(plan(NOON), plan(now, shop=2), Pace.SCHEDULE) is due
        assert not schedule.is_due(plan(NOON), plan(now), Pace.SCHEDULE), "nothing has moved"
        assert not schedule.is_due(plan(NOON), plan(now, shop=2), Pace.DRAIN), "the clock says nothing"
        assert schedule.is_due(plan(NOON), plan(now, shop=2), Pace.CLOSE)
        assert not schedule.is_due(plan(NOON), plan(now), Pace.CLOSE)

    @pytest.mark.parametrize(
        ("last", "now", "due"),
        [
            pytest.param(1, 15, True, id="on time"),
            pytest.param(0, 29, True, id="nothing had moved when it was time"),
            pytest.param(29, 30, False, id="right after one that was late"),
            pytest.param(29, 44, False, id="between two multiples"),
            pytest.param(29, 45, True, id="at the next but one"),
        ],
    )
    def test_versions_do_not_crowd(self, last: int, now: int, *, due: bool) -> None:
        was, at = (NOON + timedelta(minutes=minutes) for minutes in (last, now))
        assert Schedule(QUARTERS, by_watermark=False).is_due(plan(was), plan(at, shop=2), Pace.SCHEDULE) is due

    @pytest.mark.parametrize("pace", [Pace.SCHEDULE, Pace.DRAIN])
    @pytest.mark.parametrize(
        ("before", "after", "due"),
        [
            pytest.param(None, None, False, id="none yet"),
            pytest.param(None, 0, True, id="the first"),
            pytest.param(0, 14, False, id="within the interval"),
            pytest.param(14, 15, True, id="at its end"),
            pytest.param(14, 100, True, id="after several"),
            pytest.param(20, 10, False, id="an input that lags has come"),
            pytest.param(20, None, False, id="an input without one has come"),
        ],
    )
    def test_the_watermark(self, pace: Pace, before: int | None, after: int | None, *, due: bool) -> None:
        was, now = (None if at is None else NOON + timedelta(minutes=at) for at in (before, after))
        schedule = Schedule(QUARTERS, by_watermark=True)
        assert schedule.is_due(plan(watermark=was), plan(watermark=now, shop=2), pace) is due
        assert schedule.is_due(None, plan(watermark=now), pace) is (after is not None)
        assert schedule.is_due(plan(watermark=was), plan(watermark=now, shop=2), Pace.CLOSE)

    def test_inputs_that_have_published_nothing(self) -> None:
        schedule = Schedule(QUARTERS, by_watermark=False)
        some, none = plan(shop=0, other=NOTHING_YET), plan(shop=NOTHING_YET, other=NOTHING_YET)
        assert [schedule.is_due(None, some, pace) for pace in Pace] == [False, False, True]
        assert [schedule.is_due(None, none, pace) for pace in Pace] == [False, False, False]
        assert schedule.is_due(None, plan(tags="x"), Pace.SCHEDULE), "plain tables are always there"


class TestExpected:
    """When further versions come at the earliest, every 15 minutes by the clock."""

    @pytest.mark.parametrize(
        ("versions", "now", "following"),
        [
            pytest.param([(0, 10)], 10, [5, 20, 35], id="the first one took long"),
            pytest.param([(1, 2)], 2, [13, 28, 43], id="a little late"),
            pytest.param([(2, 3)], 3, [27, 42, 57], id="so late that it delays the next one"),
            pytest.param([(0, 10), (15, 15), (30, 30)], 31, [14, 29, 44], id="on time, whenever published"),
            pytest.param([(0, 1)], 20, [0, 25, 40], id="overdue: no input has changed"),
            pytest.param([(0, 1), (0, 9)], 20, [0, 25, 40], id="published under two numbers by a rebuild"),
            pytest.param([(0, 10)], 20, [0, 10, 25], id="overdue: it may have begun when it was due"),
            pytest.param([(0, 60)], 110, [0, 0, 13.5], id="overdue, and slower than the schedule"),
            pytest.param([(0, 0), (2, 2), (4, 4)], 5, [1, 3, 5], id="off the schedule, faster"),
            pytest.param([(0, 0), (2, 2), (90, 90)], 91, [14, 29, 44], id="off the schedule, slower on average"),
        ],
    )
    def test_by_the_clock(self, versions: list[tuple[int, int]], now: int, following: list[float]) -> None:
        upcoming = Schedule(QUARTERS, by_watermark=False).expect(published(versions), NOON + timedelta(minutes=now))
        assert [upcoming.until(number) for number in (1, 2, 3)] == [timedelta(minutes=each) for each in following]

    def test_by_the_watermark_the_pace_of_the_last_ones_counts(self) -> None:
        schedule, now = Schedule(QUARTERS, by_watermark=True), NOON + timedelta(minutes=16)
        assert schedule.expect(published([(0, 1), (15, 16)]), now).until(2) == timedelta(minutes=30)
        assert schedule.expect(published([(0, 1)]), now).until(9) == timedelta()


def published(versions: list[tuple[int, int]]) -> list[Publication]:
    """Versions by the minutes at which they were planned and published, newest first."""
    plans = [(plan(NOON + timedelta(minutes=at)), NOON + timedelta(minutes=until)) for at, until in versions]
    found = [
        Publication(Epoch("p", number), {}, each.to_offsets(), None, until, "settings")
        for number, (each, until) in enumerate(plans)
    ]
    return found[::-1]


class TestVersions:
    @pytest.fixture
    def trial(self, tmp_path: Path) -> Iterator[Trial]:
        with ExitStack() as exits:
            trial = Trial(tmp_path, "memory", exits)
            trial.deploy(SHOPS)
            self.tags(trial, "red")
            trial.feed("infos", ['{"shop": 1, "city": "Lisbon", "at": "2024-03-01T09:00:00Z"}'])
            trial.feed("stocks", ['{"shop": 1, "items": 7, "at": "2024-03-01T10:00:00Z"}'])
            yield trial

    def tags(self, trial: Trial, *tags: str) -> None:
        (trial.folder / "tags.csv").write_text("\n".join(["tag", *tags]) + "\n")

    def written(self, trial: Trial) -> dict[str, int]:
        """How many versions each table has."""
        (runner,) = trial.open().start(["dim"])
        return {spec.name.split(".")[1]: len(list(runner.store.versions(spec.name))) for spec in runner.tables}

    def test_a_table_whose_inputs_have_not_moved_is_not_written_again(self, trial: Trial) -> None:
        trial.run()
        assert self.written(trial) == {"cities": 1, "stocks": 1, "tags": 1, "markers": 1}
        self.tags(trial, "red", "blue")
        trial.run()
        assert self.written(trial) == {"cities": 1, "stocks": 1, "tags": 2, "markers": 2}
        trial.feed("stocks", ['{"shop": 1, "items": 8, "at": "2024-03-01T11:00:00Z"}'])
        trial.run()
        assert self.written(trial) == {"cities": 1, "stocks": 2, "tags": 2, "markers": 3}
        assert trial.reader.view("dim.cities").rows() == [("Lisbon", 1)]
        assert sorted(trial.reader.view("dim.stocks").rows()) == [(1, "Lisbon", 7), (1, "Lisbon", 8)]
        assert trial.reader.view("dim.tags", at=1).rows() == [("red",), ("blue",)]
        trial.set("pipelines.dim.tables.tags", '"SELECT upper(tag) AS tag FROM tags"')
        trial.run()
        assert self.written(trial) == {"cities": 2, "stocks": 3, "tags": 3, "markers": 4}

    def test_old_versions_go_by_themselves(self, trial: Trial) -> None:
        for tag in "abcd":
            self.tags(trial, tag)
            trial.run()
        told = trial.reader.upkeep("dim").versions()
        assert [(each.publication.epoch.number, each.readable) for each in told] == [
            (3, True),
            (2, True),
            (1, False),
            (0, False),
        ]
        assert trial.reader.view("dim.cities").rows() == [("Lisbon", 1)], "an old content that new versions have, too"

    def test_inputs_are_held_while_they_are_read(self, trial: Trial) -> None:
        trial.run(["info", "stock"])
        deployment = trial.open()
        (runner,) = deployment.start(["dim"])
        step, held = runner.service.step, []

        def watched(batch: Batch, snapshot: Snapshot) -> Step:
            held.extend(lease.holder for name in ("info", "stock") for lease in deployment.upkeep(name).leases())
            return step(batch, snapshot)

        runner.service.step = watched  # type: ignore[method-assign]
        assert runner.advance()
        assert set(held) == {"pipeline dim"}
        assert [deployment.upkeep(name).leases() for name in ("info", "stock")] == [[], []]

    def test_what_a_killed_run_has_leased_is_released(self, trial: Trial) -> None:
        trial.run(["info", "stock"])
        deployment = trial.open()
        for name in ("info", "stock"):
            deployment.pin(name, hold=timedelta(hours=12), holder="pipeline dim")
            deployment.pin(name, hold=timedelta(hours=12), holder="somebody")
        trial.run()
        held = [lease.holder for name in ("info", "stock") for lease in trial.open().upkeep(name).leases()]
        assert set(held) == {"somebody"}

    def test_the_version_of_a_rebuild_has_a_marker_under_the_number_by_which_it_is_read(self, tmp_path: Path) -> None:
        with ExitStack() as exits:
            trial = Trial(tmp_path, "memory", exits)
            (tmp_path / "tags.csv").write_text("tag\nred\n", encoding="utf-8")
            trial.deploy(SHOPS)
            trial.feed("infos", ['{"shop": 1, "city": "Lisbon", "at": "2024-03-01T09:00:00Z"}'])
            trial.feed("stocks", ['{"shop": 1, "items": 7, "at": "2024-03-01T10:00:00Z"}'])
            trial.run()
            assert trial.rebuild("dim")
            newest = trial.reader.view("dim.markers")["version"].max()
            assert newest == trial.reader.epoch("dim")
            assert trial.reader.view("dim.cities", at=newest).rows() == [("Lisbon", 1)]

    def test_a_rebuild_leaves_the_leases_of_runs_alone(self, tmp_path: Path) -> None:
        with ExitStack() as exits:
            trial = Trial(tmp_path, "delta:local", exits)
            (tmp_path / "tags.csv").write_text("tag\nred\n", encoding="utf-8")
            trial.deploy(SHOPS)
            trial.feed("infos", ['{"shop": 1, "city": "Lisbon", "at": "2024-03-01T09:00:00Z"}'])
            trial.feed("stocks", ['{"shop": 1, "items": 7, "at": "2024-03-01T10:00:00Z"}'])
            trial.run()
            with trial.open().pin("info", hold=timedelta(hours=1), holder="pipeline dim"):
                assert trial.rebuild("dim")
                held = {lease.holder for lease in trial.open().upkeep("info").leases()}
            assert held == {"pipeline dim"}

    @pytest.mark.parametrize("cancel", [True, False])
    def test_what_a_rebuild_that_is_given_up_has_leased_is_released(self, tmp_path: Path, cancel: bool) -> None:  # noqa: FBT001 - a case
        with ExitStack() as exits:
            trial = Trial(tmp_path, "delta:local", exits)
            (tmp_path / "tags.csv").write_text("tag\nred\n", encoding="utf-8")
            trial.deploy(SHOPS)
            trial.feed("infos", ['{"shop": 1, "city": "Lisbon", "at": "2024-03-01T09:00:00Z"}'])
            trial.feed("stocks", ['{"shop": 1, "items": 7, "at": "2024-03-01T10:00:00Z"}'])
            trial.run()
            killed = trial.prepare_rebuild("dim")
            killed.settings = "other"
            killed.runner.stop()
            assert killed.run() is None
            trial.open().pin("info", hold=timedelta(hours=12), holder="pipeline dim~2")
            trial.open().pin("info", hold=timedelta(hours=12), holder="pipeline dim")
            following = trial.prepare_rebuild("dim")
            assert following.cancel() if cancel else following.run()
            held = {lease.holder for lease in trial.open().upkeep("info").leases()}
            assert held == {"pipeline dim"}

    def test_what_waits_is_told_in_epochs(self, trial: Trial) -> None:
        trial.run(["info", "stock"])
        assert self.lag(trial) == "2 epochs of inputs"
        trial.run(["dim"])
        assert self.lag(trial) == "0 epochs of inputs"
        trial.feed("stocks", ['{"shop": 1, "items": 8, "at": "2024-03-01T11:00:00Z"}'])
        trial.run(["stock"])
        assert self.lag(trial) == "1 epoch of inputs"

    def lag(self, trial: Trial) -> str:
        return next(status.lag for status in trial.open().status() if status.pipeline == "dim")

    @pytest.mark.parametrize(
        ("sql", "message"),
        [
            (
                "SELECT city, `a.b` FROM (SELECT city, 1 AS `a.b` FROM info)",
                "column 'a.b' has a backtick or a dot in its name",
            ),
            (
                "SELECT * FROM (SELECT city, 1 AS _row_kind FROM info)",
                "table 'cities': column '_row_kind' has the name of one that Headwater adds",
            ),
            ("SELECT city AS town FROM info", "table 'cities' has no column 'city' of its key; it has: town"),
        ],
    )
    def test_answers_that_cannot_be_published(self, trial: Trial, sql: str, message: str) -> None:
        trial.set("pipelines.dim.tables.cities", f'"{sql}"')
        with pytest.raises(ConfigError) as caught:
            trial.run()
        assert message in str(caught.value)
        assert trial.publications("dim") == []

    def test_a_plain_table_that_is_not_there(self, trial: Trial) -> None:
        (trial.folder / "tags.csv").unlink()
        with pytest.raises(ConfigError, match="there is nothing at"):
            trial.run()

    def test_a_plain_table_that_goes_away_after_it_was_read_is_awaited(self, trial: Trial) -> None:
        tags = trial.folder / "tags.csv"
        trial.run()
        tags.rename(trial.folder / "away.csv")
        message = r"input 'tags', which has been read before: there is nothing at .*tags\.csv; put a csv file"
        with pytest.raises(SourceUnavailable, match=message):
            trial.run()
        (trial.folder / "away.csv").rename(tags)
        self.tags(trial, "blue")
        trial.run()
        assert trial.reader.view("dim.tags").rows() == [("blue",)]
        inputs = '{ info = "info", stock = "stock", tags = { path = "nowhere.csv", format = "csv" } }'
        trial.set("pipelines.dim.inputs", inputs)
        with pytest.raises(ConfigError, match="there is nothing at"):
            trial.run()

    @pytest.mark.parametrize("call", ["scan", "query"])
    @pytest.mark.parametrize("error", [ConfigError("broken"), VersionExpired("gone"), TableDamaged("damaged")])
    def test_a_plain_table_that_changes_while_it_is_read_is_read_again(
        self, trial: Trial, monkeypatch: pytest.MonkeyPatch, call: str, error: Exception
    ) -> None:
        """Some engines read it only when the version is computed, and take its files for those of a table of ours."""
        read, tags = getattr(DuckQueries, call), ["blue"]

        def change(*given: Any) -> Any:
            if tags:
                self.tags(trial, tags.pop())
                raise error
            return read(*given)

        monkeypatch.setattr(DuckQueries, call, change)
        trial.run()
        assert trial.reader.view("dim.tags").rows() == [("blue",)]

    def test_an_error_is_not_blamed_on_a_plain_table_that_has_not_changed(
        self, trial: Trial, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(DuckQueries, "scan", Mock(side_effect=ConfigError("broken")))
        with pytest.raises(ConfigError, match="broken"):
            trial.run()

    def test_versions_are_of_no_event_time(self, trial: Trial) -> None:
        trial.run()
        with pytest.raises(ConfigError, match="not as of an event time"):
            trial.reader.view("dim.cities", as_of=NOON)

    def test_it_keeps_no_dead_letters(self, trial: Trial) -> None:
        trial.run()
        with pytest.raises(ConfigError, match="has no dead letters table"):
            trial.open().replay("dim")

    def test_a_published_table_is_waited_for(self, trial: Trial) -> None:
        """It has no columns before its first version, where any other view is read as empty."""
        text = """
[pipelines.late]
service = "snapshots"
inputs = { nothing = "silent.ranks", cities = "dim.cities", info = "info" }
every = "1h"
[pipelines.late.tables]
late = "SELECT i.shop, n.items FROM info i LEFT JOIN nothing n ON n.shop = i.shop CROSS JOIN cities"

[pipelines.silent]
service = "ranking"
source = "silence"
group = ["shop"]
id = ["items"]
order_by = "at"

[sources.silence]
kind = "files"
path = "in"
schema = "shop bigint, items bigint, at timestamp"
"""
        trial.deploy(SHOPS + text)
        trial.run(["info", "late", "silent"])
        assert trial.publications("late") == []
        trial.run()
        assert trial.reader.view("late").rows() == [(1, None)]

    def test_versions_of_versions(self, trial: Trial) -> None:
        text = """
[pipelines.top]
service = "snapshots"
inputs = { cities = "dim.cities", versions = "dim.markers" }
every = "1h"
[pipelines.top.tables]
top = "SELECT max(c.shops) AS shops, max(v.version) AS version FROM cities c CROSS JOIN versions v"
"""
        trial.deploy(text + SHOPS)
        trial.run()
        assert trial.reader.view("top").rows() == [(1, 0)]
        trial.feed("infos", ['{"shop": 2, "city": "Lisbon", "at": "2024-03-01T09:30:00Z"}'])
        trial.run()
        assert trial.reader.view("top").rows() == [(2, 1)]
        labels = [row[1] for row in sorted(trial.reader.view("top.markers").rows())]
        assert labels == [None] * len(labels), "stocks have no event time"
