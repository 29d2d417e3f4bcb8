"""Lines of JSON files: read in blocks of any size, and in splits that are cut anywhere, they are the same records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from headwater.adapters.files import splits
from headwater.adapters.files.splits import Split, read
from headwater.adapters.records.shapes.decoder import ShapeDecoder
from headwater.domain.errors import SourceUnavailable
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

SPEC = RecordSpec(Schema.parse("id int, name string"))
GOOD = [f'{{"id": {at}, "name": "né{at}"}}'.encode() for at in range(15)]
FILES = {
    "lines": b"\n".join(GOOD),
    "mark": b"\xef\xbb\xbf" + b"\n".join(GOOD) + b"\n",
    "mark_later": b"\n".join([GOOD[0], b"\xef\xbb\xbf" + GOOD[1], *GOOD[2:]]),
    "blanks": b"\n \t\n\n" + b"\r\n".join(GOOD) + b"\r\n\r\n",
    "bytes": b"\n".join([*GOOD, b'{"id": 1, "name": "\xff"}', *GOOD]),
    "broken": b"\n".join([*GOOD, b'{"id": 1', b"[", *GOOD]),
    "empty": b"",
}


DECODER = ShapeDecoder(SPEC)


def rows(path: Path, start: int = 0, end: int = splits.TO_THE_END) -> list[dict[str, Any]]:
    return [row for batch in read(Split(3, str(path), start, end), DECODER) for row in batch.to_pylist()]


@pytest.mark.parametrize("name", FILES)
def test_blocks_and_splits(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = FILES[name]
    path = tmp_path / "0.json"
    path.write_bytes(content)
    whole = rows(path)
    starts = [row["_position"] - 3 * 2**40 for row in whole]
    for start, row in zip(starts, whole, strict=True):
        raw = row["_bytes"] or row["_raw"].encode()
        assert content[start:].removeprefix(b"\xef\xbb\xbf" if start == 0 else b"").lstrip(b" \t\r").startswith(raw)
    for small in (0, 2**20):
        monkeypatch.setattr(splits, "_SMALL", small)
        for block in (50, 2**20):
            monkeypatch.setattr(splits, "BYTES_A_CHUNK", block)
            assert rows(path) == whole
            for cut in range(0, len(content), 31):
                assert rows(path, 0, cut) + rows(path, cut) == whole


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_a_file_that_the_disk_does_not_hand_out(format_: str, tmp_path: Path) -> None:
    (folder := tmp_path / f"0.{format_}").mkdir()
    spec = evolve(SPEC, format=format_)
    told = rf"^cannot read file {folder}: .*; check the disk, and who may read it$"
    with pytest.raises(SourceUnavailable, match=told):
        list(read(Split(0, str(folder), 0, 1), ShapeDecoder(spec)))
    if format_ == "csv":  # its header is looked at before
        with pytest.raises(SourceUnavailable, match=told):
            splits.check(folder, spec)
