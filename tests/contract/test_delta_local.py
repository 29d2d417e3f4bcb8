"""The local engine's Delta tables under the contract: no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.adapters.delta.local.store import LocalDeltaStore
from headwater.testing.frames import PolarsFrames
from headwater.testing.store_contract import StoreContract
from headwater.testing.store_harness import StoreHarness

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.contract


class LocalDelta(PolarsFrames, StoreHarness):
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def reopen(self) -> LocalDeltaStore:
        return LocalDeltaStore(str(self.root))


class TestLocalDeltaStore(LocalDelta, StoreContract):
    pass
