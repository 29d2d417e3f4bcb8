"""Readers that are still reading while their version is overwritten and expires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define

from headwater.domain.errors import VersionExpired
from headwater.domain.table.lease import Lease
from headwater.testing.store_harness import StoreHarness, TableDriver, bag, spec_of
from tests.backends import Backend, delta_backend, hudi_backend, local_delta_backend, memory_backend

from .broken import everywhere

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import narwhals as nw
    from pyspark.sql import SparkSession

    from headwater.domain.ports import KeptStore
    from headwater.domain.table.schema import Schema
    from headwater.testing.store_harness import Row

_NAMES = spec_of("id bigint, name string", ["id"])
_NOW = datetime(2024, 3, 10, 12, tzinfo=UTC)


@define(eq=False)
class Harness(StoreHarness):
    """Tables of a backend under test."""

    backend: Backend

    def reopen(self) -> KeptStore:
        return self.backend.open()

    def frame(self, rows: Sequence[Row], schema: Schema) -> nw.LazyFrame[Any]:
        return self.backend.frame(rows, schema)


@pytest.fixture
def harness(session: SparkSession | None, backend: str, tmp_path: Path) -> Harness:
    if session is None:
        return Harness(memory_backend() if backend == "memory" else local_delta_backend(str(tmp_path)))
    if backend == "delta":
        return Harness(delta_backend(session, str(tmp_path)))
    return Harness(hudi_backend(session, str(tmp_path), backend))


@pytest.fixture
def table(harness: Harness) -> TableDriver:
    """A table of two rows."""
    table = harness.table(harness.reopen(), _NAMES)
    table.commit(append=[(1, "a"), (2, "b")])
    return table


def overwrite_and_expire(table: TableDriver) -> None:
    newest = table.commit(overwrite=[(3, "c")])
    table.store.expire(_NAMES.name, [newest], now=_NOW, dry_run=False)


@everywhere
@pytest.mark.faults("a reader with a lease reads during an overwrite and an expiry")
def test_a_leased_reader(harness: Harness, table: TableDriver, survived: Callable[[str], None]) -> None:
    old, open_frame = table.newest, table.frame()
    table.store.pin(Lease("lease-1", _NAMES.name, old, "a reader", _NOW + timedelta(hours=1)))
    overwrite_and_expire(table)
    assert bag(*harness.rows(open_frame)) == table.rows_at(old) == bag((1, "a"), (2, "b"))
    assert table.rows() == bag((3, "c"))
    survived("continues")


@everywhere
@pytest.mark.faults("a reader without a lease reads during an overwrite and an expiry")
def test_a_reader_without_a_lease(harness: Harness, table: TableDriver, survived: Callable[[str], None]) -> None:
    old, open_frame = table.newest, table.frame()
    overwrite_and_expire(table)
    with pytest.raises(VersionExpired, match="has expired; read a newer one, pin what you read"):
        table.rows_at(old)
    # On Polars an open frame has the rows of small files since it was opened.
    if harness.backend.name == "memory" or harness.backend.name.endswith(":local"):
        assert bag(*harness.rows(open_frame)) == bag((1, "a"), (2, "b"))
        survived("continues; a new read: `VersionExpired`")
        return
    with (
        pytest.raises(VersionExpired, match="is gone: its version expired while it was read"),
        harness.backend.engine.explaining(),
    ):
        harness.rows(open_frame)
    survived("`VersionExpired`")
