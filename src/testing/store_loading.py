"""Contract: a load replaces a table's whole content by many rows, merged with each other; later commits build on it."""

from __future__ import annotations

from attrs import evolve

from ..domain.ports import KeptStore
from ..domain.table.change import Change
from ..domain.table.merge import Latest, Sum
from ..domain.table.schema import Schema
from ..domain.table.spec import Layout
from .store_harness import EVERY_TYPE, OF_EVERY_TYPE, StoreHarness, bag, both_layouts, spec_of

GROUPED = spec_of(
    "id bigint, seq bigint, x string, total bigint",
    ["id"],
    rules={"total": Sum()},
    groups=[Latest(["seq"], ["x"])],
)
PARTED = spec_of("day int, id bigint, total bigint", ["day", "id"], rules={"total": Sum()}, partition_by=["day"])
EVENTS = spec_of("id bigint, name string")


class LoadingContract(StoreHarness):
    @both_layouts
    def test_every_type_is_loaded_as_it_is(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, spec_of(EVERY_TYPE, ["id"], layout=layout))
        table.load([*OF_EVERY_TYPE])
        assert table.rows() == bag(*OF_EVERY_TYPE)

    @both_layouts
    def test_the_rows_of_a_load_are_folded(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(GROUPED, layout=layout))
        table.load([(1, 5, "old", 1, 0), (2, None, "none", 1, 1), (1, 6, "new", 2, 2), (1, 4, "late", None, 3)])
        assert table.rows() == bag((1, 6, "new", 3), (2, None, None, 1))

    @both_layouts
    def test_work_goes_on_upon_a_load(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(GROUPED, layout=layout))
        loaded = table.load([(key, 5, f"loaded {key}", 1) for key in range(40)])
        before = bag(*((key, 5, f"loaded {key}", 1) for key in range(40)))
        table.compact()
        assert table.rows() == before
        table.commit(append=[(40, 1, "appended", 1)], merge=[(0, 6, "merged", 1), (1, 4, "late", 1)], delete=[(2,)])
        rest = [(key, 5, f"loaded {key}", 1) for key in range(3, 40)]
        after = bag((0, 6, "merged", 2), (1, 5, "loaded 1", 2), (40, 1, "appended", 1), *rest)
        assert table.rows() == after
        assert sum(table.changes(loaded, table.newest or loaded).values()) == 2 * 2 + 1 + 1
        table.compact()
        table.commit(merge=[(3, 7, "once more", 1)])
        assert table.rows(table.matching([(3,), (4,)], ["id"])) == bag((3, 7, "once more", 2), (4, 5, "loaded 4", 1))
        assert table.rows_at(loaded) == before

    @both_layouts
    def test_a_load_leaves_nothing_of_before(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(GROUPED, layout=layout))
        first = table.commit(append=[(1, 9, "before", 9), (2, 9, "before", 9)])
        table.load([(1, 1, "loaded", 1), (3, 1, "loaded", 1)])
        assert table.rows() == bag((1, 1, "loaded", 1), (3, 1, "loaded", 1))
        assert table.rows_at(first) == bag((1, 9, "before", 9), (2, 9, "before", 9))
        table.rollback(first)
        assert table.rows() == bag((1, 9, "before", 9), (2, 9, "before", 9))
        table.load([])
        assert table.rows() == bag()
        table.commit(merge=[(1, 1, "merged", 1)])
        assert table.rows() == bag((1, 1, "merged", 1))

    def test_a_load_of_nothing_may_be_the_first(self, store: KeptStore) -> None:
        table = self.table(store, GROUPED)
        table.load([])
        table.commit(merge=[(1, 1, "merged", 1)])
        assert table.rows() == bag((1, 1, "merged", 1))

    @both_layouts
    def test_partitions_are_loaded_too(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(PARTED, layout=layout))
        table.load([(2, 1, 1, 0), (1, 1, 1, 1), (1, 2, 2, 2), (1, 1, 5, 3)])
        table.commit(merge=[(1, 2, 1), (3, 1, 1)])
        assert table.rows() == bag((2, 1, 1), (1, 1, 6), (1, 2, 3), (3, 1, 1))

    def test_without_a_key_repeats_are_kept(self, store: KeptStore) -> None:
        table = self.table(store, EVENTS)
        table.load([(1, "a"), (1, "a"), (None, None)])
        table.commit(append=[(1, "a")])
        assert table.rows() == bag((1, "a"), (1, "a"), (1, "a"), (None, None))

    def test_columns_go_by_name(self, store: KeptStore) -> None:
        table = self.table(store, EVENTS)
        table.commit_change(Change(load=self.frame([("a", 1)], Schema.parse("name string, id bigint"))))
        assert table.rows() == bag((1, "a"))
