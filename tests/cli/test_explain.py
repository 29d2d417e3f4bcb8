"""``headwater explain``: what a change of each input of a view recomputes, shown without starting anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.app.cli.main import main

DEPLOYMENT = Path(__file__).parents[2] / "features" / "order_lines.toml"
MORE = """
[pipelines.dear]
service = "materialized_view"
inputs = { o = "orders.rows", p = "products.rows", c = "customers.rows", l = "order_lines.rows" }
key = ["order_id"]
sql = '''
SELECT o.order_id, c.name, max(p.price) AS dearest
FROM o JOIN p ON p.price <= o.pieces JOIN c ON upper(c.name) = 'ANN'
GROUP BY o.order_id, c.name'''
changes = { p = \"\"\"
  SELECT o.order_id
  FROM o JOIN p ON p.price <= o.pieces\"\"\", c = "all" }
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT.read_text(encoding="utf-8") + MORE, encoding="utf-8")
    return str(tmp_path / "deploy.toml")


def explained(config: str, view: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["explain", config, view]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    return told.out.splitlines()


def test_ways_from_each_input_to_the_key_and_back(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(config, "order_lines", capsys) == [
        "order_lines, a view over o (orders), c (customers), p (products), all as of one event time",
        "  recomputes the rows that share order_id, with one net change for each key order_id",
        "  input o",
        "    a change concerns what it says: order_id",
        "    to compute rows, it is looked up by order_id (its key)",
        "  input c",
        "    a change o is looked up by customer_id (index order_lines.o_by_customer_id), then concerns what o says:"
        " order_id",
        "    to compute rows, o is looked up by order_id (its key), then it is looked up by customer_id (its key)",
        "  input p",
        "    a change o is looked up by product_id (index order_lines.o_by_product_id), then concerns what o says:"
        " order_id",
        "    to compute rows, o is looked up by order_id (its key), then it is looked up by product_id (its key)",
    ]


def test_check_says_which_rows_are_left_out(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", config]) == 0
    shown = capsys.readouterr().out
    rows = "rows: the query's rows, one per key"
    left_out = "; rows whose name is null are left out; coalesce(name, '') in the query would keep them"
    assert f"    customer_worth.{rows}{left_out}\n" in shown
    assert f"    order_lines.{rows}\n" in shown


def test_a_view_over_a_view(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(config, "customer_worth.rows", capsys) == [
        "customer_worth, a view over l (order_lines), at its newest publication",
        "  recomputes the rows that share name, with one net change for each key name",
        "  rows whose name is null are left out; coalesce(name, '') in the query would keep them",
        "  input l",
        "    a change concerns what it says: name",
        "    to compute rows, it is looked up by name (index customer_worth.l_by_name)",
    ]


def test_what_is_declared_and_what_is_not_read(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(config, "dear", capsys) == [
        "dear, a view over o (orders), p (products), c (customers), l (order_lines), all as of one event time",
        "  recomputes the rows that share order_id, with one net change for each key order_id",
        "  input o",
        "    a change concerns what it says: order_id",
        "    to compute rows, it is looked up by order_id (its key)",
        "  input p",
        "    a change concerns what is declared: SELECT o.order_id FROM o JOIN p ON p.price <= o.pieces",
        "    to compute rows, it is read whole: no equality of a join leads there",
        "  input c",
        "    a change recomputes the whole view, as declared",
        "    to compute rows, it is read whole: no equality of a join leads there",
        "  not read: l",
    ]


@pytest.mark.parametrize(
    ("view", "told"),
    [
        ("orders", "pipeline 'orders' is not a materialized view; `headwater check` explains other pipelines"),
        ("order_line", "there is no pipeline 'order_line'; there are: "),
        ("order_lines.sums", "pipeline 'order_lines' has no view 'sums'; there are: "),
    ],
)
def test_what_is_no_view(config: str, capsys: pytest.CaptureFixture[str], view: str, told: str) -> None:
    assert main(["explain", config, view]) == 2
    assert capsys.readouterr().err.startswith(f"headwater: {told}")


def test_a_change_that_cannot_be_followed(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(config)
    file.write_text(file.read_text().replace('c = "all"', 'o = "all"'))
    assert main(["explain", config, "dear"]) == 2
    told = capsys.readouterr().err
    assert "a change of 'c' does not determine which order_id" in told


def test_nothing_is_made(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(config)
    file.write_text(file.read_text().replace('name = "memory"', 'name = "delta"\npath = "lake"'))
    assert explained(config, "order_lines", capsys)
    assert [path.name for path in file.parent.iterdir()] == ["deploy.toml"]


def test_check_refuses_a_moment_that_is_misspelt(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(config).read_text(encoding="utf-8").replace("2024-03-01T00:00:00Z", "2024-3-1T00:00:00Z", 1)
    Path(config).write_text(text, encoding="utf-8")
    assert main(["check", config]) == 2
    told = capsys.readouterr().err
    assert "pipelines.orders.bulk.search_ts: '2024-3-1T00:00:00Z' is not a time such as" in told
