"""Tables as text: aligned columns under their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

from ...domain.source.conversion import escape_controls
from ...domain.table.schema import NUMBERS, Schema

if TYPE_CHECKING:
    from ...adapters.records.json_rows import Cell

_SAMPLE = 200
"""The first rows set the widths of the columns; wider values in later rows stick out."""


def text_table(schema: Schema, content: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """Yield the lines of a table: aligned columns under their names."""
    lines, widths = measure(schema, content)
    right_aligned = [column.type.name in NUMBERS for column in schema.columns]
    yield _align(schema.names, widths, right_aligned)
    yield "  ".join("-" * width for width in widths)
    for line in lines:
        yield _align(line, widths, right_aligned)


def measure(schema: Schema, content: Iterable[Sequence[Cell]]) -> tuple[Iterator[list[str]], list[int]]:
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
