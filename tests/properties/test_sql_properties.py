"""User-supplied SQL on two engines: over any rows the local engine answers as Spark does, or refuses the text."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.adapters.memory.queries import DuckQueries
from headwater.domain.errors import BadInput, ConfigError, SumOverflow
from headwater.testing.expression_cases import CASTS, CONDITIONS, NUMBERS, TEXT, TIMES
from headwater.testing.frames import polars_frame
from headwater.testing.query_cases import T

from .effort import examples
from .view_shapes import SHAPES, TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from headwater.domain.table.schema import Schema

Row = tuple[Any, ...]
Tables = dict[str, tuple[list[Row], "Schema"]]

_BY_KIND = {
    "number": [sql for sql, _, _ in NUMBERS],
    "condition": [sql for sql, _, _ in CONDITIONS],
    "text": [sql for sql, _, _ in TEXT],
    "time": [sql for sql, _, _ in TIMES],
    "any": [sql for sql, _, _ in (*NUMBERS, *CONDITIONS, *TEXT, *CASTS, *TIMES)],
}
_WORDS = ["", " ", "abc", "ABC", " 12.7 ", "a_%", "1e3", "-0", "7", "true", "2024-02-29", "2024-13-01", "ß", "數é"]
_INTS = st.integers(-20, 20) | st.sampled_from([0, 2**31 - 1, -(2**31)])
_TEXTS = st.sampled_from(_WORDS) | st.text("abAB1 .,-_%é", max_size=8)
_ROWS = st.lists(
    st.tuples(
        st.none() | _INTS,
        st.none() | _INTS,
        st.none() | st.decimals(-9999, 9999, places=2),
        st.none() | st.integers(-4000, 4000).map(lambda eighths: eighths / 8) | st.sampled_from([0.1, 2.675, 1e17]),
        st.none() | _TEXTS,
        st.none() | _TEXTS,
        st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)),
        st.none() | st.dates(date(1900, 1, 1), date(2200, 1, 1)),
        st.none() | st.booleans(),
    ),
    min_size=1,
    max_size=12,
).map(lambda rows: [(number, *row) for number, row in enumerate(rows)])

few = settings(
    max_examples=examples(12),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """An expression of the contract, or one around it."""
    of = {kind: st.sampled_from(texts) for kind, texts in _BY_KIND.items()}
    made = draw(
        st.one_of(
            of["any"],
            st.builds("CASE WHEN {} THEN {} END".format, of["condition"], of["any"]),
            st.builds("coalesce({}, {})".format, of["number"], of["number"]),
            st.builds("({}) + ({})".format, of["number"], of["number"]),
            st.builds("({}) * ({})".format, of["number"], of["number"]),
            st.builds("({}) < ({})".format, of["number"], of["number"]),
            st.builds("({}) = ({})".format, of["text"], of["text"]),
            st.builds("concat({}, '|', {})".format, of["text"], of["any"]),
            st.builds("CAST({} AS string)".format, of["any"]),
            st.builds("CAST({} AS bigint)".format, of["any"]),
            st.builds("({}) AND NOT ({})".format, of["condition"], of["condition"]),
        )
    )
    return str(made)


def local(sql: str, tables: Tables) -> Any:
    """The answer of the local engine, as a frame; None if it refuses the text, or to compute it."""
    try:
        frames = {name: polars_frame(rows, schema) for name, (rows, schema) in tables.items()}
        return DuckQueries().query(sql, frames).collect(backend="polars")
    except (ConfigError, BadInput, SumOverflow):
        return None


def on_spark(session: SparkSession, sql: str, tables: Tables) -> Any:
    from headwater.adapters.spark.queries import SparkQueries
    from headwater.adapters.spark.schema import frame_of

    frames = {name: frame_of(session, schema, rows) for name, (rows, schema) in tables.items()}
    return SparkQueries(session).query(sql, frames).collect(backend="polars")


def same(values: Sequence[Any]) -> list[str]:
    """Values as texts that tell all digits and types; all NaN are one."""
    return ["NaN" if isinstance(value, float) and math.isnan(value) else repr(value) for value in values]


@pytest.mark.delta
@pytest.mark.slow
@given(rows=_ROWS, texts=st.lists(expressions(), min_size=20, max_size=40, unique=True))
@few
def test_expressions_are_equal_or_refused(spark: SparkSession, rows: list[Row], texts: list[str]) -> None:
    tables = {"t": (rows, T)}
    answers = {text: local(f"SELECT id, {text} AS x FROM t ORDER BY id", tables) for text in texts}
    answered = {text: found["x"] for text, found in answers.items() if found is not None}
    columns = [f"{text} AS c{at}" for at, text in enumerate(answered)]
    expected = on_spark(spark, f"SELECT id, {', '.join(columns) or '1 AS c'} FROM t ORDER BY id", tables)
    for at, (text, found) in enumerate(answered.items()):
        wanted = expected[f"c{at}"]
        assert (text, found.dtype, same(found.to_list())) == (text, wanted.dtype, same(wanted.to_list()))


_SMALL = st.none() | st.integers(0, 3)
_NAMED = st.lists(st.tuples(st.sampled_from(["x", "y"]), _SMALL), max_size=4)
_ALIKE = st.tuples(*[_SMALL] * 4, st.none() | st.fixed_dictionaries({"e": _SMALL}), _SMALL)
_ROWS_OF = {
    "o": st.lists(st.tuples(_SMALL, _SMALL, _SMALL), max_size=6),
    "c": _NAMED,
    "p": _NAMED,
    "s": st.lists(_ALIKE, max_size=4),
}


@pytest.mark.delta
@pytest.mark.slow
@given(rows=st.fixed_dictionaries(_ROWS_OF), shapes=st.sets(st.sampled_from(sorted(SHAPES)), min_size=6, max_size=6))
@few
def test_queries_are_equal_or_refused(spark: SparkSession, rows: dict[str, list[Row]], shapes: set[str]) -> None:
    tables = {name: ([(at, *row) for at, row in enumerate(each)], TABLES[name]) for name, each in rows.items()}
    for shape in sorted(shapes):
        found = local(SHAPES[shape].sql, tables)
        if found is None:
            continue
        try:
            wanted = on_spark(spark, SHAPES[shape].sql, tables)
        except ConfigError:  # there, `c.id` in a subquery over `o` is a field of the column `o.c`
            assert shape in {"exists", "not_exists", "scalar"}
            continue
        assert (shape, found.schema) == (shape, wanted.schema)
        assert (shape, sorted(map(same, found.rows()))) == (shape, sorted(map(same, wanted.rows())))
