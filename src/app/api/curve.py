"""Curves of cumulate windows, to be drawn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import narwhals as nw

from ...adapters.plot.curves import Curves
from ...domain.errors import ConfigError
from ...domain.table.collect import collect_small
from ...domain.table.schema import NUMBERS
from ...domain.table.view_spec import ViewSpec
from ..read.find_view import UnknownName
from ..read.moments import Moment, Time
from ..run.progress import show_time
from .headwater import Headwater
from .pipeline import Answer

_AMBIGUOUS = ("", "null", "all")
"""Texts that are quoted in a label, since they mean something else or cannot be seen."""


def read_curves(
    headwater: Headwater,
    curve: str,
    *,
    measure: str | None = None,
    groups: int = 8,
    at: Moment | None = None,
    as_of: Time | None = None,
) -> Curves:
    """The curves of the groups that come to most.

    Args:
        headwater: the deployment.
        curve: ``PIPELINE`` for its first curve, or ``PIPELINE.CURVE``.
        measure: the measure to draw; None for the first.
        groups: the greatest number of curves.
        at: the version to read; see `Headwater.view`.
        as_of: the window of this event time, up to then.

    Raises:
        ConfigError: the view is not a curve, the pipeline has none, the measure cannot be drawn, or `groups` is 0.
    """
    if groups < 1:
        raise ConfigError("no curve to draw: groups (--groups) must be 1 or more")
    name, spec = find_curve(headwater, curve)
    assert spec.curve_zone is not None
    drawn = _choose_measure(spec, measure)
    answer = headwater.answer(name, at=at, as_of=as_of)
    with answer.engine.working():
        return _curves(answer, drawn, groups, spec.curve_zone, name)


def find_curve(headwater: Headwater, name: str) -> tuple[str, ViewSpec]:
    """Return the name and the view of the curve to draw.

    Raises:
        ConfigError: the view is not a curve, or the pipeline has none.
    """
    pipeline, _, view = name.partition(".")
    headwater.find(pipeline)
    possible = [each.name for each in headwater.services[pipeline].views if each.curve_zone]
    if not possible:
        raise UnknownName(f"pipeline {pipeline!r} has no curves; only cumulate windows have curves")
    if (view or "curve") not in possible:
        raise UnknownName(f"{name!r} is not a curve; there are: {', '.join(possible)}")
    return f"{pipeline}.{view or 'curve'}", headwater.find(f"{pipeline}.{view or 'curve'}")[1]


def _choose_measure(spec: ViewSpec, wanted: str | None) -> str:
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
    lines: dict[str, dict[datetime, float | None]] = {}
    start: datetime | None = None
    for row in collect_small(_greatest(rows, dimensions, measure, groups).sort(*answer.view.sort)):
        start = row[first]
        lines.setdefault(_label([row[each] for each in dimensions]), {})[row[tick]] = row[measure]
    steps = sorted({tick for line in lines.values() for tick in line})
    drawn = {label: tuple(line.get(step) for step in steps) for label, line in lines.items()}
    drawn = dict(sorted(drawn.items(), key=lambda line: (-_highest(line[1]), line[0])))
    return Curves(f"{name} from {show_time(start) or '-'}", measure, zone, steps, drawn)


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


def _label(group: Sequence[Any]) -> str:
    """The name of a group; no two groups have the same."""
    return ", ".join(map(_show, group)) or "all"


def _show(value: Any) -> str:
    """A value in a label; a text is quoted if it could be taken for another value, or for several."""
    if value is None:
        return "null"
    ambiguous = isinstance(value, str) and (value in _AMBIGUOUS or "," in value or '"' in value)
    return json.dumps(value, ensure_ascii=False) if ambiguous else str(value)
