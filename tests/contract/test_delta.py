"""The Delta backend under the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headwater.testing.engine_contract import FrameEngineContract
from headwater.testing.store_contract import StoreContract
from headwater.testing.store_harness import StoreHarness

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import narwhals as nw
    from pyspark.sql import SparkSession

    from headwater.adapters.delta.store import DeltaStore
    from headwater.adapters.spark.engine import SparkEngine
    from headwater.domain.schema import Schema

pytestmark = [pytest.mark.delta, pytest.mark.contract]


class SparkFrames:
    """Frames of the session that the tests share."""

    @pytest.fixture(autouse=True)
    def _session(self, spark: SparkSession) -> None:
        self.spark = spark

    def frame(self, rows: Sequence[tuple[Any, ...]], schema: Schema) -> nw.LazyFrame[Any]:
        from headwater.adapters.spark.schema import frame_of

        return frame_of(self.spark, schema, rows)


class Delta(SparkFrames, StoreHarness):
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def reopen(self) -> DeltaStore:
        from headwater.adapters.delta.store import DeltaStore

        return DeltaStore(self.spark, str(self.root))


class TestDeltaStore(Delta, StoreContract):
    pass


class TestSparkEngine(SparkFrames, FrameEngineContract):
    @pytest.fixture
    def engine(self) -> SparkEngine:
        from headwater.adapters.spark.engine import SparkEngine

        return SparkEngine(self.spark)
