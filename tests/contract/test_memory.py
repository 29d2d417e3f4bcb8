"""The memory backend under the contract, and what it alone refuses."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import polars as pl
import pytest

from headwater.adapters.memory.engine import PolarsEngine
from headwater.adapters.memory.store import MemoryStore
from headwater.domain.change import Change
from headwater.domain.errors import BadInput, ConfigError
from headwater.testing.engine_contract import FrameEngineContract
from headwater.testing.frames import PolarsFrames
from headwater.testing.store_contract import StoreContract
from headwater.testing.store_harness import StoreHarness, bag, spec_of

NAMES = spec_of("id bigint, name string", ["id"])


class Memory(PolarsFrames, StoreHarness):
    @pytest.fixture(autouse=True)
    def _fresh(self) -> None:
        self.only = MemoryStore()

    def reopen(self) -> MemoryStore:
        return self.only


class TestMemoryStore(Memory, StoreContract):
    pass


class TestPolarsEngine(PolarsFrames, FrameEngineContract):
    @pytest.fixture
    def engine(self) -> PolarsEngine:
        return PolarsEngine()


class TestMemoryRefuses(Memory):
    """Breaches of the contract by a caller, which other backends may not notice."""

    @pytest.mark.parametrize(
        "parts",
        [
            {"append": [(None, "x")]},
            {"merge": [(None, "x")]},
            {"delete": [(None,)]},
            {"append": [(1, "stored")]},
            {"append": [(2, "x"), (2, "y")]},
            {"append": [(2, "x")], "merge": [(2, "y")]},
            {"merge": [(1, "x")], "delete": [(1,)]},
            {"overwrite": [(3, "x"), (3, "y")]},
        ],
        ids=str,
    )
    def test_keys_where_they_must_not_be(self, store: MemoryStore, parts: dict[str, Any]) -> None:
        table = self.table(store, NAMES)
        table.commit(append=[(1, "a")])
        with pytest.raises(BadInput, match="key"):
            table.commit(**parts)
        assert len(list(store.versions(NAMES.name))) == 1

    def test_merging_without_a_key(self, store: MemoryStore) -> None:
        table = self.table(store, spec_of("id bigint, name string"))
        with pytest.raises(BadInput, match="no key"):
            table.commit(merge=[(1, "a")])
        version = table.commit()
        with pytest.raises(ConfigError, match="no key"):
            store.changes(table.spec.name, None, version)

    def test_rows_that_lack_a_column_or_do_not_fit(self, store: MemoryStore) -> None:
        table = self.table(store, NAMES)
        with pytest.raises(BadInput, match="lack column name"):
            table.commit_change(Change(append=self.frame([(1,)], NAMES.schema.select(["id"]))))
        with pytest.raises(BadInput, match="do not fit"):
            table.commit_change(Change(append=self.frame([("a", "b")], spec_of("id string, name string").schema)))

    def test_a_frame_that_fails_changes_nothing(self, store: MemoryStore) -> None:
        table = self.table(store, NAMES)
        table.commit(append=[(1, "a")])
        native: pl.LazyFrame = nw.to_native(self.frame([("2",), ("x",)], spec_of("id string").schema))
        failing = nw.from_native(native.select(pl.col("id").cast(pl.Int64), pl.lit("b").alias("name")))
        with pytest.raises(nw.exceptions.InvalidOperationError):
            table.commit_change(Change(append=self.frame([(3, "c")], NAMES.schema), merge=failing))
        assert table.rows() == bag((1, "a"))
        assert len(list(store.versions(NAMES.name))) == 1

    def test_a_table_that_was_not_ensured(self, store: MemoryStore) -> None:
        with pytest.raises(ConfigError, match="ensure"):
            store.read("pipeline.unknown", None)
