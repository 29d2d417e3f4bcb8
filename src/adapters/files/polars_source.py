"""Files as Polars frames."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import narwhals as nw
from attrs import define, field

from ...domain.epoch.epoch import OffsetRange
from ..memory_limit import check_room
from ..records.absent_fields import warn_of_absent
from ..records.decoder import take_counts
from ..records.polars_rows import polars_dead_letters, polars_rows
from ..records.shapes.decoders import ShapeDecoders
from .source import FileSource
from .splits import read


@define(eq=False)
class PolarsFileSource(FileSource):
    """A directory as a stream of Polars frames."""

    eager: bool = field(init=False, default=True)
    _decoders: ShapeDecoders = field(init=False)
    """The same for all reads: they keep the shapes that they have learned."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._decoders = ShapeDecoders(self.spec)

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of the range's files, with the columns of `Batch.rows`.

        Raises:
            SourceChanged: a file is gone or changed.
            BadInput: a file lacks a declared column, or has it in a type that does not fit.
        """
        return self._read(offsets, lean=False)

    def read_lean(self, offsets: OffsetRange) -> nw.LazyFrame[Any] | None:
        """See `StreamSource.read_lean`. Rows of Parquet have no text, so one has to be made."""
        return self._read(offsets, lean=True) if self.spec.format == "parquet" else None

    def _read(self, offsets: OffsetRange, *, lean: bool) -> nw.LazyFrame[Any]:
        check_room(self._listing.size_of(offsets))
        batches = (read(split, self._decoders, lean=lean) for split in self._splits(offsets))
        rows = polars_rows(chain.from_iterable(batches), self.schema)
        if offsets.after is None:
            warn_of_absent(rows, self.spec, self.settings.path)
        return rows

    def passed_over(self) -> Mapping[str, int]:
        return take_counts(self._decoders.passed_over)

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return polars_dead_letters(letters, self._rereading(letters), self.schema)
