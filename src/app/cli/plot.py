"""The command ``headwater plot``: draws a curve of cumulate windows in the terminal or to a file."""

from __future__ import annotations

import shutil
from datetime import datetime

import click

from ...adapters.plot.curves import Curves
from ...adapters.plot.terminal import draw
from ...domain.errors import ConfigError, name_some
from ..api.curve import find_curve, read_curves
from ..read.moments import Moment
from ..registry.packages import require
from .arguments import AT, command, count, utc_time
from .console import WARNING, print_message
from .durable import open_durable

_PICTURES = (".png", ".svg")


@command
@click.argument("curve", metavar="PIPELINE[.CURVE]")
@click.option("--measure", metavar="NAME", help="the measure to draw; by default the first")
@AT
@click.option("--as-of", metavar="TIME", type=utc_time, help="the window of this event time, up to then")
@click.option("--groups", metavar="N", type=count, default="8", help="draw the N highest curves (8)")
@click.option("--output", metavar="FILE", type=click.Path(), help="a .png or .svg file; by default the terminal")
def plot(
    *,
    config: str,
    curve: str,
    measure: str | None,
    at: Moment | None,
    as_of: datetime | None,
    groups: int,
    output: str | None,
) -> None:
    """Draw a curve of cumulate windows; by default the first one of a pipeline."""
    if output and not output.lower().endswith(_PICTURES):
        raise ConfigError(f"--output {output}: pictures are {' or '.join(_PICTURES)} files")
    with open_durable(config) as headwater:
        name, _ = find_curve(headwater, curve)
        curves = read_curves(headwater, name, measure=measure, groups=groups, at=at, as_of=as_of)
    if not curves.steps:
        print_message(f"headwater: {name} has no tick yet, so there is nothing to draw")
    elif output:
        _save(curves, output)
        print_message(f"headwater: {name} is drawn in {output}")
    else:
        for line in draw(curves, shutil.get_terminal_size().columns):
            click.echo(line)


def _save(curves: Curves, path: str) -> None:
    with require("matplotlib", extra="plot"):
        from ...adapters.plot.files import save
    try:
        boxes = save(curves, path)
    except OSError as error:
        raise ConfigError(f"--output {path}: cannot be written: {error.strerror}") from error
    if boxes:
        print_message(
            f"headwater: the fonts of Matplotlib lack characters of {name_some(boxes)}: the picture has boxes for them;"
            " set font.family in a matplotlibrc file to fonts that have them",
            WARNING,
        )
