"""Writes the rows of a view as a table, as JSON lines or as CSV, without holding all of them in memory."""

from __future__ import annotations

import json
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from ...adapters.records.json_rows import json_rows
from ...domain.table.row_kind import ROW_KIND
from ...domain.table.schema import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TextIO

    import narwhals as nw

    from ...adapters.records.json_rows import Cell
    from ...domain.ports import FrameEngine
    from ...domain.table.schema import Schema
    from ...domain.table.view_spec import ViewSpec

_SAMPLE = 200
"""The first rows set the widths of a table's columns; wider values in later rows stick out."""


def rows(
    frame: nw.LazyFrame[Any], view: ViewSpec, engine: FrameEngine, limit: int | None = None
) -> Iterator[list[Cell]]:
    """Return the rows of a view in its display order, each value as in JSON; see `json_rows`.

    Args:
        frame: the view's rows.
        view: its columns and their order.
        engine: of the frame.
        limit: the greatest number of rows; None for all.
    """
    by = list(dict.fromkeys((*view.sort, *view.key)))
    # A key's old row comes before its new one: "-U" is greater than "+U".
    ordered = frame.sort(*by, descending=[name == ROW_KIND for name in by]) if by else frame
    return json_rows(ordered if limit is None else ordered.head(limit), view.schema, engine)


def write(out: TextIO, form: str, schema: Schema, content: Iterable[Sequence[Cell]]) -> None:
    """Write rows, in one of `FORMATS`.

    Args:
        out: the stream to write to.
        form: ``table``: aligned columns under their names; ``jsonl``: one object for each row; ``csv``: with a header;
            null is an empty field, and an empty string is ``""``.
        schema: the columns.
        content: the rows, each with its values.
    """
    if form == "table" and out.isatty():
        from .terminal import print_table

        print_table(out, schema, *_measure(schema, content))
    else:
        out.writelines(line + "\n" for line in FORMATS[form](schema, content))


def _jsonl(schema: Schema, content: Iterable[Sequence[Cell]]) -> Iterator[str]:
    for values in content:
        yield json.dumps(dict(zip(schema.names, values, strict=True)), ensure_ascii=False, allow_nan=False)


def _csv(schema: Schema, content: Iterable[Sequence[Cell]]) -> Iterator[str]:
    yield ",".join(map(_csv_field, schema.names))
    for values in content:
        yield ",".join(map(_csv_field, values))


def _csv_field(value: Cell) -> str:
    """One CSV field. Python's `csv` writes null and the empty string alike, so it cannot be used."""
    if value is None:
        return ""
    text = _text(value)
    quoted = not text or any(char in text for char in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if quoted else text


def _table(schema: Schema, content: Iterable[Sequence[Cell]]) -> Iterator[str]:
    lines, widths = _measure(schema, content)
    right_aligned = [column.type.name in NUMBERS for column in schema.columns]
    yield _align(schema.names, widths, right_aligned)
    yield "  ".join("-" * width for width in widths)
    for line in lines:
        yield _align(line, widths, right_aligned)


def _measure(schema: Schema, content: Iterable[Sequence[Cell]]) -> tuple[Iterator[list[str]], list[int]]:
    """Return the rows as texts, and the widths of the columns in a sample of them."""
    lines = ([_show(value) for value in values] for values in content)
    first = list(islice(lines, _SAMPLE))
    return chain(first, lines), [max(map(_width, column)) for column in zip(schema.names, *first, strict=True)]


def _width(text: str) -> int:
    """The cells that a text takes in a terminal: wide characters and emoji take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _align(texts: Sequence[str], widths: Sequence[int], right_aligned: Sequence[bool]) -> str:
    aligned = zip(texts, widths, right_aligned, strict=True)
    return "  ".join(_pad(text, " " * (width - _width(text)), right=right) for text, width, right in aligned).rstrip()


def _pad(text: str, spaces: str, *, right: bool) -> str:
    return spaces + text if right else text + spaces


def _show(value: Cell) -> str:
    text = "null" if value is None else _text(value)
    return text.replace("\r", "\\r").replace("\n", "\\n")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


FORMATS: dict[str, Callable[[Schema, Iterable[Sequence[Cell]]], Iterator[str]]] = {
    "table": _table,
    "jsonl": _jsonl,
    "csv": _csv,
}
