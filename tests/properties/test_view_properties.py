"""Views kept by their changes against their query over everything, over random changes, crashes and lost histories."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import polars as pl
import pytest
from attrs import define, field, frozen
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headwater.adapters.memory.queries import DuckQueries
from headwater.adapters.memory.store import MemoryStore
from headwater.adapters.polars.engine import PolarsEngine
from headwater.adapters.polars.schema import lazy, polars_schema
from headwater.app.run.options import RunOptions
from headwater.app.run.runner import Runner
from headwater.app.services.shapes import ValueTypes, columns_of
from headwater.domain.epoch.batch import Batch, KeyedInput
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.ports import Source
from headwater.domain.service.base import ReadAt
from headwater.domain.service.input import ViewOf
from headwater.domain.service.materialized_view import MaterializedView, Shapes, ViewPlan, ViewSettings
from headwater.domain.table.net_changes import net_changes
from headwater.domain.table.view_spec import ViewSpec
from headwater.testing.clock import ManualClock
from headwater.testing.failing_store import Crash, FailingStore, Fault

from .effort import examples
from .view_shapes import SHAPES, TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import narwhals as nw

    from headwater.domain.epoch.epoch import Epoch, Offsets
    from headwater.domain.ports import Now

_START = datetime(2024, 3, 7, tzinfo=UTC)

Rows = dict[int, tuple[Any, ...]]
"""Rows of a table by their key."""
State = dict[str, Rows]


@frozen(eq=False)
class FrameInput(KeyedInput):
    """An input whose rows are given, now and before."""

    now: pl.DataFrame
    before: pl.DataFrame | None

    def rows(self) -> nw.LazyFrame[Any]:
        return lazy(self.now)

    def lookup(self, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return self.rows().join(keys, on=keys.collect_schema().names(), how="semi")

    def changes(self) -> nw.LazyFrame[Any] | None:
        return None if self.before is None else net_changes(lazy(self.before), self.rows(), ["id"])


@define(eq=False)
class States(Source):
    """Three tables, state after state; an epoch goes on to the newest."""

    states: list[State]
    format: str = "inputs"
    forgotten: set[int] = field(factory=set)

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:  # noqa: ARG002
        newest = len(self.states) - 1
        if after is not None and ViewPlan.of(after).inputs["o"] == newest:
            return None
        return OffsetRange(after, ViewPlan(dict.fromkeys(TABLES, newest), _START, _START, "same").to_offsets())

    @contextmanager
    def open(self, epoch: Epoch, offsets: OffsetRange) -> Iterator[Batch]:
        now = self.states[ViewPlan.of(offsets.until).inputs["o"]]
        at = None if offsets.after is None else ViewPlan.of(offsets.after).inputs["o"]
        was = None if at is None or at in self.forgotten else self.states[at]
        inputs = {name: FrameInput(frame(name, now), None if was is None else frame(name, was)) for name in TABLES}
        yield Batch(epoch, None, offsets, self.format, inputs=inputs)

    def lag(self, after: Offsets | None) -> str:  # noqa: ARG002
        return "nothing"


def frame(name: str, state: State) -> pl.DataFrame:
    return pl.DataFrame([(key, *row) for key, row in state[name].items()], polars_schema(TABLES[name]), orient="row")


def service(shape: str) -> MaterializedView:
    sql, key = SHAPES[shape].sql, SHAPES[shape].key
    chosen = ViewSettings("v", {name: ViewOf(name) for name in TABLES}, key, sql)
    inputs = {name: ViewSpec("rows", schema, ("id",), ("id",), "") for name, schema in TABLES.items()}
    shapes = Shapes(columns_of(sql, TABLES), inputs, ValueTypes(TABLES))
    return MaterializedView(chosen, shapes, PolarsEngine(), DuckQueries())


def answer(shape: str, state: State) -> list[tuple[Any, ...]]:
    """The oracle: the query over all there is, without rows that have no key."""
    rows = DuckQueries().query(SHAPES[shape].sql, {name: lazy(frame(name, state)) for name in TABLES})
    return _sorted(rows.to_native().collect().drop_nulls(SHAPES[shape].key))


def _sorted(rows: pl.DataFrame) -> list[tuple[Any, ...]]:
    return sorted(rows.rows(), key=repr)


_SMALL = st.one_of(st.none(), st.integers(0, 3))
_ROW = {
    "o": st.tuples(_SMALL, _SMALL, _SMALL),
    "c": st.tuples(st.sampled_from(["x", "y"]), _SMALL),
    "p": st.tuples(st.sampled_from(["x", "y"]), _SMALL),
    "s": st.tuples(*[_SMALL] * 4, st.none() | st.fixed_dictionaries({"e": _SMALL}), _SMALL),
}
_EDIT = st.sampled_from(sorted(TABLES)).flatmap(
    lambda name: st.tuples(st.just(name), st.integers(0, 5 if name == "o" else 3), st.none() | _ROW[name])
)
_EPOCHS = st.lists(st.lists(_EDIT, max_size=4), min_size=2, max_size=5)


def applied(state: State, edits: list[tuple[str, int, tuple[Any, ...] | None]]) -> State:
    state = {name: dict(rows) for name, rows in state.items()}
    for name, key, row in edits:
        if row is None:
            state[name].pop(key, None)
        else:
            state[name][key] = row
    return state


def replayed(held: list[tuple[Any, ...]], net: pl.DataFrame) -> list[tuple[Any, ...]]:
    """The rows after row kinds, none of which takes back what is not there."""
    held = list(held)
    for row in sorted(net.rows(named=True), key=lambda row: row["_row_kind"] in {"+I", "+U"}):
        image = tuple(value for name, value in row.items() if name != "_row_kind")
        if row["_row_kind"] in {"-U", "-D"}:
            held.remove(image)
        else:
            held.append(image)
    return sorted(held, key=repr)


_MATCHED = [("o", 1, (1, 2, 3)), ("s", 1, (1, 2, 3, 3, {"e": 1}, 2)), ("c", 1, ("x", 1)), ("p", 1, ("x", 2))]
"""Rows that match where a query compares several values."""


@pytest.mark.parametrize("shape", SHAPES)
@example(_MATCHED, [[(name, 2, row) for name, _, row in _MATCHED], [("s", 1, (3, 3, 1, 2, {"e": 1}, 1))]], None, None)
@settings(max_examples=examples(12), suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    first=st.lists(_EDIT, max_size=12),
    epochs=_EPOCHS,
    crash=st.none() | st.builds(Fault, st.booleans(), st.integers(1, 12)),
    lost=st.none() | st.integers(0, 3),
)
def test_a_view_is_its_query_over_everything(
    shape: str,
    first: list[tuple[str, int, Any]],
    epochs: list[list[tuple[str, int, Any]]],
    crash: Fault | None,
    lost: int | None,
) -> None:
    source = States([applied({name: {} for name in TABLES}, first)], forgotten=set() if lost is None else {lost})
    store, clock = MemoryStore(), ManualClock()

    def runner(crash: Fault | None = None) -> Runner:
        used = FailingStore(store, crash) if crash else store
        options = RunOptions(retries=0)
        return Runner("v", service(shape), source, used, store, PolarsEngine(), clock, uuid4().hex, options)

    kept, before = runner(crash), None
    for edits in [[], *epochs]:
        source.states.append(applied(source.states[-1], edits))
        try:
            kept.advance()
        except Crash:
            kept = runner()
            kept.advance()
        snapshot = kept.current_ledger().snapshot()
        shown = _sorted(kept.service.view("rows", ReadAt(snapshot)).to_native().collect())
        assert shown == answer(shape, source.states[-1])
        if before is not None:
            net = kept.service.view_changes("rows", before[0], snapshot).to_native().collect()
            assert replayed(before[1], net) == shown
        before = snapshot, shown
