"""The log of a Delta table, followed by several threads."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import frozen

from headwater.adapters.delta import followed_log
from headwater.adapters.delta.local.disk import Disk
from headwater.adapters.delta.local.folder import LocalFolder
from headwater.adapters.delta.local.log import LocalLog
from headwater.domain.errors import TableDamaged, VersionExpired

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.adapters.delta.actions import CommitFile

METADATA = {"schemaString": '{"type":"struct","fields":[]}', "partitionColumns": [], "configuration": {}}
MAP = pa.map_(pa.string(), pa.string())
ACTIONS = pa.struct({
    "add": pa.struct({"path": pa.string(), "partitionValues": MAP, "size": pa.int64()}),
    "metaData": pa.struct(
        {"schemaString": pa.string(), "partitionColumns": pa.list_(pa.string()), "configuration": MAP}
    ),
    "protocol": pa.struct({"minReaderVersion": pa.int32()}),
})  # fmt: skip


def write(folder: Path, version: int) -> None:
    """Write a commit, which adds one file; the first one creates the table."""
    added = {"path": f"{version}.parquet", "partitionValues": {}, "size": 1, "stats": "{}"}
    lines = [{"commitInfo": {"timestamp": 1000}}, *([] if version else [{"metaData": METADATA}]), {"add": added}]
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    (log / f"{version:020}.json").write_text("".join(json.dumps(each) + "\n" for each in lines))


def checkpoint(folder: Path, version: int) -> None:
    """Write a checkpoint with one file, and the hint that names it."""
    add = {"path": f"of {version}", "partitionValues": {}, "size": 1}
    actions = pa.array([{"add": add}, {"metaData": METADATA}, {"protocol": {"minReaderVersion": 1}}], ACTIONS)
    pq.write_table(pa.Table.from_struct_array(actions), folder / "_delta_log" / f"{version:020}.checkpoint.parquet")
    put_hint(folder, json.dumps({"version": version}))


def put_hint(folder: Path, text: str | None) -> None:
    hint = folder / "_delta_log" / "_last_checkpoint"
    hint.unlink(missing_ok=True)
    if text is not None:
        hint.write_text(text)


@frozen
class Paged(Disk):
    """A disk that lists names as an object store does."""

    page = 3

    def list_names(self, folder: str, *, after: str = "") -> Iterator[str]:
        return iter(sorted(super().list_names(folder, after=after)))


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


class TestListing:
    """What is listed of a log when it is opened: no more than is needed, and never too little."""

    @pytest.fixture
    def listed(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The names that were listed of folders on the disk."""
        listed: list[str] = []
        list_names = Disk.list_names

        def listing(disk: Disk, folder: str, *, after: str = "") -> Iterator[str]:
            for name in list_names(disk, folder, after=after):
                listed.append(name)
                yield name

        monkeypatch.setattr(Disk, "list_names", listing)
        return listed

    def test_each_name_is_listed_once_and_no_size_is_looked_up(
        self, tmp_path: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for version in range(5):
            write(tmp_path, version)
        checkpoint(tmp_path, 3)
        monkeypatch.setattr(Disk, "list_files", None)
        assert LocalLog(str(tmp_path)).newest() == 4
        assert sorted(listed) == sorted(file.name for file in (tmp_path / "_delta_log").iterdir())

    def test_a_long_one_is_listed_from_its_checkpoint_on(self, tmp_path: Path) -> None:
        for version in range(50):
            write(tmp_path, version)
        checkpoint(tmp_path, 45)
        listed = LocalFolder(str(tmp_path), Paged()).list_newest()
        assert [name for name in listed.names if name < f"{45:020}."] == []
        log = LocalLog(str(tmp_path), Paged())
        assert log.newest() == 49
        assert set(log.files(49)) == {"of 45", *(f"{version}.parquet" for version in range(46, 50))}

    @pytest.mark.parametrize("hint", [
        None, "", "{", "[]", "5", "null", "{}", '{"version": null}', '{"version": "8"}', '{"version": true}',
        '{"version": -1}', '{"version": 3}', '{"version": 4}', '{"version": 7}', '{"version": 8}', '{"version": 99}',
        '{"version": 8.0}', f'{{"version": {10**30}}}', f'{{"version": {"9" * 5000}}}',
    ])  # fmt: skip
    def test_a_hint_of_any_kind_hides_nothing(self, tmp_path: Path, hint: str | None) -> None:
        for version in range(11):
            write(tmp_path, version)
        for version in (3, 8):
            checkpoint(tmp_path, version)
        (tmp_path / "_delta_log" / f"{7:020}.checkpoint.{1:010}.{2:010}.parquet").touch()
        put_hint(tmp_path, hint)
        folder = LocalFolder(str(tmp_path), Paged())
        assert (folder.list_newest().newest, folder.list_newest().newest_checkpoint) == (10, 8)
        log = LocalLog(str(tmp_path), Paged())
        assert log.newest() == 10
        assert set(log.files(10)) == {"of 8", "9.parquet", "10.parquet"}

    @pytest.mark.parametrize("hint", [None, '{"version": 3}', '{"version": 8}'])
    def test_a_commit_that_is_lost_after_the_checkpoint_is_noticed(self, tmp_path: Path, hint: str | None) -> None:
        for version in range(11):
            write(tmp_path, version)
        for version in (3, 8):
            checkpoint(tmp_path, version)
        put_hint(tmp_path, hint)
        (tmp_path / "_delta_log" / f"{9:020}.json").unlink()
        with pytest.raises(TableDamaged, match="has version 10, and neither commit 9"):
            LocalLog(str(tmp_path), Paged()).newest()
