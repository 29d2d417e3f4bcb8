"""The Parquet backend under the contract of every backend."""

import pytest
from headwater_parquet.store import ParquetStore

from headwater.adapters.memory.engine import PolarsEngine
from headwater.testing.engine_contract import FrameEngineContract
from headwater.testing.frames import PolarsFrames
from headwater.testing.store_contract import StoreContract


class TestParquetStore(PolarsFrames, StoreContract):
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path):
        self.root = tmp_path

    def reopen(self):
        return ParquetStore(self.root)


class TestPolarsEngine(PolarsFrames, FrameEngineContract):
    @pytest.fixture
    def engine(self):
        return PolarsEngine()
