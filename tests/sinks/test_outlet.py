"""When a pipeline publishes to its topic, and when it refuses to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from attrs import define, evolve, field

from headwater.adapters.kafka.settings import SinkSettings
from headwater.adapters.kafka.sink import KafkaSink
from headwater.adapters.memory.store import MemoryStore
from headwater.adapters.polars.engine import PolarsEngine
from headwater.app.run.alerts import alarms_of
from headwater.app.run.clock import SystemClock
from headwater.app.run.options import RunOptions
from headwater.app.run.runner import Runner
from headwater.app.run.sink_publisher import SinkPublisher
from headwater.domain.errors import EpochConflict, SinkChanged, SinkUnavailable, VersionExpired
from headwater.domain.ledger.retention import Retention
from headwater.domain.ledger.upkeep import Upkeep
from headwater.domain.service.feed import Feed
from headwater.domain.service.ranking import Ranking, RankingSettings
from headwater.domain.table.schema import Schema
from headwater.testing.clock import ManualClock
from headwater.testing.failing_store import Fault
from headwater.testing.frames import polars_frame
from tests.failing_sink import FailingSink
from tests.kafka_reading import committed, remake, replica
from tests.rows_source import RowsSource

if TYPE_CHECKING:
    import narwhals as nw

    from headwater.app.run.report import EpochReport
    from headwater.domain.ports import Clock, Commit, Version
    from headwater.domain.table.change import Matching
    from headwater.testing.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

_SCHEMA = Schema.parse("team bigint, id bigint, at timestamp")
_SETTINGS = RankingSettings("race", _SCHEMA, ["team"], ["id"], "at")


@define(eq=False)
class Race:
    """A pipeline on the memory backend, and the topic of its ranks."""

    broker: KafkaBroker
    topic: str = field(init=False, factory=lambda: f"race-{uuid4().hex[:8]}")
    store: MemoryStore = field(factory=MemoryStore)
    source: RowsSource = field(init=False, factory=lambda: RowsSource(_SCHEMA, polars_frame, limit=1))
    clock: Clock = field(factory=ManualClock)
    reports: list[EpochReport] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.broker.create_topic(self.topic)

    def run(
        self,
        fault: Fault | None = None,
        retries: int = 5,
        settings: RankingSettings = _SETTINGS,
        digest: str | None = "digest",
    ) -> Runner:
        """A new run, which has not begun."""
        engine = PolarsEngine()
        service = Ranking(settings, engine)
        topic = SinkSettings(self.broker.servers, self.topic, {"message.timeout.ms": "2000"})
        kafka = KafkaSink(topic, Feed("race", service.views[0]), engine)
        sink = FailingSink(kafka, fault) if fault else kafka
        writer = uuid4().hex
        publisher = SinkPublisher(service, "ranks", None, sink, engine, writer)
        options = RunOptions(compact_every=0, retries=retries)
        return Runner(
            "race",
            service,
            self.source,
            self.store,
            self.store,
            engine,
            self.clock,
            writer,
            options,
            self.reports.append,
            publisher,
            settings=digest,
        )

    def give(self, *ids: int) -> None:
        self.source.give([{"team": 1, "id": id_, "at": datetime(2024, 1, id_, tzinfo=UTC)} for id_ in ids])

    def told(self) -> list[tuple[int, int]]:
        """Id and rank of the rows that a follower has, each change having fitted."""
        return [(row["id"], row["rank"]) for row in replica(committed(self.broker, self.topic))]


@pytest.fixture
def race(kafka: KafkaBroker) -> Race:
    return Race(kafka)


def test_every_epoch_is_told_as_it_is_published(race: Race) -> None:
    race.give(5, 3, 4)
    race.run().run(until_idle=True)
    told = committed(race.broker, race.topic)
    assert [(found.value["id"], found.value["rank"], found.value["row_kind"]) for found in told] == [
        (5, 1, "+I"),
        (3, 1, "+I"),
        (5, 1, "-U"),
        (5, 2, "+U"),
        (4, 2, "+I"),
        (5, 2, "-U"),
        (5, 3, "+U"),
    ]
    assert all("publish" in report.seconds for report in race.reports)


def test_a_fault_that_does_not_pass_ends_the_run_and_loses_nothing(race: Race) -> None:
    race.give(5, 3)
    with pytest.raises(SinkUnavailable):
        race.run(Fault(before=True, commit=2, passing=True), retries=0).run(until_idle=True)
    assert (race.told(), len(race.reports)) == ([(5, 1)], 2)  # the epoch is published, though not told
    race.give(4)
    race.run().run(until_idle=True)
    assert race.told() == [(3, 1), (4, 2), (5, 3)]


def test_a_fault_after_all_was_told_tells_nothing_twice(race: Race) -> None:
    race.give(5, 3)
    race.run(Fault(before=False, commit=2, passing=True)).run(until_idle=True)
    assert race.told() == [(3, 1), (5, 2)]
    assert [report.epoch.number for report in race.reports] == [0, 1]


def test_a_topic_made_anew_while_a_run_goes_on_first_gets_all_rows(race: Race) -> None:
    race.give(5, 3)
    runner = race.run()
    runner.run(until_idle=True)
    remake(race.broker, race.topic)
    race.give(4)
    runner.run(until_idle=True)
    assert race.told() == [(3, 1), (4, 2), (5, 3)]
    race.give(2)
    race.run().run(until_idle=True)
    assert race.told() == [(2, 1), (3, 2), (4, 3), (5, 4)]


def test_a_second_run_that_only_looks_disturbs_nobody(race: Race) -> None:
    race.give(5)
    first = race.run()
    first.run(until_idle=True)
    second = race.run()
    second.run(until_idle=True)
    race.give(3)
    first.run(until_idle=True)
    with pytest.raises(EpochConflict):
        race.give(4)
        second.run(until_idle=True)
    first.run(until_idle=True)
    assert race.told() == [(3, 1), (4, 2), (5, 3)]


def test_a_run_that_takes_over_tells_what_the_first_has_not(race: Race) -> None:
    race.give(5)
    first = race.run()
    first.run(until_idle=True)
    race.give(3)
    stuck, first.publisher = first.publisher, None  # it has published, and hangs before it tells
    first.run(until_idle=True)
    race.run().run(until_idle=True)
    assert race.told() == [(3, 1), (5, 2)]
    stuck.catch_up(first.ledger, rows=None)  # it has written the tables last, so it claims the topic again
    assert race.told() == [(3, 1), (5, 2)]


def test_tables_built_anew_from_the_same_epochs_go_on_with_the_topic(race: Race) -> None:
    race.give(5, 3)
    race.run().run(until_idle=True)
    race.store = MemoryStore()
    race.give(4)
    race.run().run(until_idle=True)
    assert race.told() == [(3, 1), (4, 2), (5, 3)]


def test_tables_that_have_not_reached_the_sink_are_told_of(race: Race, caplog: pytest.LogCaptureFixture) -> None:
    race.give(5, 3)
    race.run().run(until_idle=True)
    race.store, race.source = MemoryStore(), RowsSource(_SCHEMA, polars_frame, limit=1)
    runner = race.run()
    ahead = "the topic that it publishes to holds epoch 1, which these tables have not reached"
    (alarm,) = alarms_of(runner, None)
    assert alarm.text.startswith(ahead)
    race.give(5)
    for _ in range(2):
        runner.run(until_idle=True)
    assert [message for message in caplog.messages if ahead in message] == [f"race: {alarm.text}"]
    assert list(alarms_of(runner, runner.ledger.latest)) == [alarm]
    before = runner.ledger.latest
    race.give(3)
    runner.run(until_idle=True)
    assert list(alarms_of(runner, before)) == []  # what was read before the run had published
    assert race.told() == [(3, 1), (5, 2)]


def test_tables_built_anew_from_other_epochs_do_not(race: Race) -> None:
    race.give(5, 3)
    race.run().run(until_idle=True)
    race.store = MemoryStore()
    race.source.limit = 2
    race.give(4)
    with pytest.raises(SinkChanged, match="holds an epoch 1 that is not from these tables"):
        race.run().run(until_idle=True)
    assert race.told() == [(3, 1), (5, 2)]


def test_tables_built_anew_under_other_settings_do_not(race: Race) -> None:
    race.give(5)
    race.run().run(until_idle=True)
    race.store = MemoryStore()
    with pytest.raises(SinkChanged, match="holds an epoch 0 that is not from these tables"):
        race.run(settings=evolve(_SETTINGS, descending=True)).run(until_idle=True)


def test_an_edit_of_the_source_that_tables_were_continued_with_goes_on(race: Race) -> None:
    race.give(5)
    race.run().run(until_idle=True)
    race.give(3)
    race.run(digest="edited").run(until_idle=True)
    race.give(4)
    race.run(digest="edited").run(until_idle=True)
    assert race.told() == [(3, 1), (4, 2), (5, 3)]


@pytest.mark.parametrize("edits", [["digest"], ["digest", "edited"]])
def test_tables_built_anew_with_other_settings_of_the_source_do_not(race: Race, edits: list[str]) -> None:
    """Even if the sink's last epoch had these settings, those before it had not."""
    for number, digest in enumerate(edits, 1):
        race.give(number)
        race.run(digest=digest).run(until_idle=True)
    race.store = MemoryStore()
    with pytest.raises(SinkChanged, match=f"holds an epoch {len(edits) - 1} that is not from these tables"):
        race.run(digest="edited").run(until_idle=True)


def test_receipts_of_earlier_versions_have_no_settings_and_fit(race: Race) -> None:
    race.give(5)
    race.run(digest=None).run(until_idle=True)
    race.store = MemoryStore()
    race.give(3)
    race.run().run(until_idle=True)
    assert race.told() == [(3, 1), (5, 2)]


class ForgetfulStore(MemoryStore):
    """One whose first versions have been cleaned away."""

    def version(self, table: str, version: Version) -> Commit:
        if int(version) < 3:
            raise VersionExpired(f"version {version} of {table} has been cleaned away")
        return super().version(table, version)


class StoreWithoutFiles(MemoryStore):
    """One whose first versions are still in the log, and their files have been deleted."""

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        if at is not None and int(at) < 3:
            raise VersionExpired(f"version {at} of {table} has expired")
        return super().read(table, at, matching)


@pytest.mark.parametrize("kind", [ForgetfulStore, StoreWithoutFiles])
def test_epochs_that_were_cleaned_away_before_they_were_told(race: Race, kind: type[MemoryStore]) -> None:
    race.give(5)
    race.run().run(until_idle=True)
    race.give(4, 3, 2, 1)
    silent = race.run()
    silent.publisher = None
    silent.run(until_idle=True)
    forgetful = kind()
    forgetful.__dict__.update(race.store.__dict__)
    race.store = forgetful
    with pytest.raises(SinkChanged, match="holds epoch 0, and the epochs after it have expired"):
        race.run().run(until_idle=True)


def test_no_expiry_takes_what_a_sink_lacks_that_was_away_for_long(race: Race) -> None:
    """Another process expires, as ``headwater expire`` does."""
    race.give(5, 3)
    with pytest.raises(SinkUnavailable):
        race.run(Fault(before=True, commit=2, passing=True), retries=0).run(until_idle=True)
    race.clock.sleep(timedelta(days=1))
    other = race.run()
    other.publisher = None
    briefly = Retention(duration=timedelta(seconds=1))
    assert not any(each.versions for each in Upkeep(other.ledger, race.store, briefly).expire(dry_run=False))
    race.give(4)
    run = race.run()
    run.run(until_idle=True)
    assert race.told() == [(3, 1), (4, 2), (5, 3)]
    race.clock.sleep(timedelta(days=1))
    assert any(each.versions for each in Upkeep(run.ledger, race.store, briefly).expire(dry_run=False))


@pytest.mark.slow
def test_a_broker_that_goes_down_in_the_middle_of_a_run(race: Race) -> None:
    race.give(5)
    runner = race.run(retries=0)
    runner.run(until_idle=True)
    race.give(3)
    race.broker.stop()
    try:
        with pytest.raises(SinkUnavailable, match="is the broker up"):
            runner.run(until_idle=True)
    finally:
        race.broker.start()
    assert runner.ledger.latest.epoch.number == 1
    race.clock = SystemClock()  # it takes the broker a moment to lead its partitions again
    race.run().run(until_idle=True)
    assert race.told() == [(3, 1), (5, 2)]
