"""Two runs of one pipeline that publishes to a topic, one of them paused just before it claims the topic."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from attrs import define, evolve, field

from headwater.adapters.memory.store import MemoryStore
from headwater.adapters.polars.engine import PolarsEngine
from headwater.app.run.alerts import alarms_of
from headwater.app.run.options import RunOptions
from headwater.app.run.runner import Runner
from headwater.app.run.sink_publisher import SinkPublisher
from headwater.domain.errors import EpochConflict, SinkChanged
from headwater.domain.ports import Receipt, StreamSink
from headwater.domain.service.ranking import Ranking, RankingSettings
from headwater.domain.table.collect import collect_small
from headwater.domain.table.row_kind import DELETE, ROW_KIND, UPDATE_BEFORE
from headwater.domain.table.schema import Schema
from headwater.testing.clock import ManualClock
from headwater.testing.frames import polars_frame
from tests.rows_source import RowsSource

if TYPE_CHECKING:
    from collections.abc import Callable

    import narwhals as nw

    from headwater.domain.epoch.epoch import Publication

pytestmark = pytest.mark.local

_SCHEMA = Schema.parse("team bigint, id bigint, at timestamp")
_SETTINGS = RankingSettings("race", _SCHEMA, ["team"], ["id"], "at")


@define(eq=False)
class Topic:
    """What all runs publish to."""

    receipts: list[Receipt] = field(factory=list)
    owner: Producer | None = None
    rows: dict[int, Any] = field(factory=dict)
    """What a reader has, by id."""

    def apply(self, changes: nw.LazyFrame[Any]) -> None:
        """Apply the changes of an epoch, each of which must fit the rows so far."""
        rows = [dict(each) for each in collect_small(changes.sort("id", ROW_KIND, descending=[False, True]))]
        for kind, row in ((each.pop(ROW_KIND), each) for each in rows):
            if kind in {UPDATE_BEFORE, DELETE}:
                assert self.rows.pop(row["id"]) == row
            else:
                assert row["id"] not in self.rows
                self.rows[row["id"]] = row


@define(eq=False)
class Producer(StreamSink):
    """The sink of one run; a claim of another one fences it off.

    Args:
        topic: what it publishes to.
        before_claim: called just before each claim.
    """

    topic: Topic
    before_claim: Callable[[], None] = field(default=lambda: None)

    def published(self) -> Receipt | None:
        return self.topic.receipts[-1] if self.topic.receipts else None

    def claim(self) -> Receipt | None:
        self.before_claim()
        self.topic.owner = self
        return self.published()

    def publish(self, changes: nw.LazyFrame[Any], publication: Publication) -> None:
        if self.topic.owner is not self:
            raise EpochConflict("another run publishes to the topic by now")
        self.topic.apply(changes)
        self.topic.receipts.append(Receipt.of(publication))


@define(eq=False)
class Race:
    """A pipeline on the memory backend."""

    topic: Topic = field(factory=Topic)
    store: MemoryStore = field(factory=MemoryStore)
    source: RowsSource = field(factory=lambda: RowsSource(_SCHEMA, polars_frame, limit=1))

    def give(self, *ids: int) -> None:
        """Add one epoch for each id."""
        self.source.give([{"team": 1, "id": id_, "at": datetime(2024, 1, id_, tzinfo=UTC)} for id_ in ids])

    def begin(self, before_claim: Callable[[], None] = lambda: None) -> Runner:
        return self._runner(_SETTINGS, "ranks", (), before_claim)

    def run_top(self, top: int, *, stored: bool, published: bool = True) -> Runner:
        """Run with view `top` of so many rows, which is perhaps materialized, and perhaps published."""
        runner = self._runner(evolve(_SETTINGS, top=top), "top", ("top",) if stored else ())
        if not published:
            runner.publisher = None
        runner.run(until_idle=True)
        return runner

    def _runner(
        self,
        settings: RankingSettings,
        view: str,
        stored: tuple[str, ...],
        before_claim: Callable[[], None] = lambda: None,
    ) -> Runner:
        engine, writer = PolarsEngine(), uuid4().hex
        service, table = Ranking(settings, engine), f"race.{view}" if view in stored else None
        publisher = SinkPublisher(service, view, table, Producer(self.topic, before_claim), engine, writer)
        parts = (service, self.source, self.store, self.store, engine, ManualClock(), writer)
        options = RunOptions(materialize=stored, compact_every=0, retries=0)
        return Runner("race", *parts, options, publisher=publisher)

    @property
    def epochs(self) -> list[int]:
        return [receipt.epoch for receipt in self.topic.receipts]


def test_the_run_that_has_written_the_tables_since_publishes_on() -> None:
    race = Race()
    second = race.begin()

    def take_over() -> None:
        if not race.topic.receipts:
            race.give(2)
            second.run(until_idle=True)

    race.give(1)
    with pytest.raises(EpochConflict, match="another writer is at work"):
        race.begin(take_over).run(until_idle=True)
    assert race.epochs == [0, 1]
    race.give(3)
    second.run(until_idle=True)
    assert race.epochs == [0, 1, 2]


def test_the_run_that_was_paused_publishes_on_if_the_other_one_has_not_written() -> None:
    race = Race()
    race.give(1)
    first = race.begin()
    first.run(until_idle=True)
    second = race.begin()
    race.give(2)
    stuck, first.publisher = first.publisher, None  # it has published, and hangs before it publishes to the sink
    first.run(until_idle=True)
    first.publisher = stuck
    assert second.publisher
    second.publisher.catch_up(second.ledger, rows=None)
    race.give(3)
    first.run(until_idle=True)
    race.give(4)
    with pytest.raises(EpochConflict, match="another writer is at work"):
        second.run(until_idle=True)
    assert race.epochs == [0, 1, 2]


def test_a_run_claims_the_topic_only_once_more() -> None:
    """An epoch that takes longer than the broker waits is fenced off each time."""
    race = Race()
    race.give(1)
    run = race.begin()
    run.run(until_idle=True)
    assert run.publisher
    run.publisher.sink = fenced = _Fenced(race.topic)
    race.give(2)
    with pytest.raises(EpochConflict, match="another run publishes"):
        run.run(until_idle=True)
    assert fenced.claims == 1


@define(eq=False)
class _Fenced(Producer):
    """A sink that loses each claim before the epoch is sent."""

    claims: int = 0

    def claim(self) -> Receipt | None:
        self.claims += 1
        return self.published()


ON, OUT = {"stored": True}, {"published": False}
OFF = {"stored": False}


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([(3, OFF), (1, ON)], id="stored only with the edit"),
        pytest.param([(1, ON), (1, OFF), (3, ON)], id="stored before, not when it is edited"),
        pytest.param([(1, OFF), (3, ON | OUT), (3, ON)], id="edited while it is not published"),
        pytest.param([(1, ON), (3, OFF | OUT), (3, ON)], id="edited while it is neither stored nor published"),
        pytest.param([(1, OFF), (3, ON | OUT), (1, ON)], id="edited and set back, stored by the edited settings"),
        pytest.param([(1, OFF), (1, ON | OUT), (3, ON | OUT), (3, ON)], id="the sink has no epoch that is stored"),
    ],
)
def test_an_edited_view_whose_former_rows_no_table_has_is_refused(runs: list[tuple[int, dict[str, bool]]]) -> None:
    race = Race()
    *before, last = runs
    race.give(2, 3, 4, 5)
    for top, how in before:
        race.run_top(top, **how)
        race.give(1)
    told = dict(race.topic.rows)
    with pytest.raises(SinkChanged, match="settings of view 'top' were edited"):
        race.run_top(last[0], **last[1])
    assert race.topic.rows == told


@pytest.mark.parametrize("first", [3, 1])
def test_an_edited_view_that_was_stored_before_sends_the_difference(first: int) -> None:
    race = Race()
    for day, (top, how) in enumerate([(first, OFF), (first, ON), (4 - first, ON), (2, ON)], 1):
        race.give(10 - 2 * day, 11 - 2 * day)
        race.run_top(top, **how)
    assert {id_: row["rank"] for id_, row in race.topic.rows.items()} == {2: 1, 3: 2}


def test_a_sink_that_cannot_be_continued_is_an_alarm() -> None:
    """The run has ended with the same error, and nobody may have seen it."""
    race = Race()
    race.give(2, 3)
    race.begin().run(until_idle=True)
    looks = race.begin()
    assert list(alarms_of(looks, looks.ledger.latest)) == []
    race.store, race.source.limit = MemoryStore(), 2
    race.give(1, 4)
    with pytest.raises(SinkChanged, match="not from these tables") as stopped:
        race.begin().run(until_idle=True)
    looks = race.begin()
    assert [each.text for each in alarms_of(looks, looks.ledger.latest)] == [str(stopped.value)]


def test_settings_that_are_set_back_before_an_epoch_are_continued() -> None:
    race = Race()
    race.give(2, 3, 4)
    race.run_top(2, stored=False)
    race.give(1)
    with pytest.raises(SinkChanged):
        race.run_top(3, stored=False)
    for id_ in (5, 6):
        race.run_top(2, stored=False)
        race.give(id_)
    race.run_top(2, stored=False)
    assert (race.epochs[-1], sorted(race.topic.rows)) == (5, [1, 2])


@pytest.mark.parametrize("stored", [True, False])
def test_a_new_topic_is_continued_with_the_edited_view(*, stored: bool) -> None:
    race = Race()
    race.give(2, 3, 4)
    race.run_top(1, stored=stored)
    race.topic = Topic()
    race.run_top(3, stored=stored)
    assert race.topic.rows == {}  # the next epoch is the first one of these rows
    for id_ in (5, 1):
        race.give(id_)
        race.run_top(3, stored=stored)
    assert sorted(race.topic.rows) == [1, 2, 3]
