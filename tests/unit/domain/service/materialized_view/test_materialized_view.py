"""Which part of a view a change affects, as far as its query shows; and queries that are refused, with the reason."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from headwater.app.services.shapes import ValueTypes, columns_of
from headwater.domain.errors import ConfigError
from headwater.domain.service.input import ViewOf
from headwater.domain.service.materialized_view import Shapes, ViewPlan, ViewSettings
from headwater.domain.service.materialized_view.lineage import derivations
from headwater.domain.service.materialized_view.routes import routes
from headwater.domain.service.materialized_view.tables import ViewTables
from headwater.domain.table.schema import Column, DataType, Schema
from headwater.domain.table.view_spec import ViewSpec
from tests.properties.view_shapes import SHAPES, TABLES

if TYPE_CHECKING:
    from headwater.domain.service.materialized_view import Route, Routes


def _shapes(sql: str) -> Shapes:
    inputs = {name: ViewSpec("rows", schema, ("id",), ("id",), "") for name, schema in TABLES.items()}
    return Shapes(columns_of(sql, TABLES), inputs, ValueTypes(TABLES))


def _only_ids() -> Shapes:
    return evolve(_shapes("SELECT id FROM o"), schema=Schema.parse("id bigint"))


def _settings(sql: str, *key: str, **changes: str) -> ViewSettings:
    return ViewSettings("v", {name: ViewOf(name) for name in TABLES}, key or ("id",), sql, changes)


def _routes(sql: str, *key: str, **changes: str) -> Routes:
    return routes(_settings(sql, *key, **changes), _shapes(sql))


def _told(route: Route | None) -> list[str] | None:
    """The inputs that are looked up on the way, each by what, and the values at the end."""
    if route is None:
        return None
    way = [f"{hop.input} by {', '.join(str(term.column) for _, term in hop.by)}" for hop in route.hops]
    return [*way, ", ".join(str(value.column) for value, _ in route.ends)]


def _up(found: Routes) -> dict[str, list[list[str] | None]]:
    return {name: [_told(read.upward) for read in found.of(name)] for name in found.inputs}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_followed_from_each_of_its_inputs(shape: str) -> None:
    found = _routes(SHAPES[shape].sql, *SHAPES[shape].key)
    assert found.scope
    assert set(found.scope) <= set(SHAPES[shape].key)
    assert all(read.upward and read.downward for read in found.reads)


MERGED_TWICE = (
    "SELECT t.id, count(*) AS n"
    " FROM (SELECT coalesce(a.c, b.n, a.p) AS id FROM o a {} JOIN o b ON a.c = b.n AND a.p = b.n) t GROUP BY t.id"
)
MERGED = "SELECT t.id FROM (SELECT id, c FROM o a FULL JOIN o b USING (id, c)) t"


def test_a_merged_column_is_the_key_of_what_joins_it() -> None:
    """A row of `o` may join a row that only `c` has, or only `p`: both have its key."""
    for name in ("full_then_left", "full_then_exists"):
        found = _routes(SHAPES[name].sql)
        assert _up(found)["o"] == [["c"]]
        (read,) = found.of("o")
        assert _told(read.downward) == ["id"]


def test_an_equality_of_two_outer_values_in_a_subquery_is_not_one_of_the_outer_rows() -> None:
    without = "NOT EXISTS (SELECT 1 FROM p WHERE o.c = c.r AND p.id = o.p)"
    found = _up(_routes(f"SELECT o.id FROM o JOIN c ON o.n = c.id WHERE {without}"))
    assert found == {"o": [["id"]], "c": [["o by n", "id"]], "p": [["o by p", "id"]]}
    merged = "o.p IN (SELECT coalesce(p.id, o.n) FROM p WHERE p.id = o.n)"
    settings = _settings(f"SELECT o.id FROM o LEFT JOIN c ON o.c = c.id WHERE {merged}")
    assert _up(routes(settings, _only_ids()))["c"] == [["o by c", "id"]]


def test_a_query_of_with_sees_what_was_there_when_it_was_written() -> None:
    inner = "WITH t AS (SELECT id, c FROM t WHERE c > 0) SELECT id, c FROM t"
    assert _up(_routes(f"WITH t AS (SELECT id, c FROM o) SELECT id, c FROM ({inner}) u")) == {"o": [["id"]]}


def test_names_may_be_odd() -> None:
    schema = Schema(Column(name, DataType("bigint")) for name in ("id", "n", "n--m", "$n", "a;b"))
    (found,) = derivations("SELECT * FROM `o--p`", {"o--p": schema, "o": schema})
    assert (tuple(found.outputs), list(found.reads.values())) == (schema.names, ["o--p"])


def test_a_key_at_hand_needs_no_look_up() -> None:
    assert _up(_routes(SHAPES["sum"].sql, "c")) == {"o": [["c"]]}
    assert _up(_routes(SHAPES["using"].sql)) == {"c": [["id"]], "p": [["id"]]}


def test_a_change_of_a_dimension_leads_to_its_facts() -> None:
    found = _up(_routes(SHAPES["join"].sql))
    assert found == {"o": [["id"]], "c": [["o by c", "id"]], "p": [["o by p", "id"]]}


def test_a_way_of_two_joins() -> None:
    found = _routes(SHAPES["three_deep"].sql, "r")
    assert _up(found)["p"] == [["o by p", "c by id", "r"]]
    (read,) = found.of("p")
    assert _told(read.downward) == ["c by r", "o by c", "p"]


def test_what_is_found_by_no_key_of_its_own_has_an_index() -> None:
    sql = SHAPES["join"].sql
    tables = ViewTables.of(_settings(sql), _shapes(sql), _routes(sql))
    assert [spec.name for spec in tables.in_order] == ["v.o_by_c", "v.o_by_p", "v.rows", "v.recomputed"]
    assert tables.indexes["o", "`c`"].table.key == ("_by0", "id")


def test_whole_numbers_of_two_types_are_followed() -> None:
    tables = {"o": Schema.parse("id bigint, c int"), "c": Schema.parse("id bigint, name string")}
    inputs = {name: ViewSpec("rows", schema, ("id",), ("id",), "") for name, schema in tables.items()}
    sql = "SELECT o.id, c.name FROM o JOIN c ON o.c = c.id"
    settings = ViewSettings("v", {name: ViewOf(name) for name in tables}, ("id",), sql)
    shapes = Shapes(columns_of(sql, tables), inputs, ValueTypes(tables))
    found = routes(settings, shapes)
    (read,) = found.of("c")
    for route in (read.upward, read.downward):
        assert route is not None
        assert [hop.input for hop in route.hops] == ["o"]
    (index,) = ViewTables.of(settings, shapes, found).indexes.values()
    assert index.table.schema == Schema.parse("_by0 bigint, id bigint")


def test_the_optional_side_of_a_join_is_never_gone_through() -> None:
    """What joins an optional row by what that row says would be lost with it."""
    sql = "SELECT p.id, count(*) AS n FROM p LEFT JOIN o ON o.p = p.id LEFT JOIN c ON c.id = o.c GROUP BY p.id"
    assert _up(_routes(sql))["c"] == [["o by c", "p"]]
    lost = "SELECT c.id, max(o.n) AS n FROM c LEFT JOIN o ON o.c = c.id CROSS JOIN p GROUP BY c.id"
    with pytest.raises(ConfigError, match="a change of 'p' does not determine which id"):
        _routes(lost)


def test_a_self_join_is_followed_from_either_place() -> None:
    assert _up(_routes(SHAPES["self"].sql)) == {"o": [["id"], ["o by c", "id"]]}


WINDOW = "SELECT {} AS id, count(*) OVER (PARTITION BY {}) AS n FROM {}"
FULL = "o a FULL JOIN c b ON a.c = b.id"
OPTIONAL = "p LEFT JOIN (SELECT a.c AS one, coalesce(a.c, b.id) AS k FROM o a JOIN c b ON a.c = b.id) t ON p.id = t.k"


@pytest.mark.parametrize(
    ("column", "partition", "sources"),
    [
        ("coalesce(a.c, b.id)", "coalesce(b.id, a.c)", FULL),
        ("coalesce(a.c, b.id)", "a.c, b.id", FULL),
        ("a.c", "coalesce(a.c, b.id), a.c", FULL),
        # Both sides of the inner join contribute to the same rows.
        ("t.one", "t.k", OPTIONAL),
        ("t.k", "t.one", OPTIONAL),
    ],
)
def test_a_column_that_its_partition_determines_is_computed_by(column: str, partition: str, sources: str) -> None:
    assert _routes(WINDOW.format(column, partition, sources)).scope == ("id",)


@pytest.mark.parametrize(
    ("column", "partition"),
    [
        # Rows that only b has are in the partitions of a.c, too.
        ("a.c", "coalesce(a.c, b.id)"),
        ("b.id", "coalesce(a.c, b.id)"),
        ("coalesce(a.c, b.id)", "a.c"),
        ("coalesce(a.c, b.id)", "a.c, b.r"),
    ],
)
def test_a_column_of_one_side_is_not_determined_by_the_merged_one(column: str, partition: str) -> None:
    with pytest.raises(ConfigError, match="no part of the view can be recomputed alone"):
        _routes(WINDOW.format(column, partition, FULL))


def test_a_column_of_one_side_is_not_determined_by_that_of_using() -> None:
    sources = "(SELECT id, c AS k FROM o) a FULL JOIN (SELECT r AS k FROM c) b USING (k)"
    with pytest.raises(ConfigError, match="no part of the view can be recomputed alone"):
        _routes(WINDOW.format("a.k", "k", sources))


def test_only_what_all_branches_tell_is_computed_by() -> None:
    assert _routes(SHAPES["union_of_kinds"].sql, "kind", "id").scope == ("id",)
    assert _routes(SHAPES["window"].sql, "c", "id").scope == ("c",)


@pytest.mark.parametrize(
    ("sql", "key", "nullable"),
    [
        ("SELECT id, n FROM o", ["id"], ()),
        ("SELECT c, count(*) AS n FROM o GROUP BY c", ["c"], ("c",)),
        ("SELECT coalesce(c, 0) AS k, count(*) AS n FROM o GROUP BY coalesce(c, 0)", ["k"], ()),
        ("SELECT coalesce(c, p) AS k, count(*) AS n FROM o GROUP BY coalesce(c, p)", ["k"], ("k",)),
        ("SELECT t.k, count(*) AS n FROM (SELECT coalesce(c, 0) AS k FROM o) t GROUP BY t.k", ["k"], ()),
        ("SELECT o.c, c.name FROM o JOIN c ON o.c = c.id", ["c", "name"], ("name",)),
        ("SELECT o.id, o.c, c.id AS d FROM o LEFT JOIN c ON o.c = c.id", ["id", "c", "d"], ("c", "d")),
        ("SELECT o.id, coalesce(c.name, '') AS name FROM o LEFT JOIN c ON o.c = c.id", ["id", "name"], ()),
        ("SELECT 'a' AS kind, id FROM o UNION ALL SELECT 'b' AS other, id FROM c", ["kind", "id"], ()),
        ("SELECT name, id FROM p UNION ALL SELECT 'b' AS name, id FROM c", ["name", "id"], ("name",)),
        ("SELECT c, row_number() OVER (PARTITION BY c ORDER BY id) AS at FROM o", ["c", "at"], ("c",)),
        ("SELECT o.c FROM o WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.id = o.c)", ["c"], ("c",)),
    ],
)
def test_key_columns_that_may_be_null_are_known(sql: str, key: list[str], nullable: tuple[str, ...]) -> None:
    assert _routes(sql, *key).nullable == nullable


def test_a_key_of_an_input_that_may_be_null_is_known() -> None:
    shapes = _shapes("SELECT id FROM o")
    inputs = {**shapes.inputs, "o": evolve(shapes.inputs["o"], null_keys=True)}
    assert routes(_settings("SELECT id FROM o", "id"), evolve(shapes, inputs=inputs)).nullable == ("id",)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT id, row_number() OVER (ORDER BY n, id) AS at FROM o", "PARTITION BY"),
        ("SELECT id, sum(n) OVER (PARTITION BY c) AS n FROM o", "PARTITION BY"),
        ("SELECT max(id) AS id FROM o", "GROUP BY"),
        # Rows that only p has are all in one partition.
        ("SELECT id, count(*) OVER (PARTITION BY c.id) AS n FROM c FULL JOIN p USING (id)", "PARTITION BY"),
        ("SELECT 1 AS id, sum(n) AS n FROM o GROUP BY 1", "compute it in a pipeline of service snapshots"),
        ("SELECT o.id FROM o JOIN p ON p.id <=> o.p", "Only = leads to the key, not <=>"),
        ("SELECT id FROM o ORDER BY n LIMIT 3", "LIMIT"),
        ("SELECT id FROM (SELECT * FROM o LIMIT 3)", "LIMIT"),
        ("SELECT o.id, (SELECT max(price) FROM p) AS most FROM o", "a change of 'p' does not determine which id"),
        ("SELECT id FROM o WHERE c NOT IN (SELECT id FROM c)", "a change of 'c' does not determine which id"),
        ("SELECT o.id FROM o JOIN p ON p.price > o.n", "a change of 'p' does not determine which id"),
        # A change of p leads to rows of a, or of b, which may be alone in a row of the FULL JOIN.
        (f"{MERGED} LEFT JOIN p ON p.id = t.c", "a change of 'p' does not determine which id"),
        (f"{MERGED} JOIN p ON p.id = t.c", "a change of 'p' does not determine which id"),
        (f"{MERGED} WHERE EXISTS (SELECT 1 FROM p WHERE p.id = t.c)", "a change of 'p' does not determine which id"),
        (
            "SELECT id FROM o a FULL JOIN o b USING (id, p) LEFT JOIN (SELECT id AS p FROM p) d USING (p)",
            "a change of 'p' does not determine which id",
        ),
        ("SELECT o.id, p.name FROM o JOIN p ON CAST(p.id AS string) = p.name", "a change of 'p' does not determine"),
        (
            "SELECT o.id, p.name FROM o JOIN p ON p.price = cast(o.n AS decimal(9,2))",
            r"\(p\.price \(bigint\) = o\.CAST\(`n` AS DECIMAL\(9, 2\)\) \(decimal\(9,2\)\): cast one of the two",
        ),
        # Of a row that joins none, the value is that of c, or of p if c is null.
        (MERGED_TWICE.format("LEFT"), "no part of the view can be recomputed alone"),
        (MERGED_TWICE.format("FULL"), "no part of the view can be recomputed alone"),
        ("SELECT c AS id, first(n) AS n FROM o GROUP BY c", "order in which rows come"),
        ("SELECT id, rand() AS n FROM o", "rand"),
        ("SELECT id, price FROM o", r"Column 'price' could not be .*; its tables and their columns: .*\bo \(id, "),
    ],
)
def test_what_no_part_of_can_be_computed_alone_is_refused(sql: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        _routes(sql)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT id FROM o GROUP BY ROLLUP (id)", "several ways at once"),
        ("SELECT id FROM o TABLESAMPLE (5 ROWS)", "sample"),
        ("SELECT o.id FROM o JOIN c ON c.name = o.c", "a change of 'c' does not determine"),
        ("SELECT id FROM (SELECT id FROM o UNION ALL SELECT id, c FROM o)", "1 columns on one side, and 2"),
    ],
)
def test_what_only_spark_would_run_is_refused_too(sql: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        routes(_settings(sql), _only_ids())


UNION = "WITH u AS (SELECT id, n FROM o UNION ALL SELECT id, c FROM o UNION ALL SELECT id, p FROM o)"
DOUBLED = ", ".join(f"u{n} AS (SELECT id FROM u{n - 1} UNION ALL SELECT id FROM u{n - 1})" for n in range(1, 30))


@pytest.mark.parametrize(
    "sql",
    [
        f"{UNION} SELECT a.id FROM u a {' '.join(f'JOIN u a{n} ON a{n}.id = a.id' for n in range(20))}",
        f"{UNION} SELECT id FROM o WHERE {' AND '.join(['id IN (SELECT id FROM u)'] * 20)}",
        f"WITH u0 AS (SELECT id FROM o), {DOUBLED} SELECT id FROM u29",
    ],
)
def test_unions_that_are_combined_in_too_many_ways_are_refused_at_once(sql: str) -> None:
    with pytest.raises(ConfigError, match="combines branches of unions in more than 32 ways"):
        derivations(sql, TABLES)


def test_joins_that_only_filter_are_followed() -> None:
    """The memory backend does not run them, so the view's columns are given."""
    for kind in ("SEMI", "ANTI"):
        found = routes(_settings(f"SELECT id FROM c LEFT {kind} JOIN o ON o.c = c.id"), _only_ids())
        assert _up(found) == {"c": [["id"]], "o": [["c"]]}


def test_a_column_that_a_natural_join_merges_needs_no_table() -> None:
    (found,) = derivations("SELECT id, price FROM c NATURAL JOIN p", TABLES)
    assert sorted(found.reads.values()) == ["c", "p"]
    with pytest.raises(ConfigError, match="Column 'id' is ambiguous"):
        derivations("SELECT id, price FROM c NATURAL JOIN p CROSS JOIN o", TABLES)


def test_what_cannot_be_followed_may_be_declared() -> None:
    sql = "SELECT o.id FROM o JOIN p ON p.price > o.n"
    declared = _routes(sql, p="SELECT o.id FROM o JOIN p ON p.price > o.n")
    assert [(read.upward, read.downward) for read in declared.of("p")] == [(None, None)]
    assert _routes(sql, p="all").scope == ("id",)


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="changes: there is no input 'x'"):
        _settings("SELECT id FROM o", x="all")
    with pytest.raises(ConfigError, match="Spark may group <=> and > otherwise"):
        _settings("SELECT id FROM o WHERE c <=> n > 1")
    with pytest.raises(ConfigError, match="no table 'x'"):
        _settings("SELECT id FROM x")
    with pytest.raises(ConfigError, match="key needs at least one column"):
        ViewSettings("v", {"o": ViewOf("o")}, (), "SELECT id FROM o")
    with pytest.raises(ConfigError, match="align = 'never'"):
        ViewSettings("v", {"o": ViewOf("o")}, ("id",), "SELECT id FROM o", align="never")


def test_a_view_of_several_pipelines_is_aligned_by_itself() -> None:
    one, two = {"o": ViewOf("o")}, {"o": ViewOf("o"), "c": ViewOf("c")}
    assert not ViewSettings("v", one, ("id",), "SELECT id FROM o").aligned
    assert ViewSettings("v", two, ("id",), "SELECT o.id FROM o JOIN c ON c.id = o.c").aligned
    assert ViewSettings("v", one, ("id",), "SELECT id FROM o", align="before").aligned


def test_the_moment_that_is_read_at_lies_before_the_watermark_where_rows_may_come_at_it() -> None:
    sql, two = "SELECT o.id FROM o JOIN c ON c.id = o.c", {"o": ViewOf("o"), "c": ViewOf("c")}
    assert ViewSettings("v", two, ("id",), sql).slack == timedelta(microseconds=1)
    assert ViewSettings("v", two, ("id",), sql, align="before").slack == timedelta(microseconds=1)
    assert ViewSettings("v", two, ("id",), sql, align="at").slack == timedelta()


def test_a_plan_survives_its_offsets() -> None:
    plan = ViewPlan({"o": 3}, None, None, "abc", {"o": "noon"}, {"o": "10"})
    found = ViewPlan.of(plan.to_offsets())
    assert (found, found.published, found.views) == (plan, plan.published, plan.views)
