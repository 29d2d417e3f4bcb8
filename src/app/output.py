"""Writes the rows of a view for people (``table``) and machines (``jsonl``, ``csv``), without holding them all."""

from __future__ import annotations

import json
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from ..adapters.json_rows import json_rows
from ..domain.epoch import ROW_KIND
from ..domain.schema import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TextIO

    import narwhals as nw

    from ..adapters.json_rows import Cell
    from ..domain.ports import FrameEngine
    from ..domain.schema import Schema
    from ..domain.service import ViewSpec

_SAMPLE = 200
"""Rows whose widths set those of a table's columns; wider ones after them stick out."""


def rows(
    frame: nw.LazyFrame[Any], view: ViewSpec, engine: FrameEngine, limit: int | None = None
) -> Iterator[list[Cell]]:
    """The rows of a view in the order for a person, each value as JSON has it; see `json_rows`.

    Args:
        frame: the view's rows.
        view: its columns and their order.
        engine: of the frame.
        limit: at most so many rows.
    """
    by = list(dict.fromkeys((*view.sort, *view.key)))
    # A key's old row comes before its new one: "-U" is greater than "+U".
    ordered = frame.sort(*by, descending=[name == ROW_KIND for name in by]) if by else frame
    return json_rows(ordered if limit is None else ordered.head(limit), view.schema, engine)


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
