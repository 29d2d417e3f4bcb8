"""Commits of other programs to Headwater's own Delta tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from headwater.adapters.delta.local.store import LocalDeltaStore
from headwater.domain.errors import NotSupported, TableDamaged
from headwater.domain.table.spec import Layout
from headwater.testing.frames import PolarsFrames, SparkFrames
from headwater.testing.store_harness import StoreHarness, bag, spec_of

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.adapters.delta.store import DeltaStore
    from headwater.testing.store_harness import TableDriver

pytestmark = pytest.mark.contract
SPEC = spec_of("id bigint, name string", ["id"])


class ForeignCommits(StoreHarness):
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        pytest.importorskip("deltalake", reason="is the other program, and comes with headwater[delta]")
        self.root = tmp_path

    @pytest.fixture
    def stored(self) -> TableDriver:
        table = self.table(self.reopen(), SPEC)
        table.commit(append=[(1, "a"), (2, "b")])
        table.commit(append=[(3, "c")])
        return table

    def opened(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(str(self.root / "pipeline" / "items"))

    def append(self) -> None:
        from deltalake import write_deltalake

        table = self.opened()
        write_deltalake(table, table.to_pyarrow_table().slice(0, 1), mode="append")

    @pytest.mark.parametrize("how", ["append", "delete"])
    @pytest.mark.parametrize("compacted", [True, False])
    def test_rows_of_another_program_are_not_built_on(self, stored: TableDriver, how: str, *, compacted: bool) -> None:
        if how == "append":
            self.append()
        else:
            self.opened().delete("id = 1")
        for _ in range(2):
            with pytest.raises(
                TableDamaged, match=r"delta-rs\S* has changed its rows in version 2 .* Restore version 1"
            ):
                stored.commit(append=[(4, "d")])
        assert stored.rows() == bag((1, "a"), (2, "b"), (3, "c"))
        stored.compact()
        self.opened().restore(1)
        if compacted:
            stored.compact()
        stored.commit(append=[(4, "d")])
        assert stored.rows() == bag((1, "a"), (2, "b"), (3, "c"), (4, "d"))

    def test_they_are_found_again_after_a_restore(self, stored: TableDriver) -> None:
        self.append()
        self.opened().restore(1)
        self.append()
        with pytest.raises(TableDamaged, match="in version 4 "):
            stored.commit(append=[(4, "d")])

    def test_a_rollback_takes_them_back(self, stored: TableDriver) -> None:
        published = stored.newest
        self.append()
        stored.rollback(published)
        stored.commit(append=[(4, "d")])
        assert stored.rows() == bag((1, "a"), (2, "b"), (3, "c"), (4, "d"))

    def test_upkeep_of_another_program_goes_on(self, stored: TableDriver) -> None:
        assert self.opened().optimize.compact()["numFilesRemoved"] > 1
        stored.commit(append=[(4, "d")])
        assert stored.rows() == bag((1, "a"), (2, "b"), (3, "c"), (4, "d"))


class TestLocal(PolarsFrames, ForeignCommits):
    def reopen(self) -> LocalDeltaStore:
        return LocalDeltaStore(str(self.root))

    @pytest.mark.parametrize("on", ["CDF", "constraint"])
    def test_conditions_that_another_program_has_set(self, stored: TableDriver, on: str) -> None:
        if on == "CDF":
            self.opened().alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
        else:
            self.opened().alter.add_constraint({"low": "id < 4"})
        names = {"CDF": "changeDataFeed", "constraint": "checkConstraints"}
        files = self._files()
        with pytest.raises(
            NotSupported, match=rf'uses {names[on]}: remove that from the table, or set engine = "spark"'
        ):
            stored.commit(append=[(4, "d")])
        assert self._files() == files
        assert stored.rows() == bag((1, "a"), (2, "b"), (3, "c"))
        if on == "CDF":
            self.opened().alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
        else:
            self.opened().alter.drop_constraint("low")
        stored.commit(append=[(4, "d")])
        assert stored.rows().total() == 4

    @pytest.mark.usefixtures("stored")
    @pytest.mark.parametrize("key", ["delta.invariants", "delta.generationExpression", "delta.identity.start"])
    def test_conditions_of_columns(self, key: str) -> None:
        (first,) = self.root.rglob("_delta_log/*0.json")
        text = first.read_text(encoding="utf-8").replace('"minWriterVersion": 2', '"minWriterVersion": 6')
        first.write_text(
            text.replace('\\"metadata\\": {}', f'\\"metadata\\": {{\\"{key}\\": \\"1\\"}}'), encoding="utf-8"
        )
        table = self.table(self.reopen(), SPEC)
        table.sequence = 2
        with pytest.raises(NotSupported, match="which uses "):
            table.commit(append=[(4, "d")])

    @pytest.mark.usefixtures("stored")
    def test_columns_that_are_not_null(self) -> None:
        (first,) = self.root.rglob("_delta_log/*0.json")
        text = first.read_text(encoding="utf-8")
        first.write_text(text.replace('\\"nullable\\": true', '\\"nullable\\": false'), encoding="utf-8")
        table = self.table(self.reopen(), SPEC)
        table.sequence = 2
        with pytest.raises(NotSupported, match="which uses NOT NULL: remove that from the table"):
            table.commit(append=[(4, "d")])

    def test_a_table_to_which_rows_may_only_be_added(self) -> None:
        spec = evolve(SPEC, layout=Layout.MERGED)
        table = self.table(self.reopen(), spec)
        table.commit(append=[(1, "a")])
        self.opened().alter.set_table_properties({"delta.appendOnly": "true"})
        table.commit(append=[(2, "b")])
        with pytest.raises(NotSupported, match=r"delta\.appendOnly: unset the property with ALTER TABLE"):
            table.commit(merge=[(1, "z")])
        assert table.rows() == bag((1, "a"), (2, "b"))

    def _files(self) -> set[Path]:
        return {*self.root.rglob("*.parquet")}


@pytest.mark.delta
class TestSpark(SparkFrames, ForeignCommits):
    def reopen(self) -> DeltaStore:
        from headwater.adapters.delta.store import DeltaStore

        return DeltaStore(self.spark, str(self.root))
