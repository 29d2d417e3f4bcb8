"""Counts the orders of a shop on memory, from plain rows."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from attrs import define, field

from headwater.app.run.options import RunOptions
from headwater.app.run.replay import replay
from headwater.app.run.runner import Runner
from headwater.domain.service.base import ReadAt, Step
from headwater.domain.service.retraction import Measure, Retraction, RetractionSettings
from headwater.domain.table.change import Change
from headwater.domain.table.schema import Schema
from headwater.testing.clock import ManualClock
from tests.backends import Backend, memory_backend
from tests.rows_source import RowsSource

SCHEMA = Schema.parse(
    "id bigint, state string, amount decimal(9,2), buyer string, score double, mtime timestamp, gone timestamp,"
    " file string, pos bigint"
)

Answers = list[tuple[Any, ...]]


def measures(schema: Schema = SCHEMA, **texts: str) -> list[Measure]:
    """Measures by name."""
    return [Measure.parse(name, text, None, schema) for name, text in texts.items()]


def settings(**changed: Any) -> RetractionSettings:
    """Orders by state, as far as nothing else is said."""
    plain = {
        "pipeline": "p",
        "schema": SCHEMA,
        "group": ["state"],
        "measures": measures(orders="count(*)"),
        "updated_at": "mtime",
    }
    return RetractionSettings(**(plain | changed))


def moment(text: str) -> datetime:
    """A time of March 2024 in UTC, such as ``01 09:00``."""
    return datetime.fromisoformat(f"2024-03-{text}").replace(tzinfo=UTC)


def march(day: int) -> date:
    """A day of March 2024."""
    return date(2024, 3, day)


def order(kind: str, state: str | None, at: str | None, amount: str | None = None, **more: Any) -> dict[str, Any]:
    """One image of an order."""
    money = None if amount is None else Decimal(amount)
    own = {"_row_kind": kind, "state": state, "mtime": at and moment(at), "amount": money}
    return own | more


@define(eq=False)
class Shop:
    """A pipeline that counts orders; every read is an epoch of a run of its own."""

    settings: RetractionSettings = field(factory=settings)
    options: RunOptions = field(factory=RunOptions)
    backend: Backend = field(factory=memory_backend)
    source: RowsSource = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.source = RowsSource(self.settings.schema, self.backend.frame)

    def runner(self) -> Runner:
        """A run of its own."""
        store, engine = self.backend.open(), self.backend.engine
        service = Retraction(self.settings, engine, self.backend.queries)
        return Runner("p", service, self.source, store, store, engine, ManualClock(), "run", self.options)

    def read(self, *rows: dict[str, Any]) -> None:
        """Read rows as one epoch."""
        self.source.give(rows)
        self.runner().run(until_idle=True)

    def replay(self, **mended: Any) -> None:
        """Give all rows these values, and read the dead letters again."""
        self.source.given = [{**row, **mended} for row in self.source.given]
        replay(self.runner())

    def roll(self, day: int) -> Step:
        """Cut the past at a day of March 2024."""
        runner = self.runner()
        service: Any = runner.service
        return runner.amend("roll", lambda _epoch, snapshot: service.roll(march(day), snapshot))

    def shows(self, view: str = "totals") -> Answers:
        """A view's rows, in order."""
        runner = self.runner()
        return _ordered(runner.service.view(view, ReadAt(runner.ledger.snapshot())))

    def holds(self, table: str, *columns: str) -> Answers:
        """What a table holds."""
        rows = self.runner().ledger.snapshot().read(f"p.{table}")
        return _ordered(rows.select(*columns) if columns else rows)

    def replace(self, table: str, rows: Answers) -> None:
        """Put other rows in a table's place."""
        runner = self.runner()
        schema = next(spec.schema for spec in runner.service.tables if spec.name == f"p.{table}")
        change = {f"p.{table}": Change(overwrite=self.backend.frame(rows, schema))}
        runner.amend("replace", lambda _epoch, _snapshot: Step(change, 0, 0, None))

    def changed(self, view: str, *, after: int) -> Answers:
        """Net changes of a view since an epoch."""
        runner = self.runner()
        ledger = runner.ledger
        before = next(each for each in ledger.publications() if each.epoch.number == after)
        net = runner.service.view_changes(view, ledger.snapshot(before), ledger.snapshot())
        names = next(each.schema.names for each in runner.service.views if each.name == view)
        return _ordered(net.select("_row_kind", *names))


def _ordered(rows: Any) -> Answers:
    found: Answers = rows.collect(backend="polars").rows()
    return sorted(found, key=lambda row: [(value is None, value) for value in row])
