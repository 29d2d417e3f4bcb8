"""Tables of text in specifications: how they are compared with rows, and the message when they differ."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from headwater.domain.errors import BadInput, ConfigError
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing.frames import polars_frame
from headwater.testing.tables import as_records, assert_shows

SCHEMA = Schema.parse("id bigint, name string, at timestamp, price decimal(18,2), done boolean, raw binary")
NINE = datetime(2024, 3, 1, 9, tzinfo=UTC)
ROWS = polars_frame([(1, "a", NINE, Decimal("1.50"), True, b"x"), (2, "", None, None, None, None)], SCHEMA)


def test_cells_arrive_in_the_types_of_the_source():
    spec = RecordSpec(SCHEMA, time_zone="Asia/Shanghai")
    table = [SCHEMA.names, ["1", "7", "2024-03-01 17:00", "1.50", "true", "eA=="], ["", '""', "", "", "", ""]]
    assert [json.loads(line) for line in as_records(table, spec)] == [
        {"id": 1, "name": "7", "at": "2024-03-01T09:00:00Z", "price": 1.5, "done": True, "raw": "eA=="},
        {"name": ""},
    ]


def test_what_does_not_fit_arrives_as_it_is_written():
    assert list(as_records([["id"], ["one"]], RecordSpec(SCHEMA))) == ['{"id":"one"}']


def test_a_column_that_the_source_lacks():
    with pytest.raises(BadInput, match="no column 'nme'; there are: id, name, at"):
        list(as_records([["nme"], ["a"]], RecordSpec(SCHEMA)))


def test_a_column_that_the_table_has_twice():
    with pytest.raises(BadInput, match="has column 'id' twice: name each column once"):
        list(as_records([["id", "name", "id"], ["1", "a", "2"]], RecordSpec(SCHEMA)))


@pytest.mark.parametrize(
    "table",
    [
        [["id"], ["2"], ["1"]],
        [["price", "name"], ["", '""'], ["1.5", "a"]],
        [["at", "done", "raw"], ["", "", ""], ["2024-03-01T10:00+01:00", "TRUE", "eA=="]],
    ],
)
def test_rows_are_shown_in_any_order_by_the_columns_named(table):
    assert_shows(ROWS, SCHEMA, table)


def test_rows_that_differ_are_told_apart():
    with pytest.raises(AssertionError) as told:
        assert_shows(ROWS, SCHEMA, [["id", "name"], ["1", "a"], ["1", "a"], ["2", ""]])
    assert str(told.value).splitlines() == [
        "the rows are not those of the table",
        "  missing: | 1 | a |",
        "  missing: | 2 |  |",
        '  too many: | 2 | "" |',
    ]


def test_a_cell_that_no_row_can_show():
    with pytest.raises(BadInput, match="column 'id': bigint wanted, not 'one'"):
        assert_shows(ROWS, SCHEMA, [["id"], ["one"]])
    with pytest.raises(ConfigError, match="no column 'nme'"):
        assert_shows(ROWS, SCHEMA, [["nme"], ["a"]])
