"""Dead letters of CSV files: each needs the header of its file, if it has one, so the file must still exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ...domain.errors import SourceChanged
from ...domain.source.record_spec import RecordSpec
from ...domain.table.collect import collect_small
from ..records.dead_letters import records
from ..records.decoder import RecordDecoder
from .splits import header, row_parser

if TYPE_CHECKING:
    import pyarrow as pa


@frozen
class CsvDeadLetters:
    """Decodes dead letters of CSV files again.

    Args:
        spec: the spec of the records, as declared now.
        headers: the column names of each file.
    """

    spec: RecordSpec
    headers: Mapping[str, list[str]]

    @classmethod
    def of(cls, letters: nw.LazyFrame[Any], spec: RecordSpec, folder: str) -> CsvDeadLetters:
        """A reader of these dead letters.

        Raises:
            SourceChanged: a file is missing.
            BadInput: a file lacks a declared column.
        """
        names = [line["origin"] for line in collect_small(letters.select("origin").unique())]
        return cls(spec, {name: _header(Path(folder, name), spec) for name in names})

    def __call__(self, letters: Iterable[pa.RecordBatch], first: int) -> Iterator[pa.RecordBatch]:
        for name, run in groupby(records(letters, first), attrgetter("origin")):
            yield from RecordDecoder(self.spec, row_parser(self.headers[name], self.spec.csv)).batches(run)


def _header(path: Path, spec: RecordSpec) -> list[str]:
    try:
        return header(path, spec)
    except FileNotFoundError as error:
        raise SourceChanged(
            f"file {path} is gone, and with it the header that its dead letters need: put it back"
        ) from error
