"""Plain JSON files as Polars frames: one object per line, in the types that Spark infers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.json as pj

from ...domain.errors import ConfigError
from ..polars.schema import instance_of
from ..records.not_utf8 import explain_not_utf8
from ..records.shapes.chunk import BLANKS
from ..shared.plain_faults import explain_case
from ..shared.utf8 import LONE_SURROGATE
from .csv_text import read_text

_LONE_SURROGATE = re.compile(LONE_SURROGATE.encode())
_PIECE = 4 * 1024 * 1024
"""The size of the pieces of whole lines that are checked at once, in bytes."""
_LARGEST_BLOCK = 2**31 - 1
"""The size of the largest piece that Arrow reads, in bytes."""
_ONE_OBJECT = "write one whole object per line"
_Place: TypeAlias = tuple[str, ...]
"""The place of a value: the names that lead to it, and ``[]`` in an array."""


def read_json(files: list[Path]) -> pl.LazyFrame:
    """The rows of JSON files with one object per line; columns are sorted by name.

    Raises:
        ConfigError: a text has half of a surrogate pair, an object has a name twice, or names differ only in case.
        PolarsError: a line cannot be read; `find_fault` finds it.
        BadInput: a file is compressed, and damaged.
    """
    texts = {file: read_text(file) for file in files}
    for file, text in texts.items():
        if found := _LONE_SURROGATE.search(text):
            raise ConfigError(f"{_place(file, text, found.start())}: a text has half of a surrogate pair; correct it")
    # As one text: of several files, Polars takes the columns of the first.
    whole = b"\n".join(texts.values())
    rows = pl.scan_ndjson(whole, infer_schema_length=None)
    schema = rows.collect_schema()
    _check_case(pl.Struct(schema), texts)
    for file, text in texts.items():
        _check_names_once(file, text)
    inferred = _as_spark_infers(pl.Struct(schema))
    if isinstance(inferred, pl.Struct) and inferred != pl.Struct(schema):
        rows = pl.scan_ndjson(whole, schema=inferred.to_schema())
    return rows.select(sorted(rows.collect_schema().names()))


def find_fault(files: list[Path]) -> str | None:
    """What is wrong with the first line that cannot be read, with its place; None if no such line is found.

    If all lines are objects, it is the line of a column whose value has another kind than in earlier lines.
    """
    kinds: dict[_Place, dict[str, str]] = {}
    for file in files:
        for number, line in enumerate(read_text(file).split(b"\n"), start=1):
            place = f"file {file}, line {number}"
            try:
                found = _parsed(line.strip(BLANKS.encode()))
            except _Fault as fault:
                return f"{place}: {fault}"
            for name, kind in _kinds((), found):
                kinds.setdefault(name, {}).setdefault(kind, place)
    return _explain_kinds(kinds)


class _Fault(Exception):
    """A line that cannot be read."""


def _parsed(line: bytes) -> dict[str, Any]:
    """The object in a line; an empty one for a blank line."""
    try:
        found = json.loads(line.decode() or "{}", object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise _Fault(explain_not_utf8(line, error)) from error
    except (ValueError, RecursionError) as error:
        raise _Fault(f"it is not one JSON object; {_ONE_OBJECT}") from error
    if not isinstance(found, dict):
        raise _Fault(f"it is {_kind(found)}, not a JSON object; {_ONE_OBJECT}")
    return found


def _explain_kinds(kinds: Mapping[_Place, Mapping[str, str]]) -> str | None:
    """The first column with values of several kinds; if one is a text, all can be read as texts.

    Args:
        kinds: the first line of each kind, by the place of the values.
    """
    for name, lines in kinds.items():
        if len(lines) > 1 and "a text" not in lines:
            (former, _), (kind, line), *_ = lines.items()
            shown = ".".join(name).replace(".[]", "[]")
            return f"{line}: column {shown!r} is {kind}, and {former} in an earlier line; write one type"
    return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Fault(f"an object has the name {twice!r} twice; write each name once")
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _kinds(place: _Place, value: Any) -> Iterator[tuple[_Place, str]]:
    """The kinds of a value and of those inside it, each with its place."""
    if value is None:
        return
    if place:
        yield place, _kind(value)
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _kinds((*place, name), each)
    elif isinstance(value, list):
        for each in value:
            yield from _kinds((*place, "[]"), each)


def _kind(value: Any) -> str:
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "an array", dict: "an object"}
    return kinds.get(type(value), "null")


def _check_names_once(file: Path, text: bytes) -> None:
    """Check that no object has a name twice; Polars would take the first one.

    Raises:
        ConfigError: an object has a name twice.
    """
    at = 0
    while at < len(text):
        end = (text.rfind(b"\n", at, at + _PIECE) + 1) or (text.find(b"\n", at) + 1) or len(text)
        piece = pa.py_buffer(memoryview(text)[at:end])
        try:
            pj.read_json(piece, pj.ReadOptions(use_threads=False, block_size=min(piece.size, _LARGEST_BLOCK)))
        except pa.ArrowException:  # of names that are there twice, and of kinds that differ
            _check_each_line(file, text, at, end)
        at = end


def _check_each_line(file: Path, text: bytes, at: int, end: int) -> None:
    while at < end:
        stop = (text.find(b"\n", at, end) + 1) or end
        try:
            json.loads(text[at:stop], object_pairs_hook=_unique)
        except _Fault as fault:
            raise ConfigError(f"{_place(file, text, at)}: {fault}") from fault
        except (ValueError, RecursionError):
            pass  # it is blank, or Polars refuses it
        at = stop


def _check_case(dtype: pl.DataType, texts: Mapping[Path, bytes]) -> None:
    """Check that no names differ only in case.

    Raises:
        ConfigError: there are such names.
    """
    if isinstance(dtype, pl.List):
        _check_case(instance_of(dtype.inner), texts)
    if isinstance(dtype, pl.Struct):
        by_case: dict[str, str] = {}
        for each in dtype.fields:
            former = by_case.setdefault(each.name.lower(), each.name)
            if former != each.name:
                raise ConfigError(explain_case(_first_place(each.name, texts), former, each.name))
            _check_case(instance_of(each.dtype), texts)


def _first_place(name: str, texts: Mapping[Path, bytes]) -> str:
    """The first line with a name; the folder if it is written with escapes."""
    wanted = re.compile(re.escape(json.dumps(name, ensure_ascii=False).encode()) + rb"\s*:")
    found = ((file, text, match) for file, text in texts.items() if (match := wanted.search(text)))
    return next((_place(file, text, match.start()) for file, text, match in found), str(next(iter(texts)).parent))


def _place(file: Path, text: bytes, at: int) -> str:
    line = text.count(b"\n", 0, at) + 1
    return f"file {file}, line {line}"


def _as_spark_infers(dtype: pl.DataType) -> pl.DataType | None:
    """The type that Spark infers: values that are all null are text. None if it drops them: objects without names."""
    if isinstance(dtype, pl.Null):
        return pl.String()
    if isinstance(dtype, pl.List):
        inner = _as_spark_infers(instance_of(dtype.inner))
        return inner and pl.List(inner)
    if isinstance(dtype, pl.Struct):
        fields = [(each.name, _as_spark_infers(instance_of(each.dtype))) for each in dtype.fields]
        kept = [pl.Field(name, inner) for name, inner in fields if inner is not None]
        return pl.Struct(kept) if kept else None
    return dtype
