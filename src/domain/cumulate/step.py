"""What an epoch does to the tables of cumulate windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, evolve, field, frozen

from .. import dead_letter
from ..change import Change
from ..collect import collect_small
from ..dead_letter import or_else
from ..duration import FIRST_MICRO, LAST_MICRO
from ..epoch import ERROR, ROW_KIND
from ..groups import as_key
from ..measures import ROWS, evaluated, sign
from ..service import Step
from ..watermark import advance, newest_of
from .closing import BEGINNING, Closing
from .lateness import LATE, ROUND, Lateness, Told
from .panes import PANE, WINDOW
from .revisions import ENTRIES, Revisions
from .settings import GROUPING, grouping_of
from .sketches import Sketch
from .tables import extreme_of
from .ticks import Moved, ValuesLeft

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ..epoch import Batch
    from ..ledger import Snapshot
    from ..ports import FrameEngine, QueryEngine, Version
    from .panes import Panes
    from .settings import CumulateSettings
    from .tables import CumulateTables
    from .ticks import Ticks
    from .values import Values

LATE_REASON = "late: the tick at the end of its pane was there already"

_DEAD = "_dead"


@frozen
class _Profile:
    """The little of a batch that planning needs to know."""

    rows: int
    good: int
    dead_letters: int
    late: int
    newest: datetime | None


@define
class _Quiet:
    """Up to where a version of the panes has no tick to make without new rows."""

    version: Version | None = None
    until: int = BEGINNING


@frozen(eq=False)
class _Posted:
    """What the rows of a batch add to each pane, and, by measure, to what is kept beside."""

    sums: nw.LazyFrame[Any]
    kept: dict[str, nw.LazyFrame[Any]]


@frozen(eq=False)
class CumulateStep:
    """The step of one pipeline: rows add to panes, and panes that the watermark passes make ticks."""

    settings: CumulateSettings
    tables: CumulateTables
    panes: Panes
    ticks: Ticks
    revisions: Revisions
    lateness: Lateness
    kept: Mapping[str, Values | Sketch]
    engine: FrameEngine
    queries: QueryEngine
    _quiet: _Quiet = field(init=False, factory=_Quiet)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """See `Service.step`."""
        known = _watermark(snapshot)
        rows = evaluated(batch.rows, self.settings.measures, self.settings.schema, self.queries)
        told = self._told(self.engine.persist(self._checked(self.lateness.placed(rows))), known, batch)
        profile = self._profile(told)
        self.engine.expect(profile.rows)
        watermark = advance(known, profile.newest, self.settings.watermark_delay)
        counts = profile.late > 0 and self.settings.late == "revise"
        closing = Closing(snapshot, self.panes, self._reached(known), self._reached(watermark), late=counts)
        changes: dict[str, Change] = {}
        if profile.dead_letters:
            changes[self.tables.letters.name] = Change(append=dead_letter.letters(self._refused(told), batch))
        if profile.good:
            in_time = self._posted(told.rows.filter(nw.col(ERROR).is_null(), ~nw.col(LATE)))
            changes |= self._changes(in_time, self._posted(told.late(), ROUND) if counts else None, closing)
        return Step(changes, profile.rows, profile.dead_letters, profile.newest, watermark=watermark)

    def idle(self, until: datetime, snapshot: Snapshot) -> Step | None:
        """See `Service.idle`."""
        known = _watermark(snapshot)
        if known is None or until <= known:
            return None
        closing = Closing(snapshot, self.panes, self._reached(known), self._reached(until))
        if not closing.moves or not self._waits(closing):
            return None
        # No farther than to the tick: what comes between it and the clock need not be late.
        return Step(
            self._changes(self._nothing(closing), None, closing), 0, 0, None, watermark=self.panes.moment(closing.after)
        )

    def _waits(self, closing: Closing) -> bool:
        """Whether panes that are closed without new rows make ticks."""
        version = closing.snapshot.version(self.tables.panes.name)
        if self._quiet.version == version and self._quiet.until >= closing.after:
            return False
        kept = [closing.waiting(self.tables.panes)]
        if self.settings.ticks == "dense":
            kept.append(closing.so_far(self.tables.panes))
        found = any(collect_small(each.select(WINDOW).head(1)) for each in kept)
        if not found:
            self._quiet.version, self._quiet.until = version, closing.after
        return found

    def _reached(self, watermark: datetime | None) -> int:
        return BEGINNING if watermark is None else self.panes.reached(watermark)

    def _checked(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Give every row that has no pane its reason."""
        reason = or_else(
            nw.col(ERROR), nw.col(PANE).is_null(), f"column {self.settings.event_time} is null, so it has no pane"
        )
        beyond = (nw.col(WINDOW) < FIRST_MICRO) | (nw.col(PANE) > LAST_MICRO)
        why = f"column {self.settings.event_time}: its window does not lie within 0001-01-01 to 9999-12-31 in UTC"
        reason = or_else(reason, beyond, why)
        return rows.with_columns(reason.alias(ERROR))

    def _told(self, checked: nw.LazyFrame[Any], known: datetime | None, batch: Batch) -> Told:
        """The rows, and which of them are late. Letters came long ago: none is late to another that lay beside it."""
        standing = None if known is None else self.panes.ahead(known)
        return self.lateness.told(checked, standing, in_order=not batch.again, lanes=batch.lanes)

    def _refused(self, told: Told) -> nw.LazyFrame[Any]:
        """The rows with the reasons of those that cannot be used, late ones among them where they are dropped."""
        if self.settings.late == "revise":
            return told.rows
        return told.rows.with_columns(or_else(nw.col(ERROR), nw.col(LATE), LATE_REASON).alias(ERROR))

    def _profile(self, told: Told) -> _Profile:
        grouped = told.rows.with_columns((~nw.col(ERROR).is_null()).alias(_DEAD)).group_by(_DEAD, LATE)
        newest = nw.col(self.settings.event_time).max().alias("_newest_time")
        lines = collect_small(grouped.agg(nw.len().alias("_rows_read"), newest))
        rows, late = (sum(line["_rows_read"] for line in each) for each in (lines, [x for x in lines if x[LATE]]))
        dead = sum(line["_rows_read"] for line in lines if line[_DEAD])
        dead += late if self.settings.late == "drop" else 0
        # A late row is older than what moved the watermark past it: whether it counts does not matter here.
        newest_ = newest_of(line["_newest_time"] for line in lines if not line[_DEAD])
        return _Profile(rows=rows, good=rows - dead, dead_letters=dead, late=late, newest=newest_)

    def _posted(self, rows: nw.LazyFrame[Any], *also: str) -> _Posted:
        """What rows bring to each group of each dimension set, by pane and, where they are late, by round."""
        measures, names = self.settings.measures, self.settings.dimension_schema.names
        signed = [each for measure in measures for each in measure.signed()]
        rows = rows.with_columns(nw.col(ROW_KIND), sign().alias(ROWS), *signed)
        summed = [ROWS, *(each.name for measure in measures for each in measure.sums)]
        pane: tuple[str, ...] = (WINDOW, PANE, *also)
        # What rows share in all dimensions is added up first: the sets have to look at that alone.
        finest = self.engine.add_up(rows, (*names, *pane), summed)
        sums = self.engine.add_up(self._in_sets(finest), (*self.tables.group, PANE, *also), summed)
        later = self.tables.added.without(summed)
        none = [nw.lit(0).cast(each.type.narwhals).alias(each.name) for each in later.columns]
        brought = {}
        for name, kept in self.kept.items():
            named = kept.table.key[-2]
            each = kept.folded(kept.entries(rows), *names, *pane, named)
            brought[name] = kept.folded(self._in_sets(each), *kept.table.key, *also)
        return _Posted(sums.with_columns(nw.col(ROWS), *none), brought)

    def _in_sets(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Each row once for each dimension set, as the key of its group there."""
        schema = self.settings.dimension_schema
        parts = []
        for dimensions in self.settings.dimensions:
            outside = (each for each in schema.columns if each.name not in dimensions)
            without = (nw.lit(None).cast(each.type.narwhals).alias(each.name) for each in outside)
            parts.append(
                rows.with_columns(nw.lit(grouping_of(dimensions)).alias(self.settings.named(GROUPING)), *without)
            )
        return as_key(nw.concat(parts), schema)

    def _changes(self, posted: _Posted, late: _Posted | None, closing: Closing) -> dict[str, Change]:
        """Add what the batch brings to the panes, and make the ticks of those that are closed."""
        if not closing.moves:
            changes = {self.kept[name].table.name: Change(merge=each) for name, each in posted.kept.items()}
            return {**changes, self.tables.panes.name: Change(merge=self._as_panes(posted.sums))}
        posted, late = self._persisted(posted), late and self._persisted(late)
        moved, changes = self._moved(posted, late, closing)
        closed = self.ticks.closed(moved, closing)
        revised = None
        if late:
            closed = evolve(closed, ticks=self.engine.persist(closed.ticks), states=self.engine.persist(closed.states))
            revised = self.revisions.made(self._late(posted, late, closing), moved, closed, closing)
        columns = self.tables.panes.schema.names
        merged = [posted.sums, late.sums if late else None, closed.so_far]
        panes = nw.concat([self._as_panes(each).select(*columns) for each in merged if each is not None])
        changes[self.tables.points.name] = Change(append=closed.ticks, merge=revised)
        changes[self.tables.panes.name] = Change(merge=panes)
        return changes

    def _moved(self, posted: _Posted, late: _Posted | None, closing: Closing) -> tuple[Moved, dict[str, Change]]:
        """What is closed now, and what becomes of the tables of values."""
        changes, arriving, unsettled, left = {}, {}, {}, {}
        in_time = [closing.waiting(self.tables.panes), closing.closed(posted.sums)]
        added = list(in_time)
        if late:
            added += [closing.arrived(late.sums, self.engine), self.revisions.standing(late.sums, closing)]
        for name, kept in self.kept.items():
            brought, came_late = posted.kept[name], late.kept[name] if late else None
            moved = kept.moved(brought, came_late, closing)
            changes[kept.table.name] = kept.change(brought, came_late, moved)
            if isinstance(kept, Sketch):
                added.append(self._only(kept.added(moved, closing), *kept.sums))
                continue
            events = kept.events(moved, closing)
            if kept.sums:
                added.append(self._only(kept.counted(events), *kept.sums))
                continue
            column = extreme_of(kept.measure)
            left[column] = ValuesLeft(kept, brought, came_late)
            arriving[column] = kept.arriving(events, column)
            if (groups := kept.unsettled(events)) is not None:
                unsettled[column] = groups
        key, names = (*self.tables.group, PANE), self.tables.added.names
        together = nw.concat([each.select(*key, *names) for each in added])
        sums = self.engine.persist(self.engine.add_up(together, key, names))
        born = self._born(in_time, late, closing) if late else None
        return Moved(sums, arriving, unsettled, left, born), changes

    def _born(self, in_time: list[nw.LazyFrame[Any]], late: _Posted, closing: Closing) -> nw.LazyFrame[Any]:
        """The panes that rows came to in time; where every step ticks, also those in which late rows came."""
        key = (*self.tables.group, PANE)
        came = [*in_time, closing.arrived(late.sums, self.engine)] if self.ticks.dense else in_time
        return self.engine.persist(nw.concat([each.select(*key) for each in came]).unique())

    def _late(self, posted: _Posted, late: _Posted, closing: Closing) -> nw.LazyFrame[Any]:
        """What late rows add in each round, from each pane on, and whether rows of that pane do."""
        key, names = (*self.tables.group, PANE, ROUND), self.tables.added.names
        one, none = (nw.lit(each).cast(nw.Int64).alias(ENTRIES) for each in (1, 0))
        parts = [late.sums.with_columns(nw.col(PANE), one)]
        for name, kept in self.kept.items():
            if kept.sums:
                more = kept.late(posted.kept[name], late.kept[name], closing)
                parts.append(self._only(more, *kept.sums).with_columns(nw.col(PANE), none))
        together = nw.concat([each.select(*key, *names, ENTRIES) for each in parts])
        return self.engine.persist(self.engine.add_up(together, key, names, most=[ENTRIES]))

    def _only(self, rows: nw.LazyFrame[Any], *columns: str) -> nw.LazyFrame[Any]:
        """Rows that add to some columns alone."""
        others = self.tables.added.without(columns).columns
        return rows.with_columns(nw.lit(0).cast(each.type.narwhals).alias(each.name) for each in others)

    def _as_panes(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Rows with the columns of the panes; those that they lack are null."""
        there, schema = rows.collect_schema().names(), self.tables.panes.schema
        lacking = (each for each in schema.columns if each.name not in there)
        rows = rows.with_columns(
            nw.col(PANE), *(nw.lit(None).cast(each.type.narwhals).alias(each.name) for each in lacking)
        )
        return rows.select(*schema.names)

    def _persisted(self, posted: _Posted) -> _Posted:
        kept = {name: self.engine.persist(each) for name, each in posted.kept.items()}
        return _Posted(self.engine.persist(posted.sums), kept)

    def _nothing(self, closing: Closing) -> _Posted:
        """What a batch without rows brings."""
        kept = {name: closing.waiting(each.table).head(0) for name, each in self.kept.items()}
        return _Posted(closing.waiting(self.tables.panes).head(0).drop(*self.tables.extremes), kept)


def _watermark(snapshot: Snapshot) -> datetime | None:
    return snapshot.publication.watermark if snapshot.publication else None
