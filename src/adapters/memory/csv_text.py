"""Plain CSV files as Polars frames, read as the source of files reads them. Every column is text."""

from __future__ import annotations

import io
import re
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import polars as pl

from ...domain.errors import ConfigError
from ...domain.source.conversion import Undecodable
from ..records.csv import decoded, fields, header_fields, records
from ..shared.compressed import explain_damage, open_file

_ROWS_A_BATCH = 10_000
_FIELD = rb'(?:"[^"]*+(?:""[^"]*+)*+"|[^",\r\n]*+)'


def read_text(file: Path) -> bytes:
    """The bytes of a file, unpacked, without a byte order mark.

    Raises:
        BadInput: it is compressed, and damaged.
    """
    with explain_damage(file), open_file(str(file)) as stream:
        return stream.read().removeprefix(BOM_UTF8)


def read_csv(file: Path, *, only_header: bool = False) -> pl.DataFrame | None:
    """The rows of one CSV file with a header, or only its columns; None if it is empty.

    Raises:
        ConfigError: a line cannot be read, has more or fewer fields than the header, or the header lacks a name or has
            one twice.
        BadInput: the file is compressed, and damaged.
    """
    text = _first_record(file) if only_header else read_text(file)
    parsed = _parse(file, text)
    header = [name or "" for name in next(parsed, [])]
    if not header:
        return None
    if "" in header or len({name.lower() for name in header}) < len(header):
        raise ConfigError(
            f"file {file}: its header is {', '.join(header)!r}; give each column a name of its own (pandas writes one"
            " without a name unless you set index=False)"
        )
    plain = _without_blank_lines(text)
    if _is_plain(plain, len(header)):
        try:
            return pl.read_csv(plain, infer_schema=False, new_columns=header)
        except pl.exceptions.PolarsError:
            deque(parsed, maxlen=0)  # its error names the line
            raise
    schema = dict.fromkeys(header, pl.String())
    batches = [pl.DataFrame(schema=schema)]
    while rows := list(islice(parsed, _ROWS_A_BATCH)):
        batches.append(pl.DataFrame(rows, schema, orient="row"))
    return pl.concat(batches)


def _first_record(file: Path) -> bytes:
    """The bytes of the first record that is not blank, without a byte order mark."""
    with explain_damage(file), open_file(str(file)) as stream:
        lines = enumerate(chain([stream.readline().removeprefix(BOM_UTF8)], stream), start=1)
        return next((record for _, record in records(lines)), b"")


def _without_blank_lines(text: bytes) -> bytes:
    """The text without the blank lines at its end, and without all of them if none can be inside quotes."""
    return text.rstrip(b"\r\n") if b'"' in text else re.sub(rb"(?m)^\r?\n", b"", text)


def _is_plain(text: bytes, width: int) -> bool:
    """Whether every line has as many fields and no odd quotes: Polars then reads the same, and much faster.

    In a file with one column a blank line and an empty field look the same.
    """
    if width == 1:
        return False
    record = rb"%b(?:,%b){%d}(?:\r?\n|\Z)" % (_FIELD, _FIELD, width - 1)
    return re.fullmatch(rb"(?:%b)*+" % record, text) is not None


def _parse(file: Path, text: bytes) -> Iterator[list[str | None]]:
    width = None
    for line, record in records(enumerate(io.BytesIO(text), start=1)):
        try:
            found = _row_fields(record, is_header=width is None)
        except Undecodable as error:
            raise ConfigError(f"file {file}, line {line}: {error}") from error
        width = width or len(found)
        if len(found) != width:
            raise ConfigError(f"file {file}, line {line}: {width} fields wanted, not {len(found)}; correct the line")
        yield found


def _row_fields(record: bytes, *, is_header: bool) -> list[str | None]:
    if is_header:
        return [*header_fields(record)]
    text = decoded(record)
    try:
        return fields(text)
    except Undecodable as error:
        raise Undecodable(f"{error}; correct the line") from error
