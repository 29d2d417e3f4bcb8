"""Plain JSON files: what is wrong with a line is told with file, line and remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.adapters.memory import json_text, scan
from headwater.domain.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"id": 1}\n{"id"', "line 2: it is not one JSON object; write one whole object per line"),
        (b'{\n "id": 1\n}\n', "line 1: it is not one JSON object; write one whole object per line"),
        (b'[{"id": 1}]\n', "line 1: it is an array, not a JSON object; write one whole object per line"),
        (b'{"id": NaN}\n', "line 1: it is not one JSON object"),
        (b'{"id": true}\n{"id": 1}\n', "line 2: column 'id' is a number, and a boolean in an earlier line; write one"),
        (b'{"a": {"b": [1, true]}}\n', "line 1: column 'a.b\\[\\]' is a boolean, and a number in an earlier line"),
        (b'{"id": true}\n{"id": 1}\n{"id', "line 3: it is not one JSON object"),
        (b'{"id": 1}\n{"id": "x"}\n{"id": true}\n{"id', "line 4: it is not one JSON object"),
        (b'{"a.b": 1, "a": {"b": true}}\n{"id', "line 2: it is not one JSON object"),
        (b'{"id": "\xe9"}\n', "line 1: not UTF-8: invalid continuation byte at byte 8; convert it to UTF-8"),
        ('{"id": 1}\n'.encode("utf-16"), "line 1: not UTF-8: .*; it seems to be UTF-16: convert it to UTF-8"),
        (b"\x1f\x8b\x08", "line 1: not UTF-8: .*; it seems to be compressed by gzip: then its name must end in .gz"),
        (b'{"id": 1}\n{"id": 1, "id": 1}\n', "line 2: an object has the name 'id' twice; write each name once"),
        (b'{"id": 1}\n\n{"id": 1, "i\\u0064": null}\n', "line 3: an object has the name 'id' twice"),
        (b'{"a": {"b": 1}}\n{"a": {"b": 1, "b": 2}}\n', "line 2: an object has the name 'b' twice"),
        (b'{"id": 1}\n{"id": "x"}\n{"id": 2, "id": 2}\n', "line 3: an object has the name 'id' twice"),
        (b'{"id": 1}\n{"ID": 1}\n', "line 2: names 'id' and 'ID' differ only in case; write one of them in all lines"),
    ],
)
def test_a_line_that_cannot_be_read(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "1.json").write_bytes(b'{"other": 1}\n')
    file = tmp_path / "2.json"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=f"^file {file}, {message}"):
        scan.scan_files(str(tmp_path), "json")


def test_kinds_are_compared_only_with_those_of_the_same_place(tmp_path: Path) -> None:
    file = tmp_path / "1.json"
    file.write_text('{"a": 1, "b.c": 1, "b": {"c": true}}\n{"a": true}\n{"a": "x"}\n')
    assert json_text.find_fault([file]) is None


def test_an_object_with_a_name_twice_in_a_later_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "_PIECE", 100)
    file = tmp_path / "1.json"
    line = '{"id": 1, "inner": [{"id": 1}, {"id": 2}], "note": "\\"id\\": é"}\n'
    file.write_text(line * 9)
    assert scan.scan_files(str(file), "json").collect().shape == (9, 3)
    file.write_text(line * 7 + f'{{"id": 1, "note": "{"x" * 300}"}}\n' + line + '{"id": 1, "id": null}')
    with pytest.raises(ConfigError, match=f"^file {file}, line 10: an object has the name 'id' twice"):
        scan.scan_files(str(file), "json")


def test_lines_with_the_same_names_inside_are_not_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "1.json").write_text('{"id": 1, "inner": [{"id": 1}, {"id": 2}], "note": "\\"id\\": 1"}\n')
    monkeypatch.setattr(json_text, "_check_each_line", None)
    assert scan.scan_files(str(tmp_path), "json").collect().shape == (1, 3)
