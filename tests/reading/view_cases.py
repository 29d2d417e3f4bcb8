"""Views of the shapes that the public test suites of streaming databases try: their SQL, and the rows after each change.

The queries, the tables and the rows are our own; the rows were found by another engine, SQLite, over each state.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

ORDERS = ("id", "c", "n", "price", "tag")
CUSTOMERS = ("id", "name", "r")
CHANGES: list[dict[str, list[tuple[Any, ...]]]] = [
    {
        "o": [
            ("+I", 1, 1, 5, "1.50", "a"),
            ("+I", 2, 1, None, "2.25", "b"),
            ("+I", 3, 2, 3, None, "a"),
            ("+I", 4, None, 7, "4.00", None),
        ],
        "c": [("+I", 1, "ann", 10), ("+I", 2, "bob", 10), ("+I", 3, "cy", 20)],
    },
    {
        "o": [("-D", 1, 1, 5, "1.50", "a"), ("-U", 3, 2, 3, None, "a"), ("+U", 3, 2, None, None, "a")],
        "c": [("-U", 1, "ann", 10), ("+U", 1, "amy", 10)],
    },
    {
        "o": [
            ("+I", 5, 3, 1, "0.75", "b"),
            ("-U", 4, None, 7, "4.00", None),
            ("+U", 4, 3, 7, "4.00", None),
        ],
        "c": [("-D", 2, "bob", 10)],
    },
    {
        "o": [
            ("+I", 1, 2, 9, "1.00", "a"),
            ("-D", 5, 3, 1, "0.75", "b"),
            ("+I", 6, 3, 1, "0.75", "b"),
        ],
        "c": [("+I", 2, "bea", 20)],
    },
]
"""What comes to each table, one batch after the other: ``+I`` inserts, ``-D`` deletes, ``-U`` and ``+U`` update."""


@frozen
class View:
    """A view.

    Args:
        sql: its query over o (orders) and c (customers).
        key: its key.
        rows: what it shows after each batch of `CHANGES`, in the order of the key.
        changes: of inputs whose changes cannot be followed by the query.
    """

    sql: str
    key: tuple[str, ...]
    rows: list[list[tuple[Any, ...]]]
    changes: Mapping[str, str] = field(factory=dict)


VIEWS = {
    "null_after_delete": View(
        "SELECT c, sum(n) AS s, sum(n) FILTER (WHERE n > 4) AS big, count(n) AS k, min(n) AS lo, max(n) AS hi, count(DISTINCT tag) AS tags FROM o GROUP BY c",
        ("c",),
        [
            [(1, 5, 5, 1, 5, 5, 2), (2, 3, None, 1, 3, 3, 1)],
            [(1, None, None, 0, None, None, 1), (2, None, None, 0, None, None, 1)],
            [(1, None, None, 0, None, None, 1), (2, None, None, 0, None, None, 1), (3, 8, 7, 2, 1, 7, 1)],
            [(1, None, None, 0, None, None, 1), (2, 9, 9, 1, 9, 9, 1), (3, 8, 7, 2, 1, 7, 1)],
        ],
    ),
    "mean": View(
        "SELECT c, avg(n) AS mean, count(*) AS k FROM o GROUP BY c",
        ("c",),
        [
            [(1, 5.0, 2), (2, 3.0, 1)],
            [(1, None, 1), (2, None, 1)],
            [(1, None, 1), (2, None, 1), (3, 4.0, 2)],
            [(1, None, 1), (2, 9.0, 2), (3, 4.0, 2)],
        ],
    ),
    "inner": View(
        "SELECT o.id, c.name FROM o JOIN c ON o.c = c.id",
        ("id",),
        [
            [(1, "ann"), (2, "ann"), (3, "bob")],
            [(2, "amy"), (3, "bob")],
            [(2, "amy"), (4, "cy"), (5, "cy")],
            [(1, "bea"), (2, "amy"), (3, "bea"), (4, "cy"), (6, "cy")],
        ],
    ),
    "padded": View(
        "SELECT o.id, c.name, coalesce(c.r, 0) AS r FROM o LEFT JOIN c ON o.c = c.id",
        ("id",),
        [
            [(1, "ann", 10), (2, "ann", 10), (3, "bob", 10), (4, None, 0)],
            [(2, "amy", 10), (3, "bob", 10), (4, None, 0)],
            [(2, "amy", 10), (3, None, 0), (4, "cy", 20), (5, "cy", 20)],
            [(1, "bea", 20), (2, "amy", 10), (3, "bea", 20), (4, "cy", 20), (6, "cy", 20)],
        ],
    ),
    "left_sum": View(
        "SELECT c.id, c.name, count(o.id) AS k, sum(o.price) AS total FROM c LEFT JOIN o ON o.c = c.id AND o.n IS NOT NULL GROUP BY c.id, c.name",
        ("id",),
        [
            [(1, "ann", 1, Decimal("1.50")), (2, "bob", 1, None), (3, "cy", 0, None)],
            [(1, "amy", 0, None), (2, "bob", 0, None), (3, "cy", 0, None)],
            [(1, "amy", 0, None), (3, "cy", 2, Decimal("4.75"))],
            [(1, "amy", 0, None), (2, "bea", 1, Decimal("1.00")), (3, "cy", 2, Decimal("4.75"))],
        ],
    ),
    "right": View(
        "SELECT c.id, max(o.n) AS n FROM o RIGHT JOIN c ON o.c = c.id GROUP BY c.id",
        ("id",),
        [
            [(1, 5), (2, 3), (3, None)],
            [(1, None), (2, None), (3, None)],
            [(1, None), (3, 7)],
            [(1, None), (2, 9), (3, 7)],
        ],
    ),
    "full": View(
        "SELECT id, o.n, c.name FROM o FULL JOIN c USING (id)",
        ("id",),
        [
            [(1, 5, "ann"), (2, None, "bob"), (3, 3, "cy"), (4, 7, None)],
            [(1, None, "amy"), (2, None, "bob"), (3, None, "cy"), (4, 7, None)],
            [(1, None, "amy"), (2, None, None), (3, None, "cy"), (4, 7, None), (5, 1, None)],
            [(1, 9, "amy"), (2, None, "bea"), (3, None, "cy"), (4, 7, None), (6, 1, None)],
        ],
    ),
    "pairs": View(
        "SELECT a.id, b.id AS other FROM o a JOIN o b ON a.tag = b.tag AND a.id < b.id",
        ("id", "other"),
        [
            [(1, 3)],
            [],
            [(2, 5)],
            [(1, 3), (2, 6)],
        ],
    ),
    "cycle": View(
        "SELECT a.id AS p1, b.id AS p2 FROM o a JOIN o b ON a.c = b.id AND b.c = a.id",
        ("p1", "p2"),
        [
            [(1, 1)],
            [],
            [],
            [(1, 2), (2, 1)],
        ],
    ),
    "two_hops": View(
        "SELECT a.id, c.name FROM o a JOIN o b ON a.c = b.id JOIN c ON b.c = c.id",
        ("id",),
        [
            [(1, "ann"), (2, "ann"), (3, "ann")],
            [(3, "amy")],
            [(3, "amy")],
            [(1, "amy"), (2, "bea"), (3, "amy"), (4, "bea"), (6, "bea")],
        ],
    ),
    "exists": View(
        "SELECT id, name FROM c WHERE EXISTS (SELECT 1 FROM o WHERE o.c = c.id AND o.n > 4)",
        ("id",),
        [
            [(1, "ann")],
            [],
            [(3, "cy")],
            [(2, "bea"), (3, "cy")],
        ],
    ),
    "not_exists": View(
        "SELECT id, name FROM c WHERE NOT EXISTS (SELECT 1 FROM o WHERE o.c = c.id)",
        ("id",),
        [
            [(3, "cy")],
            [(3, "cy")],
            [],
            [],
        ],
    ),
    "in_list": View(
        "SELECT id, name FROM c WHERE id IN (SELECT CAST(c AS bigint) FROM o WHERE price < 2)",
        ("id",),
        [
            [(1, "ann")],
            [],
            [(3, "cy")],
            [(2, "bea"), (3, "cy")],
        ],
    ),
    "not_in_with_nulls": View(
        "SELECT id FROM c WHERE id NOT IN (SELECT CAST(c AS bigint) FROM o WHERE price > 3)",
        ("id",),
        [
            [],
            [],
            [(1,)],
            [(1,), (2,)],
        ],
        {"o": "all"},
    ),
    "above_a_maximum": View(
        "WITH m AS (SELECT max(r) AS most FROM c) SELECT o.id, o.n FROM o CROSS JOIN m WHERE o.n * 3 < m.most",
        ("id",),
        [
            [(1, 5), (3, 3)],
            [],
            [(5, 1)],
            [(6, 1)],
        ],
        {"c": "all"},
    ),
    "first_of_group": View(
        "SELECT tag, id FROM (SELECT tag, id, row_number() OVER (PARTITION BY tag ORDER BY n DESC NULLS LAST, id) AS at FROM o) x WHERE at = 1",
        ("tag",),
        [
            [("a", 1), ("b", 2)],
            [("a", 3), ("b", 2)],
            [("a", 3), ("b", 5)],
            [("a", 1), ("b", 6)],
        ],
    ),
    "lag": View(
        "SELECT c, id, lag(id) OVER (PARTITION BY c ORDER BY id) AS before FROM o",
        ("c", "id"),
        [
            [(1, 1, None), (1, 2, 1), (2, 3, None)],
            [(1, 2, None), (2, 3, None)],
            [(1, 2, None), (2, 3, None), (3, 4, None), (3, 5, 4)],
            [(1, 2, None), (2, 1, None), (2, 3, 1), (3, 4, None), (3, 6, 4)],
        ],
    ),
    "running": View(
        "SELECT c, id, sum(n) OVER (PARTITION BY c ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM o",
        ("c", "id"),
        [
            [(1, 1, 5), (1, 2, 5), (2, 3, 3)],
            [(1, 2, None), (2, 3, None)],
            [(1, 2, None), (2, 3, None), (3, 4, 7), (3, 5, 8)],
            [(1, 2, None), (2, 1, 9), (2, 3, 9), (3, 4, 7), (3, 6, 8)],
        ],
    ),
    "ranks": View(
        "SELECT tag, id, rank() OVER (PARTITION BY tag ORDER BY n DESC NULLS LAST) AS place FROM o",
        ("tag", "id"),
        [
            [("a", 1, 1), ("a", 3, 2), ("b", 2, 1)],
            [("a", 3, 1), ("b", 2, 1)],
            [("a", 3, 1), ("b", 2, 2), ("b", 5, 1)],
            [("a", 1, 1), ("a", 3, 2), ("b", 2, 2), ("b", 6, 1)],
        ],
    ),
    "union_all": View(
        "SELECT who, count(*) AS k, sum(x) AS x FROM (SELECT CAST(c AS bigint) AS who, CAST(n AS bigint) AS x FROM o UNION ALL SELECT id, r FROM c) u GROUP BY who",
        ("who",),
        [
            [(1, 3, 15), (2, 2, 13), (3, 1, 20)],
            [(1, 2, 10), (2, 2, 10), (3, 1, 20)],
            [(1, 2, 10), (2, 1, None), (3, 3, 28)],
            [(1, 2, 10), (2, 3, 29), (3, 3, 28)],
        ],
    ),
    "union": View(
        "SELECT CAST(c AS bigint) AS id FROM o UNION SELECT id FROM c",
        ("id",),
        [
            [(1,), (2,), (3,)],
            [(1,), (2,), (3,)],
            [(1,), (2,), (3,)],
            [(1,), (2,), (3,)],
        ],
    ),
    "except": View(
        "SELECT id FROM c EXCEPT SELECT CAST(c AS bigint) FROM o",
        ("id",),
        [
            [(3,)],
            [(3,)],
            [],
            [],
        ],
    ),
    "intersect": View(
        "SELECT id FROM c INTERSECT SELECT CAST(c AS bigint) FROM o",
        ("id",),
        [
            [(1,), (2,)],
            [(1,), (2,)],
            [(1,), (3,)],
            [(1,), (2,), (3,)],
        ],
    ),
    "distinct": View(
        "SELECT DISTINCT c, tag FROM o",
        ("c", "tag"),
        [
            [(1, "a"), (1, "b"), (2, "a")],
            [(1, "b"), (2, "a")],
            [(1, "b"), (2, "a"), (3, "b")],
            [(1, "b"), (2, "a"), (3, "b")],
        ],
    ),
    "having": View(
        "SELECT tag, count(*) AS k, sum(price) AS total FROM o GROUP BY tag HAVING count(*) > 1",
        ("tag",),
        [
            [("a", 2, Decimal("1.50"))],
            [],
            [("b", 2, Decimal("3.00"))],
            [("a", 2, Decimal("1.00")), ("b", 2, Decimal("3.00"))],
        ],
    ),
    "sums_of_counts": View(
        "SELECT r, count(*) AS people, sum(k) AS orders FROM (SELECT c.id, c.r, count(o.id) AS k FROM c LEFT JOIN o ON o.c = c.id GROUP BY c.id, c.r) x GROUP BY r",
        ("r",),
        [
            [(10, 2, 3), (20, 1, 0)],
            [(10, 2, 2), (20, 1, 0)],
            [(10, 1, 1), (20, 1, 2)],
            [(10, 1, 1), (20, 2, 4)],
        ],
    ),
    "sizes": View(
        "SELECT CASE WHEN n > 4 THEN 'many' WHEN n IS NULL THEN 'none' ELSE 'few' END AS size, count(*) AS k FROM o GROUP BY CASE WHEN n > 4 THEN 'many' WHEN n IS NULL THEN 'none' ELSE 'few' END",
        ("size",),
        [
            [("few", 1), ("many", 2), ("none", 1)],
            [("many", 1), ("none", 2)],
            [("few", 1), ("many", 1), ("none", 2)],
            [("few", 1), ("many", 2), ("none", 2)],
        ],
    ),
    "unlike": View(
        "SELECT id, tag FROM o WHERE tag NOT LIKE 'a%'",
        ("id",),
        [
            [(2, "b")],
            [(2, "b")],
            [(2, "b"), (5, "b")],
            [(2, "b"), (6, "b")],
        ],
    ),
    "largest": View(
        "SELECT c.id, (SELECT max(o.n) FROM o WHERE o.c = c.id) AS most FROM c",
        ("id",),
        [
            [(1, 5), (2, 3), (3, None)],
            [(1, None), (2, None), (3, None)],
            [(1, None), (3, 7)],
            [(1, None), (2, 9), (3, 7)],
        ],
    ),
    "default_customer": View(
        "SELECT o.id, c.name FROM o JOIN c ON coalesce(o.c, 1) = c.id",
        ("id",),
        [
            [(1, "ann"), (2, "ann"), (3, "bob"), (4, "ann")],
            [(2, "amy"), (3, "bob"), (4, "amy")],
            [(2, "amy"), (4, "cy"), (5, "cy")],
            [(1, "bea"), (2, "amy"), (3, "bea"), (4, "cy"), (6, "cy")],
        ],
    ),
    "prices": View(
        "SELECT price, count(*) AS k FROM o GROUP BY price",
        ("price",),
        [
            [(Decimal("1.50"), 1), (Decimal("2.25"), 1), (Decimal("4.00"), 1)],
            [(Decimal("2.25"), 1), (Decimal("4.00"), 1)],
            [(Decimal("0.75"), 1), (Decimal("2.25"), 1), (Decimal("4.00"), 1)],
            [(Decimal("0.75"), 1), (Decimal("1.00"), 1), (Decimal("2.25"), 1), (Decimal("4.00"), 1)],
        ],
    ),
    "share": View(
        "SELECT o.id, o.n, t.s FROM o JOIN (SELECT c, sum(n) AS s FROM o GROUP BY c) t ON t.c = o.c",
        ("id",),
        [
            [(1, 5, 5), (2, None, 5), (3, 3, 3)],
            [(2, None, None), (3, None, None)],
            [(2, None, None), (3, None, None), (4, 7, 8), (5, 1, 8)],
            [(1, 9, 9), (2, None, None), (3, None, 9), (4, 7, 8), (6, 1, 8)],
        ],
    ),
    "key_of_two": View(
        "SELECT c, tag, sum(price) AS total FROM o GROUP BY c, tag",
        ("c", "tag"),
        [
            [(1, "a", Decimal("1.50")), (1, "b", Decimal("2.25")), (2, "a", None)],
            [(1, "b", Decimal("2.25")), (2, "a", None)],
            [(1, "b", Decimal("2.25")), (2, "a", None), (3, "b", Decimal("0.75"))],
            [(1, "b", Decimal("2.25")), (2, "a", Decimal("1.00")), (3, "b", Decimal("0.75"))],
        ],
    ),
}
REFUSED = {
    "SELECT max(n) AS id FROM o": "GROUP BY",
    "SELECT count(*) AS id FROM o WHERE n > 1": "GROUP BY",
    "SELECT id FROM o ORDER BY n DESC LIMIT 1": "LIMIT",
    "SELECT id, row_number() OVER (ORDER BY n) AS place FROM o": "PARTITION BY",
    "SELECT o.id, c.name FROM o JOIN c ON o.c <=> c.id": "a change of 'c' does not determine which id",
    "SELECT o.id, c.name FROM o JOIN c ON o.n < c.r": "a change of 'c' does not determine which id",
    "SELECT id FROM c WHERE id NOT IN (SELECT CAST(c AS bigint) FROM o)": "a change of 'o' does not determine which id",
    "SELECT id FROM c WHERE id IN (SELECT c FROM o)": "another type",
    "SELECT id, (SELECT max(r) FROM c) AS most FROM o": "a change of 'c' does not determine which id",
    "SELECT o.id, c.name FROM o JOIN c ON o.price = c.id": "o.price (decimal(9,2)) = c.id (bigint): cast one",
    "SELECT tag AS id, first_value(n) AS n FROM o GROUP BY tag": "order in which rows come",
    "SELECT tag AS id, avg(price) AS mean FROM o GROUP BY tag": "divides decimals",
    "SELECT tag AS id, bool_or(n > 1) AS some FROM o GROUP BY tag": "not known without Spark",
    "SELECT id FROM o WHERE tag = 1": "string meets int",
    "SELECT id FROM o GROUP BY GROUPING SETS ((id), ())": "not known without Spark",
}
"""Queries that no view is kept of on memory, and a part of the reason."""
