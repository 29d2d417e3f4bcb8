"""Contract: the effect of each part of a change on the rows, alone and with other parts."""

from __future__ import annotations

from attrs import evolve

from ..domain.ports import KeptStore
from ..domain.table.change import Change
from ..domain.table.merge import Sum
from ..domain.table.schema import Schema
from ..domain.table.spec import Layout
from .store_harness import StoreHarness, bag, both_layouts, spec_of

NAMES = spec_of("id bigint, name string", ["id"])
TOTALS = spec_of("day int, id bigint, total bigint", ["day", "id"], rules={"total": Sum()}, partition_by=["day"])
EVENTS = spec_of("id bigint, name string")


class CommittingContract(StoreHarness):
    @both_layouts
    def test_a_change_appends_merges_and_deletes_at_once(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(TOTALS, layout=layout))
        table.commit(append=[(1, 1, 10), (1, 2, 20), (2, 1, 30), (2, 2, 40)])
        table.commit(append=[(1, 3, 1), (3, 1, 1)], merge=[(1, 1, 5), (4, 1, 5)], delete=[(2, 1), (1, 2)])
        assert table.rows() == bag((1, 1, 15), (2, 2, 40), (1, 3, 1), (3, 1, 1), (4, 1, 5))

    def test_columns_go_by_name(self, store: KeptStore) -> None:
        table = self.table(store, NAMES)
        swapped = Schema.parse("name string, id bigint")
        table.commit_change(Change(append=self.frame([("a", 1)], swapped), merge=self.frame([("b", 2)], swapped)))
        table.commit_change(Change(delete=self.frame([("x", 1)], swapped)))
        assert table.rows() == bag((2, "b"))

    @both_layouts
    def test_a_change_may_be_computed_from_the_table(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(TOTALS, layout=layout))
        table.commit(append=[(1, 1, 10), (2, 1, 30)])
        table.commit_change(Change(merge=table.frame()))
        assert table.rows() == bag((1, 1, 20), (2, 1, 60))
        table.commit_change(Change(overwrite=table.frame()))
        assert table.rows() == bag((1, 1, 20), (2, 1, 60))

    @both_layouts
    def test_overwriting_leaves_nothing_of_before(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(TOTALS, layout=layout))
        first = table.commit(append=[(1, 1, 10), (2, 1, 30)])
        table.commit(overwrite=[(2, 1, 1), (3, 1, 2)])
        assert table.rows() == bag((2, 1, 1), (3, 1, 2))
        table.commit(merge=[(1, 1, 5), (2, 1, 5)])
        assert table.rows() == bag((1, 1, 5), (2, 1, 6), (3, 1, 2))
        table.commit(overwrite=[])
        assert table.rows() == bag()
        assert table.rows_at(first) == bag((1, 1, 10), (2, 1, 30))

    def test_a_table_without_key_keeps_repeats(self, store: KeptStore) -> None:
        table = self.table(store, EVENTS)
        table.commit(append=[(1, "a"), (1, "a")])
        table.commit(append=[(1, "a"), (None, None)])
        assert table.rows() == bag((1, "a"), (1, "a"), (1, "a"), (None, None))
        table.commit(overwrite=[(2, "b"), (2, "b")])
        assert table.rows() == bag((2, "b"), (2, "b"))

    @both_layouts
    def test_a_change_of_nothing_makes_a_version(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(NAMES, layout=layout))
        versions = [table.commit(append=[(1, "a")]), table.commit(), table.commit(append=[], merge=[], delete=[])]
        assert len(set(versions)) == len(versions)
        assert [table.rows_at(version) for version in versions] == [bag((1, "a"))] * len(versions)
        found = [commit.mark.sequence for commit in store.versions(NAMES.name) if commit.mark]
        assert found == [3, 2, 1]

    @both_layouts
    def test_deleting_is_final_until_a_row_comes_again(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(TOTALS, layout=layout))
        table.commit(append=[(1, 1, 10), (1, 2, 20), (1, 3, 30)])
        table.commit(delete=[(1, 1), (1, 2), (9, 9)])
        assert table.rows() == bag((1, 3, 30))
        table.commit(append=[(1, 1, 1)], merge=[(1, 2, 2)])
        assert table.rows() == bag((1, 1, 1), (1, 2, 2), (1, 3, 30))
        table.commit(merge=[(1, 1, 1)], delete=[(1, 2), (1, 2)])
        assert table.rows() == bag((1, 1, 2), (1, 3, 30))

    @both_layouts
    def test_rows_of_one_key_are_taken_by_their_position(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(NAMES, layout=layout))
        table.commit(append=[(1, "stored")])
        table.commit(merge=[(1, "last", 9), (2, "first", 1), (1, "middle", 4), (2, "second", 3), (1, "early", 2)])
        assert table.rows() == bag((1, "last"), (2, "second"))
        assert table.frame().collect_schema().names() == ["id", "name"]
