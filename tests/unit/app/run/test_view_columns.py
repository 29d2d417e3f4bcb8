"""The columns of a view: those that are declared, and the keys that a query of `changes` returns."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from headwater.app.services import materialized_view
from headwater.domain.errors import ConfigError, NotSupported
from headwater.testing.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

ITEMS = """
[backend]
name = "memory"
[sources.item_log]
kind = "files"
path = "items"
schema = "kind string, id int, shop int, n int, at timestamp"
row_kind = "kind"
event_time = "at"
[pipelines.items]
service = "bulk_merge"
key = ["id"]
columns = ["shop", "n"]
changelog = "item_log"
bulk = { path = "items", format = "json", search_ts = "2024-03-01T00:00:00Z" }
[pipelines.shops]
service = "materialized_view"
inputs = { i = "items.rows" }
key = ["shop"]
sql = "SELECT shop, avg(n) AS mean FROM i GROUP BY shop"
"""
LESS = "SELECT a.id, count(b.id) AS less FROM i a LEFT JOIN j b ON b.n < a.n GROUP BY a.id"
DECLARED = "double, whose values a cast may change: write CAST(… AS {}) in the query if you want it, or declare double"


@pytest.fixture(params=["memory", "delta:local"])
def trial(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Trial]:
    with ExitStack() as exits:
        found = Trial(tmp_path, request.param, exits)
        found.deploy(ITEMS)
        item(found, ("+I", 1, 1, 0, "09:00"), ("+I", 2, 1, 1, "09:01"), ("+I", 3, 2, 4, "09:02"))
        yield found


@pytest.fixture(params=[False, True])
def only_spark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the columns of queries are not known before they run, as of those that only Spark knows."""

    def unknown(sql: str, _: Mapping[str, Any]) -> None:
        raise NotSupported(sql, "a test", "run it")

    if request.param:
        monkeypatch.setattr(materialized_view, "rows_of", unknown)
    return bool(request.param)


def item(trial: Trial, *changes: tuple[Any, ...]) -> None:
    rows = [dict(zip(("kind", "id", "shop", "n", "at"), each, strict=True)) for each in changes]
    trial.feed("item_log", (json.dumps({**row, "at": f"2024-03-01T{row['at']}:00Z"}) for row in rows))


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("shop int, mean int", f"column 'mean' is declared as int, and the query returns {DECLARED.format('int')}"),
        (
            "shop int, mean decimal(9,2)",
            f"column 'mean' is declared as decimal(9,2), and the query returns {DECLARED.format('decimal(9,2)')}",
        ),
        ("shop int, mean double, n int", "the query has no column 'n'; it has: shop, mean"),
        ("shop int", "column 'mean' of the query is not declared; add it, or leave it out of the query"),
    ],
)
def test_columns_that_the_query_does_not_have(trial: Trial, schema: str, told: str, *, only_spark: bool) -> None:
    trial.set("pipelines.shops.schema", f'"{schema}"')
    with pytest.raises(ConfigError) as refusal:
        trial.run()
    assert str(refusal.value).endswith(f"pipelines.shops{'.' if only_spark else ': '}schema: {told}")


@pytest.mark.usefixtures("only_spark")
def test_declared_columns_have_wider_types_and_names_in_another_case(trial: Trial) -> None:
    trial.set("pipelines.shops.sql", '"SELECT shop, max(n) AS most FROM i GROUP BY shop"')
    trial.set("pipelines.shops.schema", '"Most decimal(12,2), Shop int"')
    trial.set("pipelines.shops.key", '["Shop"]')
    trial.run()
    item(trial, ("-U", 2, 1, 1, "09:03"), ("+U", 2, 2, 5, "09:03"))
    trial.run()
    rows = trial.reader.view("shops")
    assert (rows.columns, sorted(rows.rows())) == (["Most", "Shop"], [(0, 1), (5, 2)])


class TestChanges:
    """A query returns the keys that changes of an input affect."""

    @pytest.fixture(autouse=True)
    def less(self, trial: Trial) -> None:
        trial.set("pipelines.shops.inputs", '{ i = "items.rows", j = "items.rows" }')
        trial.set("pipelines.shops.key", '["id"]')
        trial.set("pipelines.shops.sql", f'"{LESS}"')

    def declare(self, trial: Trial, sql: str) -> None:
        trial.set("pipelines.shops.changes", f'{{ j = "{sql}" }}')

    def test_names_in_another_case(self, trial: Trial) -> None:
        self.declare(trial, "SELECT i.ID FROM i JOIN j ON j.n < i.n")
        trial.run()
        item(trial, ("-D", 1, 1, 0, "09:03"))
        trial.run()
        assert sorted(trial.reader.view("shops").rows()) == [(2, 0), (3, 1)]

    def test_a_key_that_is_missing(self, trial: Trial, *, only_spark: bool) -> None:
        self.declare(trial, "SELECT i.n FROM i JOIN j ON j.n < i.n")
        if only_spark:
            trial.set("pipelines.shops.schema", '"id int, less bigint"')
            trial.run()
            item(trial, ("-D", 1, 1, 0, "09:03"))
        place = rf"pipelines\.shops{'.' if only_spark else ': '}changes\.j"
        with pytest.raises(ConfigError, match=f"{place}: the query has no column 'id'; it has: n\\b"):
            trial.run()
