"""`kill -9` of a run whose compaction, beside the epochs, has written its files and not committed them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from .contracts import drop, ranks, records
from .deployments import write
from .processes import headwater, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = 12


def unnamed(table: Path) -> Iterator[Path]:
    """The data files of a table that no commit names."""
    named = "".join(commit.read_text() for commit in table.glob("_delta_log/*.json"))
    return (file for file in table.rglob("*.parquet") if file.parent.name != "_delta_log" and file.name not in named)


def row_count(file: Path) -> int:
    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError):  # it is being written
        return 0


@pytest.mark.faults("kill -9 in the middle of a compaction beside the epochs", backend="delta:local")
def test_killed_in_the_middle_of_a_compaction(tmp_path: Path) -> None:
    config, landing = tmp_path / "deploy.toml", tmp_path / "in"
    landing.mkdir()
    write(config, 'kind = "files"\npath = "in"\nfiles_per_epoch = 1\n', "delta:local")
    config.write_text(config.read_text() + 'segment = "365d"\n')  # one partition, so that it has enough files
    table, of_an_epoch = tmp_path / "lake" / "ranked" / "ranked", len(records(0))
    drop(landing, *range(FILES))
    with running(config) as run:
        run.kill_when(lambda: any(row_count(file) > 2 * of_an_epoch for file in unnamed(table)))
    (orphan,) = (file for file in unnamed(table) if row_count(file) > 2 * of_an_epoch)
    drop(landing, FILES)
    done = headwater("run", str(config), "--until-idle", "--show", "ranked", "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    shown = sorted(map(json.loads, done.stdout.splitlines()), key=lambda row: row["contract"])
    assert shown == ranks(row for file in range(FILES + 1) for row in records(file))
    assert orphan in set(unnamed(table))  # `expire` deletes it when it is seven days old
