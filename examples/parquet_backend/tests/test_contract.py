"""The Parquet backend under the contract suite for backends."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.adapters.polars.engine import PolarsEngine
from headwater.domain.errors import EpochConflict
from headwater.domain.table.change import Change
from headwater.testing.engine_contract import FrameEngineContract
from headwater.testing.frames import PolarsFrames
from headwater.testing.store_contract import StoreContract
from headwater.testing.store_harness import mark_of, spec_of
from headwater_parquet.store import ParquetStore

NAMES = spec_of("id bigint, name string", ["id"])


class TestParquetStore(PolarsFrames, StoreContract):
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def reopen(self) -> ParquetStore:
        return ParquetStore(self.root)

    def test_of_many_writers_at_once_one_wins(self) -> None:
        def write(writer: int) -> bool:
            store = self.reopen()
            store.ensure(NAMES)
            try:
                store.commit(NAMES.name, Change(append=self.frame([(writer, "w")], NAMES.schema)), mark_of(1))
            except EpochConflict:
                return False
            return True

        with ThreadPoolExecutor(8) as writers:
            assert sum(writers.map(write, range(8))) == 1
        assert self.table(self.reopen(), NAMES).store.versions(NAMES.name)

    def test_many_small_files_become_few(self, store: ParquetStore) -> None:
        table = self.table(store, NAMES)
        for key in range(10):
            table.commit(append=[(key, "a")])
        before = table.newest
        table.compact()
        assert table.newest != before
        assert table.rows() == table.rows_at(before)


class TestPolarsEngine(PolarsFrames, FrameEngineContract):
    @pytest.fixture
    def engine(self) -> PolarsEngine:
        return PolarsEngine()
