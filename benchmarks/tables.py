"""Tables as they are printed."""

from __future__ import annotations


def print_table(lines: list[list[str]]) -> None:
    """Print lines of cells, the head first, each column as wide as it has to be."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)), flush=True)
