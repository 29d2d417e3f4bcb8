"""Files as Polars frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define

from ..polars_rows import polars_letters, polars_rows
from .source import FileSource
from .splits import read

if TYPE_CHECKING:
    import narwhals as nw

    from ...domain.epoch import OffsetRange


@define(eq=False)
class PolarsFileSource(FileSource):
    """A directory as a stream of Polars frames."""

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of the range's files, with the columns of `Batch.rows`.

        Raises:
            SourceChanged: a file is gone or changed.
            BadInput: a file lacks a declared column, or has it in a type that does not fit.
        """
        return polars_rows((batch for split in self._splits(offsets) for batch in read(split, self.spec)), self.schema)

    def again(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return polars_letters(letters, self._rereading(letters), self.schema)
