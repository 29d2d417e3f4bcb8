"""Contract: versions with marks, fencing of writers, rollback, compaction, and changes between versions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from attrs import evolve

from ..domain.epoch.epoch import Epoch, OffsetRange, Place, Publication
from ..domain.errors import EpochConflict, VersionNotFound
from ..domain.ports import KeptStore, Version
from ..domain.table.change import Change
from ..domain.table.spec import Layout
from .store_harness import StoreHarness, bag, both_layouts, mark_of, spec_of

NAMES = spec_of("id bigint, name string", ["id"])
PARTED = spec_of("id bigint, name string, n int", ["id"], partition_by=["id"])


class MarksContract(StoreHarness):
    def test_a_mark_comes_back_as_it_went(self, store: KeptStore) -> None:
        table = self.table(store, NAMES)
        moment = datetime(2024, 3, 10, 7, 59, 59, 999999, UTC)
        epoch, until = Epoch("pipe 'line' \"ü\" \\ 数", 41), {"f": ["ä/b c.json", "q'\"\\"], "p": {"0": 7}, "x": None}
        tables = {"pipeline.other": "12", "pipeline.täble": "v'1"}
        publication = Publication(epoch, tables, until, None, moment, "print")
        mark = mark_of(1, epoch=epoch, offsets=OffsetRange({"f": []}, until), previous=Place("pipeline.x", "7"))
        full = evolve(mark, publication=publication)
        version = store.commit(NAMES.name, Change(append=self.frame([(1, "a")], NAMES.schema)), full)
        later = evolve(full, sequence=2, publication=evolve(publication, watermark=moment))
        rolled = store.rollback(NAMES.name, version, evolve(later, rolls_back=True))
        found = self.reopen()
        found.ensure(table.spec)
        assert found.version(NAMES.name, version).mark == full
        assert found.version(NAMES.name, rolled).mark == evolve(later, rolls_back=True)

    def test_versions_are_told_newest_first(self, store: KeptStore) -> None:
        table = self.table(store, NAMES)
        versions = [table.commit(append=[(1, "a")]), table.commit(merge=[(1, "b")])]
        table.compact()
        versions.append(table.commit(merge=[(1, "c")]))
        commits = list(self.reopen().versions(NAMES.name))
        marked = [commit for commit in commits if commit.mark]
        assert [commit.version for commit in marked] == versions[::-1]
        assert [commit.mark.sequence for commit in marked if commit.mark] == [3, 2, 1]
        assert commits == sorted(commits, key=lambda commit: commit.committed_at, reverse=True)
        assert all(commit.committed_at.utcoffset() is not None for commit in commits)

    def test_one_version_is_told(self, store: KeptStore) -> None:
        table = self.table(store, NAMES)
        version = table.commit(append=[(1, "a")])
        assert store.version(NAMES.name, version).version == version
        assert store.version(NAMES.name, version).mark == mark_of(1)
        for unknown in ("999999", "no version"):
            with pytest.raises(VersionNotFound):
                store.version(NAMES.name, Version(unknown))

    def test_history_is_told_of_a_table_that_was_not_ensured(self, store: KeptStore) -> None:
        version = self.table(store, NAMES).commit(append=[(1, "a")])
        reopened = self.reopen()
        assert reopened.version(NAMES.name, version).mark == mark_of(1)
        assert version in [commit.version for commit in reopened.versions(NAMES.name)]

    def test_a_table_that_is_not_there_has_no_versions(self, store: KeptStore) -> None:
        assert list(store.versions("pipeline.unknown")) == []


class FencingContract(StoreHarness):
    def test_only_the_next_commit_is_taken(self, store: KeptStore) -> None:
        table = self.table(store, NAMES)
        change = Change(append=self.frame([(9, "z")], NAMES.schema))
        with pytest.raises(EpochConflict):
            store.commit(NAMES.name, change, mark_of(2))
        first = table.commit(append=[(1, "a")])
        for wrong in (1, 3):
            with pytest.raises(EpochConflict):
                store.commit(NAMES.name, change, mark_of(wrong))
            with pytest.raises(EpochConflict):
                store.rollback(NAMES.name, None, mark_of(wrong))
        newest = next(commit for commit in store.versions(NAMES.name) if commit.mark)
        assert (newest.version, newest.mark) == (first, mark_of(1))
        assert table.rows() == bag((1, "a"))

    def test_of_two_stores_one_comes_first(self, store: KeptStore) -> None:
        mine, theirs = self.table(store, NAMES), self.table(self.reopen(), NAMES)
        theirs.newest = mine.commit(append=[(1, "a")])
        assert theirs.rows() == bag((1, "a"))
        with pytest.raises(EpochConflict):
            theirs.commit(append=[(2, "lost")])
        theirs.sequence = 1
        mine.newest = theirs.commit(merge=[(1, "b")], append=[(3, "c")])
        assert mine.rows() == bag((1, "b"), (3, "c"))
        with pytest.raises(EpochConflict):
            mine.commit(overwrite=[])
        assert mine.rows() == bag((1, "b"), (3, "c"))


class RollbackContract(StoreHarness):
    @both_layouts
    def test_work_is_taken_back_and_the_next_builds_on_what_was(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(NAMES, layout=layout))
        first = table.commit(append=[(1, "a"), (2, "b")])
        wrong = table.commit(append=[(3, "c")], merge=[(1, "wrong")], delete=[(2,)])
        table.rollback(first)
        assert table.rows() == bag((1, "a"), (2, "b"))
        assert table.rows_at(wrong) == bag((1, "wrong"), (3, "c"))
        table.commit(append=[(3, "d")], merge=[(2, "e")])
        assert table.rows() == bag((1, "a"), (2, "e"), (3, "d"))

    def test_a_table_may_go_back_to_nothing(self, store: KeptStore) -> None:
        table = self.table(store, NAMES)
        table.commit(append=[(1, "a")])
        table.rollback(None)
        assert table.rows() == bag()
        table.commit(append=[(1, "b")])
        assert table.rows() == bag((1, "b"))

    def test_work_from_before_a_compaction_is_taken_back(self, store: KeptStore) -> None:
        table = self.table(store, NAMES)
        first = table.commit(append=[(1, "a"), (2, "b")])
        table.commit(merge=[(1, "c")], delete=[(2,)])
        table.compact()
        table.rollback(first)
        assert table.rows() == bag((1, "a"), (2, "b"))
        table.commit(merge=[(2, "d")])
        assert table.rows() == bag((1, "a"), (2, "d"))


class UpkeepContract(StoreHarness):
    @both_layouts
    def test_compaction_changes_no_row(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(PARTED, layout=layout))
        first = table.commit(append=[(1, "a", 1), (2, "b", 2), (3, "c", None)])
        second = table.commit(merge=[(1, "d", 3)], delete=[(2,)])
        table.compact()
        assert table.rows() == bag((1, "d", 3), (3, "c", None))
        table.commit(merge=[(1, "e", 4), (2, "again", None)])
        assert table.rows() == bag((1, "e", 4), (2, "again", None), (3, "c", None))
        assert table.rows_at(first) == bag((1, "a", 1), (2, "b", 2), (3, "c", None))
        assert table.rows_at(second) == bag((1, "d", 3), (3, "c", None))

    @both_layouts
    def test_a_frame_stays_as_it_was_read(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(NAMES, layout=layout))
        table.commit(append=[(1, "a"), (2, "b")])
        table.commit(merge=[(1, "c")])
        whole, part = table.frame(), table.frame(table.matching([(1,)], ["id"]))
        table.commit(delete=[(1,)])
        table.compact()
        table.commit(overwrite=[])
        assert bag(*self.rows(whole)) == bag((1, "c"), (2, "b"))
        assert self.rows(part) == [(1, "c")]

    def test_an_empty_table_may_be_compacted(self, store: KeptStore) -> None:
        table = self.table(store, NAMES)
        table.compact()
        table.commit(append=[(1, "a")])
        assert table.rows() == bag((1, "a"))


class ChangesContract(StoreHarness):
    @both_layouts
    def test_changes_are_net(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(PARTED, layout=layout))
        rows = [(1, "same", None), (2, "gone", 1), (3, None, 1), (4, "value", 1), (5, "rewritten", 1)]
        first = table.commit(append=rows)
        table.commit(append=[(6, "passing", 1)], merge=[(5, "else", 1), (1, "same", None)], delete=[(2,)])
        last = table.commit(
            append=[(7, "new", None)], delete=[(6,)], merge=[(3, "value", 1), (4, None, 1), (5, "rewritten", 1)]
        )
        assert table.changes(first, last) == bag(
            (2, "gone", 1, "-D"),
            (3, None, 1, "-U"),
            (3, "value", 1, "+U"),
            (4, "value", 1, "-U"),
            (4, None, 1, "+U"),
            (7, "new", None, "+I"),
        )
        assert table.changed_keys(first, last) >= {(2,), (3,), (4,), (7,)}
        assert table.changes(None, first) == bag(*((*row, "+I") for row in rows))
        assert table.changes(last, last) == bag()

    @both_layouts
    def test_changes_see_through_compaction_overwriting_and_rollback(self, store: KeptStore, layout: Layout) -> None:
        table = self.table(store, evolve(NAMES, layout=layout))
        first = table.commit(append=[(1, "a"), (2, "b")])
        table.compact()
        second = table.commit(overwrite=[(2, "b"), (3, "c")])
        assert table.changes(first, second) == bag((1, "a", "-D"), (3, "c", "+I"))
        assert table.changed_keys(first, second) >= {(1,), (3,)}
        restored = table.rollback(first)
        assert table.changes(first, restored) == bag()
        assert table.changes(second, restored) == bag((1, "a", "+I"), (3, "c", "-D"))
        last = table.commit(merge=[(1, "z")])
        table.compact()
        assert table.changes(second, table.newest or last) == bag((1, "z", "+I"), (3, "c", "-D"))
