"""Records, many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl
import pyarrow as pa
from attrs import field, frozen

from ..decoder import Record

BLANKS = " \t\r\n"
_BYTE_ORDER_MARK = "\ufeff"


@frozen(eq=False)
class Chunk:
    """Records by column; see `Record`.

    Args:
        texts: the records as text; null if they are not UTF-8, or have no value.
        positions: their positions.
        origins: their origins.
        others: the bytes of those that are not UTF-8, by number.
    """

    texts: pl.Series
    positions: pl.Series
    origins: pl.Series
    others: Mapping[int, bytes] = field(factory=dict)

    @classmethod
    def of(cls, records: Sequence[Record]) -> Chunk:
        """A chunk of some records."""
        raws, positions, origins, _ = zip(*records, strict=True)
        places = pl.Series(positions, dtype=pl.Int64), pl.Series(origins, dtype=pl.String)
        try:
            return cls(_series(pa.array(raws, pa.binary()).cast(pa.string())), *places)
        except pa.ArrowInvalid:  # some are not UTF-8
            texts = [_text(raw) for raw in raws]
            others = {at: raw for at, raw in enumerate(raws) if raw is not None and texts[at] is None}
            return cls(_series(pa.array(texts, pa.string())), *places, others)

    @classmethod
    def of_lines(cls, block: bytes, position: int, origin: str, *, is_first: bool) -> Chunk:
        """A chunk of the lines of a part of a file that are not blank.

        Args:
            block: whole lines.
            position: that of the first byte.
            origin: the origin of all.
            is_first: whether it begins a file, which may have a byte order mark.

        Raises:
            UnicodeDecodeError: the block is not UTF-8.
        """
        text = block.decode()
        lines = pl.Series([text]).str.split("\n").explode()
        ends = (lines.str.len_bytes().cast(pl.Int64) + 1).cum_sum()
        if is_first and text.startswith(_BYTE_ORDER_MARK):
            lines = pl.concat([pl.Series([lines[0].removeprefix(_BYTE_ORDER_MARK)]), lines.slice(1)])
        lines, starts = lines.str.strip_chars(BLANKS), ends.shift(1, fill_value=0) + position
        filled = lines != ""
        lines = lines.filter(filled)
        return cls(lines, starts.filter(filled), pl.Series([origin]).new_from_index(0, lines.len()))

    def records(self, numbers: pl.Series, positions: pl.Series) -> Iterator[Record]:
        """Some of the records by their numbers, at other positions."""
        columns = (numbers, self.texts.gather(numbers), positions, self.origins.gather(numbers))
        for number, text, position, origin in zip(*(column.to_list() for column in columns), strict=True):
            yield Record(self.others.get(number) if text is None else text.encode(), position, origin)


def _series(texts: pa.Array) -> pl.Series:
    return pl.Series(pl.from_arrow(texts))


def _text(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return None
