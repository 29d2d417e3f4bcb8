"""Contract: nested values are kept, merged and compared as they are."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from ..domain.ports import KeptStore
from ..domain.table.merge import Latest
from ..domain.table.schema import column
from ..domain.table.spec import Layout
from .store_harness import StoreHarness, bag, both_layouts, spec_of

DDL = (
    "id bigint, tags array<string>, place struct<City:string,`order`:int,at:timestamp>,"
    " items array<struct<sku:string,n:tinyint,price:decimal(10,2),raw:binary,day:date,wall:timestamp_ntz,l:array<int>>>"
)
_WALL = datetime.fromisoformat("1969-12-31T23:59:59.000001")
_ITEM: dict[str, Any] = {
    "sku": "数 \\ '",
    "n": -128,
    "price": Decimal("-1.10"),
    "raw": b"\x00\xff",
    "day": date(1, 1, 3),
    "wall": _WALL,
    "l": [1, None],
}
_PLACE = {"City": "x", "order": 1, "at": datetime(1900, 1, 1, tzinfo=UTC)}
_EMPTY = [dict.fromkeys(_PLACE), dict.fromkeys(_ITEM)]
"""Structs of which all fields are null, which are not null themselves."""
FULL = (["a", None, ""], _PLACE, [_ITEM, None, _EMPTY[1]])
BARE: tuple[Any, ...] = ([], _EMPTY[0], [])
NULL = (None, None, None)


class NestedContract(StoreHarness):
    @both_layouts
    def test_nested_values_are_kept_as_they_are_and_a_change_inside_is_a_change(
        self, store: KeptStore, layout: Layout
    ) -> None:
        table = self.table(store, spec_of(DDL, ["id"], layout=layout))
        moved = (FULL[0], {**_PLACE, "order": 2}, FULL[2])
        stored = [(1, *FULL), (2, *FULL), (3, *BARE), (4, *NULL), (5, *NULL)]
        first = table.commit(append=stored)
        assert table.rows() == bag(*stored)
        table.commit(merge=[(1, *FULL), (2, *moved), (3, *NULL), (4, *BARE), (6, *FULL)], delete=[(5,)])
        assert table.rows() == bag((1, *FULL), (2, *moved), (3, *NULL), (4, *BARE), (6, *FULL))
        assert table.rows(table.matching([(2,)], ["id"])) == bag((2, *moved))
        assert table.changes(first, table.newest or first) == bag(
            *((2, *FULL, "-U"), (2, *moved, "+U"), (5, *NULL, "-D"), (6, *FULL, "+I")),
            *((3, *BARE, "-U"), (3, *NULL, "+U"), (4, *NULL, "-U"), (4, *BARE, "+U")),
        )
        table.compact()
        assert table.rows() == bag((1, *FULL), (2, *moved), (3, *NULL), (4, *BARE), (6, *FULL))

    def test_a_sequence_group_takes_nested_values_from_the_newest_row(self, store: KeptStore) -> None:
        ddl = "id bigint, at int, tags array<string>, place struct<city:string>"
        groups = (Latest(("at",), ("tags", "place")),)
        table = self.table(store, spec_of(ddl, ["id"], groups=groups))
        table.commit(
            merge=[(1, 2, ["new"], {"city": None}, 0), (1, 1, ["old"], {"city": "y"}, 1), (2, 1, None, None, 2)]
        )
        table.commit(merge=[(1, 1, ["older"], None, 0), (2, 2, [], {"city": "z"}, 1)])
        assert table.rows() == bag((1, 2, ["new"], {"city": None}), (2, 2, [], {"city": "z"}))

    def test_a_nested_column_may_be_new(self, store: KeptStore) -> None:
        narrow = spec_of("id bigint, n int", ["id"])
        first = self.table(store, narrow).commit(append=[(1, 1)])
        wide = narrow.with_schema(narrow.schema.plus(column("place", "struct<city:string>"), column("l", "array<int>")))
        table = self.table(self.reopen(), wide)
        table.sequence = 1
        table.commit(merge=[(2, 2, {"city": "x"}, [1])])
        assert table.rows() == bag((1, 1, None, None), (2, 2, {"city": "x"}, [1]))
        assert table.rows_at(first) == bag((1, 1, None, None))

    def test_a_table_without_a_key_takes_nested_values(self, store: KeptStore) -> None:
        table = self.table(store, spec_of(DDL))
        table.commit(append=[(1, *FULL), (1, *FULL), (2, *NULL)])
        table.commit(append=[(3, *BARE)])
        assert table.rows() == bag((1, *FULL), (1, *FULL), (2, *NULL), (3, *BARE))
