"""Changes with positions that arrive in any order, and again: rows as of each time, against plain Python."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.testing.trial import Trial
from tests.spark_fixtures import compact_few_files

from .effort import examples

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from pyspark.sql import SparkSession

_DEPLOYMENT = """
[backend]
name = "memory"

[sources.log]
kind = "files"
path = "log"
schema = "kind string, id bigint, owner string, at timestamp, pos bigint"
row_kind = "kind"
event_time = "at"
watermark_delay = "1h"

[pipelines.accounts]
service = "bulk_merge"
key = ["id"]
columns = ["owner"]
changelog = "log"
position = "pos"
bulk = { path = "bulk", format = "json", search_ts = "read_at" }
"""
_KEYS = 3
_FIRST, _STEP = 10, 2
"""The second and position of the first change, and the distance to the next one."""


@frozen
class Arrival:
    """The log of a table, and the places of its changes in the epochs that read them.

    Args:
        loaded: the keys of the bulk.
        log: each change's kind, key and value, in the order of the database.
        epochs: the numbers of the changes that each epoch reads.
    """

    loaded: frozenset[int]
    log: tuple[tuple[str, int, str], ...]
    epochs: tuple[tuple[int, ...], ...]

    def rows(self, second: int) -> list[tuple[int, str]]:
        """The rows as of a second."""
        found = dict.fromkeys(self.loaded, "bulk")
        for at, (kind, key, value) in enumerate(self.log):
            if _second(at) <= second:
                found = {each: kept for each, kept in found.items() if each != key}
                found |= {} if kind == "-D" else {key: value}
        return sorted(found.items())


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    """Any log of up to twelve changes. Each arrives at any place, and some twice."""
    kinds = st.sampled_from(["+I", "+U", "-D"])
    log = draw(st.lists(st.tuples(kinds, st.integers(1, _KEYS), st.sampled_from("abc")), min_size=2, max_size=12))
    order = [*draw(st.permutations(range(len(log)))), *draw(st.lists(st.integers(0, len(log) - 1), max_size=3))]
    cuts = sorted(draw(st.sets(st.integers(1, len(order)), max_size=5)) | {0, len(order)})
    epochs = tuple(tuple(order[low:high]) for low, high in itertools.pairwise(cuts))
    return Arrival(draw(st.frozensets(st.integers(1, _KEYS))), tuple(log), epochs)


def _second(at: int) -> int:
    return _FIRST + _STEP * at


def _time(second: int) -> datetime:
    return datetime(2024, 3, 1, 9, tzinfo=UTC) + timedelta(seconds=second)


def _line(kind: str, key: int, value: str, second: int) -> str:
    return json.dumps({"kind": kind, "id": key, "owner": value, "at": _time(second).isoformat(), "pos": second})


def _hold(trial: Trial, arrival: Arrival) -> None:
    trial.deploy(_DEPLOYMENT)
    if arrival.loaded:
        lines = [[str(key), "bulk", "1", _time(0).isoformat()] for key in sorted(arrival.loaded)]
        trial.fill("accounts", [["id", "owner", "pos", "read_at"], *lines])
    trial.feed("log", [_line("-D", 0, "", _FIRST - 1)])  # the load is done from here on
    trial.run()
    trial.run()
    for epoch in arrival.epochs:
        trial.feed("log", [_line(*arrival.log[at], _second(at)) for at in epoch])
        trial.run()
    last = _second(len(arrival.log))
    for second in range(_FIRST - 1, last + 1):
        assert _rows(trial, _time(second)) == arrival.rows(second), second
    assert _rows(trial) == arrival.rows(last)


def _rows(trial: Trial, as_of: datetime | None = None) -> list[tuple[Any, ...]]:
    return sorted(trial.reader.answer("accounts.rows", as_of=as_of).frame.collect(backend="polars").rows())


_EFFORT = {"derandomize": True, "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / uuid4().hex
    folder.mkdir()
    return folder


@given(arrival=arrivals())
@settings(max_examples=examples(100), **_EFFORT)
def test_rows_as_of_a_time_on_memory(tmp_path: Path, exits: ExitStack, arrival: Arrival) -> None:
    _hold(Trial(_folder(tmp_path), "memory", exits), arrival)


@given(arrival=arrivals())
@settings(max_examples=examples(30), **_EFFORT)
def test_rows_as_of_a_time_on_local_delta(tmp_path: Path, exits: ExitStack, arrival: Arrival) -> None:
    _hold(Trial(_folder(tmp_path), "delta:local", exits), arrival)


@pytest.mark.delta
@pytest.mark.slow
@given(arrival=arrivals())
@settings(max_examples=3, **_EFFORT)
def test_rows_as_of_a_time_on_delta(spark: SparkSession, tmp_path: Path, exits: ExitStack, arrival: Arrival) -> None:
    _hold(Trial(_folder(tmp_path), "delta", exits, compact_few_files), arrival)
