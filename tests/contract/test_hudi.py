"""Both table types of the Hudi backend under the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.testing.store_contract import StoreContract

from .spark_frames import SparkFrames

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.adapters.hudi.store import HudiStore

pytestmark = [pytest.mark.hudi, pytest.mark.contract]


class Hudi(SparkFrames, StoreContract):
    table_type: str

    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def reopen(self) -> HudiStore:
        from headwater.adapters.hudi.compaction import CompactionPolicy
        from headwater.adapters.hudi.definition import TableType
        from headwater.adapters.hudi.store import HudiStore

        eager = CompactionPolicy(min_files=1)  # the few files of a test are to be compacted
        return HudiStore(self.spark, str(self.root), TableType(self.table_type), buckets=2, compaction=eager)


class TestMergeOnRead(Hudi):
    table_type = "MERGE_ON_READ"


class TestCopyOnWrite(Hudi):
    table_type = "COPY_ON_WRITE"
