"""Writes the rows of a view as a table, as JSON lines or as CSV, without holding all of them in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from ...domain.errors import HeadwaterError
from ...domain.table.schema import Schema
from ..api.pipeline import Answer
from ..api.text_table import measure, text_table

if TYPE_CHECKING:
    from ...adapters.records.json_rows import Cell

FORMATS = ("table", "jsonl", "csv")


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

        print_table(out, schema, *measure(schema, content))
    else:
        _print(out, (line + "\n" for line in text_table(schema, content)))


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
