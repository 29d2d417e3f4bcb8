"""Columns that one process knows and another one does not: compactions and commits around an edit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from headwater.adapters.spark.schema import lazy
from headwater.domain.errors import SchemaConflict
from headwater.domain.table.change import Change
from headwater.domain.table.merge import Latest
from headwater.testing.store_harness import TableDriver, bag, spec_of

from .test_hudi import Hudi

if TYPE_CHECKING:
    from headwater.domain.table.spec import TableSpec

pytestmark = [pytest.mark.hudi, pytest.mark.contract]

CITY = Latest(("n",), ("city",))
OLD = spec_of("id bigint, n bigint, city string", ["id"], groups=[CITY])
NEW = spec_of(f"{OLD.schema.ddl}, m bigint, place string", ["id"], groups=[CITY, Latest(("m",), ("place",))])


class TestEdits(Hudi):
    def test_a_compaction_by_an_edited_configuration_adds_no_columns(self) -> None:
        run = self.table(self.reopen(), OLD)
        run.commit(merge=[(1, 1, "a"), (2, 1, "a")])
        run.commit(merge=[(1, 2, "b")])
        beside = self.table(self.reopen(), NEW)
        assert beside.store.compact(NEW.name) is not None
        run.commit(merge=[(1, 3, "c")])
        assert run.rows() == bag((1, 3, "c"), (2, 1, "a"))
        assert self.reopen().ensure(NEW).names == ("m", "place")
        edited = self.following(run, NEW)
        edited.commit(merge=[(2, 0, "old", 1, "x")])
        assert edited.rows() == bag((1, 3, "c", None, None), (2, 1, "a", 1, "x"))

    def test_a_compaction_by_the_former_configuration_loses_no_values(self) -> None:
        former = self.table(self.reopen(), OLD)
        former.commit(merge=[(1, 1, "a")])
        edited = self.following(former, NEW)
        edited.commit(merge=[(1, None, None, 1, "x")])
        with pytest.raises(SchemaConflict, match="has rows with column 'm', which another configuration has added"):
            former.store.compact(OLD.name)
        edited.compact()
        assert edited.rows() == bag((1, 1, "a", 1, "x"))

    def test_columns_of_another_process_are_null_in_the_next_commit(self) -> None:
        former = self.table(self.reopen(), OLD)
        former.commit(merge=[(1, 1, "a")])
        edited = self.following(former, NEW)
        edited.commit(merge=[(1, None, None, 1, "x")])
        former.sequence = edited.sequence
        former.commit(merge=[(1, 2, "b")])
        edited.newest = former.newest
        assert edited.rows() == bag((1, 2, "b", 1, "x"))

    def test_the_first_commit_of_a_new_column_counts_whichever_process_commits_next(self) -> None:
        """The engines of one run are such processes: each knows the column before either has committed it."""
        former = self.table(self.reopen(), OLD)
        before = former.commit(merge=[(1, 1, "a")])
        one, other = (self.following(former, NEW) for _ in range(2))
        first = one.commit(merge=[(1, None, None, 1, "x")])
        other.sequence = one.sequence
        other.commit(merge=[(1, None, None, 2, "y")])
        assert self.added() == {"m": first, "place": first}
        restored = other.rollback(before)  # it has all columns
        one.sequence = other.sequence
        one.commit(merge=[(1, None, None, 3, "z")])
        assert self.added() == {"m": restored, "place": restored}

    def added(self) -> dict[str, str]:
        """The stored commits that added columns."""
        found: dict[str, str] = json.loads((self.root / "pipeline" / "items" / ".headwater.json").read_text())["added"]
        return found

    def test_columns_that_the_stored_definition_lacks_are_an_error(self) -> None:
        former = self.table(self.reopen(), OLD)
        former.commit(merge=[(1, 1, "a")])
        file = self.root / "pipeline" / "items" / ".headwater.json"
        definition = file.read_text()
        self.following(former, NEW).commit(merge=[(1, None, None, 1, "x")])
        file.write_text(definition)  # as of a backup
        former.sequence += 1
        with pytest.raises(SchemaConflict, match=r"this process does not know \(.*place.*start this one again"):
            former.commit(merge=[(1, 2, "b")])

    def test_a_new_column_that_has_no_nulls(self) -> None:
        """As a literal has none, Spark takes it for one that cannot be null."""
        plain = spec_of("id bigint, name string", ["id"])
        former = self.table(self.reopen(), plain)
        ids = self.spark.range(2)
        former.commit_change(Change(merge=lazy(ids.selectExpr("id", "'a' AS name"))))
        edited = self.following(former, spec_of(f"{plain.schema.ddl}, more int", ["id"]))
        edited.commit_change(Change(merge=lazy(ids.filter("id = 1").selectExpr("id", "'b' AS name", "7 AS more"))))
        edited.commit(merge=[(2, None, None)])
        assert edited.rows() == bag((0, "a", None), (1, "b", 7), (2, None, None))

    def following(self, former: TableDriver, spec: TableSpec) -> TableDriver:
        """The table by another process with another spec, which goes on where a former one is."""
        table = self.table(self.reopen(), spec)
        table.sequence, table.newest = former.sequence, former.newest
        return table
