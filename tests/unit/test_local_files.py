"""Files that appear whole or not at all."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.adapters.local_files import create
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


def test_what_fails_leaves_nothing(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match=r"below: .*; check the disk"):
        create(tmp_path / "file" / "below", "text")
    with pytest.raises(UnicodeEncodeError):
        create(tmp_path / "a", "\ud800")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
