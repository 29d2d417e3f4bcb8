"""Finds the columns of a folder's files from a header, a footer or a few lines."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

from ...domain.errors import HeadwaterError
from ...domain.source.conversion import Undecodable
from ...domain.source.csv_format import CsvFormat
from ...domain.source.record_spec import ARRAY
from ..records import csv as csv_text
from ..shared.compressed import open_file
from . import json_array
from .listing import FilesSettings, Listing

_LINES = 100


@frozen
class FileColumns:
    """The columns of one file; for JSON, those of its first lines."""

    file: str
    names: tuple[str, ...]


def columns_of_first(folder: str, format_: str, csv: CsvFormat, layout: str) -> FileColumns | None:
    """The columns of the first file of a folder; None if the folder is empty or that file cannot be read.

    Args:
        folder: its path.
        format_: ``parquet json csv``.
        csv: how CSV is written.
        layout: of JSON.
    """
    try:
        names = Listing(FilesSettings(folder), format_).names()
        found = _columns(Path(folder, names[0]), format_, csv, layout) if names else []
    except (HeadwaterError, Undecodable, ValueError, OSError, EOFError, pa.ArrowException):
        return None  # the reader reports the reason
    return FileColumns(names[0], tuple(found)) if found else None


def _columns(file: Path, format_: str, csv: CsvFormat, layout: str) -> list[str]:
    if format_ == "parquet":
        return list(pq.read_schema(file).names)
    with open_file(str(file)) as stream:
        if format_ == "csv":
            _, first = next(csv_text.records(enumerate(stream), csv), (0, b""))
            return [name or "" for name in csv_text.fields(first.decode("utf-8-sig"), csv)]
        texts = (raw for _, raw in json_array.elements(stream, file.name)) if layout == ARRAY else stream
        records = [json.loads(text.decode("utf-8-sig")) for text in islice(texts, _LINES) if text.strip()]
    return list(dict.fromkeys(name for record in records for name in record))
