"""Templates matched by compiled code (``match.c``), where the installation has it; see ADR 47."""

from __future__ import annotations

import os
from collections.abc import Sequence
from ctypes import CDLL, c_char_p, c_int64, c_void_p
from functools import cache
from hashlib import sha256
from logging import getLogger
from pathlib import Path

import polars as pl
import pyarrow as pa
from attrs import frozen

from .automaton import UnknownPattern, table_of

_log = getLogger(__name__)
LIBRARY = Path(__file__).with_name("match.lib")
"""The compiled code; an installation without a C compiler has none."""
_OFF = "HEADWATER_NATIVE"
_MOST_BYTES = 2**31 - 1
"""Views of texts have places of 32 bits."""
_NULL_OR = "(?:null|"
_VIEW, _NUMBER = 16, 8
_P, _N = c_void_p, c_int64
_MATCH: list[type[c_void_p | c_int64]] = [_P, _P, _P, _N, _P, _P, _N, _P, _N, _N, _P, _P, _P]


@cache
def find_library() -> CDLL | None:
    """The compiled code; None if there is none that fits, or ``HEADWATER_NATIVE=0`` turns it off."""
    if os.environ.get(_OFF) == "0" or not LIBRARY.exists():
        return None
    try:
        library = CDLL(str(LIBRARY))
    except OSError as error:
        _log.info("%s is for another machine (%s): records are matched more slowly", LIBRARY, error)
        return None
    library.source.restype = c_char_p
    if library.source() != sha256(LIBRARY.with_name("match.c").read_bytes()).hexdigest().encode():
        _log.warning(
            "%s is of another version: install headwater again; until then records are matched more slowly", LIBRARY
        )
        return None
    library.match.argtypes, library.match.restype = _MATCH, c_int64
    return library


@frozen(eq=False)
class NativeMatcher:
    """A template, as the compiled code takes it: numbers, texts and tables; see ``match.c``."""

    library: CDLL
    holes: pa.Buffer
    count: int
    groups: int
    texts: bytes
    tail: int
    tables: bytes

    def match(self, starts: pl.Series, ends: pl.Series, data: pa.Buffer) -> tuple[pl.Series, list[pl.Series]] | None:
        """The numbers of the records that match, and the texts of their groups, which are views of the data.

        Args:
            starts: where each record begins in the data, Int64.
            ends: where it ends, Int64.
            data: the records.

        Returns:
            None if the data is too large.
        """
        if data.size > _MOST_BYTES:
            return None
        records = starts.len()
        matched, views, valid = map(
            pa.allocate_buffer, (_NUMBER * records, _VIEW * self.groups * records, self.groups * records)
        )
        kept = starts.rechunk().to_arrow(), ends.rechunk().to_arrow()  # as long as the call lasts
        count = self.library.match(
            data.address, *map(_address, kept), records, self.texts, self.holes.address, self.count, self.tables,
            self.tail, len(self.texts) - self.tail, matched.address, views.address, valid.address,
        )  # fmt: skip
        texts = (
            _texts(views.slice(_VIEW * records * at), valid.slice(records * at), count, data)
            for at in range(self.groups)
        )
        return _series(pa.Array.from_buffers(pa.int64(), count, [None, matched])), list(texts)


def native_matcher(holes: Sequence[tuple[str, str]], tail: str) -> NativeMatcher | None:
    """The matcher of a template; None if there is no compiled code, or it cannot read a pattern.

    Args:
        holes: of each hole the text before it, and its pattern; see `cell`.
        tail: the text after the last hole.
    """
    if not (library := find_library()):
        return None
    texts, tables, numbers, groups = bytearray(), bytearray(), list[int](), 0
    try:
        for before, pattern in holes:
            body = pattern.removeprefix(_NULL_OR)
            grouped = "(" in body.replace("(?:", "")
            text = before.encode()
            numbers += [len(texts), len(text), len(tables), groups if grouped else -1, int(body.startswith('"'))]
            texts += text
            tables += table_of(pattern)
            groups += grouped
    except UnknownPattern as pattern:
        _log.debug("a pattern that compiled code does not read: %s", pattern)
        return None
    buffer = pa.array(numbers, pa.int64()).buffers()[1]
    return NativeMatcher(library, buffer, len(holes), groups, bytes(texts) + tail.encode(), len(texts), bytes(tables))


def _address(array: pa.Array) -> int:
    return int(array.buffers()[1].address) + _NUMBER * int(array.offset)


def _texts(views: pa.Buffer, valid: pa.Buffer, count: int, data: pa.Buffer) -> pl.Series:
    texts = _series(pa.Array.from_buffers(pa.string_view(), count, [None, views, data]))
    known = _series(pa.Array.from_buffers(pa.uint8(), count, [None, valid])) == 1
    return texts if known.all() else pl.select(pl.when(known).then(texts)).to_series()


def _series(array: pa.Array) -> pl.Series:
    return pl.Series(pl.from_arrow(array))
