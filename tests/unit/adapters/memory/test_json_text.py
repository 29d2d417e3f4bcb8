"""Plain JSON files: what is wrong with a line is told with file, line and remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.adapters.memory import scan
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
        (b'{"id": "\xe9"}\n', "line 1: not UTF-8: invalid continuation byte at byte 8; convert it to UTF-8"),
        ('{"id": 1}\n'.encode("utf-16"), "line 1: not UTF-8: .*; it seems to be UTF-16: convert it to UTF-8"),
        (b"\x1f\x8b\x08", "line 1: not UTF-8: .*; it seems to be compressed by gzip: then its name must end in .gz"),
        (b'{"id": 1}\n{"id": 1, "id": 1}\n', "line 2: an object has the name 'id' twice; write each name once"),
        (b'{"id": 1}\n{"ID": 1}\n', "line 2: names 'id' and 'ID' differ only in case; write one of them in all lines"),
    ],
)
def test_a_line_that_cannot_be_read(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "1.json").write_bytes(b'{"other": 1}\n')
    file = tmp_path / "2.json"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=f"^file {file}, {message}"):
        scan.scan_files(str(tmp_path), "json")
