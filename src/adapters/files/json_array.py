"""Files that are one JSON array, as its elements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from ...domain.errors import BadInput
from ...domain.source.conversion import shown
from ..records.shapes.chunk import BLANKS, BYTE_ORDER_MARK
from ..shared.compressed import BYTES_A_BLOCK

_BLANKS = BLANKS.encode()
_DEEPEST = 32
_STRING = rb'"(?:[^"\\]++|\\.)*+"'


def _element() -> re.Pattern[bytes]:
    """All up to the next comma that is in no string and no brackets, or up to the end of the array.

    Possessive quantifiers keep it linear. What it finds need not be JSON: that is for the parser, element by element.
    """
    nested = flat = rb'[^"\[\]{}]++|' + _STRING
    for _ in range(_DEEPEST):
        nested = flat + rb"|[\[{](?:" + nested + rb")*+[\]}]"
    outside = nested.replace(b"[^", b"[^,", 1)  # a comma in the array itself ends an element
    return re.compile(rb"[ \t\r\n]*+((?:" + outside + rb")*+)([,\]])", re.DOTALL)


_ELEMENT = _element()


def elements(stream: IO[bytes], name: str) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of the elements of an array; an empty file has none.

    Elements between two commas, or before the first one, may be empty. A comma after the last element is ignored.

    Args:
        stream: the file.
        name: its name, for messages.

    Raises:
        BadInput: it is not an array, the array is not closed, or something follows it.
    """
    text = stream.read(BYTES_A_BLOCK)
    begin = len(text) - len(text.removeprefix(BYTE_ORDER_MARK).lstrip(_BLANKS))
    if begin == len(text):
        return
    if text[begin : begin + 1] != b"[":
        raise BadInput(
            f"file {name} is not a JSON array: it begins with {shown(text[begin : begin + 20])}; if it has one object"
            ' per line, set layout = "lines"'
        )
    before, at, last = 0, begin + 1, False
    while not last:
        found = _ELEMENT.match(text, at)
        if found is None:
            # It is longer than what was read. Each time twice as much is read, so that this costs no more than once.
            more = stream.read(max(BYTES_A_BLOCK, len(text) - at))
            if not more:
                raise BadInput(
                    f"file {name}: its array is not closed, has a string or bracket that is not closed, or is nested"
                    f" more than {_DEEPEST} deep, from byte {before + at} on; replace the file"
                )
            before, text, at = before + at, text[at:] + more, 0
            continue
        raw, at, last = found[1].rstrip(_BLANKS), found.end(), found[2] == b"]"
        if raw or not last:
            yield before + found.start(1), raw
    _check_end(text[at:], stream, name)


def _check_end(rest: bytes, stream: IO[bytes], name: str) -> None:
    while not rest.strip(_BLANKS):
        if not (rest := stream.read(BYTES_A_BLOCK)):
            return
    raise BadInput(f"file {name}: something follows its array: {shown(rest.strip(_BLANKS)[:20])}; replace the file")
