"""How a view finds the rows of its inputs that a change concerns: all of them, and only them."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest

from headwater.adapters.memory.store import MemoryStore
from headwater.domain.service.base import ReadAt
from headwater.testing.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.domain.ports import Version
    from headwater.domain.table.change import Matching

STATES = """
[backend]
name = "memory"
[sources.orders]
kind = "files"
path = "orders"
schema = "id bigint, state string, size int, at timestamp"
event_time = "at"
[pipelines.states]
service = "retraction"
source = "orders"
group = ["state"]
measures = { orders = "count(*)", sizes = "count(distinct size)" }
updated_at = "at"
[pipelines.firsts]
service = "ranking"
source = "orders"
group = ["size"]
id = ["id"]
order_by = "at"
[pipelines.minutes]
service = "cumulate"
source = "orders"
dimensions = [["state", "size"]]
measures = { orders = "count(*)" }
size = "1h"
step = "1m"
[pipelines.wanted]
service = "wide_table"
key = ["id", "size"]
[pipelines.wanted.topics.o]
source = "orders"
columns = ["state", "at"]
sequence = ["at"]
[pipelines.alike]
service = "materialized_view"
inputs = { w = "wanted.rows", s = "states.totals" }
align = "newest"
key = ["id", "state"]
sql = "SELECT w.id, coalesce(s.state, 'none') AS state, s.orders FROM w JOIN s ON s.orders = w.id"
[pipelines.small]
service = "materialized_view"
inputs = { w = "wanted.rows" }
key = ["size"]
sql = "SELECT size * 1000000000 AS size, count(*) AS n FROM w WHERE size < 3 GROUP BY size * 1000000000"
"""
READ = {
    "states.totals": "states.sums",
    "states.by_day": "states.sums",
    "firsts.ranks": "firsts.ranked",
    "minutes.ticks": "minutes.points",
    "wanted.rows": "wanted.wide",
    "wanted.completeness": "wanted.wide",
}
"""The table with the rows of each view."""
NOT_NARROWED = (["day"], ["window_start"], ["tick"], ["grouping"])
"""By what the table has in another form, or what all of its rows have, all rows are read."""


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with ExitStack() as exits:
        found = Trial(tmp_path, "memory", exits)
        found.deploy(STATES)
        order(found, (1, None, 3), (2, "new", 3), (3, "new", 4), (4, None, 3), (5, "", 0), (6, "paid", 3))
        found.run()
        yield found


def order(trial: Trial, *rows: tuple[int, str | None, int]) -> None:
    named = [
        {"id": each, "state": state, "size": size, "at": f"2024-03-01T09:{each:02}:00Z"} for each, state, size in rows
    ]
    trial.feed("orders", map(json.dumps, named))


def test_rows_with_null_in_their_key_are_found_by_an_index(trial: Trial) -> None:
    def shown() -> list[tuple[Any, ...]]:
        return sorted(trial.reader.view("alike").rows())

    empty, paid = (1, "", 1), (1, "paid", 1)
    assert shown() == [empty, paid, (2, "new", 2), (2, "none", 2)]
    order(trial, (7, None, 3))
    trial.run()
    assert shown() == [empty, paid, (2, "new", 2), (3, "none", 3)]
    order(trial, (8, "new", 3), (9, "paid", 3))
    trial.run()
    assert shown() == [empty, (2, "paid", 2), (3, "new", 3), (3, "none", 3)]
    whole = [row["whole"] for row in trial.reader.view("alike.recomputed").sort("epoch").to_dicts()]
    assert whole == [True, False, False]


def test_rows_that_the_query_leaves_out_may_have_values_that_cannot_be_computed(trial: Trial) -> None:
    def shown() -> list[tuple[Any, ...]]:
        return sorted(trial.reader.view("small").rows())

    assert shown() == [(0, 1)]
    order(trial, (7, "new", 2), (8, "new", 3))
    trial.run()
    assert shown() == [(0, 1), (2_000_000_000, 1)]
    order(trial, (9, "new", 2))
    trial.run()
    assert shown() == [(0, 1), (2_000_000_000, 2)]
    whole = [row["whole"] for row in trial.reader.view("small.recomputed").sort("epoch").to_dicts()]
    assert whole == [True, True, False]


@pytest.mark.parametrize("name", READ)
def test_a_lookup_by_some_of_the_key_reads_only_these_rows(
    trial: Trial, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, _, view = name.partition(".")
    (runner,) = trial.open().start([pipeline])
    at, key = ReadAt(runner.ledger.snapshot()), runner.service.known(view).key
    rows = runner.service.view(view, at).collect(backend="polars").to_native()
    reads = watch(monkeypatch, READ[name])
    for columns in (*([each] for each in key), list(key)):
        keys = rows.select(columns).drop_nulls().unique(maintain_order=True).gather_every(2)
        reads.clear()
        found = runner.service.lookup(view, at, nw.from_native(keys.lazy())).collect(backend="polars").to_native()
        assert sorted(found.rows(), key=repr) == sorted(rows.join(keys, on=columns, how="semi").rows(), key=repr)
        assert reads
        assert all(matching and matching.keys is not None for matching in reads) or columns in NOT_NARROWED


def watch(monkeypatch: pytest.MonkeyPatch, table: str) -> list[Matching | None]:
    """The reads of a table from now on."""
    found: list[Matching | None] = []
    read = MemoryStore.read

    def watched(
        self: MemoryStore, name: str, at: Version | None, matching: Matching | None = None
    ) -> nw.LazyFrame[Any]:
        if name == table:
            found.append(matching)
        return read(self, name, at, matching)

    monkeypatch.setattr(MemoryStore, "read", watched)
    return found
