"""Tables and messages on a terminal, with colours if it has them (`NO_COLOR` turns them off)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...domain.table.schema import NUMBERS, Schema

_PAGE = 200
"""Rows that are drawn at once."""
_GAP = 2
"""Spaces between columns."""


def print_styled(out: TextIO, text: str, style: str) -> None:
    """Print a line; its first part, up to a colon, in a style."""
    head, colon, rest = text.partition(": ")
    Console(file=out).print(Text.assemble((head, style), colon, rest), soft_wrap=True)


def print_table(out: TextIO, schema: Schema, lines: Iterator[Sequence[str]], widths: Sequence[int]) -> None:
    """Print rows as a table; if it is wider than the terminal, each row as a list of its columns.

    Args:
        out: the terminal.
        schema: the columns.
        lines: the rows, each with its values as text.
        widths: of the columns, in cells of the terminal; longer texts are folded.
    """
    console = Console(file=out, markup=False, emoji=False, highlight=False)
    fits = sum(widths) + _GAP * len(widths) <= console.width
    if fits:
        first = list(islice(lines, _PAGE))
        console.print(_table(schema, first, widths, header=True))
        while page := list(islice(lines, _PAGE)):
            console.print(_table(schema, page, widths, header=False))
        return
    for number, line in enumerate(lines):
        if number:
            console.print()
        console.print(_record(schema, line))


def _table(schema: Schema, lines: Sequence[Sequence[str]], widths: Sequence[int], *, header: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, show_header=header, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column, width in zip(schema.columns, widths, strict=True):
        right = column.type.name in NUMBERS
        table.add_column(column.name, justify="right" if right else "left", width=width, overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table


def _record(schema: Schema, line: Sequence[str]) -> Table:
    table = Table.grid(padding=(0, _GAP))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, text in zip(schema.names, line, strict=True):
        table.add_row(name, text)
    return table
