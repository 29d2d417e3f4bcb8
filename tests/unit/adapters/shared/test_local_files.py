"""Files that appear whole or not at all."""

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.adapters.shared.local_files import LocalFiles, create
from headwater.domain.errors import StoreUnavailable


def test_a_name_is_taken_once(tmp_path):
    file = tmp_path / "a" / "b.json"
    assert create(file, "first ü")
    assert not create(file, "second")
    assert file.read_text(encoding="utf-8") == "first ü"
    assert list(file.parent.iterdir()) == [file]


def test_of_many_at_once_one_is_told_that_it_was_first(tmp_path):
    with ThreadPoolExecutor(8) as writers:
        told = list(writers.map(lambda text: create(tmp_path / "a", text), map(str, range(50))))
    assert told.count(True) == 1
    assert (tmp_path / "a").read_text() == str(told.index(True))


def test_a_file_that_was_created_though_its_name_is_said_to_be_taken(tmp_path, monkeypatch):
    """NFS answers so if its first answer was lost, and the request was repeated."""
    link = os.link

    def make_and_refuse(draft, file):
        link(draft, file)
        raise FileExistsError(errno.EEXIST, "File exists", str(file))

    monkeypatch.setattr(os, "link", make_and_refuse)
    assert create(tmp_path / "a", "text")
    assert not create(tmp_path / "a", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_and_its_name_are_on_the_disk_before_it_counts(tmp_path, monkeypatch):
    flushed, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda opened: (flushed.append(os.fstat(opened).st_ino), fsync(opened)))
    assert create(tmp_path / "a", "text")
    assert flushed == [(tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino]


def test_a_file_system_that_flushes_no_folders(tmp_path, monkeypatch):
    fsync = os.fsync

    def flush(opened):
        if stat.S_ISDIR(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(opened)

    monkeypatch.setattr(os, "fsync", flush)
    assert create(tmp_path / "a", "text")
    assert not create(tmp_path / "a", "text")


def test_what_fails_leaves_nothing(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match=r"below: .*; look at the disk and its free space, and who may write"):
        create(tmp_path / "file" / "below", "text")
    with pytest.raises(UnicodeEncodeError):
        create(tmp_path / "a", "\ud800")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_of_files(tmp_path):
    files = LocalFiles(tmp_path / "a" / "b")
    assert files.read() == {}
    files.delete("none")
    files.write("one", "first ü")
    files.write("one", "second ü")
    files.write("two", "other")
    (files.folder / ".draft").write_text("half of a wri")
    assert files.read() == {"one": "second ü", "two": "other"}
    files.delete("one")
    assert files.read() == {"two": "other"}


def test_a_file_that_goes_while_it_is_read_is_told_of(tmp_path):
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert LocalFiles(tmp_path).read() is None


def test_readers_see_a_file_whole_while_it_is_replaced(tmp_path):
    files, texts = LocalFiles(tmp_path), [letter * 10_000 for letter in "abcdefgh"]
    files.write("one", texts[0])
    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(files.write, "one", text) for text in texts]
        seen = [files.read() for _ in range(50)]
        for each in writing:
            each.result()
    assert all(found is not None and found["one"] in texts for found in seen)
    assert [file.name for file in tmp_path.iterdir()] == ["one"]


def test_a_disk_that_fails_is_told_of(tmp_path):
    (tmp_path / "file").touch()
    files = LocalFiles(tmp_path / "file" / "below")
    with pytest.raises(
        StoreUnavailable, match=r"cannot write .*; look at the disk and its free space, and who may write"
    ):
        files.write("one", "text")
    with pytest.raises(StoreUnavailable, match=r"cannot delete .*; check the disk"):
        files.delete("one")
    with pytest.raises(StoreUnavailable, match=r"cannot read .*; check the disk"):
        LocalFiles(tmp_path / "file").read()
