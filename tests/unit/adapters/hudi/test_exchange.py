"""What the local engine hands to Spark: in batches that several tasks read, and no more than its heap takes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headwater.adapters.hudi.local import exchange
from headwater.domain.errors import EngineLimit

GIBIBYTE = 1024**3


def test_rows_are_cut_into_batches_in_their_order_and_none_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_BATCH_BYTES", 160)
    rows = pa.table({"id": pa.chunked_array([list(range(50)), [], list(range(50, 55))], pa.int64())})
    batches = list(exchange._batches(rows))
    assert [batch.num_rows for batch in batches] == [20, 20, 10, 5]
    assert pa.Table.from_batches(batches)["id"].to_pylist() == list(range(55))


@pytest.mark.parametrize("rows", [{"id": []}, {"id": [1]}, {"id": [None]}, {"text": ["x" * 1000]}])
def test_few_rows_are_one_batch(rows: dict[str, list[object]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_BATCH_BYTES", 160)
    table = pa.table(rows)
    assert [batch.num_rows for batch in exchange._batches(table)] == [1] * table.num_rows


def test_more_rows_than_the_heap_takes_are_beyond_this_engine() -> None:
    exchange._check_heap(GIBIBYTE // 4, GIBIBYTE)
    with pytest.raises(EngineLimit, match=r"it hands 257 MiB of rows to Spark, and a heap of 1,024 MiB takes 256 MiB"):
        exchange._check_heap(GIBIBYTE // 4 + 1, GIBIBYTE)
