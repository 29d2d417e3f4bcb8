"""Dead letters of CSV files: each needs the header of its file, which must still lie there."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from ...domain.collect import collect_small
from ...domain.errors import SourceChanged
from ..letters import records
from ..records import RecordDecoder
from .splits import header, row_parser

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import narwhals as nw
    import pyarrow as pa

    from ...domain.source import RecordSpec
    from ..records import Record


@frozen
class CsvLetters:
    """Reads letters of CSV files again.

    Args:
        spec: what the records hold, as is known by now.
        headers: the column names of each file.
    """

    spec: RecordSpec
    headers: Mapping[str, list[str]]

    @classmethod
    def of(cls, letters: nw.LazyFrame[Any], spec: RecordSpec, folder: str) -> CsvLetters:
        """A reader of these letters.

        Raises:
            SourceChanged: a file is gone.
            BadInput: it lacks a declared column.
        """
        names = [line["origin"] for line in collect_small(letters.select("origin").unique())]
        return cls(spec, {name: _header(Path(folder, name), spec) for name in names})

    def __call__(self, letters: Iterable[pa.RecordBatch], first: int) -> Iterator[pa.RecordBatch]:
        for name, run in groupby(records(letters, first), _origin):
            yield from RecordDecoder(self.spec, row_parser(self.headers[name], self.spec.delimiter)).batches(run)


def _origin(record: Record) -> str:
    return record.origin


def _header(path: Path, spec: RecordSpec) -> list[str]:
    try:
        return header(path, spec)
    except FileNotFoundError as error:
        raise SourceChanged(
            f"file {path} is gone, and with it the header that its dead letters need: put it back"
        ) from error
