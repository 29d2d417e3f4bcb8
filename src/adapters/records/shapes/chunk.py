"""Records, many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
from attrs import frozen

from ..decoder import Record

if TYPE_CHECKING:
    from collections.abc import Sequence


@frozen(eq=False)
class Chunk:
    """Records by column; see `Record`.

    Args:
        raw: their bytes.
        positions: their positions.
        origins: their origins.
    """

    raw: pa.Array
    positions: pl.Series
    origins: pl.Series

    @classmethod
    def of(cls, records: Sequence[Record]) -> Chunk:
        """A chunk of records."""
        raws, positions, origins, _ = zip(*records, strict=True)
        return cls(
            pa.array(raws, pa.binary()), pl.Series(positions, dtype=pl.Int64), pl.Series(origins, dtype=pl.String)
        )

    def record(self, number: int, position: int) -> Record:
        """A record by its number, at another position."""
        return Record(self.raw[number].as_py(), position, self.origins[number])

    def texts(self) -> pl.Series:
        """The records as text; null if they are not UTF-8, or have no value."""
        try:
            return _series(self.raw.cast(pa.string()))
        except pa.ArrowInvalid:
            return _series(pa.array([_text(raw) for raw in self.raw.to_pylist()], pa.string()))


def _series(texts: pa.Array) -> pl.Series:
    return pl.Series(pl.from_arrow(texts))


def _text(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return None
