"""A chunk of the lines of a file, against the same lines cut one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.records.shapes.chunk import Chunk
from headwater.adapters.records.shapes.spans import spans, tails

LINES = st.lists(st.sampled_from(["", " ", "\r", "\t{}", '{"a": 1}', '{"a": "é😀"} ', '{"b": 2}\r', "x", "\x00", "é"]))


def lines_of(block: bytes, *, is_first: bool) -> list[tuple[int, str]]:
    """The start and the text of each line that is not blank."""
    lines, at = [], 0
    for line in block.split(b"\n"):
        unmarked = line.removeprefix(b"\xef\xbb\xbf") if is_first and at == 0 else line
        lines.append((at, unmarked.strip(b" \t\r\n").decode()))
        at += len(line) + 1
    return [(at, text) for at, text in lines if text]


@given(lines=LINES, ended=st.booleans(), marked=st.booleans(), first=st.booleans())
def test_lines_are_cut_by_their_bytes(*, lines: list[str], ended: bool, marked: bool, first: bool) -> None:
    block = (("\ufeff" if marked else "") + "\n".join(lines) + ("\n" if ended else "")).encode()
    chunk = Chunk.of_lines(block, 100, "file", is_first=first)
    expected = lines_of(block, is_first=first)
    assert chunk.texts.to_list() == [text for _, text in expected]
    assert chunk.positions.to_list() == [100 + at for at, _ in expected]
    assert chunk.origins.to_list() == ["file"] * len(expected)
    whole = [block[start:end].decode() for start, end in zip(chunk.starts, chunk.ends, strict=True)]
    assert whole == chunk.texts.to_list()


@given(LINES)
def test_parts_of_texts_are_cut_by_their_bytes(lines: list[str]) -> None:
    chunk = Chunk.of_lines("\n".join(["{}", *lines, "{}"]).encode(), 0, "file", is_first=True)
    some, all_starts = slice(1, None, 2), chunk.starts
    assert spans(all_starts[some], chunk.ends[some], chunk.data).to_list() == chunk.texts[some].to_list()
    assert all(map(str.startswith, tails(all_starts[some], chunk.data), chunk.texts[some]))


def test_a_block_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        Chunk.of_lines(b'{"a": "\xe9"}\n', 0, "file", is_first=True)
