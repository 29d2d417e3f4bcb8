"""The command ``headwater plot``: draws a curve of cumulate windows in the terminal or to a file."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import click
import narwhals as nw

from ...adapters.plot.curves import Curves
from ...adapters.plot.terminal import draw
from ...domain.errors import ConfigError, NotInstalled
from ...domain.table.collect import collect_small
from ...domain.table.schema import NUMBERS
from ..run.progress import moment
from .arguments import AT, command, count, utc_time
from .console import print_message
from .durable import open_durable

if TYPE_CHECKING:
    from datetime import datetime

    from ...domain.table.view_spec import ViewSpec
    from ..api import Headwater
    from ..pipeline import Answer
    from ..read.moments import Moment

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
        name, spec = _curve(headwater, curve)
        assert spec.curve_zone is not None
        drawn = _measure(spec, measure)
        answer = headwater.answer(name, at=at, as_of=as_of)
        with answer.engine.working():
            curves = _curves(answer, drawn, groups, spec.curve_zone, name)
    if not curves.steps:
        print_message(f"headwater: {name} has no tick yet, so there is nothing to draw")
    elif output:
        _save(curves, output)
        print_message(f"headwater: {name} is drawn in {output}")
    else:
        for line in draw(curves, shutil.get_terminal_size().columns):
            click.echo(line)


def _curve(headwater: Headwater, name: str) -> tuple[str, ViewSpec]:
    """Return the name and the view of the curve to draw.

    Raises:
        ConfigError: the view is not a curve, or the pipeline has none.
    """
    pipeline, _, view = name.partition(".")
    headwater.find(pipeline)
    possible = [each.name for each in headwater.services[pipeline].views if each.curve_zone]
    if not possible:
        raise ConfigError(f"pipeline {pipeline!r} has no curves; only cumulate windows have curves")
    if (view or "curve") not in possible:
        raise ConfigError(f"{name!r} is not a curve; there are: {', '.join(possible)}")
    return f"{pipeline}.{view or 'curve'}", headwater.find(f"{pipeline}.{view or 'curve'}")[1]


def _measure(spec: ViewSpec, wanted: str | None) -> str:
    kinds = {each.name: each.type.name for each in spec.schema.columns if each.name not in spec.sort}
    possible = [name for name, kind in kinds.items() if kind in NUMBERS]
    if wanted is None and possible:
        return possible[0]
    if wanted not in possible:
        raise ConfigError(
            f"{wanted or 'the curve'} is not a measure that can be drawn; there are: {', '.join(possible)}"
        )
    return wanted


def _curves(answer: Answer, measure: str, groups: int, zone: str, name: str) -> Curves:
    """What is to be drawn of the groups that come to most."""
    first, *dimensions, tick = answer.view.sort
    rows = answer.frame.select(*answer.view.sort, nw.col(measure).cast(nw.Float64))
    lines: dict[tuple[Any, ...], dict[datetime, float | None]] = {}
    start: datetime | None = None
    for row in collect_small(_greatest(rows, dimensions, measure, groups).sort(*answer.view.sort)):
        start = row[first]
        lines.setdefault(tuple(row[each] for each in dimensions), {})[row[tick]] = row[measure]
    steps = sorted({tick for line in lines.values() for tick in line})
    drawn = {_label(group): tuple(line.get(step) for step in steps) for group, line in lines.items()}
    drawn = dict(sorted(drawn.items(), key=lambda line: (-_highest(line[1]), line[0])))
    return Curves(f"{name} from {moment(start)}", measure, zone, steps, drawn)


def _greatest(rows: nw.LazyFrame[Any], dimensions: list[str], measure: str, groups: int) -> nw.LazyFrame[Any]:
    """The rows of the groups with the highest curves."""
    if not dimensions:
        return rows
    highest = rows.group_by(*dimensions).agg(nw.col(measure).max())
    ordered = highest.sort(measure, *dimensions, descending=[True, *(False for _ in dimensions)], nulls_last=True)
    chosen = collect_small(ordered.head(groups))
    wanted = [
        nw.all_horizontal(*(_is(name, group[name]) for name in dimensions), ignore_nulls=True) for group in chosen
    ]
    return rows.filter(nw.any_horizontal(*wanted, ignore_nulls=True)) if wanted else rows.head(0)


def _is(name: str, value: Any) -> nw.Expr:
    column = nw.col(name)
    return column.is_null() if value is None else (column == value).fill_null(value=False)


def _highest(values: tuple[float | None, ...]) -> float:
    return max((value for value in values if value is not None), default=0.0)


def _label(group: tuple[Any, ...]) -> str:
    return ", ".join("null" if each is None else str(each) or '""' for each in group) or "all"


def _save(curves: Curves, path: str) -> None:
    try:
        from ...adapters.plot.files import save
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise NotInstalled("matplotlib is not installed: run pip install 'headwater[plot]'") from error
    try:
        save(curves, path)
    except OSError as error:
        raise ConfigError(f"--output {path}: cannot be written: {error.strerror}") from error
