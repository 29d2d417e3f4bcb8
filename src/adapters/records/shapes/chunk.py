"""Records, many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import polars as pl
import pyarrow as pa
from attrs import field, frozen

from ..decoder import Record
from .spans import places, spans

BLANKS = " \t\r\n"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""What a file of text may begin with."""
_NEWLINE = 0x0A


@frozen(eq=False)
class Chunk:
    """Records by column; see `Record`.

    Args:
        texts: the records as text; null if they are not UTF-8, or have no value.
        positions: their positions.
        origins: their origins.
        data: the bytes of all texts.
        starts: where the text of each begins in `data`; see `spans`.
        ends: where it ends.
        others: the bytes of those that are not UTF-8, by number.
    """

    texts: pl.Series
    positions: pl.Series
    origins: pl.Series
    data: pa.Buffer
    starts: pl.Series
    ends: pl.Series
    others: Mapping[int, bytes] = field(factory=dict)

    @classmethod
    def of(cls, records: Sequence[Record]) -> Self:
        return cls.of_values(
            pa.array([record.raw for record in records], pa.large_binary()),
            pl.Series([record.position for record in records], dtype=pl.Int64),
            pl.Series([record.origin for record in records], dtype=pl.String),
        )

    @classmethod
    def of_values(cls, values: pa.LargeBinaryArray, positions: pl.Series, origins: pl.Series) -> Self:
        """A chunk of records by their bytes, a whole array, their positions and origins; see `Record`."""
        others = {}
        try:
            texts = values.cast(pa.large_string())
        except pa.ArrowInvalid:  # some are not UTF-8
            raws = values.to_pylist()
            others = {at: raw for at, raw in enumerate(raws) if raw is not None and not _is_utf8(raw)}
            values = pa.array([None if at in others else raw for at, raw in enumerate(raws)], pa.large_binary())
            texts = values.cast(pa.large_string())
        return cls(pl.Series(pl.from_arrow(texts)), positions, origins, values.buffers()[2], *places(values), others)

    @classmethod
    def of_lines(cls, block: bytes, position: int, origin: str, *, is_first: bool) -> Self:
        """A chunk of the lines of a part of a file that are not blank.

        Args:
            block: whole lines.
            position: that of the first byte.
            origin: the origin of all.
            is_first: whether it begins a file, which may have a byte order mark.

        Raises:
            UnicodeDecodeError: the block is not UTF-8.
        """
        if not block.isascii():
            block.decode()
        data = pa.py_buffer(block)
        lines = _lines(data)
        starts, ends = lines
        if is_first and block.startswith(BYTE_ORDER_MARK):
            starts = pl.concat([starts.head(1) + len(BYTE_ORDER_MARK), starts.slice(1)])
        texts = spans(starts, ends, data)
        if not (texts.str.starts_with("{") & texts.str.ends_with("}")).all():
            ends = starts + texts.str.strip_chars_end(BLANKS).str.len_bytes().cast(pl.Int64)
            starts = ends - texts.str.strip_chars(BLANKS).str.len_bytes().cast(pl.Int64)
            texts = spans(starts, ends, data)
        found = pl.DataFrame([texts.alias("text"), lines[0].alias("line"), starts.alias("start"), ends.alias("end")])
        texts, at, starts, ends = found.filter(texts != "").get_columns()
        return cls(texts, at + position, pl.Series([origin]).new_from_index(0, texts.len()), data, starts, ends)

    def records(self, numbers: pl.Series, positions: pl.Series) -> Iterator[Record]:
        """Some of the records by their numbers, at other positions."""
        columns = (numbers, self.texts.gather(numbers), positions, self.origins.gather(numbers))
        for number, text, position, origin in zip(*(column.to_list() for column in columns), strict=True):
            yield Record(self.others.get(number) if text is None else text.encode(), position, origin)


def _lines(data: pa.Buffer) -> tuple[pl.Series, pl.Series]:
    """Where each line begins and ends."""
    bytes_ = pl.Series(pl.from_arrow(pa.Array.from_buffers(pa.uint8(), data.size, [None, data])))
    ends = (bytes_ == _NEWLINE).arg_true().cast(pl.Int64)
    if not data.size or bytes_[-1] != _NEWLINE:
        ends = pl.concat([ends, pl.Series([data.size], dtype=pl.Int64)])
    return (ends + 1).shift(1, fill_value=0), ends


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
