"""What to draw, and which combinations of it make sense."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from attrs import field, frozen

from ..duration import show_duration
from ..errors import ConfigError
from ..fingerprint import fingerprint
from ..groups import check_groupable
from ..measures import Measure, described
from ..schema import check_own_names, free_name
from .panes import Panes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..schema import Schema

LATE = ("drop", "revise")
TICKS = ("sparse", "dense")
WINDOW_START, TICK, GROUPING, REVISION = "window_start", "tick", "grouping", "revision"
"""Columns of the answer: timestamps, string and bigint; see `CumulateSettings.named`."""


def _sets(given: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(each) for each in given)


@frozen
class CumulateSettings:
    """What to draw.

    Args:
        pipeline: the pipeline's name.
        schema: the columns of the source's rows.
        event_time: the timestamp column that places a row in its pane.
        step: from one tick to the next.
        measures: what is computed for each group.
        size: of a window.
        offset: where windows start, from midnight.
        time_zone: IANA zone of windows of whole days; shorter ones are cut in UTC.
        dimensions: sets of columns; the groups of each set are counted by themselves, null being a group of its own.
            A set of no columns is the total.
        late: what becomes of a row whose pane has had its tick: ``drop`` keeps it aside, ``revise`` makes a new
            revision of the ticks that it changes.
        ticks: ``sparse``: a group ticks where a row of it fell into the pane; ``dense``: at every step from its first
            row to the window's end.
        watermark_delay: how far the newest event time runs ahead of completeness.
        retracts: whether rows may be taken back.
    """

    pipeline: str
    schema: Schema
    event_time: str
    step: timedelta
    measures: tuple[Measure, ...] = field(converter=tuple[Measure, ...])
    size: timedelta = timedelta(days=1)
    offset: timedelta = timedelta()
    time_zone: str = "UTC"
    dimensions: tuple[tuple[str, ...], ...] = field(default=((),), converter=_sets)
    late: str = "drop"
    ticks: str = "sparse"
    watermark_delay: timedelta = timedelta()
    retracts: bool = False

    def __attrs_post_init__(self) -> None:
        if not self.measures:
            raise ConfigError('measures needs at least one, such as { pv = "count(*)" }')
        if not self.dimensions:
            raise ConfigError('dimensions needs at least one set, such as [["page"], []]; [] is the total')
        for name, allowed in (("late", LATE), ("ticks", TICKS)):
            if (given := getattr(self, name)) not in allowed:
                raise ConfigError(f"{name} = {given!r} is not one of {', '.join(allowed)}")
        if (kind := self.schema[self.event_time]).name != "timestamp":
            raise ConfigError(f"event_time {self.event_time!r} must be a timestamp, not {kind.ddl}")
        for measure in self.measures:
            if self.retracts and measure.estimated:
                raise ConfigError(
                    f"measure {measure.name!r} is an estimate, from which rows cannot be taken back; write"
                    " count(distinct …)"
                )
        self._check_dimensions()
        self._check_names()
        _ = self.panes

    def _check_dimensions(self) -> None:
        for each in self.dimensions:
            for name in each:
                check_groupable(name, self.schema[name])
            if len(set(each)) < len(each):
                raise ConfigError(f"dimensions: a column stands twice in {list(each)}")
        if len({frozenset(each) for each in self.dimensions}) < len(self.dimensions):
            raise ConfigError("dimensions: a set stands twice")
        if len({label_of(each) for each in self.dimensions}) < len(self.dimensions):
            raise ConfigError("dimensions: two sets have one name, their columns' joined by '_'; rename a column")

    def _check_names(self) -> None:
        check_own_names((*self._answered, *self.schema.names))
        lower = [name.lower() for name in self._answered]
        if twice := {name for name in self._answered if lower.count(name.lower()) > 1}:
            raise ConfigError(f"{', '.join(sorted(twice))}: measures and dimensions need different names")

    @property
    def _answered(self) -> tuple[str, ...]:
        return (*self.dimension_schema.names, *(measure.name for measure in self.measures))

    def named(self, column: str) -> str:
        """The name of a column of ours beside dimensions and measures."""
        return free_name(column, self._answered)

    @property
    def panes(self) -> Panes:
        """How time is cut."""
        return Panes.of(size=self.size, step=self.step, offset=self.offset, zone=self.time_zone)

    @property
    def dimension_schema(self) -> Schema:
        """The columns of all dimension sets."""
        names = dict.fromkeys(name for each in self.dimensions for name in each)
        return self.schema.select(names)

    @property
    def fingerprint(self) -> str:
        """Changes with every setting that stored rows depend on."""
        measures = sorted(
            (each.name, each.aggregate.function, each.argument, each.condition, each.type.ddl) for each in self.measures
        )
        sets = sorted(tuple(sorted(each)) for each in self.dimensions)
        text = f"cumulate {self.dimension_schema.ddl} {sets} {measures} {self.event_time} {self.panes} {self.ticks}"
        settings = {
            "dimensions": [list(each) for each in self.dimensions],
            "columns": self.dimension_schema.ddl or "none",
            "measures": described(self.measures),
            "event_time": self.event_time,
            **{name: show_duration(getattr(self, name)) for name in ("size", "step", "offset")},
            "time_zone": self.time_zone,
            "ticks": self.ticks,
        }
        return fingerprint(text, settings)


def grouping_of(dimensions: tuple[str, ...]) -> str:
    """How a dimension set is called in the answer: its columns with commas between, nothing for the total."""
    return ",".join(dimensions)


def label_of(dimensions: tuple[str, ...]) -> str:
    """How a dimension set is called in the names of views."""
    return "_".join(dimensions) or "total"
