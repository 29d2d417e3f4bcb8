"""Contract: creating and widening tables, and reading all or some rows of a version."""

from __future__ import annotations

from abc import abstractmethod
from datetime import UTC, date, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any

import narwhals as nw
import pytest
from attrs import evolve

from ..domain.errors import SchemaConflict, VersionNotFound
from ..domain.ports import KeptStore, Version
from ..domain.table.change import Between, Change, Matching
from ..domain.table.schema import Column, DataType, Schema, column
from ..domain.table.spec import Layout, TableSpec
from .frames import BROKEN
from .store_harness import EVERY_TYPE, OF_EVERY_TYPE, Bag, StoreHarness, TableDriver, bag, both_layouts, spec_of

NAMES = spec_of("id bigint, name string", ["id"])
# No dot and no backtick: narwhals passes names to Spark unquoted, so no service could use such a column there.
ODD = 'o\'dd "näme" / x'
# Two thousand digests take more bytes than this, even when compressed.
_MANY = 30_000
_ENDS = [
    (wall.date(), wall.replace(tzinfo=UTC), wall)
    for wall in map(datetime.fromisoformat, ("0001-01-01T00:00:00", "9999-12-31T23:59:59.999999"))
]
ODD_VALUES = ("it's", 'say "hi"', "back\\slash", "a/b=c%20 d", "naïve 数", "`tick`", " spaced ", "${x}", "null")


class EnsureContract(StoreHarness):
    @abstractmethod
    def broken(self, schema: Schema) -> nw.LazyFrame[Any]:
        """A frame that fails when it is computed; the error's message contains `frames.BROKEN`."""

    def test_a_new_table_is_empty(self, store: KeptStore) -> None:
        table = self.table(store, NAMES)
        assert table.rows() == bag()
        assert table.frame().collect_schema().names() == ["id", "name"]
        assert [commit for commit in store.versions(NAMES.name) if commit.mark] == []

    def test_ensuring_again_keeps_the_rows(self, store: KeptStore) -> None:
        table = self.table(store, NAMES)
        table.commit(append=[(1, "a")])
        again = self.reopen()
        again.ensure(NAMES)
        assert self.rows(again.read(NAMES.name, table.newest)) == [(1, "a")]

    @both_layouts
    def test_new_columns_are_null_in_rows_from_before(self, store: KeptStore, layout: Layout) -> None:
        narrow = evolve(NAMES, layout=layout)
        first = self.table(store, narrow).commit(append=[(1, "a"), (2, "b")])
        wide = evolve(narrow, schema=narrow.schema.plus(column("n", "int")))
        assert self.reopen().ensure(wide).names == ("n",)
        table = self.table(self.reopen(), wide)
        assert table.rows_at(first) == bag((1, "a", None), (2, "b", None))
        table.sequence = 1
        table.commit(merge=[(2, "c", 7), (3, "d", 8)])
        assert table.rows() == bag((1, "a", None), (2, "c", 7), (3, "d", 8))
        assert table.rows_at(first) == bag((1, "a", None), (2, "b", None))

    def test_to_ensure_writes_nothing(self, store: KeptStore) -> None:
        self.table(store, NAMES)
        other = self.table(self.reopen(), spec_of("title string, n int", ["title"]))
        assert list(store.versions(NAMES.name)) == []
        other.commit(append=[("a", 1)])
        assert other.rows() == bag(("a", 1))

    @both_layouts
    def test_a_column_whose_epoch_failed_can_be_taken_back(self, store: KeptStore, layout: Layout) -> None:
        narrow = evolve(NAMES, layout=layout)
        self.table(store, narrow).commit(append=[(1, "a")])
        wide, other = (evolve(narrow, schema=narrow.schema.plus(column("n", each))) for each in ("int", "string"))
        table = self.table(self.reopen(), wide)
        table.sequence = 1
        with pytest.raises(Exception, match=BROKEN):
            table.commit_change(Change(append=self.broken(wide.schema)))
        for spec, row in ((narrow, (2, "b")), (other, (3, "c", "new"))):
            again = self.table(self.reopen(), spec)
            again.sequence = len(row) - 1
            again.commit(merge=[row])
        assert again.rows() == bag((1, "a", None), (2, "b", None), (3, "c", "new"))

    @both_layouts
    def test_a_column_of_work_that_is_taken_back_goes_with_it(self, store: KeptStore, layout: Layout) -> None:
        """If an epoch fails at one of its tables, the columns that it added to the others are still there."""
        narrow = evolve(NAMES, layout=layout)
        first = self.table(store, narrow).commit(append=[(1, "a")])
        wide = evolve(narrow, schema=narrow.schema.plus(column("n", "int"), column("m", "int")))
        table = self.table(self.reopen(), wide)
        table.sequence = 1
        table.commit(merge=[(1, "lost", 7, 7), (2, "lost", 8, 8)])
        with pytest.raises(SchemaConflict):
            self.reopen().ensure(narrow)
        reopened = self.reopen()
        reopened.ensure(narrow, {narrow.name: first} if first else {})
        table = TableDriver(self, reopened, narrow, sequence=2)
        table.rollback(first)
        assert table.rows() == bag((1, "a"))
        table.commit(merge=[(2, "b")])
        assert table.rows() == bag((1, "a"), (2, "b"))
        again = self.table(self.reopen(), evolve(narrow, schema=narrow.schema.plus(column("n", "int"))))
        again.sequence = 4
        again.commit(merge=[(2, "c", 9)])
        assert again.rows() == bag((1, "a", None), (2, "c", 9))
        with pytest.raises(SchemaConflict):
            self.reopen().ensure(narrow)

    def test_any_other_difference_is_a_conflict(self, store: KeptStore) -> None:
        first = self.table(store, NAMES).commit(append=[(1, "a")])
        different = (
            spec_of("id bigint, name int", ["id"]),
            spec_of("id bigint, title string", ["id"]),
            spec_of("number bigint, name string", ["number"]),
            spec_of("ID bigint, NAME string", ["ID"]),
            spec_of("id bigint, name string", ["id", "name"]),
            spec_of("id bigint, name string", ["id"], partition_by=["id"]),
        )
        for spec in different:
            for published in (None, {NAMES.name: first} if first else {}):
                with pytest.raises(SchemaConflict, match=NAMES.name):
                    self.reopen().ensure(spec, published)


class ReadingContract(StoreHarness):
    @both_layouts
    def test_every_version_keeps_its_rows(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(NAMES, layout=layout))
        first = table.commit(append=[(1, "a"), (2, "b")])
        second = table.commit(merge=[(2, "c")], delete=[(1,)])
        assert table.rows_at(None) == bag()
        assert table.rows_at(first) == bag((1, "a"), (2, "b"))
        assert table.rows_at(second) == bag((2, "c"))

    @both_layouts
    def test_files_take_what_they_took_when_they_were_written(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(NAMES, layout=layout))
        name, sizes = table.spec.name, {}
        for rows in ([(0, "a")], [(id_, sha256(b"%d" % id_).hexdigest()) for id_ in range(1, 2_000)]):
            version = table.commit(append=rows)
            sizes[version] = store.size(name, version)
        few, many = sizes.values()
        assert 0 < few < many - _MANY
        table.compact()
        left = table.commit(overwrite=[(0, "a")])
        assert 0 < store.size(name, left) < many - _MANY
        again = self.reopen()
        again.ensure(table.spec)
        assert {version: again.size(name, version) for version in sizes} == sizes

    def test_a_version_that_never_was_is_not_found(self, store: KeptStore) -> None:
        table = self.table(store, NAMES)
        table.commit(append=[(1, "a")])
        with pytest.raises(VersionNotFound):
            store.read(NAMES.name, Version("999999"))
        with pytest.raises(VersionNotFound):
            store.size(NAMES.name, Version("999999"))

    @pytest.mark.parametrize(
        ("layout", "partition_by"),
        [(Layout.LOG, ()), (Layout.LOG, ("day",)), (Layout.MERGED, ("day",))],
        ids=["log", "log-partitioned", "merged-partitioned"],
    )
    def test_only_matching_rows_are_returned(
        self, store: KeptStore, layout: Layout, partition_by: tuple[str, ...]
    ) -> None:
        spec = spec_of("day int, id bigint, n int", ["day", "id"], partition_by=partition_by, layout=layout)
        table = self.table(store, spec)
        table.commit(append=[(1, 1, 10), (1, 2, 20), (2, 1, 30), (3, 1, 40)])
        table.commit(merge=[(1, 2, 99), (3, 9, 50)])
        both, look = ("day", "id"), table.matching
        cases = {
            "one column of the key": (look([(1,), (1,)], ["id"]), bag((1, 1, 10), (2, 1, 30), (3, 1, 40))),
            "the whole key": (look([(1, 2), (2, 2), (3, 9)], both), bag((1, 2, 99), (3, 9, 50))),
            "a column beside the key": (look([(20,), (30,)], ["n"]), bag((2, 1, 30))),
            "no such key": (look([(7, 7)], both), bag()),
            "no keys at all": (look([], both), bag()),
            "null equals nothing": (look([(1, None), (None, 1)], both), bag()),
            "values": (look(day=(1, 3)), bag((1, 1, 10), (1, 2, 99), (3, 1, 40), (3, 9, 50))),
            "no values": (look(day=()), bag()),
            "a range": (look(day=Between(2, 3)), bag((2, 1, 30), (3, 1, 40), (3, 9, 50))),
            "newest image": (look(n=Between(15, 45)), bag((2, 1, 30), (3, 1, 40))),
            "both literals": (look(day=(1, 2), n=(99, 40)), bag((1, 2, 99))),
            "keys and literals": (look([(1,)], ["id"], day=Between(1, 2)), bag((1, 1, 10), (2, 1, 30))),
        }
        assert {name: table.rows(matching) for name, (matching, _) in cases.items()} == {
            name: expected for name, (_, expected) in cases.items()
        }

    @both_layouts
    def test_rows_ask_for_their_keys(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, spec_of("day int, id bigint, n int", ["day", "id"], layout=layout))
        asked = [(1, 1, "a"), (1, 1, "again"), (1, 7, "no row"), (2, 1, "outside"), (1, None, "null"), (1, 2, "b")]
        rows = self.frame(asked, Schema.parse("day int, id bigint, who string"))
        look = Matching(rows.select("day", "id"), {"day": (1,)})

        def found() -> Bag:
            return bag(*self.rows(store.look_up(table.spec.name, table.newest, rows, look, {"found": "n"})))

        assert found() == bag(*((*row, None) for row in asked))
        table.commit(append=[(1, 1, 10), (1, 2, 20), (2, 1, 30)])
        table.commit(merge=[(1, 2, 99)])
        stored = {"a": 10, "again": 10, "b": 99}
        assert found() == bag(*((*row, stored.get(row[2])) for row in asked))

    @both_layouts
    def test_rows_are_found_by_what_columns_hold_now(self, store: KeptStore, layout: Layout) -> None:
        """By a column beside the key, whose values come and go."""
        table = self.table(store, spec_of("day int, id bigint, n int", ["day", "id"], layout=layout))
        table.commit(append=[(1, id_, 10) for id_ in range(1, 6)])
        table.commit(merge=[(1, 2, 20), (1, 3, 20), (2, 3, 10)], delete=[(1, 4)])
        table.commit(merge=[(1, 3, 10)], delete=[(1, 5), (2, 3)])
        table.commit(append=[(1, 4, 10), (1, 5, 20)])
        assert table.rows(table.matching([(10,)], ["n"])) == bag((1, 1, 10), (1, 3, 10), (1, 4, 10))
        assert table.rows(table.matching([(20,)], ["n"])) == bag((1, 2, 20), (1, 5, 20))

    def test_null_matches_nothing_where_there_is_no_key(self, store: KeptStore) -> None:
        table = self.table(store, spec_of("day int, n int", partition_by=["day"]))
        table.commit(append=[(1, 1), (1, 1), (None, 2), (2, None)])
        assert table.rows() == bag((1, 1), (1, 1), (None, 2), (2, None))
        assert table.rows(table.matching([(1,), (None,)], ["day"])) == bag((1, 1), (1, 1))
        assert table.rows(table.matching(n=(1, 2))) == bag((1, 1), (1, 1), (None, 2))
        assert table.rows(table.matching(day=Between(0, 1))) == bag((1, 1), (1, 1))

    def test_literals_are_of_any_ordered_type(self, store: KeptStore) -> None:
        table = self.table(store, spec_of("at timestamp, on date, amount decimal(38,18), word string"))
        noon, later = datetime(1969, 7, 20, 12, 0, 0, 1, UTC), datetime(2024, 3, 10, 12, tzinfo=UTC)
        early = (noon, date(1969, 7, 20), Decimal("0.000000000000000001"), "it's")
        late = (later, date(2024, 3, 10), Decimal("12345678901234567890.5"), 'a "b" \\ c')
        table.commit(append=[early, late])
        assert table.rows(table.matching(at=Between(noon, noon))) == bag(early)
        assert table.rows(table.matching(on=(date(2024, 3, 10),))) == bag(late)
        assert table.rows(table.matching(amount=(Decimal("0.000000000000000001"),))) == bag(early)
        assert table.rows(table.matching(word=("it's", "its"))) == bag(early)
        assert table.rows(table.matching(word=Between("a", "b"), at=(later,))) == bag(late)

    def test_literals_may_have_more_digits_than_a_float(self, store: KeptStore) -> None:
        table = self.table(store, spec_of("amount decimal(38,2)", ["amount"]))
        amounts = [(Decimal(f"{sign}12345678901234567.{cents:02}"),) for sign in ("", "-") for cents in (1, 50, 89)]
        for amount in amounts:  # a file each, whose bounds are this amount
            table.commit(append=[amount])
        for amount in amounts:
            assert table.rows(table.matching(amount=amount)) == bag(amount)
            assert table.rows(table.matching(amount=Between(*amount, *amount))) == bag(amount)

    def test_literals_may_be_the_first_and_the_last_of_their_type(self, store: KeptStore) -> None:
        table = self.table(store, spec_of("on date, at timestamp, wall timestamp_ntz"))
        for row in _ENDS:  # a file each, whose bounds are this row
            table.commit(append=[row])
        for day, at, wall in _ENDS:
            for within in ({"on": (day,)}, {"at": (at,)}, {"wall": (wall,)}, {"at": Between(at, at)}):
                assert table.rows(table.matching(**within)) == bag((day, at, wall)), within

    def test_texts_may_be_long_and_end_in_the_last_character(self, store: KeptStore) -> None:
        table = self.table(store, spec_of("word string", ["word"]))
        words = ["x" * 32 + end for end in ("", "y", "\U0010ffff", "\U0010ffff\U0010ffffz", "\U0010ffff" * 40)]
        for word in words:  # a file each, whose bounds are this word, or shorter
            table.commit(append=[(word,)])
        for word in words:
            assert table.rows(table.matching(word=(word,))) == bag((word,))
            assert table.rows(table.matching([(word,)], ["word"])) == bag((word,))


class ValuesContract(StoreHarness):
    @both_layouts
    def test_every_type_comes_back_as_it_went(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, spec_of(EVERY_TYPE, ["id"], layout=layout))
        full, rich, bare = OF_EVERY_TYPE
        table.commit(append=[full, bare])
        assert table.rows() == bag(full, bare)
        table.commit(merge=[rich, (0, *rich[1:])])
        assert table.rows() == bag(full, rich, (0, *rich[1:]))
        table.commit(merge=[bare])
        assert table.rows() == bag(full, rich, bare)
        table.compact()
        assert table.rows() == bag(full, rich, bare)

    def test_every_type_comes_back_without_a_key(self, store: KeptStore) -> None:
        table = self.table(store, spec_of(EVERY_TYPE))
        for row in OF_EVERY_TYPE:
            table.commit(append=[row])
        assert table.rows() == bag(*OF_EVERY_TYPE)
        table.compact()
        assert table.rows() == bag(*OF_EVERY_TYPE)

    @both_layouts
    def test_names_may_be_odd(self, store: KeptStore, layout: Layout) -> None:
        names = (("k y", "bigint"), (ODD, "string"), ("größe;(), =", "int"), ("SELECT", "int"))
        schema = Schema(Column(name, DataType.parse(ddl)) for name, ddl in names)
        table = self.table(store, TableSpec("pipe-line.odd_table", schema, ("k y",), layout=layout))
        first = table.commit(append=[(1, "a", 1, 1), (2, "b", 2, 2), (3, "c", 3, 3)])
        table.commit(merge=[(2, "B", None, 2)], delete=[(3,)])
        assert table.frame().collect_schema().names() == list(schema.names)
        assert table.rows() == bag((1, "a", 1, 1), (2, "B", None, 2))
        assert table.rows(table.matching([("B",)], [ODD], **{"k y": Between(1, 2)})) == bag((2, "B", None, 2))
        assert table.changes(first, table.newest or first) == bag(
            (2, "b", 2, 2, "-U"), (2, "B", None, 2, "+U"), (3, "c", 3, 3, "-D")
        )

    @both_layouts
    def test_partition_values_may_be_odd(self, store: KeptStore, layout: Layout) -> None:
        spec = spec_of("part string, id bigint, n int", ["part", "id"], partition_by=["part"], layout=layout)
        table = self.table(store, spec)
        table.commit(append=[(value, 1, 1) for value in ODD_VALUES])
        table.commit(merge=[(value, 1, 2) for value in ODD_VALUES[1:]], delete=[(ODD_VALUES[0], 1)])
        assert table.rows() == bag(*((value, 1, 2) for value in ODD_VALUES[1:]))
        assert table.rows(table.matching(part=ODD_VALUES[:4])) == bag(*((value, 1, 2) for value in ODD_VALUES[1:4]))
        assert table.rows(table.matching([(ODD_VALUES[2],)], ["part"])) == bag((ODD_VALUES[2], 1, 2))

    @both_layouts
    def test_partitions_may_go_by_time(self, store: KeptStore, layout: Layout) -> None:
        ddl, by = "at timestamp, on date, id bigint, n int", ("at", "on")
        table = self.table(store, spec_of(ddl, [*by, "id"], partition_by=by, layout=layout))
        old = (datetime(1969, 12, 31, 23, 0, 0, 1, UTC), date(1969, 12, 31))
        new = (datetime(2024, 11, 3, 6, 30, tzinfo=UTC), date(2024, 11, 3))
        table.commit(append=[(*old, 1, 1), (*new, 1, 1)])
        table.commit(merge=[(*old, 1, 2), (*old, 2, 2)], delete=[(*new, 1)])
        assert table.rows() == bag((*old, 1, 2), (*old, 2, 2))
        assert table.rows(table.matching([old], by, at=(old[0],))) == bag((*old, 1, 2), (*old, 2, 2))
        assert table.rows(table.matching(at=Between(new[0], new[0]))) == bag()
