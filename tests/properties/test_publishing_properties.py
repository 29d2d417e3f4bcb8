"""A reader of a topic has the view: over random lives of events, cuts into batches, crashes, faults and formats."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from attrs import define, evolve, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.adapters.kafka.settings import SinkSettings
from headwater.adapters.kafka.sink import KafkaSink
from headwater.adapters.records.json_rows import json_rows
from headwater.app.run.options import RunOptions
from headwater.app.run.runner import Runner
from headwater.app.run.sink_publisher import SinkPublisher
from headwater.domain.service.base import ReadAt
from headwater.domain.service.feed import FEED_FORMATS, Feed
from headwater.domain.service.ranking import Ranking, RankingSettings
from headwater.testing.clock import ManualClock
from headwater.testing.failing_store import Crash, FailingStore, Fault
from tests.backends import Backend, memory_backend
from tests.failing_sink import FailingSink
from tests.kafka_reading import Found, committed, replica
from tests.rows_source import RowsSource

from .effort import examples
from .ranking_oracle import SCHEMA, Row, apply, lives, ranks
from .test_ranking_properties import rankings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.domain.table.view_spec import ViewSpec
    from headwater.testing.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@define(eq=False)
class Trial:
    """One pipeline, and a topic that one of its views is published to."""

    broker: KafkaBroker
    ranking: RankingSettings
    source: RowsSource
    view: str
    format: str
    kept: bool
    topic: str = field(init=False, factory=lambda: f"teams-{uuid4().hex[:8]}")
    backend: Backend = field(init=False, factory=memory_backend)
    clock: ManualClock = field(init=False, factory=ManualClock)

    @property
    def service(self) -> Ranking:
        return Ranking(self.ranking, self.backend.engine)

    @property
    def spec(self) -> ViewSpec:
        return next(view for view in self.service.views if view.name == self.view)

    def runner(self, size: int, store_fault: Fault | None = None, sink_fault: Fault | None = None) -> Runner:
        store, engine = self.backend.open(), self.backend.engine
        kafka = KafkaSink(SinkSettings(self.broker.servers, self.topic), Feed("teams", self.spec, self.format), engine)
        sink = FailingSink(kafka, sink_fault) if sink_fault else kafka
        table = f"teams.{self.view}" if self.kept else None
        writer = uuid4().hex
        return Runner(
            "teams",
            self.service,
            evolve(self.source, limit=size),
            FailingStore(store, store_fault) if store_fault else store,
            store,
            engine,
            self.clock,
            writer,
            RunOptions(materialize=(self.view,) if self.kept else (), compact_every=2, retries=1),
            publisher=SinkPublisher(self.service, self.view, table, sink, engine, writer),
        )

    def run(self, *how: Any) -> None:
        try:
            self.runner(*how).run(until_idle=True)
        except Crash:
            return

    def shown(self) -> list[Row]:
        """The view as of the newest publication, in JSON's values."""
        rows = self.service.view(self.view, ReadAt(self.runner(1).ledger.snapshot()))
        names = self.spec.schema.names
        return _sorted(
            dict(zip(names, row, strict=True)) for row in json_rows(rows, self.spec.schema, self.backend.engine)
        )

    def followed(self) -> list[Row]:
        """What a follower of the topic has."""
        found = committed(self.broker, self.topic)
        return _sorted({"json": replica, "upsert-json": _upserted, "debezium-json": _captured}[self.format](found))


def _sorted(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["id"])


def _upserted(records: Iterable[Found]) -> list[Row]:
    rows: dict[str, Row] = {}
    for record in records:
        if record.value is None:
            del rows[json.dumps(record.key)]
        else:
            rows[json.dumps(record.key)] = record.value
    return list(rows.values())


def _captured(records: Iterable[Found]) -> list[Row]:
    rows: dict[str, Row] = {}
    for record in records:
        key = json.dumps(record.key)
        if record.value is None:
            assert key not in rows
            continue
        before, after = record.value["before"], record.value["after"]
        assert rows.pop(key, None) == before
        if after:
            rows[key] = after
    return list(rows.values())


@st.composite
def faults(draw: st.DrawFn) -> tuple[int, Fault | None, Fault | None]:
    """How many rows an epoch of a run holds, and where it dies or is disturbed: at the store, the sink, or both."""
    of = st.builds(Fault, before=st.booleans(), commit=st.integers(1, 4), passing=st.booleans())
    return draw(st.integers(1, 8)), draw(st.none() | of), draw(st.none() | of)


# Each example brings a topic and several runs, each of which looks at the topic: a second or two.
@settings(
    max_examples=examples(20),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_follower_has_the_view(kafka: KafkaBroker, data: st.DataObject) -> None:
    ranking = data.draw(rankings())
    source = RowsSource(SCHEMA, memory_backend().frame)
    events = data.draw(lives(ranking))
    view = data.draw(st.sampled_from(["ranks", "ranks", "top"]))
    trial = Trial(kafka, ranking, source, view, data.draw(st.sampled_from(FEED_FORMATS)), kept=data.draw(st.booleans()))
    kafka.create_topic(trial.topic, partitions=2)
    for run in data.draw(st.lists(faults(), max_size=3)):
        half = len(events) // 2
        source.give(events[:half])
        events = events[half:]
        trial.run(*run)
    source.give(events)
    trial.run(data.draw(st.integers(1, 8)))
    assert trial.followed() == trial.shown()
    if view == "ranks":
        expected = ranks(apply(source.given).values(), ranking)
        assert {row["id"]: row["rank"] for row in trial.followed()} == expected
