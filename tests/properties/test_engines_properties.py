"""Two engines over the same Delta tables: each epoch runs on either, crashes and all, and the answers are the oracle's."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from attrs import evolve, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.app.run.options import RunOptions
from headwater.app.run.runner import Runner
from headwater.domain.service.base import ReadAt
from headwater.domain.service.ranking import Ranking
from headwater.domain.service.retraction import Retraction
from headwater.testing.clock import ManualClock
from headwater.testing.failing_store import Crash, FailingStore, Fault
from headwater.testing.frames import polars_frame
from tests.backends import delta_backend, local_delta_backend
from tests.rows_source import RowsSource

from .effort import examples
from .ranking_oracle import SCHEMA, Row, apply, lives, ranks
from .test_ranking_properties import faults, rankings
from .test_repeat_properties import CHOSEN, TOLD, Epochs, Oracle, streams

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.domain.service.base import Service
    from headwater.domain.service.ranking import RankingSettings
    from tests.backends import Backend

_ENGINES = ("spark", "local")
few = settings(
    max_examples=examples(12),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)


@frozen
class Turn:
    """An epoch that is begun, or taken up.

    Args:
        engine: what it runs on.
        limit: the number of rows that it reads, if it is new.
        fault: where it dies, if it does.
    """

    engine: str
    limit: int
    fault: Fault | None


turns = st.lists(
    st.builds(Turn, st.sampled_from(_ENGINES), st.integers(1, 12), st.none() | faults()), min_size=2, max_size=6
)


@frozen(eq=False)
class Pipeline:
    """A pipeline whose every epoch runs as after a restart.

    Args:
        name: its name.
        backends: by engine, over the same tables.
        service: made on a backend.
        source: the rows.
    """

    name: str
    backends: dict[str, Backend]
    service: Callable[[Backend], Service]
    source: RowsSource

    def runner(self, engine: str, limit: int = 1_000_000, fault: Fault | None = None) -> Runner:
        backend = self.backends[engine]
        store = backend.open()
        failing = FailingStore(store, fault) if fault else store
        source = evolve(self.source, frame=backend.frame, limit=limit)
        options = RunOptions(compact_every=2, retries=1)
        service, engine, me = self.service(backend), backend.engine, uuid4().hex
        return Runner(self.name, service, source, failing, store, engine, ManualClock(), me, options)

    def take(self, turn: Turn) -> None:
        try:
            self.runner(turn.engine, turn.limit, turn.fault).advance()
        except Crash:
            return

    def finish(self, engine: str) -> None:
        self.runner(engine).run(until_idle=True)


@pytest.fixture
def opened(spark: SparkSession, tmp_path: Path) -> Callable[[], dict[str, Backend]]:
    """New tables, on both engines."""

    def open_() -> dict[str, Backend]:
        folder = str(tmp_path / uuid4().hex)
        return {"spark": delta_backend(spark, folder), "local": local_delta_backend(folder)}

    return open_


@st.composite
def ranked(draw: st.DrawFn) -> tuple[RankingSettings, list[Row]]:
    ranking = draw(rankings())
    return ranking, draw(lives(ranking))


@pytest.mark.delta
@pytest.mark.slow
@given(ranked=ranked(), turns=turns, last=st.sampled_from(_ENGINES))
@few
def test_ranks_of_two_engines(
    opened: Callable[[], dict[str, Backend]], ranked: tuple[RankingSettings, list[Row]], turns: list[Turn], last: str
) -> None:
    ranking, events = ranked
    source = RowsSource(SCHEMA, polars_frame, given=events)
    pipeline = Pipeline("teams", opened(), lambda backend: Ranking(ranking, backend.engine), source)
    for turn in turns:
        pipeline.take(turn)
    pipeline.finish(last)
    for engine in _ENGINES:
        reader = pipeline.runner(engine)
        for publication in reader.ledger.publications():
            alive = apply(events[: publication.offsets["rows"]])
            rows = reader.service.view("ranks", ReadAt(reader.ledger.snapshot(publication))).collect(backend="polars")
            assert dict(rows.select("id", "rank").rows()) == ranks(alive.values(), ranking)
            assert len(rows) == len(ranks(alive.values(), ranking))


@pytest.mark.delta
@pytest.mark.slow
@given(epochs=streams(), turns=turns, last=st.sampled_from(_ENGINES))
@few
def test_counts_of_two_engines(
    opened: Callable[[], dict[str, Backend]], epochs: Epochs, turns: list[Turn], last: str
) -> None:
    source, sent = RowsSource(TOLD, polars_frame), [each for epoch, _ in epochs for each in epoch]
    for each in sent:
        source.give(each.rows(len(source.given)))
    oracle = Oracle()
    oracle.read(sent)
    pipeline = Pipeline("states", opened(), lambda each: Retraction(CHOSEN, each.engine, each.queries), source)
    for turn in turns:
        pipeline.take(turn)
    pipeline.finish(last)
    for engine in _ENGINES:
        reader = pipeline.runner(engine)
        snapshot = reader.ledger.snapshot()
        rows = reader.service.view("totals", ReadAt(snapshot)).collect(backend="polars").rows()
        assert (Counter(dict(rows)), reader.service.repeats(snapshot)) == oracle.answers
