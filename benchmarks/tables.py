"""Printed tables."""

from __future__ import annotations


def print_table(lines: list[list[str]]) -> None:
    """Print lines of cells, aligned in columns; the first line is the head."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)), flush=True)
