"""The settings of a cumulate pipeline, and the checks of their combinations."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterable
from datetime import timedelta
from typing import ClassVar

from attrs import field, frozen

from ...duration import show_duration
from ...errors import ConfigError
from ...source.decoding import decoding_of, subtracted_decoding
from ...source.record_spec import RecordSpec
from ...table.column_checks import check_own_names, free_name
from ...table.fingerprint import changed_settings, fingerprint, recorded_setting
from ...table.groups import check_groupable
from ...table.schema import Schema
from ..base import one_of
from ..measures import Estimate, Measure, describe, fixed_parts
from .panes import Panes

_DIMENSIONS = "dimensions"
_TOTAL = "total"
LATE = ("drop", "revise")
TICKS = ("sparse", "dense")
WINDOW_START, TICK, GROUPING, REVISION = "window_start", "tick", "grouping", "revision"
"""Columns of the views: timestamp, timestamp, string and bigint; see `CumulateSettings.column_name`."""


def _to_tuples(sets: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(each) for each in sets)


@frozen
class CumulateSettings:
    """The settings of a cumulate pipeline.

    Args:
        pipeline: the pipeline's name.
        schema: the columns of the source's rows.
        event_time: the timestamp column that decides the pane of a row.
        step: the time from one tick to the next.
        measures: the measures of each group.
        size: the length of a window.
        offset: the start of windows, from midnight.
        time_zone: IANA zone of windows of whole days; shorter windows are cut in UTC.
        dimensions: sets of columns. Each set has its own groups; null is a separate group. The empty set is the
            total.
        late: the treatment of a row whose pane already has its tick: ``drop`` makes it a dead letter, ``revise`` makes
            a new revision of the ticks that it changes.
        ticks: ``sparse``: a group ticks at a step if the pane has rows of it; ``dense``: at every step from its first
            row to the end of the window.
        watermark_delay: how late rows may be.
        retracts: whether the source has retractions (a changelog, or a column `row_kind`).
        records: how the source's records are read; None: not on record.
    """

    kind: ClassVar[str] = "cumulate"

    pipeline: str
    schema: Schema
    event_time: str
    step: timedelta
    measures: tuple[Measure, ...] = field(converter=tuple[Measure, ...])
    size: timedelta = timedelta(days=1)
    offset: timedelta = timedelta()
    time_zone: str = "UTC"
    dimensions: tuple[tuple[str, ...], ...] = field(default=((),), converter=_to_tuples)
    late: str = field(default="drop", validator=one_of(*LATE))
    ticks: str = field(default="sparse", validator=one_of(*TICKS))
    watermark_delay: timedelta = timedelta()
    retracts: bool = False
    records: RecordSpec | None = field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if not self.measures:
            raise ConfigError('measures needs at least one, such as { pv = "count(*)" }')
        if not self.dimensions:
            raise ConfigError('dimensions needs at least one set, such as [["page"], []]; [] is the total')
        if (kind := self.schema[self.event_time]).name != "timestamp":
            raise ConfigError(f"event_time {self.event_time!r} must be a timestamp, not {kind.ddl}")
        for measure in self.measures:
            if self.retracts and isinstance(measure, Estimate):
                raise ConfigError(
                    f"measure {measure.name!r} is an estimate, which cannot take retractions; write count(distinct …)"
                )
        self._check_dimensions()
        self._check_names()
        _ = self.panes

    def _check_dimensions(self) -> None:
        for each in self.dimensions:
            for name in each:
                check_groupable(name, self.schema[name])
            if len(set(each)) < len(each):
                raise ConfigError(f"dimensions: a column is listed twice in {list(each)}; remove one")
        if len({frozenset(each) for each in self.dimensions}) < len(self.dimensions):
            raise ConfigError("dimensions: a set is listed twice (the order of columns does not matter); remove one")
        if {(), (_TOTAL,)} <= set(self.dimensions):
            raise ConfigError(
                f"dimensions: [] is called {_TOTAL!r} in the names of views, and so is {[_TOTAL]}; rename the column"
            )
        for name_of, mark in ((label_of, "_"), (grouping_of, ",")):
            if len({name_of(each) for each in self.dimensions}) < len(self.dimensions):
                raise ConfigError(
                    f"dimensions: two sets have the same name (their columns joined by {mark!r}); rename a column"
                )

    def _check_names(self) -> None:
        check_own_names((*self._answer_columns, *self.schema.names))
        lower = [name.lower() for name in self._answer_columns]
        if repeated := {name for name in self._answer_columns if lower.count(name.lower()) > 1}:
            raise ConfigError(f"measures: {', '.join(sorted(repeated))}: measures and dimensions need different names")

    @property
    def _answer_columns(self) -> tuple[str, ...]:
        return (*self.dimension_schema.names, *(measure.name for measure in self.measures))

    def column_name(self, column: str) -> str:
        """Return the name of one of our columns: with a leading `_` if a dimension or a measure has that name."""
        return free_name(column, self._answer_columns)

    @property
    def panes(self) -> Panes:
        return Panes.of(size=self.size, step=self.step, offset=self.offset, zone=self.time_zone)

    @property
    def dimension_schema(self) -> Schema:
        """The columns of all dimension sets."""
        names = dict.fromkeys(name for each in self.dimensions for name in each)
        return self.schema.select(names)

    @property
    def _typed_columns(self) -> tuple[str, ...]:
        """The columns whose types stored rows depend on, although no table may show them: those of all measures.

        A later row takes a value back, is compared with a stored one (`count(distinct …)`), or adds to rows that a
        condition has chosen by the text of a value.
        """
        named = {name.lower() for each in self.measures for name in each.columns}
        return tuple(name for name in self.schema.names if name.lower() in named)

    @property
    def fingerprint(self) -> str:
        """A text that changes with every setting that stored rows depend on."""
        measures = fixed_parts(self.measures)
        sets = sorted(tuple(sorted(each)) for each in self.dimensions)
        text = f"cumulate {self.dimension_schema.ddl} {sets} {measures} {self.event_time} {self.panes} {self.ticks}"
        settings = {
            _DIMENSIONS: [list(each) for each in self.dimensions],
            "columns": self.dimension_schema.ddl or "none",
            "measures": describe(self.measures),
            "event_time": self.event_time,
            **{name: show_duration(getattr(self, name)) for name in ("size", "step", "offset")},
            "time_zone": self.time_zone,
            "ticks": self.ticks,
        }
        subtracted = (*self._typed_columns, *self.dimension_schema.names, self.event_time)
        return fingerprint(
            text,
            settings,
            columns=self.schema.select(self._typed_columns),
            decoding=decoding_of(self.records),
            fixed_decoding=subtracted_decoding(self.records, subtracted),
        )

    def changed(self, built: str) -> str | None:
        """Return the settings that differ from the fingerprint of the tables; None if none does.

        The order of the columns of a set is one of them, because rows are stored under it; see `grouping_of`. The
        digest does not contain it.
        """
        recorded = _recorded_sets(built)
        reordered = recorded is not None and recorded != _recorded_sets(self.fingerprint)
        return changed_settings(built, self.fingerprint, [_DIMENSIONS] if reordered else [])


def _recorded_sets(fingerprint_: str) -> list[list[str]] | None:
    """The dimension sets in a fingerprint, each with its columns in the order given; None if not on record."""
    try:
        return sorted(literal_eval(recorded_setting(fingerprint_, _DIMENSIONS) or ""))
    except (SyntaxError, TypeError, ValueError):  # it is a text for display, which another version may write otherwise
        return None


def grouping_of(dimensions: tuple[str, ...]) -> str:
    """The name of a dimension set in the column `grouping`: its columns, separated by commas; empty for the total."""
    return ",".join(dimensions)


def label_of(dimensions: tuple[str, ...]) -> str:
    """The name of a dimension set in the names of views: its columns, joined by ``_``; ``total`` for the empty set."""
    return "_".join(dimensions) or _TOTAL
