"""CSV files are read alike, whether Polars reads them or every record is taken apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.adapters.memory import csv_text
from headwater.adapters.memory.csv_text import read_csv

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
