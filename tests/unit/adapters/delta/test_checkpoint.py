"""Checkpoints of a Delta log: what is read of them."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.adapters.delta.local.checkpoint import read_checkpoint
from headwater.adapters.delta.local.disk import Disk
from headwater.domain.errors import TableDamaged

if TYPE_CHECKING:
    from pathlib import Path

ADD = pa.struct({
    "path": pa.string(), "partitionValues": pa.map_(pa.string(), pa.string()), "size": pa.int64(),
    "modificationTime": pa.int64(), "dataChange": pa.bool_(), "stats": pa.string(),
    "stats_parsed": pa.struct({"numRecords": pa.int64()}),
})  # fmt: skip
SCHEMA = pa.schema({
    "add": ADD,
    "remove": pa.struct({"path": pa.string(), "deletionTimestamp": pa.int64()}),
    "metaData": pa.struct({"id": pa.string(), "name": pa.string(), "configuration": pa.map_(pa.string(), pa.string())}),
    "protocol": pa.struct({"minReaderVersion": pa.int32(), "readerFeatures": pa.list_(pa.string())}),
})  # fmt: skip
METADATA = {"id": "a", "configuration": {"delta.checkpointInterval": "50"}}


def add(number: int) -> dict[str, Any]:
    return {
        "path": f"{number}.parquet", "partitionValues": {"day": None, "of": "x"}, "size": number, "modificationTime": 1,
        "dataChange": True, "stats": '{"numRecords":3}',
    }  # fmt: skip


def write(file: Path, *actions: dict[str, Any]) -> str:
    """A part of a checkpoint, given its actions by kind."""
    pq.write_table(pa.Table.from_pylist(list(actions), SCHEMA), file)
    return str(file)


def test_actions_are_read_from_all_parts(tmp_path: Path) -> None:
    files, metadata, protocol = read_checkpoint(
        [
            write(tmp_path / "1", {"add": add(1)}, {"remove": {"path": "0.parquet"}}, {"metaData": METADATA}),
            write(tmp_path / "2", {"protocol": {"minReaderVersion": 1}}, {"add": add(2)}),
        ],
        Disk(),
    )
    assert {path: (file.action, file.rows) for path, file in files.items()} == {
        "1.parquet": (add(1), 3),
        "2.parquet": (add(2), 3),
    }
    assert (metadata, protocol) == (METADATA, {"minReaderVersion": 1})


def test_removed_files_cost_next_to_nothing(tmp_path: Path) -> None:
    """A checkpoint has each file that was removed within the retention: hundreds of thousands, with small epochs."""
    removes = [{"remove": {"path": f"{number}.parquet", "deletionTimestamp": number}} for number in range(50_000)]
    part = write(tmp_path / "1", {"metaData": METADATA}, *removes, {"add": add(1)})
    tracemalloc.start()
    try:
        files, metadata, _ = read_checkpoint([part], Disk())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (set(files), metadata) == ({"1.parquet"}, METADATA)
    assert peak < 1_000_000


def test_a_part_that_is_cut_off_is_named(tmp_path: Path) -> None:
    part = write(tmp_path / "1", {"add": add(1)})
    (tmp_path / "1").write_bytes((tmp_path / "1").read_bytes()[:-20])
    with pytest.raises(TableDamaged, match=r"^checkpoint .*/1 cannot be read .*backup"):
        read_checkpoint([part], Disk())


def test_a_part_without_a_kind_of_action_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"add": pa.array([add(1)], ADD)}), tmp_path / "1")
    with pytest.raises(TableDamaged, match=r"^checkpoint .*/1 cannot be read .*metaData"):
        read_checkpoint([str(tmp_path / "1")], Disk())
