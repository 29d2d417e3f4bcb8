"""CSV files are read alike, whether Polars reads them or every record is taken apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.adapters.memory import csv_text
from headwater.adapters.memory.csv_text import read_csv
from headwater.domain.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = {
    "blank lines": "id,v\n\n1,2\r\n\r\n\n3,4\n\n",
    "blank lines at the end, and quotes": 'id,v\n"1",2\n3,4\n\n\n',
    "blank lines inside quotes": 'id,v\n1,"2\n\n"\n3,4\n',
    "blank lines first": "\n\nid,v\n1,2\n3,4\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_blank_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "1").write_text(text, encoding="utf-8", newline="")
    found = read_csv(tmp_path / "1")
    monkeypatch.setattr(csv_text, "_is_plain", lambda _text, _width: False)
    exact = read_csv(tmp_path / "1")
    assert found is not None
    assert exact is not None
    assert found.columns == exact.columns == ["id", "v"]
    assert [(each[0], str(each[1]).strip()) for each in found.rows()] == [("1", "2"), ("3", "4")]
    assert found.rows() == exact.rows()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"id,v\n1,2\n\xe9,3\n", "line 3: not UTF-8: invalid continuation byte at byte 0; convert it to UTF-8"),
        ("id,v\n1,2\n".encode("utf-16"), "line 1: the header cannot be read: not UTF-8: .* UTF-16: convert it"),
        (b"id,v\r1,2\r3,4\r", "line 1: the header cannot be read: it has a carriage return inside"),
        (b'"a\r\nb",v\r1,2\r', "line 1: the header cannot be read: it has a carriage return inside"),
        (b'id,v\n1,"a"b\n', "line 2: quotes of field 2 are not closed, or text follows them: .*; correct the line"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "1").write_bytes(text)
    with pytest.raises(ConfigError, match=f"^file {tmp_path}/1, {message}"):
        read_csv(tmp_path / "1")


def test_a_header_may_have_line_breaks_in_quotes(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(b'"a\r\nb","c\rd"\r\n1,2\r\n')
    found = read_csv(tmp_path / "1")
    assert found is not None
    assert (found.columns, found.rows()) == (["a\r\nb", "c\rd"], [("1", "2")])
