"""Files as Polars frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ...domain.epoch.epoch import OffsetRange
from ..memory_limit import check_room
from ..records.polars_rows import polars_dead_letters, polars_rows
from .source import FileSource
from .splits import read

if TYPE_CHECKING:
    import narwhals as nw


@define(eq=False)
class PolarsFileSource(FileSource):
    """A directory as a stream of Polars frames."""

    eager: bool = field(init=False, default=True)
    _passed_over: Counter[str] = field(init=False, factory=Counter)

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of the range's files, with the columns of `Batch.rows`.

        Raises:
            SourceChanged: a file is gone or changed.
            BadInput: a file lacks a declared column, or has it in a type that does not fit.
        """
        check_room(sum(path.stat().st_size for path in self._listing.files(offsets)))
        batches = (read(split, self.spec, self._passed_over, views=True) for split in self._splits(offsets))
        return polars_rows(chain.from_iterable(batches), self.schema)

    def passed_over(self) -> Mapping[str, int]:
        found, self._passed_over = self._passed_over, Counter()
        return found

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return polars_dead_letters(letters, self._rereading(letters), self.schema)
