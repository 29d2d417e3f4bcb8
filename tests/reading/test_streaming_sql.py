"""Views of many shapes while their tables change: after each batch, the literal rows; or the reason of a refusal."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from headwater.domain.errors import ConfigError
from headwater.testing.trial import Trial
from tests.spark_fixtures import compact_few_files

from .view_cases import CHANGES, CUSTOMERS, ORDERS, REFUSED, VIEWS, View

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_TABLE = """
[sources.{name}_log]
kind = "files"
path = "{name}_log"
schema = "kind string, {columns}, at timestamp"
row_kind = "kind"
event_time = "at"

[pipelines.{name}]
service = "bulk_merge"
key = ["id"]
columns = {others}
changelog = "{name}_log"
bulk = {{ path = "{name}", format = "json", search_ts = "2024-03-01T00:00:00Z" }}
"""
_VIEW = """
[pipelines.{name}]
service = "materialized_view"
inputs = {{ {inputs} }}
key = {key}
sql = "{sql}"
align = "newest"
changes = {{ {changes} }}
"""
SAMPLE = ("null_after_delete", "two_hops", "left_sum", "first_of_group")
"""Those whose queries are of the most different shapes."""


def _deployment(views: Mapping[str, View]) -> str:
    text = '[backend]\nname = "memory"\ncompact_every = 3\n'
    text += _TABLE.format(
        name="o", columns="id bigint, c int, n int, price decimal(9,2), tag string", others=list(ORDERS[1:])
    )
    text += _TABLE.format(name="c", columns="id bigint, name string, r bigint", others=list(CUSTOMERS[1:]))
    for name, view in views.items():
        used = [each for each in ("o", "c") if f" {each} " in f"{view.sql} ".replace(")", " ").replace(",", " ")]
        inputs = ", ".join(f'{each} = "{each}.rows"' for each in used)
        changes = ", ".join(f'{each} = "{how}"' for each, how in view.changes.items())
        text += _VIEW.format(name=name, inputs=inputs, key=list(view.key), sql=view.sql, changes=changes)
    return text


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with ExitStack() as exits:
        yield Trial(tmp_path, "memory", exits)


def _arrive(trial: Trial, at: int, changes: Mapping[str, list[tuple[Any, ...]]]) -> None:
    for table, columns in (("o", ORDERS), ("c", CUSTOMERS)):
        rows = [
            [*("" if value is None else str(value) for value in row), f"2024-03-01 09:0{at}"] for row in changes[table]
        ]
        trial.feed_table(f"{table}_log", [["kind", *columns, "at"], *rows])
    trial.run()


def _shown(trial: Trial, name: str, view: View) -> list[tuple[Any, ...]]:
    _, rows = trial.stored(f"{name}.rows")
    found = rows.collect(backend="polars").to_native()
    return sorted(found.rows(), key=lambda row: [row[found.columns.index(each)] for each in view.key])


def _follow(trial: Trial, views: Mapping[str, View]) -> None:
    trial.deploy(_deployment(views))
    for at, changes in enumerate(CHANGES):
        _arrive(trial, at, changes)
        shown = {name: _shown(trial, name, view) for name, view in views.items()}
        assert shown == {name: view.rows[at] for name, view in views.items()}, f"after batch {at}"


@pytest.mark.slow
def test_every_view_after_every_change(trial: Trial) -> None:
    _follow(trial, VIEWS)


def test_a_sample_after_every_change(trial: Trial) -> None:
    _follow(trial, {name: VIEWS[name] for name in SAMPLE})


@pytest.mark.delta
def test_the_sample_on_spark(trial: Trial, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("spark")
    trial.backend, trial.prepare = "delta", compact_few_files
    _follow(trial, {name: VIEWS[name] for name in SAMPLE})


@pytest.mark.parametrize(("sql", "reason"), REFUSED.items())
def test_what_no_view_is_kept_of(trial: Trial, sql: str, reason: str) -> None:
    trial.deploy(_deployment({"refused": View(sql, ("id",), [])}))
    with pytest.raises(ConfigError) as told:
        trial.open()
    assert reason in str(told.value)
