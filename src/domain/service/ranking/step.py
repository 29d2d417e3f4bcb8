"""The step of a ranking pipeline: the changes that an epoch makes to its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import narwhals as nw
from attrs import evolve, frozen

from ...epoch.batch import ERROR, Batch
from ...epoch.watermark import newest_of
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine
from ...source import dead_letter
from ...table.change import POSITION, Between, Change, Matching
from ...table.collect import collect_small
from ...table.row_kind import ROW_KIND, removes
from ...table.schema import FLOATS
from ..base import Step
from ..segments import SEGMENT, Segments
from .cells import LOWEST, count_cells, rank_cells
from .settings import RankingSettings
from .tables import COUNT, DISTINCT, IN_CELL, NEWEST, RankingTables

_DISTURBED, _IS_KNOWN, _WAS, _DEAD = "_disturbed", "_is_known", "_was", "_dead"
_BEFORE = {COUNT: "_count_before", DISTINCT: "_distinct_before", NEWEST: "_newest_before"}
"""By column of a cell, the column of what it was before the epoch."""
_MAX_LIST = 500  # for more segments, a range skips as many files as a list, and is planned faster
_UNORDERED = frozenset({"boolean", "binary", "float", "double"})
"""Types without a range that contains all values: NaN is in none."""


@frozen
class _Profile:
    """The facts about a batch that decide the changes."""

    rows: int
    dead_letters: int
    segments: tuple[int, ...]
    ids: Mapping[str, Between]
    newest: datetime | None


@frozen(eq=False)
class _Prepared:
    """What does not depend on the tables.

    Args:
        checked: the rows of a batch, each with its segment, or the reason why it cannot be ranked.
        profile: of these rows.
        latest: of those that can be ranked the last one of each id.
        ranked: of these all but the deletes, with their ranks among each other in their cells.
        cells: the counts of the cells of these.
    """

    checked: nw.LazyFrame[Any]
    profile: _Profile
    latest: nw.LazyFrame[Any]
    ranked: nw.LazyFrame[Any]
    cells: nw.LazyFrame[Any]


@frozen(eq=False)
class RankingStep:
    """The step of one ranking.

    A row that is newer than all rows of its cell gets its rank from the counts of the cell. A cell is *disturbed* if a
    row arrives late, changes or is deleted. Only disturbed cells are read and ranked again.
    """

    settings: RankingSettings
    tables: RankingTables
    segments: Segments
    engine: FrameEngine

    @property
    def cell(self) -> tuple[str, ...]:
        """The columns that identify a cell."""
        return self.tables.cells.key

    @property
    def _anywhere(self) -> bool:
        """Whether the earlier row of an id is looked up in all cells."""
        return self.settings.repeats == "anywhere"

    def prepare(self, batch: Batch) -> Batch:
        return evolve(batch, prepared=self._prepare(batch))

    def _prepare(self, batch: Batch) -> _Prepared:
        checked = self.engine.persist(self.segments.assign(self._check(batch.rows), self.engine))
        profile = self._profile(checked)
        self.engine.expect(profile.rows)
        latest = _good(checked).filter(nw.col(POSITION) == nw.col(POSITION).max().over(*self.settings.id))
        latest = self.engine.persist(latest)
        upserts = latest.filter(~removes(nw.col(ROW_KIND))).select(*self.settings.schema.names, SEGMENT)
        ranked = self.engine.persist(rank_cells(upserts, self.settings, self.cell, self.engine))
        cells = self.engine.persist(count_cells(ranked, self.settings, self.cell))
        return _Prepared(checked, profile, latest, ranked, cells)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        ready = batch.prepared if isinstance(batch.prepared, _Prepared) else self._prepare(batch)
        profile = ready.profile
        changes: dict[str, Change] = {}
        if profile.dead_letters:
            changes[self.tables.dead_letters.name] = Change(append=dead_letter.extract(ready.checked, batch))
        if profile.segments:
            earlier = self._read_earlier(ready, batch, snapshot)
            changes |= self._apply(ready, earlier, snapshot)
        warnings = tuple(self._warn_of_no_order(profile, snapshot))
        return Step(changes, profile.rows, profile.dead_letters, profile.newest, warnings=warnings)

    def _warn_of_no_order(self, profile: _Profile, snapshot: Snapshot) -> Iterator[str]:
        """Warn if the first rows have no order value at all: the column may be misspelt."""
        if snapshot.publication is None and profile.segments == (self.segments.null_segment,):
            yield (
                f"order_by: column {self.settings.order_by!r} is null in all rows of the first epoch, so they share a"
                " rank; a column of `schema` must have the name of its field in the records"
            )

    def _check(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Give a reason in `_error` to each row that cannot be ranked."""
        reason, order = nw.col(ERROR), nw.col(self.settings.order_by)
        for name in self.settings.id:
            reason = dead_letter.or_else(reason, nw.col(name).is_null(), f"id column {name} is null")
        for name in self.settings.group:
            is_null = nw.col(name).is_null()
            if self._anywhere:  # the group of a delete is taken from the stored row
                is_null = is_null & ~removes(nw.col(ROW_KIND))
            reason = dead_letter.or_else(reason, is_null, f"group column {name} is null")
        if self.settings.schema[self.settings.order_by].name in FLOATS:
            invalid = ~(order.is_null() | order.is_finite())
            text = f"order column {self.settings.order_by} is not a finite number"
            reason = dead_letter.or_else(reason, invalid, text)
        return rows.with_columns(reason.alias(ERROR))

    def _profile(self, checked: nw.LazyFrame[Any]) -> _Profile:
        ordered = [name for name in self.settings.id if self.settings.schema[name].name not in _UNORDERED]
        low = [nw.col(name).min().alias(f"_low_{name}") for name in ordered]
        high = [nw.col(name).max().alias(f"_high_{name}") for name in ordered]
        event_time = self.settings.event_time
        newest = [nw.col(event_time).max().alias("_newest_time")] if event_time else []
        dead = (~nw.col(ERROR).is_null()).alias(_DEAD)
        lines = collect_small(
            checked.with_columns(dead).group_by(_DEAD, SEGMENT).agg(nw.len().alias("_rows"), *low, *high, *newest)
        )
        good = [line for line in lines if not line[_DEAD]]
        times = [line["_newest_time"] for line in good] if event_time else []
        return _Profile(
            rows=sum(line["_rows"] for line in lines),
            dead_letters=sum(line["_rows"] for line in lines if line[_DEAD]),
            segments=tuple(sorted(line[SEGMENT] for line in good)),
            ids={
                name: Between(min(line[f"_low_{name}"] for line in good), max(line[f"_high_{name}"] for line in good))
                for name in ordered
                if good
            },
            newest=newest_of(times),
        )

    def _read_earlier(self, ready: _Prepared, batch: Batch, snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Return the ids of the batch that may already be in the table, with their cells."""
        columns = (*self.settings.id, *(name for name in self.cell if name not in self.settings.id))
        if self._anywhere:
            return self._look_up(ready.latest, ready.profile, snapshot).select(*columns)
        removed = _good(ready.checked).filter(removes(nw.col(ROW_KIND))).select(*columns)
        # The id of a dead letter may have come to another segment since the dead letter was read.
        segments = None if batch.replay else ready.profile.segments
        found = self._look_up(ready.ranked, ready.profile, snapshot, segments)
        return nw.concat([removed, found.select(*columns)])

    def _look_up(
        self, rows: nw.LazyFrame[Any], profile: _Profile, snapshot: Snapshot, segments: Sequence[int] | None = None
    ) -> nw.LazyFrame[Any]:
        """Return the stored rows that have the ids of these: in the segments of these, or in all segments if None."""
        table, ids = self.tables.ranked.name, self.settings.id
        if segments is None:
            return snapshot.read(table, Matching(rows.select(*ids), within=profile.ids))
        within = {SEGMENT: _within(segments), **profile.ids}
        return snapshot.read(table, Matching(rows.select(SEGMENT, *ids), within=within))

    def _apply(self, ready: _Prepared, earlier: nw.LazyFrame[Any], snapshot: Snapshot) -> dict[str, Change]:
        cells = self.engine.persist(self._look_up_cells(ready, snapshot))
        # A row may move to another cell and keep its key, so both cells are ranked together.
        moving = ready.ranked.join(earlier.select(*self.settings.id), on=list(self.settings.id), how="semi")
        parts = ((cells.filter(self._is_late()), 0), (moving, 1), (earlier, 1))
        touched = nw.concat([part.select(*self.cell, nw.lit(known).alias(_IS_KNOWN)) for part, known in parts])
        lines = collect_small(touched.group_by(SEGMENT).agg(nw.col(_IS_KNOWN).max()))
        segments = tuple(sorted(line[SEGMENT] for line in lines))
        if not segments:
            return self._append(self._place(ready.ranked, cells), cells)
        disturbed = self.engine.persist(touched.select(*self.cell).unique())
        marks = disturbed.with_columns(nw.lit(value=True).alias(_DISTURBED))
        marked = self.engine.persist(cells.join(marks, on=list(self.cell), how="left"))
        rows, undisturbed = self.engine.persist(self._place(ready.ranked, marked)), nw.col(_DISTURBED).is_null()
        appended = self._append(rows.filter(undisturbed), marked.filter(undisturbed))
        stored = snapshot.read(self.tables.ranked.name, Matching(disturbed, within={SEGMENT: _within(segments)}))
        replaces = not self._anywhere or any(line[_IS_KNOWN] for line in lines)
        ids = ready.latest.select(*self.settings.id) if replaces else None
        return self._rerank(appended, disturbed, stored, rows.filter(~undisturbed), ids)

    def _look_up_cells(self, ready: _Prepared, snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Add to the cells of the batch what is stored of them."""
        keys = Matching(ready.cells.select(*self.cell), within={SEGMENT: _within(ready.profile.segments)})
        stored = {before: name for name, before in _BEFORE.items()}
        return snapshot.look_up(self.tables.cells.name, ready.cells, keys, stored)

    def _is_late(self) -> nw.Expr:
        """Whether a row of a cell arrives late: it is not newer than all stored rows of the cell."""
        newer = (nw.col(LOWEST) > nw.col(_BEFORE[NEWEST])).fill_null(value=False)
        return ~nw.col(_BEFORE[COUNT]).is_null() & ~newer

    def _place(self, rows: nw.LazyFrame[Any], cells: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add to ranked rows what is known of their cells."""
        return rows.join(cells.drop(COUNT, DISTINCT, NEWEST, LOWEST), on=list(self.cell), how="left")

    def _append(self, rows: nw.LazyFrame[Any], cells: nw.LazyFrame[Any]) -> dict[str, Change]:
        """Append rows that are newer than all rows of their cell; their ranks follow the ranks of the cell."""
        before = {name: nw.col(column).fill_null(0) for name, column in _BEFORE.items() if name != NEWEST}
        ranks_before = before[DISTINCT if self.settings.method == "dense_rank" else COUNT]
        ranked = rows.with_columns((nw.col(IN_CELL) + ranks_before).alias(IN_CELL))
        counts = [(nw.col(name) + counted).alias(name) for name, counted in before.items()]
        columns, is_new = self.tables.cells.schema.names, nw.col(_BEFORE[COUNT]).is_null()
        return {
            self.tables.ranked.name: Change(append=ranked.select(*self.tables.ranked.schema.names)),
            self.tables.cells.name: Change(
                append=cells.filter(is_new).select(*columns),
                merge=cells.filter(~is_new).with_columns(*counts).select(*columns),
            ),
        }

    def _rerank(
        self,
        appended: Mapping[str, Change],
        disturbed: nw.LazyFrame[Any],
        stored: nw.LazyFrame[Any],
        upserts: nw.LazyFrame[Any],
        ids: nw.LazyFrame[Any] | None,
    ) -> dict[str, Change]:
        """Rank the disturbed cells again, with upserts and without deleted rows; add that to the appended changes.

        `ids` are those whose stored rows are replaced or deleted; None if no row is.
        """
        on, names = list(self.settings.id), (*self.settings.schema.names, SEGMENT)
        current = self.engine.persist(stored)
        staying = current if ids is None else current.join(ids, on=on, how="anti")
        no_rank = nw.lit(None).cast(nw.Int64).alias(_WAS)
        pool = nw.concat([staying.select(*names, nw.col(IN_CELL).alias(_WAS)), upserts.select(*names, no_rank)])
        ranked = self.engine.persist(rank_cells(pool, self.settings, self.cell, self.engine))
        changed = ranked.filter(nw.col(_WAS).is_null() | (nw.col(IN_CELL) != nw.col(_WAS)))
        counts = count_cells(ranked, self.settings, self.cell).select(*self.tables.cells.schema.names)
        recounted = self.engine.persist(counts)
        gone = emptied = None
        if ids is not None:
            key = self.tables.ranked.key
            gone = current.join(ids, on=on, how="semi").join(ranked, on=list(key), how="anti").select(*key)
            emptied = disturbed.join(recounted, on=list(self.cell), how="anti")
        columns = self.tables.ranked.schema.names
        ranked_change, cells_change = appended[self.tables.ranked.name], appended[self.tables.cells.name]
        merged = recounted if cells_change.merge is None else nw.concat([cells_change.merge, recounted])
        return {
            self.tables.ranked.name: evolve(ranked_change, merge=changed.select(*columns), delete=gone),
            self.tables.cells.name: evolve(cells_change, merge=merged, delete=emptied),
        }


def _good(checked: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """The rows that can be ranked."""
    return checked.filter(nw.col(ERROR).is_null())


def _within(segments: Sequence[int]) -> tuple[int, ...] | Between:
    return tuple(segments) if len(segments) <= _MAX_LIST else Between(segments[0], segments[-1])
