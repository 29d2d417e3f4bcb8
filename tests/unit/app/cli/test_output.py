"""Output: one form for each value on every engine, and files that read back as they were written."""

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import narwhals as nw
import polars as pl
import pytest

from headwater.adapters.polars.engine import PolarsEngine
from headwater.adapters.polars.schema import polars_schema
from headwater.app.api.pipeline import Answer
from headwater.app.cli.output import write_view
from headwater.domain.table.schema import Schema
from headwater.domain.table.view_spec import ViewSpec

SCHEMA = Schema.parse(
    "id bigint, at timestamp, local timestamp_ntz, day date, price decimal(18,2), ratio double, done boolean,"
    " name string, raw binary"
)
FULL = (
    2,
    datetime(2024, 3, 1, 9, 0, 0, 250_000, tzinfo=UTC),
    datetime(2024, 3, 1, 9, 0),
    date(2024, 3, 1),
    Decimal("12.50"),
    0.1,
    True,
    'Zoë, "x"\n2',
    b"\x00\xff",
)
EMPTY = (1, *[None] * 8)


@pytest.fixture
def written():
    """What is written of rows in a form."""

    def text(content, form, schema=SCHEMA, **options):
        view = ViewSpec("rows", schema, ("id",), ("id",), "")
        frame = nw.from_native(pl.DataFrame(content, schema=polars_schema(schema), orient="row").lazy())
        out = io.StringIO()
        write_view(out, form, Answer(view, frame, PolarsEngine()), **options)
        return out.getvalue()

    return text


def test_jsonl_has_one_object_a_row_with_keys_in_column_order(written):
    first, second = written([FULL, EMPTY], "jsonl").splitlines()
    assert json.loads(first) == dict.fromkeys(SCHEMA.names) | {"id": 1}
    assert second == (
        '{"id": 2, "at": "2024-03-01T09:00:00.25Z", "local": "2024-03-01T09:00:00", "day": "2024-03-01",'
        ' "price": "12.50", "ratio": 0.1, "done": true, "name": "Zoë, \\"x\\"\\n2", "raw": "AP8="}'
    )


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (datetime(2024, 3, 1, tzinfo=UTC), "2024-03-01T00:00:00Z"),
        (datetime(2024, 3, 1, 0, 0, 0, 1, tzinfo=UTC), "2024-03-01T00:00:00.000001Z"),
        (datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC), "1969-12-31T23:59:59.5Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00Z"),
    ],
)
def test_timestamps_are_utc_with_a_fraction_only_where_there_is_one(written, at, expected):
    assert json.loads(written([(at,)], "jsonl", Schema.parse("id timestamp")))["id"] == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"), (1.5, 1.5)]
)
def test_floats_that_are_no_numbers_are_texts(written, value, expected):
    assert json.loads(written([(value,)], "jsonl", Schema.parse("id double")))["id"] == expected


def test_decimals_are_never_in_scientific_notation(written):
    schema = Schema.parse("id decimal(38,18)")
    assert json.loads(written([(Decimal("1E-18"),)], "jsonl", schema))["id"] == "0.000000000000000001"


def test_csv_reads_back(written):
    header, empty, full = csv.reader(io.StringIO(written([FULL, EMPTY], "csv"), newline=""))
    assert tuple(header) == SCHEMA.names
    assert empty == ["1", *[""] * 8]
    times = ["2024-03-01T09:00:00.25Z", "2024-03-01T09:00:00", "2024-03-01"]
    assert full == ["2", *times, "12.50", "0.1", "true", 'Zoë, "x"\n2', "AP8="]


def test_csv_tells_null_from_the_empty_text(written):
    assert written([(1, ""), (2, None)], "csv", Schema.parse("id bigint, name string")) == 'id,name\n1,""\n2,\n'


def test_a_table_is_aligned_numbers_to_the_right(written):
    text = written(
        [(1, "a", Decimal("7.00")), (10, None, Decimal("12.50"))],
        "table",
        Schema.parse("id int, name string, p decimal(9,2)"),
    )
    assert text.splitlines() == ["id  name      p", "--  ----  -----", " 1  a      7.00", "10  null  12.50"]


def test_a_table_of_no_rows_has_its_header(written):
    assert written([], "table", Schema.parse("id bigint")).splitlines() == ["id", "--"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\nb", r"a\r\nb"),
        ("a\tb", r"a\tb"),
        ("\x1b[2J\x07\x9b1m\x7f", r"\x1b[2J\x07\x9b1m\x7f"),
        ("a\x0bb\x85c\u2028d", r"a\x0bb\x85c\u2028d"),
        ("契約\u3000e\u0301\\n", "契約\u3000e\u0301\\n"),
    ],
)
def test_a_line_of_a_table_stays_one_line(written, text, shown):
    """And a terminal does not act on its control characters."""
    assert written([(1, text)], "table", Schema.parse("id bigint, name string")).split("\n")[2:] == [f" 1  {shown}", ""]


def test_wide_characters_take_two_cells_in_a_table(written):
    text = written(
        [(1, "契約", 5), (2, "🎉", 10), (3, "e\u0301", 7)], "table", Schema.parse("id int, name string, n int")
    )
    assert text.splitlines() == ["id  name   n", "--  ----  --", " 1  契約   5", " 2  🎉    10", " 3  e\u0301      7"]


def test_rows_come_in_the_views_order_up_to_a_limit(written):
    assert written([(3,), (1,), (2,)], "csv", Schema.parse("id bigint"), limit=2) == "id\n1\n2\n"


@pytest.mark.delta
@pytest.mark.contract
def test_spark_writes_the_same(written, spark):
    from headwater.adapters.spark.engine import SparkEngine

    view, out = ViewSpec("rows", SCHEMA, ("id",), ("id",), ""), io.StringIO()
    frame = nw.from_native(spark.createDataFrame([FULL, EMPTY], SCHEMA.ddl))
    write_view(out, "jsonl", Answer(view, frame, SparkEngine(spark)))
    assert out.getvalue() == written([FULL, EMPTY], "jsonl")
