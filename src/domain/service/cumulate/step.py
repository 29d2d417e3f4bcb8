"""The changes that an epoch makes to the tables of cumulate windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import narwhals as nw
from attrs import define, evolve, field, frozen

from ...duration import FIRST_MICRO, LAST_MICRO, moment_of
from ...epoch.batch import ERROR, Batch
from ...epoch.watermark import advance, newest_of
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine, QueryEngine, Version
from ...source import dead_letter
from ...source.dead_letter import or_else
from ...table.apply import fill_columns
from ...table.change import Change
from ...table.collect import collect_small
from ...table.groups import as_key
from ...table.row_kind import ROW_KIND
from ..base import Step
from ..measures import ROWS, evaluate, sign
from .lateness import LATE, ROUND, Lateness, LatenessResult
from .panes import PANE, WINDOW, Panes
from .revisions import ENTRIES, Revisions
from .settings import GROUPING, CumulateSettings, grouping_of
from .sketches import Sketch
from .tables import CumulateTables, extreme_of
from .tick_range import BEGINNING, TickRange
from .ticks import AllValues, PaneDeltas, Ticks
from .values import Values

LATE_REASON = "late: the tick at the end of its pane was there already"

_DEAD = "_dead"


@frozen
class _Profile:
    """The counts of a batch, its newest event time (UTC), and the end of its earliest pane; None if it has none."""

    rows: int
    good: int
    dead_letters: int
    late: int
    newest: datetime | None
    earliest: int | None


@define
class _IdleMemo:
    """The instant up to which a version of the table `panes` has no ticks to make unless new rows arrive."""

    version: Version | None = None
    until: int = BEGINNING


@frozen(eq=False)
class _Contribution:
    """What the rows of a batch add to the sums of each pane and, for each measure, to its `PaneState`."""

    sums: nw.LazyFrame[Any]
    states: dict[str, nw.LazyFrame[Any]]


@frozen(eq=False)
class _Prepared:
    """A batch as it is for a watermark.

    Args:
        checked: the rows with their panes, or the reason why one has none.
        result: those that are late.
        profile: of the result.
        on_time: what the other rows contribute; None if no row can be used.
    """

    checked: nw.LazyFrame[Any]
    result: LatenessResult
    profile: _Profile
    on_time: _Contribution | None

    def holds_at(self, watermark_pane: int | None) -> bool:
        """Whether what holds without a watermark holds for one in a pane, too: no row is late to it."""
        return watermark_pane is None or self.profile.earliest is None or self.profile.earliest >= watermark_pane


@frozen(eq=False)
class CumulateStep:
    """The step of one pipeline: adds rows to panes, and makes the ticks of panes that the watermark passes."""

    settings: CumulateSettings
    tables: CumulateTables
    panes: Panes
    ticks: Ticks
    revisions: Revisions
    lateness: Lateness
    states: Mapping[str, Values | Sketch]
    engine: FrameEngine
    queries: QueryEngine
    _idle_memo: _IdleMemo = field(init=False, factory=_IdleMemo)

    def prepare(self, batch: Batch) -> Batch:
        ready = self._prepare(self._add_panes(batch), None, batch)
        return evolve(batch, prepared=evolve(ready, on_time=ready.on_time and self._persist(ready.on_time)))

    def _prepare(self, checked: nw.LazyFrame[Any], watermark_pane: int | None, batch: Batch) -> _Prepared:
        # Replayed dead letters are late to the watermark only, not to one another.
        result = self.lateness.find_late(checked, watermark_pane, in_order=not batch.replay, lanes=batch.lanes)
        profile = self._profile(result)
        on_time = result.rows.filter(nw.col(ERROR).is_null(), ~nw.col(LATE))
        return _Prepared(checked, result, profile, self._sum_up(on_time) if profile.good else None)

    def _prepared_for(self, watermark_pane: int | None, batch: Batch) -> _Prepared:
        """What is prepared of a batch, if it holds for a watermark in a pane; else the same for that watermark."""
        if not isinstance(batch.prepared, _Prepared):
            return self._prepare(self._add_panes(batch), watermark_pane, batch)
        if not batch.prepared.holds_at(watermark_pane):
            return self._prepare(batch.prepared.checked, watermark_pane, batch)
        return evolve(batch.prepared, result=batch.prepared.result.placed_at(watermark_pane))

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        known = snapshot.watermark
        ready = self._prepared_for(None if known is None else self.panes.find_next_end(known), batch)
        result, profile = ready.result, ready.profile
        self.engine.expect(profile.rows)
        watermark = advance(known, profile.newest, self.settings.watermark_delay)
        revises = profile.late > 0 and self.settings.late == "revise"
        tick_range = TickRange(
            snapshot, self.panes, self._find_last_end(known), self._find_last_end(watermark), late=revises
        )
        changes: dict[str, Change] = {}
        if profile.dead_letters:
            changes[self.tables.dead_letters.name] = Change(append=dead_letter.extract(self._mark_dead(result), batch))
        if ready.on_time:
            late = self._sum_up(result.select_late(), ROUND) if revises else None
            changes |= self._make_changes(ready.on_time, late, tick_range)
        return Step(changes, profile.rows, profile.dead_letters, profile.newest, watermark=watermark)

    def idle(self, until: datetime, snapshot: Snapshot) -> Step | None:
        known = snapshot.watermark
        if known is None or until <= known:
            return None
        closing = TickRange(snapshot, self.panes, self._find_last_end(known), self._find_last_end(until))
        if not closing.may_tick or (last := self._find_last_tick(closing)) is None:
            return None
        # The watermark stops at the last tick: rows between it and the clock, which may be wrong, must not become late.
        tick_range = evolve(closing, after=last)
        changes = self._make_changes(self._make_empty(tick_range), None, tick_range)
        return Step(changes, 0, 0, None, watermark=moment_of(last))

    def _find_last_tick(self, tick_range: TickRange) -> int | None:
        """Find the last tick that closing these panes without new rows makes; None if it makes none."""
        version = tick_range.snapshot.version(self.tables.panes.name)
        if self._idle_memo.version == version and self._idle_memo.until >= tick_range.after:
            return None
        closing = tick_range.read_closing(self.tables.panes)
        if self.settings.ticks == "dense":
            window = _newest(WINDOW, closing, tick_range.read_so_far(self.tables.panes))
            last = None if window is None else min(self.panes.find_window_end(window), tick_range.after)
        else:
            last = _newest(PANE, closing)
        if last is None:
            self._idle_memo.version, self._idle_memo.until = version, tick_range.after
        return last

    def _find_last_end(self, watermark: datetime | None) -> int:
        return BEGINNING if watermark is None else self.panes.find_last_end(watermark)

    def _add_panes(self, batch: Batch) -> nw.LazyFrame[Any]:
        """The rows of a batch with their panes, the arguments of the measures, and their errors."""
        rows = evaluate(batch.rows, self.settings.measures, self.settings.schema, self.queries)
        return self.engine.persist(self._check(self.lateness.add_panes(rows)))

    def _check(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Set the error of each row that has no pane."""
        reason = or_else(
            nw.col(ERROR), nw.col(PANE).is_null(), f"column {self.settings.event_time} is null, so it has no pane"
        )
        beyond = (nw.col(WINDOW) < FIRST_MICRO) | (nw.col(PANE) > LAST_MICRO)
        limits = "its window starts before 0001-01-01, or its pane ends after 9999-12-31, in UTC"
        why = f"column {self.settings.event_time}: {limits}"
        reason = or_else(reason, beyond, why)
        return rows.with_columns(reason.alias(ERROR))

    def _mark_dead(self, result: LatenessResult) -> nw.LazyFrame[Any]:
        """Return the rows with the error of each unusable one; with ``late = "drop"`` that includes late rows."""
        if self.settings.late == "revise":
            return result.rows
        return result.rows.with_columns(or_else(nw.col(ERROR), nw.col(LATE), LATE_REASON).alias(ERROR))

    def _profile(self, result: LatenessResult) -> _Profile:
        grouped = result.rows.with_columns((~nw.col(ERROR).is_null()).alias(_DEAD)).group_by(_DEAD, LATE)
        newest, earliest = nw.col(self.settings.event_time).max().alias("_newest_time"), nw.col(PANE).min()
        lines = collect_small(grouped.agg(nw.len().alias("_rows_read"), newest, earliest))
        rows, late = (sum(line["_rows_read"] for line in each) for each in (lines, [x for x in lines if x[LATE]]))
        dead = sum(line["_rows_read"] for line in lines if line[_DEAD])
        dead += late if self.settings.late == "drop" else 0
        good = [line for line in lines if not line[_DEAD]]
        # A late row is older than the watermark, so it does not matter here whether it is included.
        newest_ = newest_of(line["_newest_time"] for line in good)
        earliest_ = min((line[PANE] for line in good), default=None)
        return _Profile(rows, good=rows - dead, dead_letters=dead, late=late, newest=newest_, earliest=earliest_)

    def _sum_up(self, rows: nw.LazyFrame[Any], *also: str) -> _Contribution:
        """Sum up rows for each group of each dimension set, by pane and by columns `also` (`ROUND` for late rows)."""
        measures, names = self.settings.measures, self.settings.dimension_schema.names
        signed = [each for measure in measures for each in measure.signed()]
        rows = rows.with_columns(nw.col(ROW_KIND), sign().alias(ROWS), *signed)
        sum_columns = [ROWS, *(each.name for measure in measures for each in measure.sums)]
        pane: tuple[str, ...] = (WINDOW, PANE, *also)
        # Sum by all dimensions first: each set then has fewer rows to sum.
        finest = self.engine.add_up(rows, (*names, *pane), sum_columns)
        group = (*self.tables.group, PANE, *also)
        sums = self._sum_sets(finest, (*group, *sum_columns), partial(self.engine.add_up, by=group, sums=sum_columns))
        states = {}
        for name, state in self.states.items():
            named = state.table.key[-2]
            each = state.fold(state.extract(rows), (*names, *pane, named))
            key = (*state.table.key, *also)
            states[name] = self._sum_sets(each, (*key, state.amount), partial(state.fold, by=key))
        return _Contribution(self._with_zeros(sums, *sum_columns), states)

    def _sum_sets(
        self,
        finest: nw.LazyFrame[Any],
        columns: Sequence[str],
        sum_up: Callable[[nw.LazyFrame[Any]], nw.LazyFrame[Any]],
    ) -> nw.LazyFrame[Any]:
        """Sum up sums by all dimensions for each dimension set; a set of all dimensions has these sums already."""
        sets, names = self.settings.dimensions, self.settings.dimension_schema.names
        if len(sets) > 1:
            finest = self.engine.persist(finest)
        parts = [self._expand_set(finest, each) for each in sets if len(each) == len(names)]
        if coarser := [self._expand_set(finest, each) for each in sets if len(each) < len(names)]:
            parts.append(sum_up(nw.concat(coarser)))
        return nw.concat([part.select(*columns) for part in parts])

    def _expand_set(self, rows: nw.LazyFrame[Any], dimensions: tuple[str, ...]) -> nw.LazyFrame[Any]:
        """Return rows with the key of their group in a dimension set."""
        schema = self.settings.dimension_schema
        without = schema.without(dimensions).filled(None)
        grouping = nw.lit(grouping_of(dimensions)).alias(self.settings.column_name(GROUPING))
        return as_key(rows.with_columns(grouping, *without), schema)

    def _make_changes(
        self, on_time: _Contribution, late: _Contribution | None, tick_range: TickRange
    ) -> dict[str, Change]:
        """Add the batch to the panes, and make the ticks of the panes that are closed."""
        schema = self.tables.panes.schema
        if not tick_range.may_tick:
            changes = {self.states[name].table.name: Change(merge=each) for name, each in on_time.states.items()}
            return {**changes, self.tables.panes.name: Change(merge=fill_columns(on_time.sums, schema))}
        on_time, late = self._persist(on_time), late and self._persist(late)
        deltas, changes = self._make_deltas(on_time, late, tick_range)
        closed = self.ticks.make(deltas, tick_range)
        revised = None
        if late:
            closed = evolve(closed, ticks=self.engine.persist(closed.ticks), totals=self.engine.persist(closed.totals))
            revised = self.revisions.make(self._sum_late(on_time, late, tick_range), deltas, closed, tick_range)
        merged = [on_time.sums, late.sums if late else None, closed.so_far]
        panes = nw.concat([fill_columns(each, schema) for each in merged if each is not None])
        changes[self.tables.points.name] = Change(append=closed.ticks, merge=revised)
        changes[self.tables.panes.name] = Change(merge=panes)
        return changes

    def _make_deltas(
        self, on_time: _Contribution, late: _Contribution | None, tick_range: TickRange
    ) -> tuple[PaneDeltas, dict[str, Change]]:
        """Return the deltas of the panes closed now, and the changes of the state tables."""
        changes, new_extremes, shrunk_groups, all_values = {}, {}, {}, {}
        on_time_sums = [tick_range.read_closing(self.tables.panes), tick_range.select_closed(on_time.sums)]
        added = list(on_time_sums)
        if late:
            added += [
                tick_range.place_late(late.sums, self.engine),
                self.revisions.make_zero_rows(late.sums, tick_range),
            ]
        for name, state in self.states.items():
            input_rows, late_rows = on_time.states[name], late.states[name] if late else None
            deltas = state.compute_deltas(input_rows, late_rows, tick_range)
            if isinstance(state, Sketch):
                deltas = self.engine.persist(deltas)
                closed = state.fold(deltas, state.table.key[:-1])
                changes[state.table.name] = state.build_change(input_rows, late_rows, closed)
                added.append(self._with_zeros(state.compute_sum_deltas(deltas, tick_range), *state.sum_columns))
                continue
            closed = state.sum_names(deltas, tick_range)
            changes[state.table.name] = state.build_change(input_rows, late_rows, closed)
            events = state.find_events(deltas, closed)
            if state.sum_columns:
                added.append(self._with_zeros(state.compute_sum_deltas(events), *state.sum_columns))
                continue
            column = extreme_of(state.measure)
            all_values[column] = AllValues(state, input_rows, late_rows)
            new_extremes[column] = state.find_new_extremes(events, column)
            if (groups := state.find_shrunk_groups(events)) is not None:
                shrunk_groups[column] = groups
        key, names = (*self.tables.group, PANE), self.tables.sum_schema.names
        rows = nw.concat([each.select(*key, *names) for each in added])
        sums = self.engine.persist(self.engine.add_up(rows, key, names))
        tick_panes = self._find_tick_panes(on_time_sums, late, tick_range) if late else None
        return PaneDeltas(sums, new_extremes, shrunk_groups, all_values, tick_panes), changes

    def _find_tick_panes(
        self, on_time_sums: list[nw.LazyFrame[Any]], late: _Contribution, tick_range: TickRange
    ) -> nw.LazyFrame[Any]:
        """Find the panes with on-time rows; with dense ticks, also the panes in which late rows arrived."""
        key = (*self.tables.group, PANE)
        late_sums = [tick_range.place_late(late.sums, self.engine)] if self.ticks.dense else []
        return self.engine.persist(nw.concat([each.select(*key) for each in (*on_time_sums, *late_sums)]).unique())

    def _sum_late(self, on_time: _Contribution, late: _Contribution, tick_range: TickRange) -> nw.LazyFrame[Any]:
        """Sum up what late rows add in each round, from each pane on; the argument `late` of `Revisions.make`."""
        key, names = (*self.tables.group, PANE, ROUND), self.tables.sum_schema.names
        one, zero = (nw.lit(each).cast(nw.Int64).alias(ENTRIES) for each in (1, 0))
        parts = [late.sums.with_columns(nw.col(PANE), one)]
        for name, state in self.states.items():
            if state.sum_columns:
                more = state.compute_late_deltas(on_time.states[name], late.states[name], tick_range)
                parts.append(self._with_zeros(more, *state.sum_columns).with_columns(nw.col(PANE), zero))
        rows = nw.concat([each.select(*key, *names, ENTRIES) for each in parts])
        return self.engine.persist(self.engine.add_up(rows, key, names, most=[ENTRIES]))

    def _with_zeros(self, rows: nw.LazyFrame[Any], *columns: str) -> nw.LazyFrame[Any]:
        """Add the other sum columns as zeros to rows that have only `columns`."""
        zeros = self.tables.sum_schema.without(columns).filled(0)
        return rows.with_columns(*zeros) if zeros else rows

    def _persist(self, rows: _Contribution) -> _Contribution:
        states = {name: self.engine.persist(each) for name, each in rows.states.items()}
        return _Contribution(self.engine.persist(rows.sums), states)

    def _make_empty(self, tick_range: TickRange) -> _Contribution:
        """The contribution of a batch without rows."""
        states = {name: tick_range.read_closing(each.table).head(0) for name, each in self.states.items()}
        return _Contribution(tick_range.read_closing(self.tables.panes).head(0).drop(*self.tables.extremes), states)


def _newest(column: str, *frames: nw.LazyFrame[Any]) -> int | None:
    """The greatest value of a column of some frames; None if they have no rows."""
    found = [line[column] for frame in frames for line in collect_small(frame.select(nw.col(column).max()))]
    return max((each for each in found if each is not None), default=None)
