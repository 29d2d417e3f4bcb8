"""What an epoch does to the tables of cumulate windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field, frozen

from .. import dead_letter
from ..change import Change
from ..collect import collect_small
from ..dead_letter import or_else
from ..epoch import ERROR, ROW_KIND
from ..groups import as_key
from ..measures import ROWS, evaluated, sign
from ..service import Step
from ..watermark import advance, newest_of
from .closing import BEGINNING, Closing
from .panes import PANE, WINDOW
from .settings import GROUPING, grouping_of
from .sketches import Sketch
from .tables import distinct_of, extreme_of, sums_of
from .ticks import Moved

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

_DEAD, _LATE = "_dead", "_late"


@frozen
class _Profile:
    """The little of a batch that planning needs to know."""

    rows: int
    good: int
    dead_letters: int
    late: bool
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
    kept: Mapping[str, Values | Sketch]
    engine: FrameEngine
    queries: QueryEngine
    _quiet: _Quiet = field(init=False, factory=_Quiet)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """See `Service.step`."""
        known = _watermark(snapshot)
        before = self._reached(known)
        rows = evaluated(batch.rows, self.settings.measures, self.settings.schema, self.queries)
        rows = self.panes.assign(rows, self.settings.event_time, self.engine)
        checked = self.engine.persist(self._checked(rows, before))
        profile = self._profile(checked)
        self.engine.expect(profile.rows)
        watermark = advance(known, profile.newest, self.settings.watermark_delay)
        closing = Closing(snapshot, self.panes, before, self._reached(watermark), late=profile.late)
        changes: dict[str, Change] = {}
        if profile.dead_letters:
            changes[self.tables.letters.name] = Change(append=dead_letter.letters(checked, batch))
        if profile.good:
            changes |= self._changes(self._posted(checked.filter(nw.col(ERROR).is_null())), closing)
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
            self._changes(self._nothing(closing), closing), 0, 0, None, watermark=self.panes.moment(closing.after)
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

    def _checked(self, rows: nw.LazyFrame[Any], before: int) -> nw.LazyFrame[Any]:
        """Give every row that cannot be used its reason, and mark late ones."""
        reason = or_else(
            nw.col(ERROR), nw.col(PANE).is_null(), f"column {self.settings.event_time} is null, so it has no pane"
        )
        late = (nw.col(PANE) <= before).fill_null(value=False)
        rows = rows.with_columns(reason.alias(ERROR), late.alias(_LATE))
        if self.settings.late == "revise":
            return rows
        return rows.with_columns(or_else(nw.col(ERROR), nw.col(_LATE), LATE_REASON).alias(ERROR))

    def _profile(self, checked: nw.LazyFrame[Any]) -> _Profile:
        grouped = checked.with_columns((~nw.col(ERROR).is_null()).alias(_DEAD)).group_by(_DEAD, _LATE)
        newest = nw.col(self.settings.event_time).max().alias("_newest_time")
        lines = collect_small(grouped.agg(nw.len().alias("_rows_read"), newest))
        good = [line for line in lines if not line[_DEAD]]
        return _Profile(
            rows=sum(line["_rows_read"] for line in lines),
            good=sum(line["_rows_read"] for line in good),
            dead_letters=sum(line["_rows_read"] for line in lines if line[_DEAD]),
            late=any(line[_LATE] for line in good),
            newest=newest_of(line["_newest_time"] for line in good),
        )

    def _posted(self, rows: nw.LazyFrame[Any]) -> _Posted:
        """What the rows bring to each group of each dimension set."""
        measures, names = self.settings.measures, self.settings.dimension_schema.names
        signed = [each for measure in measures for each in measure.signed()]
        rows = rows.with_columns(nw.col(ROW_KIND), sign().alias(ROWS), *signed)
        summed = [ROWS, *(each.name for measure in measures for each in measure.sums)]
        pane = (WINDOW, PANE)
        # What rows share in all dimensions is added up first: the sets have to look at that alone.
        finest = rows.group_by(*names, *pane).agg(nw.col(name).sum() for name in summed)
        sums = self._in_sets(finest).group_by(*self.tables.group, PANE).agg(nw.col(name).sum() for name in summed)
        later = self.tables.added.without(summed)
        none = [nw.lit(0).cast(each.type.narwhals).alias(each.name) for each in later.columns]
        brought = {}
        for name, kept in self.kept.items():
            named = kept.table.key[-2]
            each = kept.folded(kept.entries(rows), *names, *pane, named)
            brought[name] = kept.folded(self._in_sets(each), *kept.table.key)
        return _Posted(sums.with_columns(nw.col(ROWS), *none), brought)

    def _in_sets(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Each row once for each dimension set, as the key of its group there."""
        schema = self.settings.dimension_schema
        parts = []
        for dimensions in self.settings.dimensions:
            outside = (each for each in schema.columns if each.name not in dimensions)
            without = (nw.lit(None).cast(each.type.narwhals).alias(each.name) for each in outside)
            parts.append(rows.with_columns(nw.lit(grouping_of(dimensions)).alias(GROUPING), *without))
        return as_key(nw.concat(parts), schema)

    def _changes(self, posted: _Posted, closing: Closing) -> dict[str, Change]:
        """Add what the batch brings to the panes, and make the ticks of those that are closed."""
        if not closing.moves:
            changes = {self.kept[name].table.name: Change(merge=each) for name, each in posted.kept.items()}
            return {**changes, self.tables.panes.name: Change(merge=self._as_panes(posted.sums))}
        posted = self._persisted(posted)
        moved, changes = self._moved(posted, closing)
        ticks, so_far = self.ticks.closed(moved, closing)
        made = [ticks, self.ticks.revised(moved, closing)] if closing.late else [ticks]
        columns = self.tables.panes.schema.names
        merged = [self._as_panes(posted.sums), self._as_panes(so_far)]
        changes[self.tables.points.name] = Change(append=nw.concat(made))
        changes[self.tables.panes.name] = Change(merge=nw.concat([each.select(*columns) for each in merged]))
        return changes

    def _moved(self, posted: _Posted, closing: Closing) -> tuple[Moved, dict[str, Change]]:
        """What is closed now or comes late, and what becomes of the tables of values."""
        changes, arriving, unsettled, left = {}, {}, {}, {}
        added = [closing.waiting(self.tables.panes), closing.closed(posted.sums)]
        for name, kept in self.kept.items():
            brought = posted.kept[name]
            moved = kept.moved(brought, closing)
            changes[kept.table.name] = kept.change(brought, moved)
            if isinstance(kept, Sketch):
                added.append(self._only(kept.added(moved, closing), *sums_of(kept.measure)))
                continue
            events = kept.events(moved, closing)
            if (column := extreme_of(kept.measure)) not in self.tables.extremes:
                column = distinct_of(kept.measure)
                added.append(self._only(kept.counted(events, column), column))
                continue
            left[column] = (kept, brought)
            arriving[column] = kept.arriving(events, closing, column)
            if (groups := kept.unsettled(events, closing)) is not None:
                unsettled[column] = groups
        key, names = (*self.tables.group, PANE), self.tables.added.names
        together = nw.concat([each.select(*key, *names) for each in added])
        sums = self.engine.persist(together.group_by(*key).agg(nw.col(name).sum() for name in names))
        return Moved(sums, arriving, unsettled, left), changes

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
