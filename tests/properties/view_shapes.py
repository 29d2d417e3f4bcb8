"""Queries of every shape that a view supports, and the tables that they read."""

from __future__ import annotations

from attrs import frozen

from headwater.domain.table.schema import Schema

TABLES = {
    "o": Schema.parse("id bigint, c bigint, p bigint, n bigint"),
    "c": Schema.parse("id bigint, name string, r bigint"),
    "p": Schema.parse("id bigint, name string, price bigint"),
    "s": Schema.parse("id bigint, a bigint, b__c bigint, a__b bigint, c bigint, d struct<e:bigint>, d_e bigint"),
}
"""Orders of customers and products, and rows with names that are alike; the key of each is `id`."""


@frozen
class Shape:
    """A query, and the key of its rows."""

    sql: str
    key: tuple[str, ...]


SHAPES = {
    "filter": Shape("SELECT id, n FROM o WHERE n > 1", ("id",)),
    "sum": Shape("SELECT c, sum(n) AS n, count(*) AS rows FROM o GROUP BY c", ("c",)),
    "join": Shape(
        "SELECT o.id, c.name, p.price * o.n AS due FROM o JOIN c ON o.c = c.id JOIN p ON p.id = o.p", ("id",)
    ),
    "join_sum": Shape(
        "SELECT c.id, c.name, sum(p.price * o.n) AS due FROM c JOIN o ON o.c = c.id JOIN p ON p.id = o.p"
        " GROUP BY c.id, c.name",
        ("id",),
    ),
    "left": Shape("SELECT c.id, c.name, o.id AS o, o.n FROM o LEFT JOIN c ON c.id = o.c", ("o",)),
    "left_sum": Shape(
        "SELECT c.id, max(c.name) AS name, sum(o.n) AS n FROM c LEFT JOIN o ON o.c = c.id AND o.n > 1 GROUP BY c.id",
        ("id",),
    ),
    "right": Shape("SELECT c.id, count(o.id) AS n FROM o RIGHT JOIN c ON c.id = o.c GROUP BY c.id", ("id",)),
    "left_key_of_optional": Shape("SELECT c.id, count(*) AS n FROM o LEFT JOIN c ON c.id = o.c GROUP BY c.id", ("id",)),
    "left_of_left": Shape(
        "SELECT c.id, count(p.id) AS n FROM c LEFT JOIN o ON o.c = c.id LEFT JOIN p ON p.id = o.p GROUP BY c.id",
        ("id",),
    ),
    "left_then_inner": Shape(
        "SELECT c.id, sum(p.price) AS n FROM c LEFT JOIN o ON o.c = c.id JOIN p ON p.id = o.p GROUP BY c.id", ("id",)
    ),
    "full": Shape(
        "SELECT id, max(c.name) AS c, max(p.name) AS p FROM c FULL JOIN p USING (id) GROUP BY id",
        ("id",),
    ),
    "merged_twice": Shape(
        "SELECT t.m + 1 AS k, count(*) AS n"
        " FROM (SELECT coalesce(a.c, b.n, a.p) AS m FROM o a JOIN o b ON a.c = b.n AND a.p = b.n) t GROUP BY t.m + 1",
        ("k",),
    ),
    "merged_twice_right": Shape(
        "SELECT t.m + 1 AS k, count(*) AS n"
        " FROM (SELECT coalesce(a.c, b.n, a.p) AS m FROM o a RIGHT JOIN o b ON a.c = b.n AND a.p = b.n) t"
        " GROUP BY t.m + 1",
        ("k",),
    ),
    "full_window": Shape("SELECT id, count(*) OVER (PARTITION BY id) AS n FROM c FULL JOIN p USING (id)", ("id",)),
    "full_then_left": Shape(
        "SELECT t.id, max(t.c) AS c, max(t.p) AS p, sum(o.n) AS n"
        " FROM (SELECT id, c.name AS c, p.name AS p FROM c FULL JOIN p USING (id)) t LEFT JOIN o ON o.c = t.id"
        " GROUP BY t.id",
        ("id",),
    ),
    "full_then_inner": Shape(
        "SELECT id, c.name, p.price, o.n FROM c FULL JOIN p USING (id) JOIN o USING (id)", ("id",)
    ),
    "full_of_full": Shape(
        "SELECT id, c.name, p.price, o.n FROM c FULL JOIN p USING (id) FULL JOIN o USING (id)", ("id",)
    ),
    "right_then_using": Shape(
        "SELECT id, c.name, p.price, o.n FROM c RIGHT JOIN p USING (id) LEFT JOIN o USING (id)", ("id",)
    ),
    "full_of_two_columns": Shape(
        "SELECT c, p, a.n, b.n AS r FROM (SELECT c, p, sum(n) AS n FROM o WHERE n > 1 GROUP BY c, p) a"
        " FULL JOIN (SELECT c, p, count(*) AS n FROM o JOIN p ON p.id = o.p WHERE p.price > 1 GROUP BY c, p) b USING (c, p)",
        ("c", "p"),
    ),
    "full_then_exists": Shape(
        "SELECT t.id, t.r FROM (SELECT id, c.r FROM c FULL JOIN p USING (id)) t"
        " WHERE EXISTS (SELECT 1 FROM o WHERE o.c = t.id)",
        ("id",),
    ),
    "using": Shape("SELECT id, c.name, p.name AS p FROM c JOIN p USING (id)", ("id",)),
    "using_left": Shape("SELECT id, c.name, p.name AS p FROM c LEFT JOIN p USING (id)", ("id",)),
    "of_two_widths": Shape("SELECT o.id, c.name FROM o JOIN c ON cast(o.c AS int) = c.id", ("id",)),
    "comma": Shape("SELECT o.id, c.name FROM o, c WHERE o.c = c.id AND c.r > 0", ("id",)),
    "named": Shape(
        "WITH totals AS (SELECT c AS who, sum(n) AS n FROM o GROUP BY c), big AS (SELECT * FROM totals WHERE n > 2)"
        " SELECT c.id, c.name, big.n FROM c JOIN big ON big.who = c.id",
        ("id",),
    ),
    "subquery": Shape(
        "SELECT c.id, t.n FROM c LEFT JOIN (SELECT c, max(n) AS n FROM o GROUP BY c) t ON t.c = c.id", ("id",)
    ),
    "through_totals": Shape(
        "SELECT o.id, o.n, t.n AS total FROM o JOIN (SELECT c, sum(n) AS n FROM o GROUP BY c) t ON t.c = o.c", ("id",)
    ),
    "window": Shape("SELECT c, id, row_number() OVER (PARTITION BY c ORDER BY n, id) AS place FROM o", ("c", "id")),
    "window_then_filter": Shape(
        "SELECT c, id, n FROM (SELECT *, row_number() OVER (PARTITION BY c ORDER BY n DESC, id) AS place FROM o)"
        " WHERE place <= 2",
        ("c", "id"),
    ),
    "newest": Shape(
        "SELECT c.id, o.n FROM c JOIN (SELECT *, row_number() OVER (PARTITION BY c ORDER BY id DESC) AS at FROM o) o"
        " ON o.c = c.id AND o.at = 1",
        ("id",),
    ),
    "self": Shape(
        "SELECT a.id, count(*) AS others FROM o a JOIN o b ON a.c = b.c AND a.id <> b.id GROUP BY a.id", ("id",)
    ),
    "union_all": Shape(
        "SELECT who, sum(n) AS n FROM (SELECT c AS who, n FROM o UNION ALL SELECT id, r FROM c) GROUP BY who", ("who",)
    ),
    "union_of_one_column_twice": Shape(
        "SELECT b, sum(d) AS d, max(a) AS a FROM (SELECT id AS a, c AS b, n AS d FROM o UNION ALL SELECT r, r, id FROM c)"
        " GROUP BY b",
        ("b",),
    ),
    "intersect_of_one_column_twice": Shape(
        "SELECT b, count(*) AS n FROM (SELECT id AS a, c AS b FROM o INTERSECT SELECT id, id FROM c) GROUP BY b", ("b",)
    ),
    "union": Shape("SELECT c AS id FROM o UNION SELECT id FROM c", ("id",)),
    "union_of_kinds": Shape(
        "SELECT 'c' AS kind, id, name FROM c UNION ALL SELECT 'p', id, name FROM p", ("kind", "id")
    ),
    "except": Shape("SELECT id FROM c EXCEPT SELECT c FROM o", ("id",)),
    "intersect": Shape("SELECT id FROM c INTERSECT SELECT c FROM o", ("id",)),
    "distinct": Shape("SELECT DISTINCT o.c, p.name FROM o JOIN p ON p.id = o.p", ("c", "name")),
    "exists": Shape("SELECT id, name FROM c WHERE EXISTS (SELECT 1 FROM o WHERE o.c = c.id AND o.n > 1)", ("id",)),
    "not_exists": Shape("SELECT id, name FROM c WHERE NOT EXISTS (SELECT 1 FROM o WHERE o.c = c.id)", ("id",)),
    "in": Shape("SELECT id, name FROM c WHERE id IN (SELECT c FROM o WHERE n > 1)", ("id",)),
    "scalar": Shape("SELECT id, (SELECT max(n) FROM o WHERE o.c = c.id) AS most FROM c", ("id",)),
    "having": Shape("SELECT c, sum(n) AS n FROM o GROUP BY c HAVING count(*) > 1", ("c",)),
    "computed_key": Shape("SELECT cast(n / 2 AS bigint) AS half, count(*) AS rows FROM o GROUP BY 1", ("half",)),
    "computed_of_computed": Shape(
        "SELECT s * 2 AS k, count(*) AS rows FROM (SELECT n + p AS s FROM o) GROUP BY s * 2", ("k",)
    ),
    "computed_negative": Shape("SELECT 0 - s AS k, count(*) AS n FROM (SELECT n - p AS s FROM o) GROUP BY 1", ("k",)),
    "join_on_computed": Shape(
        "SELECT c.id, count(*) AS n FROM c JOIN (SELECT n + p AS s FROM o) t ON t.s * 2 = c.id GROUP BY c.id", ("id",)
    ),
    "by_product": Shape(
        "SELECT p.id, sum(o.n) AS n, count(DISTINCT c.name) AS names FROM o JOIN c ON c.id = o.c JOIN p ON p.id = o.p"
        " GROUP BY p.id",
        ("id",),
    ),
    "three_deep": Shape(
        "SELECT c.r, sum(p.price) AS n FROM c JOIN o ON o.c = c.id JOIN p ON p.id = o.p WHERE c.r > 0 GROUP BY c.r",
        ("r",),
    ),
    "two_part_key": Shape(
        "SELECT o.c, o.p, sum(o.n * p.price) AS n FROM o JOIN p ON p.id = o.p GROUP BY o.c, o.p", ("c", "p")
    ),
    "field_and_column": Shape(
        "SELECT s.id, count(o.id) AS n FROM s LEFT JOIN o ON s.d.e = o.c AND s.d_e = o.p GROUP BY s.id", ("id",)
    ),
    "indexes_with_like_names": Shape(
        "SELECT o.id, sum(s.d_e) AS n, max(t.d_e) AS m FROM o LEFT JOIN s ON s.a = o.c AND s.b__c = o.p"
        " LEFT JOIN s t ON t.a__b = o.c AND t.c = o.p GROUP BY o.id",
        ("id",),
    ),
    "texts_that_differ_in_signs": Shape(
        "SELECT c.id, count(p.id) AS n FROM c JOIN p ON concat(c.name, '.') = concat(p.name, '.')"
        " AND concat(c.name, '_') = concat(p.name, '_') GROUP BY c.id",
        ("id",),
    ),
    "texts_that_differ_in_case": Shape(
        "SELECT c.id, count(p.id) AS n FROM c JOIN p ON concat(c.name, 'A') = concat(p.name, 'A')"
        " AND concat(c.name, 'a') = concat(p.name, 'a') GROUP BY c.id",
        ("id",),
    ),
}
