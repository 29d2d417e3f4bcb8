"""The Delta backend under the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.testing.engine_contract import FrameEngineContract
from headwater.testing.store_contract import StoreContract

from .spark_frames import SparkFrames

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.adapters.delta.store import DeltaStore
    from headwater.adapters.spark.engine import SparkEngine

pytestmark = [pytest.mark.delta, pytest.mark.contract]


class TestDeltaStore(SparkFrames, StoreContract):
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def reopen(self) -> DeltaStore:
        from headwater.adapters.delta.store import DeltaStore

        return DeltaStore(self.spark, str(self.root))


class TestSparkEngine(SparkFrames, FrameEngineContract):
    @pytest.fixture
    def engine(self) -> SparkEngine:
        from headwater.adapters.spark.engine import SparkEngine

        return SparkEngine(self.spark)
