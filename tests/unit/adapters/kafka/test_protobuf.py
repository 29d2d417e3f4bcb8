"""The place of a message in its schema, as Confluent's serializers write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.kafka.protobuf import _message_path
from headwater.domain.source.conversion import Undecodable

if TYPE_CHECKING:
    from collections.abc import Sequence


def varint(number: int) -> bytes:
    """A number that is not negative, with its sign in the lowest bit, seven bits a byte."""
    rest, made = number * 2, b""
    while rest > 0x7F:
        rest, made = rest >> 7, made + bytes([rest & 0x7F | 0x80])
    return made + bytes([rest])


def written(path: Sequence[int]) -> bytes:
    return b"\0\0\0\0\1" + varint(len(path)) + b"".join(map(varint, path))


PATHS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=9)


@given(PATHS, st.binary(max_size=9))
def test_a_path_ends_where_the_record_begins(path: list[int], record: bytes) -> None:
    raw = written(path)
    assert _message_path(raw + record) == (tuple(path), len(raw))
    for end in range(5, len(raw)):
        with pytest.raises(Undecodable):
            _message_path(raw[:end])


@given(st.binary(max_size=9))
def test_the_first_message_has_a_short_path(record: bytes) -> None:
    assert _message_path(b"\0\0\0\0\1\0" + record) == ((0,), 6)


@given(st.binary(max_size=40))
def test_any_bytes_have_a_path_or_a_reason(raw: bytes) -> None:
    try:
        path, begin = _message_path(b"\0\0\0\0\1" + raw)
    except Undecodable:
        return
    assert path
    assert 5 < begin <= len(raw) + 5
