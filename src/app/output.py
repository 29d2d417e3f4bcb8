"""Writes the rows of a view for people (``table``) and machines (``jsonl``, ``csv``), without holding them all."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias

from ..domain.schema import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from decimal import Decimal
    from typing import TextIO

    import narwhals as nw

    from ..domain.ports import FrameEngine
    from ..domain.schema import DataType, Schema
    from ..domain.service import ViewSpec

Cell: TypeAlias = "str | int | float | bool | None"
"""A value as JSON has it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BUFFER = 4096
_SAMPLE = 200
"""Rows whose widths set those of a table's columns; wider ones after them stick out."""


def rows(
    frame: nw.LazyFrame[Any], view: ViewSpec, engine: FrameEngine, limit: int | None = None
) -> Iterator[list[Cell]]:
    """The rows of a view in the order for a person, each value as JSON has it.

    Timestamps become ISO-8601 in UTC, dates ISO, decimals texts, binary Base64, and floats that are no numbers texts;
    null stays None.

    Args:
        frame: the view's rows.
        view: its columns and their order.
        engine: of the frame.
        limit: at most so many rows.
    """
    by = dict.fromkeys((*view.sort, *view.key))
    ordered = frame.sort(*by) if by else frame
    ordered = ordered if limit is None else ordered.head(limit)
    readers = [_reader(column.type) for column in view.schema.columns]
    for values in _fetched(_plain(ordered, view.schema, engine)):
        yield [None if value is None else read(value) for read, value in zip(readers, values, strict=True)]


def _plain(frame: nw.LazyFrame[Any], schema: Schema, engine: FrameEngine) -> nw.LazyFrame[Any]:
    """The columns in order, timestamps as microseconds: engines' own conversions go through the process's time zone."""
    import narwhals as nw

    picked = []
    for at, column in enumerate(schema.columns):
        source = column.name
        if column.type.name == "timestamp":
            source = f"_micros_{at}"
            frame = engine.wall_micros(frame, column.name, into=source, zone="UTC")
        picked.append(nw.col(source).alias(column.name))
    return frame.select(*picked)


def _fetched(frame: nw.LazyFrame[Any]) -> Iterator[Sequence[Any]]:
    if frame.implementation.is_pyspark():
        yield from frame.to_native().toLocalIterator(prefetchPartitions=True)
    else:
        yield from frame.collect().iter_rows(buffer_size=_BUFFER)


def _reader(kind: DataType) -> Callable[[Any], Cell]:
    match kind.name:
        case "timestamp":
            return _instant
        case "timestamp_ntz" | "date":
            return _iso
        case "decimal":
            return _decimal
        case "binary":
            return _base64
        case "float" | "double":
            return _number
        case _:
            return _as_it_is


def _as_it_is(value: Any) -> Cell:
    return value  # type: ignore[no-any-return]


def _instant(micros: int) -> str:
    return _iso(_EPOCH + timedelta(microseconds=micros)).replace("+00:00", "Z")


def _iso(value: Any) -> str:
    text: str = value.isoformat()
    head, dot, fraction = text.partition(".")
    zone = "+00:00" if fraction.endswith("+00:00") else ""
    return f"{head}{dot}{fraction.removesuffix(zone).rstrip('0')}{zone}"


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _number(value: float) -> float | str:
    """JSON has no word for these: they are spelled as Spark spells them."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def write(out: TextIO, form: str, schema: Schema, content: Iterable[Sequence[Cell]]) -> None:
    """Write rows, in one of `FORMATS`.

    Args:
        out: where to.
        form: ``table``: aligned columns under their names; ``jsonl``: an object a row; ``csv``: a header, null an
            empty field, the empty text ``""``.
        schema: the columns.
        content: their values.
    """
    out.writelines(line + "\n" for line in FORMATS[form](schema, content))


def _jsonl(schema: Schema, content: Iterable[Sequence[Cell]]) -> Iterator[str]:
    for values in content:
        yield json.dumps(dict(zip(schema.names, values, strict=True)), ensure_ascii=False, allow_nan=False)


def _csv(schema: Schema, content: Iterable[Sequence[Cell]]) -> Iterator[str]:
    yield ",".join(map(_csv_field, schema.names))
    for values in content:
        yield ",".join(map(_csv_field, values))


def _csv_field(value: Cell) -> str:
    """One field; Python's own writer cannot tell null from the empty text."""
    if value is None:
        return ""
    text = _text(value)
    quoted = not text or any(char in text for char in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if quoted else text


def _table(schema: Schema, content: Iterable[Sequence[Cell]]) -> Iterator[str]:
    lines = ([_shown(value) for value in values] for values in content)
    first = list(islice(lines, _SAMPLE))
    widths = [max(map(len, column)) for column in zip(schema.names, *first, strict=True)]
    to_right = [column.type.name in NUMBERS for column in schema.columns]
    yield _aligned(schema.names, widths, to_right)
    yield "  ".join("-" * width for width in widths)
    for line in chain(first, lines):
        yield _aligned(line, widths, to_right)


def _aligned(texts: Sequence[str], widths: Sequence[int], to_right: Sequence[bool]) -> str:
    cells = (
        text.rjust(width) if right else text.ljust(width)
        for text, width, right in zip(texts, widths, to_right, strict=True)
    )
    return "  ".join(cells).rstrip()


def _shown(value: Cell) -> str:
    text = "null" if value is None else _text(value)
    return text.replace("\r", "\\r").replace("\n", "\\n")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


FORMATS: dict[str, Callable[[Schema, Iterable[Sequence[Cell]]], Iterator[str]]] = {
    "table": _table,
    "jsonl": _jsonl,
    "csv": _csv,
}
