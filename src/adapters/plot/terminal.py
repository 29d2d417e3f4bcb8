"""Curves as text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zoneinfo import ZoneInfo

from attrs import frozen

from .curves import Curves

_MARKS = "*o+x#@%&=~"
_HEIGHT = 16
_LEAST = 20
_CLOCK = "%H:%M"
_SPACE = 2


def draw(curves: Curves, width: int) -> Iterator[str]:
    """The lines of a chart: one mark per group, no mark where a group has no tick.

    Args:
        curves: the curves to draw, with at least one step.
        width: of the terminal, in characters.
    """
    known = [value for values in curves.lines.values() for value in values if value is not None]
    low, high = min([0.0, *known]), max([0.0, *known])
    labels = [_number(high), _number((low + high) / 2), _number(low)]
    margin = max(map(len, labels)) + _SPACE
    columns = max(min(width - margin, len(curves.steps)), min(_LEAST, len(curves.steps)))
    canvas = _Canvas([[" "] * columns for _ in range(_HEIGHT)], low, high, len(curves.steps))
    for mark, values in zip(_marks(len(curves.lines)), curves.lines.values(), strict=True):
        canvas.draw(values, mark)
    yield f"{curves.title}: {curves.measure}"
    for at, row in enumerate(canvas.rows):
        label = {0: labels[0], _HEIGHT // 2: labels[1], _HEIGHT - 1: labels[2]}.get(at, "")
        yield f"{label.rjust(margin - _SPACE)} |{''.join(row)}".rstrip()
    yield " " * (margin - 1) + "+" + "-" * columns
    first, last = (curves.steps[at].astimezone(ZoneInfo(curves.zone)).strftime(_CLOCK) for at in (0, -1))
    yield " " * margin + first + last.rjust(max(columns - len(first), len(last) + 1)) + f"  {curves.zone}"
    for mark, name in zip(_marks(len(curves.lines)), curves.lines, strict=True):
        yield f"  {mark} {curves.named(name)}"


@frozen
class _Canvas:
    rows: list[list[str]]
    low: float
    high: float
    steps: int

    def draw(self, values: Sequence[float | None], mark: str) -> None:
        """Mark the last tick of the steps that share a column; no mark if they have no tick."""
        for at, value in enumerate(values):
            if value is not None:
                self._clear(self._column(at), mark)
                self.rows[self._row(value)][self._column(at)] = mark

    def _clear(self, column: int, mark: str) -> None:
        for row in self.rows:
            if row[column] == mark:
                row[column] = " "

    def _column(self, step: int) -> int:
        return step * len(self.rows[0]) // self.steps

    def _row(self, value: float) -> int:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return round((1 - share) * (_HEIGHT - 1))


def _marks(count: int) -> list[str]:
    return [_MARKS[at % len(_MARKS)] for at in range(count)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
