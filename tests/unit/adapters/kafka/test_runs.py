"""Records of topics by the thousand are what they are one by one."""

from __future__ import annotations

import pytest

from headwater.adapters.kafka.plan import Slice
from headwater.adapters.kafka.runs import Run, chunks
from headwater.adapters.records.shapes.chunk import Chunk

LAST = 2**31 - 2
RUNS = [
    Run.of(Slice(0, "orders", 0, 5, 40), [5, 6, 9], [b'{"id": 1}', None, "é".encode()]),
    Run.of(Slice(35, "orders", 1, 0, LAST), [0, LAST - 1], [b"\xff", b""]),
    Run.of(Slice(0, "orders", 0, 5, 40), [10], [b"{}"]),
]


@pytest.mark.parametrize(
    ("limit", "size", "count"),
    [
        ("RECORDS_A_CHUNK", 1, 3),
        ("RECORDS_A_CHUNK", 4, 2),
        ("RECORDS_A_CHUNK", 100, 1),
        ("BYTES_A_CHUNK", 1, 3),
        ("BYTES_A_CHUNK", 12, 2),
    ],
)
def test_a_chunk_has_the_records_of_its_runs(
    limit: str, size: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"headwater.adapters.records.shapes.decoder.{limit}", size)
    found = list(chunks(iter(RUNS)))
    assert len(found) == count
    one_by_one = Chunk.of([record for run in RUNS for record in run.records()])
    for name in ("texts", "positions", "origins"):
        assert [value for each in found for value in getattr(each, name)] == getattr(one_by_one, name).to_list()
    assert [raw for each in found for raw in each.others.values()] == [b"\xff"]
    assert found[0].origins[0] == "orders/0@5"
    assert one_by_one.positions[1] == 2**31
