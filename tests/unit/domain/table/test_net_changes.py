"""What changed between two contents: by key, and by whole rows."""

from __future__ import annotations

import pytest

from headwater.domain.errors import ConfigError
from headwater.domain.table.net_changes import align, net_changes, net_rows
from headwater.domain.table.schema import Schema
from headwater.testing.frames import polars_frame

SCHEMA = Schema.parse("id bigint, name string")


def test_rows_without_a_key_are_counted_and_null_equals_null() -> None:
    before = polars_frame([(1, "a"), (1, "a"), (1, "a"), (2, None), (3, None)], SCHEMA)
    after = polars_frame([(1, "a"), (2, None), (3, "c"), (3, "c")], SCHEMA)
    found = net_rows(before, after).collect(backend="polars")
    assert found.columns == ["id", "name", "_row_kind", "_multiplicity"]
    assert sorted(found.rows(), key=str) == [(1, "a", "-D", 2), (3, "c", "+I", 2), (3, None, "-D", 1)]
    assert net_rows(before, before).collect(backend="polars").rows() == []


def test_rows_with_a_key_are_paired() -> None:
    before, after = (polars_frame(rows, SCHEMA) for rows in ([(1, "a"), (2, None)], [(1, None), (3, "c"), (2, None)]))
    found = net_changes(before, after, ["id"]).collect(backend="polars").rows()
    assert sorted(found, key=str) == [(1, "a", "-U"), (1, None, "+U"), (3, "c", "+I")]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("ab", "b", ["-D a"]),
        ("aa", "a", ["-D a"]),
        ("ab", "", ["-D a", "-D b"]),
        ("ab", "c", ["+I c", "-D a", "-D b"]),
        ("aa", "c", ["+I c", "-D a"]),
        ("ab", "cd", ["+U c", "+U d", "-U a", "-U b"]),
        ("ab", "bc", ["+U c", "-U a"]),
        ("b", "ab", ["+I a"]),
    ],
)
def test_an_old_row_has_a_new_one_if_a_version_repeats_a_key(old: str, new: str, expected: list[str]) -> None:
    before, after = (polars_frame([(1, name) for name in names], SCHEMA) for names in (old, new))
    found = net_changes(before, after, ["id"]).collect(backend="polars").rows()
    assert sorted(f"{kind} {name}" for _, name, kind in found) == expected


def test_versions_whose_columns_differ_only_in_case_are_not_compared() -> None:
    before, after = (
        polars_frame([(1, "a")], Schema.parse(ddl)) for ddl in ("id bigint, name string", "id bigint, NAME string")
    )
    with pytest.raises(
        ConfigError, match=r"column 'name' of the earlier is called 'NAME' in the later one; choose two"
    ):
        align(before, after, ["id"])


def test_versions_whose_types_differ_are_not_compared() -> None:
    before, after = (polars_frame([], Schema.parse(ddl)) for ddl in ("id decimal(20,0)", "id bigint"))
    with pytest.raises(ConfigError, match=r"'id' is decimal\(20,0\) in the earlier and bigint in the later one"):
        align(before, after, ["id"])
    with pytest.raises(ConfigError, match=r"'name' is not there in the earlier and string in the later one"):
        align(after, polars_frame([], SCHEMA), ["id", "name"])


def test_versions_with_a_column_of_differences_are_not_compared() -> None:
    rows = polars_frame([(1, "a")], Schema.parse("id bigint, _multiplicity string"))
    align(rows, rows, ["id"])
    with pytest.raises(ConfigError, match="'_multiplicity' has the name of one that Headwater adds"):
        align(rows, rows)


def test_rows_may_have_names_that_were_ours() -> None:
    before, after = (polars_frame([(1, name)], Schema.parse("id bigint, _side string")) for name in "ab")
    found = net_changes(before, after, ["id"]).collect(backend="polars").rows()
    assert sorted(found, key=str) == [(1, "a", "-U"), (1, "b", "+U")]
