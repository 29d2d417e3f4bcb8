"""A change that affects many rows of a view costs only these rows, and changes each of them once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.domain.table.row_kind import ROW_KIND
from headwater.testing.trial import Trial
from tests.spark_fixtures import compact_few_files

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pyspark.sql import SparkSession

_DEPLOYMENT = Path(__file__).parents[2] / "features" / "order_lines.toml"
_FAN_OUT, _OTHERS, _PRODUCTS = 1_000, 2_000, 10
_CUSTOMER = "1"


def _orders() -> list[list[str]]:
    """Orders of which one customer has a thousand."""
    rows = [
        [str(number), _CUSTOMER if number < _FAN_OUT else str(2 + number % 20), str(number % _PRODUCTS), "1"]
        for number in range(_FAN_OUT + _OTHERS)
    ]
    return [["order_id", "customer_id", "product_id", "pieces"], *rows]


def _hold(trial: Trial) -> None:
    trial.deploy(_DEPLOYMENT.read_text(encoding="utf-8"))
    trial.fill("orders", _orders())
    trial.fill("customers", [["customer_id", "name"], *([str(each), f"name {each}"] for each in range(1, 30))])
    trial.fill("products", [["product_id", "price"], *([str(each), "2.50"] for each in range(_PRODUCTS))])
    for moment in ("2024-03-01 08:00", "2024-03-01 09:00"):  # the tables are exact from what comes with their load on
        _go_on(trial, moment)
    trial.feed_table(
        "customer_log",
        [
            ["kind", "customer_id", "name", "at"],
            ["-U", _CUSTOMER, f"name {_CUSTOMER}", "2024-03-01 09:30"],
            ["+U", _CUSTOMER, "other name", "2024-03-01 09:30"],
        ],
    )
    before = trial.reader.epoch("order_lines")
    _go_on(trial, "2024-03-01 10:00")

    changes = trial.reader.difference("order_lines.rows", after=before).frame.collect(backend="polars")
    found = Counter((row["order_id"], row[ROW_KIND]) for row in changes.rows(named=True))
    assert found == Counter((number, kind) for number in range(_FAN_OUT) for kind in ("-U", "+U"))

    _, recomputed = trial.stored("order_lines.recomputed")
    epochs = [row for row in recomputed.collect(backend="polars").rows(named=True) if row["epoch"] > before]
    # One order has come as well, of no customer there is.
    assert sum(row["keys"] for row in epochs) == _FAN_OUT + 1
    assert sum(row["net"] for row in epochs) == 2 * _FAN_OUT
    read = sum(row["read"] for row in epochs)
    assert read == (_FAN_OUT + 1) + 1 + _PRODUCTS, "more was read than hangs on the changes"


def _go_on(trial: Trial, moment: str) -> None:
    """Let a row that nothing hangs on come to each table, so that all before the moment counts."""
    trial.feed_table("order_log", [["kind", "order_id", "at"], ["+I", f"9{moment[11:13]}000", moment]])
    trial.feed_table("customer_log", [["kind", "customer_id", "at"], ["+I", f"9{moment[11:13]}", moment]])
    trial.feed_table("product_log", [["kind", "product_id", "at"], ["+I", f"9{moment[11:13]}", moment]])
    trial.run()


def test_one_customer_of_a_thousand_orders(tmp_path: Path, headwater_exits: ExitStack) -> None:
    _hold(Trial(tmp_path, "memory", headwater_exits))


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend",
    [pytest.param("delta", marks=pytest.mark.delta), pytest.param("hudi-mor", marks=pytest.mark.hudi)],
)
def test_one_customer_of_a_thousand_orders_on_spark(
    spark: SparkSession, tmp_path: Path, headwater_exits: ExitStack, backend: str
) -> None:
    _hold(Trial(tmp_path, backend, headwater_exits, compact_few_files))
