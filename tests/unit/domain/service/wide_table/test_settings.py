"""Which edited settings of a wide table its stored rows do not fit."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headwater.domain.service.wide_table.settings import Derived, TopicSettings, WideTableSettings, topics_of
from headwater.domain.sql import parse_row_expression
from headwater.domain.table.fingerprint import FIXED_DECODING, READ_TYPES, digest, join_parts, split_parts
from headwater.domain.table.schema import DataType, Schema

SCHEMA = "id int, code decimal(10,2), kind decimal(10,2), place decimal(10,2), n int, more string"
READS = (("code", "the key"), ("kind", "the condition"), ("place", "the sequence"), ("n", "a column"))


def settings(
    schema: str = SCHEMA,
    *,
    topic: str = "b",
    format_: str = "json",
    nulls: str = "overwrite",
    absent: str = "null",
) -> WideTableSettings:
    """A wide table whose columns, condition and sequence are all texts or booleans, whatever their source has."""
    columns = Schema.parse(schema)

    def derived(name: str, sql: str) -> Derived:
        return Derived(name, DataType("string"), parse_row_expression(sql, columns))

    return WideTableSettings("p", ["k"], [
        TopicSettings(
            topic, columns, format_,
            columns=[derived("k", "CAST(code AS string)"), derived("label", "concat('no. ', n)")],
            sequence=[derived("at", "CAST(place AS string)")],
            where=parse_row_expression("CAST(KIND AS string) = '1.50'", columns),
            nulls=nulls, absent=absent, watermark_delay=timedelta(),
        )
    ])  # fmt: skip


@pytest.mark.parametrize("column", [name for name, _ in READS], ids=[where for _, where in READS])
def test_the_type_of_a_column_that_only_an_expression_reads(column: str) -> None:
    built = settings()
    old = built.topics[0].schema[column].ddl
    edited = settings(SCHEMA.replace(f"{column} {old}", f"{column} decimal(10,3)"))
    assert edited.changed(built.fingerprint) == (
        f"type of column {column} in the source of topic b {old} -> decimal(10,3)"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [("n int", "n bigint"), ("more string", "more int"), ("id int", "id string"), (", more string", "")],
    ids=["an integer", "of a column that nothing reads", "also at the beginning", "a column that is gone"],
)
def test_types_that_may_change(old: str, new: str) -> None:
    assert settings(SCHEMA.replace(old, new)).changed(settings().fingerprint) is None


def test_tables_that_were_stored_without_the_types_go_on() -> None:
    now = settings(SCHEMA.replace("code decimal(10,2)", "code decimal(10,3)")).fingerprint
    before = join_parts(
        {name: part for name, part in split_parts(settings().fingerprint).items() if name != READ_TYPES}
    )
    assert settings(SCHEMA.replace("code decimal(10,2)", "code decimal(10,3)")).changed(before) is None
    assert digest(now) == digest(before)
    assert topics_of(now) == topics_of(before) == {"b"}


@pytest.mark.parametrize("nulls", ["overwrite", "keep"])
def test_another_absent_is_refused(nulls: str) -> None:
    built, edited = settings(nulls=nulls, absent="keep"), settings(nulls=nulls, absent="null")
    changed = edited.changed(built.fingerprint)
    assert changed is not None
    assert changed.endswith("absent of topic b keep -> null")
    assert settings(nulls=nulls, absent="keep").changed(built.fingerprint) is None


def test_files_of_a_format_without_absent_fields_may_follow() -> None:
    built = settings(nulls="keep", absent="keep")
    assert settings(format_="csv", nulls="keep").changed(built.fingerprint) is None


def test_tables_that_were_stored_without_absent_go_on() -> None:
    built = split_parts(settings(nulls="keep", absent="keep").fingerprint)
    del built[FIXED_DECODING]["absent of topic b"]
    now = settings(nulls="keep", absent="null")
    assert now.changed(join_parts(built)) is None
    assert digest(now.fingerprint) == digest(join_parts(built))


def test_a_topic_may_be_called_types() -> None:
    built = settings(topic="types")
    assert topics_of(built.fingerprint) == {"types"}
    assert settings(topic="types").changed(built.fingerprint) is None
