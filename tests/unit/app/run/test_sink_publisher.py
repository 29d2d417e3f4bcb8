"""Two runs of one pipeline that publishes to a topic, one of them paused just before it claims the topic."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from attrs import define, field

from headwater.adapters.memory.store import MemoryStore
from headwater.adapters.polars.engine import PolarsEngine
from headwater.app.run.options import RunOptions
from headwater.app.run.runner import Runner
from headwater.app.run.sink_publisher import SinkPublisher
from headwater.domain.errors import EpochConflict
from headwater.domain.ports import Receipt, StreamSink
from headwater.domain.service.ranking import Ranking, RankingSettings
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

    def publish(self, changes: nw.LazyFrame[Any], publication: Publication) -> None:  # noqa: ARG002 - as the port has it
        if self.topic.owner is not self:
            raise EpochConflict("another run publishes to the topic by now")
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
        engine, writer = PolarsEngine(), uuid4().hex
        service = Ranking(_SETTINGS, engine)
        publisher = SinkPublisher(service, "ranks", None, Producer(self.topic, before_claim), engine, writer)
        parts = (service, self.source, self.store, self.store, engine, ManualClock(), writer)
        return Runner("race", *parts, RunOptions(compact_every=0, retries=0), publisher=publisher)

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
