"""The log of a Delta table, followed by several threads."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import TYPE_CHECKING

import pytest

from headwater.adapters.delta import followed_log
from headwater.adapters.delta.local.folder import LocalFolder
from headwater.adapters.delta.local.log import LocalLog
from headwater.domain.errors import TableDamaged, VersionExpired

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.adapters.delta.actions import CommitFile

METADATA = {"schemaString": '{"type":"struct","fields":[]}', "partitionColumns": [], "configuration": {}}


def write(folder: Path, version: int) -> None:
    """Write a commit, which adds one file; the first one creates the table."""
    added = {"path": f"{version}.parquet", "partitionValues": {}, "size": 1, "stats": "{}"}
    lines = [{"commitInfo": {"timestamp": 1000}}, *([] if version else [{"metaData": METADATA}]), {"add": added}]
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    (log / f"{version:020}.json").write_text("".join(json.dumps(each) + "\n" for each in lines))


def test_two_threads_that_follow_a_log_apply_each_commit_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both, read = Barrier(2), LocalFolder.commit_text

    def read_together(folder: LocalFolder, version: int) -> str | None:
        """Wait until the other thread has read a commit, too."""
        text = read(folder, version)
        with suppress(BrokenBarrierError):
            both.wait(0.2)
        return text

    log = LocalLog(str(tmp_path))
    write(tmp_path, 0)
    assert log.newest() == 0
    write(tmp_path, 1)
    monkeypatch.setattr(LocalFolder, "commit_text", read_together)
    with ThreadPoolExecutor(2) as threads:
        assert [each.result() for each in [threads.submit(log.newest) for _ in range(2)]] == [1, 1]
    assert log.newest() == 1
    assert set(log.files(0)) == {"0.parquet"}
    assert set(log.files(1)) == {"0.parquet", "1.parquet"}


def test_commits_that_an_expiry_has_deleted_do_not_stay_in_memory(tmp_path: Path) -> None:
    log = LocalLog(str(tmp_path))
    for version in range(255):
        write(tmp_path, version)
    assert log.newest() == 254
    for version in range(250):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    write(tmp_path, 255)
    assert log.newest() == 255
    assert [file.path for version in (250, 255) for file in log.commit(version).added] == ["250.parquet", "255.parquet"]
    with pytest.raises(VersionExpired):
        log.commit(249)


def test_a_commit_whose_bytes_are_damaged_is_named(tmp_path: Path) -> None:
    write(tmp_path, 0)
    (file,) = (tmp_path / "_delta_log").iterdir()
    file.write_bytes(file.read_bytes().replace(b'"0.parquet', b'"\xff.parquet'))
    with pytest.raises(TableDamaged, match=r"^version 0 of .*can't decode byte 0xff.*; put it back"):
        LocalLog(str(tmp_path)).newest()


@pytest.mark.parametrize("line", [b"5", b"[]", b'"add"', b"null", b'{"add": 5}', b'{"commitInfo": null}'])
def test_a_line_of_a_commit_that_is_no_action_is_named(tmp_path: Path, line: bytes) -> None:
    write(tmp_path, 0)
    (file,) = (tmp_path / "_delta_log").iterdir()
    with file.open("ab") as appended:
        appended.write(line + b"\n")
    number = len(file.read_bytes().splitlines())
    message = (
        rf"^version 0 of .*line {number} must be an action, such as .*, not {re.escape(line.decode())}\); put it back"
    )
    with pytest.raises(TableDamaged, match=message):
        LocalLog(str(tmp_path)).newest()


class TestWalks:
    """Walks from the newest commit to the oldest, as of an expiry, in a log with more commits than are kept whole."""

    @pytest.fixture
    def log(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalLog:
        monkeypatch.setattr(followed_log, "_MOST_COMMITS", 4)
        for version in range(24):
            write(tmp_path, version)
        log = LocalLog(str(tmp_path))
        assert log.newest() == 23
        return log

    @pytest.fixture
    def read(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """The versions of the commits that were read, but for those that were followed."""
        read: list[int] = []
        read_commit = LocalLog.read_commit

        def reading(log: LocalLog, version: int) -> CommitFile:
            read.append(version)
            return read_commit(log, version)

        monkeypatch.setattr(LocalLog, "read_commit", reading)
        return read

    def walk(self, log: LocalLog) -> list[tuple[str, ...]]:
        return [log.summary(version).added for version in range(23, -1, -1)]

    def test_the_second_walk_reads_nothing(self, log: LocalLog, read: list[int]) -> None:
        first = self.walk(log)
        assert first == [(f"{version}.parquet",) for version in range(23, -1, -1)]
        assert read == list(range(19, -1, -1))
        assert self.walk(log) == first
        assert len(read) == 20

    def test_the_commits_that_epochs_need_stay(self, log: LocalLog, read: list[int]) -> None:
        self.walk(log)
        read.clear()
        assert [log.commit(version).added[0].path for version in range(20, 24)] == [
            f"{each}.parquet" for each in range(20, 24)
        ]
        assert not read

    def test_of_too_many_the_newest_are_remembered(
        self, log: LocalLog, read: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(followed_log, "_MOST_SUMMARIES", 10)
        self.walk(log)
        read.clear()
        self.walk(log)
        assert read
        assert max(read) < 16
