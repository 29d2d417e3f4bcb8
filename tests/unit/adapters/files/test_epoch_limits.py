"""How many of the waiting files make an epoch."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.adapters.files.listing import FilesSettings
from headwater.adapters.files.polars_source import PolarsFileSource
from headwater.domain.source.epoch_size import EpochSize
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing.clock import NOW

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = Schema.parse("id bigint")
JSON = RecordSpec(SCHEMA)
LINE = json.dumps({"id": 1}) + "\n"


def epochs(path: Path, limit: EpochSize, spec: RecordSpec = JSON, files: int | None = None) -> list[int]:
    """The number of files in each epoch, until all are read."""
    source, after, found = PolarsFileSource(FilesSettings(str(path), files, limit), spec), None, []
    while planned := source.plan(after, NOW):
        found.append(planned.until["epoch"])
        after = planned.until
    return found


def write_lines(path: Path, *counts: int) -> None:
    for at, count in enumerate(counts):
        (path / f"{at:03d}.json").write_text(LINE * count)


def write_parquet(path: Path, *counts: int) -> None:
    for at, count in enumerate(counts):
        pq.write_table(pa.table({"id": pa.array([1] * count, pa.int64())}), path / f"{at:03d}.parquet")


def test_a_file_is_an_epoch_if_nothing_is_set(tmp_path: Path) -> None:
    write_lines(tmp_path, *[1] * 3)
    assert epochs(tmp_path, EpochSize()) == [1, 1, 1]


def test_the_names_in_a_commit_stay_few(tmp_path: Path) -> None:
    write_lines(tmp_path, *[1] * 300)
    assert epochs(tmp_path, EpochSize(bytes=10**9)) == [256, 44]
    assert epochs(tmp_path, EpochSize(bytes=10**9), files=300) == [300]


def test_bytes_are_limited_and_a_larger_file_is_alone(tmp_path: Path) -> None:
    write_lines(tmp_path, 1, 1, 2, 9, 1, 3)
    assert epochs(tmp_path, EpochSize(bytes=4 * len(LINE))) == [3, 1, 2]


def test_a_number_of_files_alone_is_kept_to_whatever_their_sizes(tmp_path: Path) -> None:
    write_lines(tmp_path, 1, 9, 1, 9, 1)
    assert epochs(tmp_path, EpochSize(), files=2) == [2, 2, 1]
    assert epochs(tmp_path, EpochSize(bytes=2 * len(LINE)), files=2) == [1, 1, 1, 1, 1]


def test_a_gzipped_file_counts_as_many_bytes_as_it_has_unpacked(tmp_path: Path) -> None:
    for at in range(3):
        (tmp_path / f"{at}.json.gz").write_bytes(gzip.compress((LINE * 1000).encode()))
    assert epochs(tmp_path, EpochSize(bytes=2000 * len(LINE))) == [2, 1]
    assert epochs(tmp_path, EpochSize(bytes=3000 * len(LINE))) == [3]


def test_rows_of_parquet_are_limited(tmp_path: Path) -> None:
    write_parquet(tmp_path, 10, 10, 10, 25, 5)
    spec = RecordSpec(SCHEMA, format="parquet")
    assert epochs(tmp_path, EpochSize(rows=20), spec) == [2, 1, 1, 1]
    assert epochs(tmp_path, EpochSize(rows=30), spec) == [3, 2]


@pytest.mark.parametrize("content", [b"no parquet", b"", None])
def test_a_file_that_cannot_be_read_is_alone(tmp_path: Path, content: bytes | None) -> None:
    write_parquet(tmp_path, 1, 1, 1, 1)
    wrong = tmp_path / "002.parquet"
    if content is None:
        pq.write_table(pa.table({"other": [1]}), wrong)
    else:
        wrong.write_bytes(content)
    assert epochs(tmp_path, EpochSize(rows=9), RecordSpec(SCHEMA, format="parquet")) == [2, 1, 1]
