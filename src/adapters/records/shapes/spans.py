"""Parts of one buffer as texts, without a copy."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

_BYTES = 8


def spans(starts: pl.Series, ends: pl.Series, data: pa.Buffer) -> pl.Series:
    """The texts from each start to before its end, which are bytes of `data`.

    Args:
        starts: Int64, in order; no text begins before the one before it has ended.
        ends: Int64.
        data: UTF-8. No start and no end is within a character.
    """
    # Arrow's texts follow each other, so what is between two of them is a text too.
    offsets = memoryview(bytearray(2 * _BYTES * starts.len())).cast("q")
    offsets[0::2], offsets[1::2] = _numbers(starts), _numbers(ends)
    return _texts(offsets, data).gather_every(2)


def tails(starts: pl.Series, data: pa.Buffer) -> pl.Series:
    """The texts from each start to before the next one; see `spans`, which takes longer."""
    offsets = memoryview(bytearray(_BYTES * (starts.len() + 1))).cast("q")
    offsets[:-1], offsets[-1] = _numbers(starts), data.size
    return _texts(offsets, data)


def places(texts: pa.LargeBinaryArray) -> tuple[pl.Series, pl.Series]:
    """Where each text of a whole array begins and ends in its data."""
    offsets = pa.Array.from_buffers(pa.int64(), len(texts) + 1, [None, texts.buffers()[1]])
    series = pl.Series(pl.from_arrow(offsets))
    return series.head(len(texts)), series.slice(1)


def _texts(offsets: memoryview, data: pa.Buffer) -> pl.Series:
    if len(offsets) < 2:  # noqa: PLR2004 - two make one text
        return pl.Series(dtype=pl.String)
    return pl.Series(
        pl.from_arrow(pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, [None, pa.py_buffer(offsets), data]))
    )


def _numbers(series: pl.Series) -> memoryview:
    array = series.rechunk().to_arrow()
    return memoryview(array.buffers()[1]).cast("b").cast("q")[array.offset : array.offset + len(array)]
