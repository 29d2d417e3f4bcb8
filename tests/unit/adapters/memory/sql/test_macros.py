"""The macros' way to stop a query, of which DuckDB takes the message for a text that it cannot cast."""

import duckdb
import pytest

from headwater.adapters.memory.sql.macros import MACROS, message_of


@pytest.fixture
def database():
    with duckdb.connect() as opened:
        for macro in MACROS:
            opened.execute(f"CREATE MACRO {macro}")
        yield opened


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT hw_upper('ﬁ')", 'upper: a letter of "ﬁ" has another upper case on Spark'),
        ("SELECT hw_lower(t) FROM (VALUES ('it''s\n''Σ')) AS v(t)", "lower: a letter of \"it's\n'Σ\""),
        ("SELECT hw_fitting(1, NULL, 'a sum')", "a sum"),
    ],
)
def test_the_message_of_a_macro_stands_alone(database, sql, message):
    with pytest.raises(duckdb.Error) as caught:
        database.sql(sql).fetchall()
    assert message_of(str(caught.value)).startswith(message)


def test_other_messages_stay_as_they_are(database):
    with pytest.raises(duckdb.Error) as caught:
        database.sql("SELECT CAST('x' AS BOOLEAN)").fetchall()
    assert message_of(str(caught.value)) == str(caught.value)


def test_only_the_rows_that_are_used_stop_a_query(database):
    rows = "(VALUES (1, 'ﬁ'), (2, 'a')) AS v(id, t)"
    found = database.sql(f"SELECT rank() OVER (PARTITION BY hw_upper(t) ORDER BY id) FROM {rows} WHERE id > 1")
    assert found.fetchall() == [(1,)]


@pytest.mark.parametrize("macro", MACROS)
def test_no_macro_calls_error_which_the_keys_of_a_window_must_not_have(macro):
    assert " error(" not in macro
