"""Contract: every merge rule gives the result of the reference fold, however the rows are split into commits."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from attrs import evolve

from ..domain.errors import SumOverflow
from ..domain.ports import KeptStore
from ..domain.table.merge import KeepFirst, LastNonNull, Latest, Max, Min, Sum
from ..domain.table.spec import Layout
from .store_harness import Row, StoreHarness, TableDriver, bag, both_layouts, spec_of

RULED = spec_of(
    "id bigint, replaced int, kept int, summed bigint, amount decimal(18,2), low int, high int, known string",
    ["id"],
    rules={"kept": KeepFirst(), "summed": Sum(), "amount": Sum(), "low": Min(), "high": Max(), "known": LastNonNull()},
)
GROUPED = spec_of(
    "id bigint, a int, b int, x string, y string, seq bigint, z int, total int",
    ["id"],
    rules={"total": Sum()},
    groups=[Latest(["a", "b"], ["x", "y"]), Latest(["seq"], ["z"])],
)
FILED = spec_of("id bigint, file string, at bigint, x string", ["id"], groups=[Latest(["file", "at"], ["x"])])
SUMMED = spec_of(
    "id bigint, whole bigint, small int, wide decimal(38,2), amount decimal(18,2)",
    ["id"],
    rules={"whole": Sum(), "small": Sum(), "wide": Sum(), "amount": Sum()},
)
MOST: Row = (1, 2**63 - 1, 2**31 - 1, Decimal("9" * 36 + ".99"), Decimal("9" * 16 + ".99"))
TAKEN_BACK: Row = (1, 1 - 2**63, 1 - 2**31, Decimal("-" + "9" * 36 + ".99"), Decimal("-" + "9" * 16 + ".99"))
FIRST: Row = (1, 1, 1, 1, Decimal("0.10"), 5, 5, "first")
SECOND: Row = (1, 2, 2, 2, Decimal("0.20"), 3, 3, "second")
THIRD: Row = (1, 3, 3, 3, Decimal("-0.40"), 4, 6, None)
ALL_THREE: Row = (1, 3, 1, 6, Decimal("-0.10"), 3, 6, "second")
NOTHING: Row = (1, *[None] * 7)


def _merge_and_read(table: TableDriver, row: Row) -> None:
    table.commit(merge=[row])
    table.rows()


class MergingContract(StoreHarness):
    @both_layouts
    def test_each_rule_across_commits(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(RULED, layout=layout))
        table.commit(append=[FIRST, (2, *FIRST[1:])])
        table.commit(merge=[SECOND])
        table.commit(merge=[THIRD])
        assert table.rows() == bag(ALL_THREE, (2, *FIRST[1:]))

    @both_layouts
    def test_each_rule_within_a_commit(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(RULED, layout=layout))
        table.commit(merge=[(*THIRD, 7), (*FIRST, 5), (*SECOND, 6), (2, *SECOND[1:], 1)])
        assert table.rows() == bag(ALL_THREE, (2, *SECOND[1:]))

    @both_layouts
    def test_sums_that_overflow_on_the_way_are_exact(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(SUMMED, layout=layout))
        table.commit(merge=[(*MOST, 0), (*MOST, 1), (*TAKEN_BACK, 2), (2, 1, 1, Decimal(1), None, 3)])
        table.commit(merge=[(*TAKEN_BACK, 0), (*TAKEN_BACK, 1), (*MOST, 2), (*MOST, 3)])
        assert table.rows() == bag(MOST, (2, 1, 1, Decimal(1), None))
        table.commit(merge=[TAKEN_BACK])
        assert table.rows() == bag((1, 0, 0, Decimal(0), Decimal(0)), (2, 1, 1, Decimal(1), None))

    @both_layouts
    @pytest.mark.parametrize("at", range(1, 5))
    def test_a_sum_that_does_not_fit_stops_the_commit_or_the_read(
        self, store: KeptStore, layout: Layout, at: int
    ) -> None:
        table = self.table(store, evolve(SUMMED, layout=layout))
        more = tuple(value if place in {0, at} else None for place, value in enumerate(MOST))
        with pytest.raises(SumOverflow) as caught:
            table.commit(merge=[(*MOST, 0), (*more, 1)])
        name, ddl = SUMMED.schema.names[at], SUMMED.schema.columns[at].type.ddl
        assert f"column {name!r}: the sum of group (id = 1) does not fit into {ddl}" in str(caught.value)
        assert not table.sequence
        table.commit(merge=[MOST])
        with pytest.raises(SumOverflow), self.explaining():
            _merge_and_read(table, more)

    @both_layouts
    def test_each_rule_with_nulls(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(RULED, layout=layout))
        table.commit(append=[NOTHING, (2, *FIRST[1:]), (3, *NOTHING[1:])])
        table.commit(merge=[FIRST, (2, *NOTHING[1:]), (3, *NOTHING[1:])])
        met = (1, 1, None, 1, Decimal("0.10"), 5, 5, "first")
        assert table.rows() == bag(met, (2, None, *FIRST[2:]), (3, *NOTHING[1:]))

    @both_layouts
    def test_a_group_takes_the_highest_sequence(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(GROUPED, layout=layout))
        old = (5, 5, "old", "old", 5, 0, 1)
        table.commit(append=[(key, *old) for key in range(1, 8)])
        cases = {
            1: ((5, 6, "new", None, 4, 9, 1), (5, 6, "new", None, 5, 0, 2)),
            2: ((5, 4, "new", "new", 6, None, 1), (5, 5, "old", "old", 6, None, 2)),
            3: ((5, 5, "new", None, 5, 9, None), (5, 5, "new", None, 5, 9, 1)),
            4: ((None, None, "new", "new", None, 9, 1), (5, 5, "old", "old", 5, 0, 2)),
            5: ((None, 9, "new", "new", 5, 9, 1), (5, 5, "old", "old", 5, 9, 2)),
            6: ((6, None, "new", "new", 6, 9, 1), (6, None, "new", "new", 6, 9, 2)),
            7: ((5, None, "new", "new", 6, 9, 1), (5, 5, "old", "old", 6, 9, 2)),
        }
        table.commit(merge=[(key, *incoming) for key, (incoming, _) in cases.items()])
        assert table.rows() == bag(*((key, *expected) for key, (_, expected) in cases.items()))

    @both_layouts
    def test_a_text_that_is_a_name_and_a_number_is_compared_by_its_number(
        self, store: KeptStore, layout: Layout
    ) -> None:
        table = self.table(store, evolve(FILED, layout=layout))
        cases = [
            ("bin.999999", "bin.1000000", True),
            ("bin.1000000", "bin.999999", False),
            ("v9", "v10", True),
            ("9", "10", True),
            ("v09", "v8", False),
            ("v09", "v9", True),  # equal sequences: the row that arrives later wins
            ("a10", "b9", True),
            ("2024-03-01 09:00:01", "2024-03-01 09:00:00.5", False),
            ("1.25", "1.5", True),
            ("v18446744073709551615", "v9223372036854775808", False),
            ("", "1", True),
            (None, "v1", True),
            ("ж9", "ж10", True),
        ]
        table.commit(append=[(key, old, 5, "old") for key, (old, _, _) in enumerate(cases)])
        table.commit(merge=[(key, new, 5, "new") for key, (_, new, _) in enumerate(cases)])
        assert table.rows() == bag(
            *((key, new, 5, "new") if wins else (key, old, 5, "old") for key, (old, new, wins) in enumerate(cases))
        )
        table.commit(merge=[(100, new, 5, "new", 1) for _, new, _ in cases[:1]] + [(100, "bin.999999", 9, "old", 2)])
        table.compact()
        assert table.rows(table.matching([(100,)], ["id"])) == bag((100, "bin.1000000", 5, "new"))

    @both_layouts
    def test_a_group_that_never_had_a_sequence_stays_null(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(GROUPED, layout=layout))
        unnumbered = (None, None, "x", "y", None, 1, None)
        table.commit(merge=[(1, *unnumbered, 0), (1, *unnumbered, 1), (2, None, 1, "x", "y", None, 1, 1, 0)])
        table.commit(merge=[(2, None, 1, "new", None, None, 2, 1)])
        nothing = (None, None, None, None, None, None, None)
        assert table.rows() == bag((1, *nothing), (2, None, 1, "new", None, None, None, 2))

    @both_layouts
    def test_a_stored_row_may_be_newer_than_one_of_two_that_come(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(GROUPED, layout=layout))
        table.commit(merge=[(1, 5, 0, "five", "five", 5, 5, 1)])
        table.commit(merge=[(1, 6, 0, "six", None, 1, 1, 1, 0), (1, 4, 0, "four", "four", 9, 9, 1, 1)])
        table.commit(merge=[(1, 5, 9, "late", "late", 8, 8, 1)])
        assert table.rows() == bag((1, 6, 0, "six", None, 9, 9, 4))

    @both_layouts
    def test_groups_go_through_all_that_may_happen(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(GROUPED, layout=layout))
        table.commit(merge=[(1, 5, 5, "one", "one", 5, 5, 1), (2, 5, 5, "two", "two", 5, 5, 1)])
        second = table.commit(merge=[(1, 6, 0, "six", None, None, None, 1), (3, 1, 1, "three", None, None, None, None)])
        then = bag((1, 6, 0, "six", None, 5, 5, 2), (2, 5, 5, "two", "two", 5, 5, 1), (3, 1, 1, "three", *[None] * 4))
        table.compact()
        assert table.rows() == table.rows_at(second) == then
        table.commit(merge=[(1, 5, 9, "late", "late", 9, 9, 1)], delete=[(2,)])
        late = bag((1, 6, 0, "six", None, 9, 9, 3), (3, 1, 1, "three", *[None] * 4))
        assert table.rows() == late
        table.commit(merge=[(2, 1, 1, "again", None, None, None, 1)])
        table.compact()
        fifth = table.newest
        assert table.rows() == late + bag((2, 1, 1, "again", None, None, None, 1))
        table.rollback(second)
        assert table.rows() == then
        table.commit(merge=[(1, 7, 7, "seven", None, 1, 1, 1)])
        assert table.rows(table.matching([(1,)], ["id"])) == bag((1, 7, 7, "seven", None, 5, 5, 3))
        table.commit(overwrite=[(2, 1, 1, "anew", None, 1, 1, 1)])
        newest = table.commit(merge=[(2, 0, 0, "old", "old", 2, 2, 1)])
        table.compact()
        assert table.rows() == bag((2, 1, 1, "anew", None, 2, 2, 2))
        assert table.rows_at(second) == then
        assert table.changes(second, newest) == bag(
            *((*row, "-D") for row in then if row[0] != 2),
            (2, 5, 5, "two", "two", 5, 5, 1, "-U"),
            (2, 1, 1, "anew", None, 2, 2, 2, "+U"),
        )
        assert table.rows_at(fifth) == late + bag((2, 1, 1, "again", None, None, None, 1))

    @both_layouts
    def test_other_types_are_folded_too(self, store: KeptStore, layout: Layout) -> None:
        rules = {"first": Min(), "last": Max(), "on": Max(), "word": Min(), "flag": LastNonNull(), "raw": KeepFirst()}
        ddl = "id bigint, first timestamp, last timestamp, on date, word string, flag boolean, raw binary"
        table = self.table(store, spec_of(ddl, ["id"], rules=rules, layout=layout))
        early, late = datetime(1969, 1, 1, 0, 0, 0, 1, UTC), datetime(2024, 1, 1, tzinfo=UTC)
        table.commit(append=[(1, late, late, date(2024, 1, 1), "b", True, b"\x00")])
        table.commit(merge=[(1, early, early, date(1969, 1, 1), "a", None, b"\x01")])
        assert table.rows() == bag((1, early, late, date(2024, 1, 1), "a", True, b"\x00"))
