"""Curves as PNG or SVG files."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from .curves import Curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = (10, 5)  # inches
_NAN = float("nan")
_MISSING_GLYPH = re.compile(r"Glyph (\d+) ")
"""How a warning of Matplotlib begins if no font has a character; it is drawn as a box."""


def save(curves: Curves, path: str) -> list[str]:
    """Write a picture file; the same curves give the same bytes.

    Args:
        curves: the curves to draw.
        path: the path of the file; it ends in ``.png`` or ``.svg``.

    Returns:
        The texts of the picture that have a character which no font of Matplotlib has.
    """
    figure = Figure(figsize=_SIZE, layout="constrained")
    svg = path.lower().endswith(".svg")
    canvas = FigureCanvasSVG(figure) if svg else FigureCanvasAgg(figure)
    # No date and no random ids in the file, so that the same curve gives the same file; a "$" is only a character.
    settings = {"svg.hashsalt": "headwater", "text.parse_math": False}
    with mpl.rc_context(settings), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _draw(figure.add_subplot(), curves)
        canvas.print_figure(path, metadata={"Date": None} if svg else {"Software": None})
    # The other warnings are about the layout, if a text is wider than the picture.
    found = [_MISSING_GLYPH.match(str(each.message)) for each in caught]
    missing = {chr(int(each[1])) for each in found if each}
    return [text for text in (curves.measure, *map(curves.named, curves.lines)) if missing.intersection(text)]


def _draw(axes: Axes, curves: Curves) -> None:
    zone = ZoneInfo(curves.zone)
    steps = [date2num(step) for step in curves.steps]
    lines = []
    for name, values in curves.lines.items():
        given = [(step, value) for step, value in zip(steps, values, strict=True) if value is not None]
        gaps = [_NAN if value is None else value for value in values]
        (line,) = axes.plot(steps, gaps, marker=".", markersize=4)
        lines.append(line)
        if curves.missing[name]:  # a thin line crosses steps without a tick, which have no mark
            axes.plot(
                [step for step, _ in given], [value for _, value in given], ":", color=line.get_color(), linewidth=0.8
            )
    locator = AutoDateLocator(tz=zone)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))
    axes.set(title=curves.title, xlabel=curves.zone, ylabel=curves.measure)
    axes.grid(alpha=0.3)
    axes.legend(lines, map(curves.named, curves.lines), loc="upper left")
