"""The pipeline of the ranking features: contracts of projects, over the backend of a scenario."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from attrs import define, evolve, field, frozen

from headwater.app.outlet import Outlet
from headwater.app.runner import Runner, RunOptions
from headwater.domain.changelog.feed import Feed
from headwater.domain.changelog.row_kind import row_kind
from headwater.domain.ranking import Ranking, RankingSettings
from headwater.domain.schema import Schema
from headwater.testing.clock import ManualClock
from headwater.testing.failing_sink import FailingSink
from headwater.testing.failing_store import Crash, FailingStore, Fault
from headwater.testing.rows_source import RowsSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import narwhals as nw

    from headwater.domain.ports import FrameEngine, StreamSink
    from headwater.domain.service import ViewSpec
    from headwater.testing.backends import Backend
    from headwater.testing.kafka_broker import KafkaBroker

__all__ = ["Contracts", "Crash", "Topic", "plain_cells", "table_rows"]

SCHEMA = Schema.parse("project bigint, contract bigint, sign_time timestamp, amount decimal(18,2)")
_PLAIN = RankingSettings("contract_rank", SCHEMA, ["project"], ["contract"], "sign_time", event_time="sign_time")
_MOMENTS = {
    "before the first commit": Fault(before=True, commit=1),
    "after the first commit": Fault(before=False, commit=1),
    "before the publication": Fault(before=True, commit=2),
    "after the publication": Fault(before=False, commit=2),
}
_SINK_MOMENTS = {
    "before it tells the topic": Fault(before=True, commit=1),
    "right after it has told the topic": Fault(before=False, commit=1),
}


@frozen
class Topic:
    """A topic of a real broker, which the ranks are published to."""

    broker: KafkaBroker
    name: str

    def sink(self, pipeline: str, view: ViewSpec, engine: FrameEngine) -> StreamSink:
        from headwater.adapters.kafka.settings import SinkSettings
        from headwater.adapters.kafka.sink import KafkaSink

        return KafkaSink(SinkSettings(self.broker.servers, self.name), Feed(pipeline, view), engine)


@define(eq=False)
class Contracts:
    """One pipeline; each `run` is a run of its own, as after a restart."""

    backend: Backend
    settings: RankingSettings = field(factory=lambda: _PLAIN)
    materialize: tuple[str, ...] = ()
    changelog: bool = False
    topic: Topic | None = None
    clock: ManualClock = field(factory=ManualClock)
    source: RowsSource = field(init=False)
    _reader: Runner | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.source = RowsSource(SCHEMA, self.backend.frame)

    @property
    def schema(self) -> Schema:
        return self.settings.schema

    def configure(self, **settings: Any) -> None:
        self.settings = evolve(self.settings, **settings)

    def give(self, datatable: list[list[str]]) -> None:
        """Let the rows of a scenario's table come."""
        names, *rows = datatable
        self.source.give([self._row(dict(zip(names, row, strict=True))) for row in rows])
        self.source.limit = len(rows) or 1

    def _row(self, cells: dict[str, str]) -> dict[str, Any]:
        row: dict[str, Any] = {name: int(cells[name]) if cells[name] else None for name in ("project", "contract")}
        if cells["sign_time"]:
            row["sign_time"] = datetime.fromisoformat(cells["sign_time"]).replace(tzinfo=UTC)
        return row | ({"_row_kind": row_kind(cells["kind"])} if self.changelog else {})

    def runner(self, fault: Fault | None = None, sink_fault: Fault | None = None) -> Runner:
        """A new run."""
        store = self.backend.open()
        service = Ranking(self.settings, self.backend.engine)
        failing = FailingStore(store, fault) if fault else store
        options = RunOptions(materialize=self.materialize, compact_every=0)
        return Runner(
            self.settings.pipeline,
            service,
            self.source,
            failing,
            store,
            self.backend.engine,
            self.clock,
            uuid4().hex,
            options,
            outlet=self._outlet(service, sink_fault),
        )

    def _outlet(self, service: Ranking, fault: Fault | None) -> Outlet | None:
        if self.topic is None:
            return None
        sink = self.topic.sink(self.settings.pipeline, service.views[0], self.backend.engine)
        table = f"{self.settings.pipeline}.ranks" if "ranks" in self.materialize else None
        return Outlet(service, "ranks", table, FailingSink(sink, fault) if fault else sink, self.backend.engine)

    def run(self) -> None:
        self.runner().run(until_idle=True)

    def run_dying(self, moment: str) -> None:
        self.runner(_MOMENTS.get(moment), _SINK_MOMENTS.get(moment)).run(until_idle=True)

    def run_with_a_fault(self) -> None:
        self.runner(Fault(before=True, commit=2, passing=True)).run(until_idle=True)

    def run_with_a_sink_fault(self) -> None:
        self.runner(sink_fault=Fault(before=True, commit=1, passing=True)).run(until_idle=True)

    def second_run(self) -> Runner:
        second = self.runner()
        assert second.ledger.latest is not None
        second.source = RowsSource(SCHEMA, self.backend.frame, given=[*self.source.given, self._row(_ANOTHER)])
        return second

    def compact(self) -> None:
        runner = self.reader()
        for spec in runner.tables:
            runner.keeper.compact(spec.name)

    def reader(self) -> Runner:
        """One that only reads, at the newest publication there is now."""
        if self._reader is None or self._reader.options.materialize != self.materialize:
            self._reader = self.runner()
        self._reader.ledger.open()
        return self._reader

    def view(self, name: str, *, epoch: int | None = None, as_of: datetime | None = None) -> nw.LazyFrame[Any]:
        runner = self.reader()
        publication = None if epoch is None else runner.ledger.as_of_epoch(epoch)
        return runner.service.view(name, runner.ledger.snapshot(publication), as_of=as_of)

    def changes(self) -> nw.LazyFrame[Any]:
        """What the newest epoch moved."""
        runner = self.reader()
        newest, before, *_ = runner.ledger.publications()
        snapshots = (runner.ledger.snapshot(newest), runner.ledger.snapshot(before))
        return runner.service.view("changes", snapshots[0], since=snapshots[1])

    def stored(self, table: str) -> nw.LazyFrame[Any]:
        return self.reader().ledger.snapshot().read(f"{self.settings.pipeline}.{table}")

    def published(self) -> int:
        return len(list(self.reader().ledger.publications()))


_ANOTHER = {"project": "3", "contract": "31", "sign_time": "2024-03-07 08:00"}


def table_rows(frame: nw.LazyFrame[Any], names: Sequence[str]) -> list[tuple[str, ...]]:
    """Some columns of a frame as a scenario's table writes them, sorted."""
    return sorted(tuple(map(_cell, row)) for row in frame.select(*names).collect(backend="polars").rows())


def plain_cells(rows: Iterable[Mapping[str, object]], names: Sequence[str]) -> list[tuple[str, ...]]:
    """Some fields of a topic's rows as a scenario's table writes them, in their order."""
    return [tuple(_cell(row[name]) for name in names) for row in rows]


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return "" if value is None else str(value)
