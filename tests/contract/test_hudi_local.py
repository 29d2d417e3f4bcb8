"""Both table types of the Hudi backend, for frames of Polars, under the contract; and what both engines make of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from headwater.adapters.hudi.compact import CompactionPolicy
from headwater.testing.frames import PolarsFrames
from headwater.testing.store_contract import StoreContract
from headwater.testing.store_harness import StoreHarness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.adapters.hudi.local.store import LocalHudiStore

pytestmark = [pytest.mark.hudi, pytest.mark.contract]


class LocalHudi(PolarsFrames, StoreHarness):
    retypes = False

    table_type = "MERGE_ON_READ"

    @pytest.fixture(autouse=True)
    def _tables(self, spark: SparkSession, tmp_path: Path) -> None:
        self.spark, self.root = spark, tmp_path

    def reopen(self) -> LocalHudiStore:
        from headwater.adapters.hudi.local.store import LocalHudiStore
        from headwater.adapters.hudi.spec import TableType

        eager = CompactionPolicy(min_files=1)  # the few files of a test are to be compacted
        return LocalHudiStore(self.spark, str(self.root), TableType(self.table_type), buckets=2, compaction=eager)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        from headwater.adapters.polars.file_errors import explain_read_errors
        from headwater.adapters.spark.errors import explain_read_errors as explain_errors_of_spark

        with explain_errors_of_spark(), explain_read_errors():
            yield


class TestMergeOnRead(LocalHudi, StoreContract):
    pass


class TestCopyOnWrite(LocalHudi, StoreContract):
    table_type = "COPY_ON_WRITE"
