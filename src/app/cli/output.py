"""Writes the rows of a view as a table, as JSON lines or as CSV, without holding all of them in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TextIO

from ...domain.errors import HeadwaterError
from ...domain.source.conversion import escape_controls
from ...domain.table.schema import NUMBERS, Schema
from ..api.pipeline import Answer

if TYPE_CHECKING:
    from ...adapters.records.json_rows import Cell

FORMATS = ("table", "jsonl", "csv")
_SAMPLE = 200
"""The first rows set the widths of a table's columns; wider values in later rows stick out."""


class OutputError(HeadwaterError):
    """The output could not be written. No fault of the rows that are read meanwhile, so their reader lets it pass."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write the output: {error.strerror}")
        self.error = error


def write_view(out: TextIO, form: str, answer: Answer, *, limit: int | None = None) -> None:
    """Write the rows of a view in its display order; see `write`."""
    view, engine = answer.view, answer.engine
    if not view.schema.columns:  # before the first version of a table whose versions each have their own
        return
    shown = answer.ordered if limit is None else answer.ordered.head(limit)
    from ...adapters.records.json_rows import cell_frames, json_rows

    if lines := _lines_of(form):
        _print(out, lines(view.schema.names, cell_frames(shown, view.schema, engine)))
    else:
        write(out, form, view.schema, json_rows(shown, view.schema, engine))


def write(out: TextIO, form: str, schema: Schema, content: Iterable[Sequence[Cell]]) -> None:
    """Write rows, in one of `FORMATS`.

    Args:
        out: the stream to write to.
        form: ``table``: aligned columns under their names; ``jsonl``: one object for each row; ``csv``: with a header;
            null is an empty field, and an empty string is ``""``.
        schema: the columns.
        content: the rows, each with its values.
    """
    if lines := _lines_of(form):
        from ...adapters.records.json_rows import cells_of

        _print(out, lines(schema.names, [cells_of(content, schema)]))
    elif out.isatty():
        from .terminal import print_table

        print_table(out, schema, *_measure(schema, content))
    else:
        _print(out, (line + "\n" for line in _table(schema, content)))


def _print(out: TextIO, texts: Iterable[str]) -> None:
    for text in texts:
        try:
            out.write(text)
        except OSError as error:
            raise OutputError(error) from error


def _lines_of(form: str) -> Callable[[Sequence[str], Iterable[Any]], Iterator[str]] | None:
    """What makes the lines of a form that is not for display."""
    from ...adapters.records.text_lines import csv_lines, json_lines

    return {"jsonl": json_lines, "csv": csv_lines}.get(form)


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
    return "null" if value is None else escape_controls(_text(value))


def _text(value: object) -> str:
    if isinstance(value, list | dict):
        from ...adapters.records.text_lines import nested_text

        return nested_text(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
