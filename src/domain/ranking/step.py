"""What an epoch does to the tables of a ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import evolve, frozen

from .. import dead_letter
from ..change import Between, Change, Matching
from ..changelog.row_kind import removes
from ..collect import collect_small
from ..epoch import ERROR, POSITION, ROW_KIND
from ..segments import SEGMENT
from ..service import Step
from ..watermark import newest_of
from .cells import BEFORE, DENSE, count_cells, rank_cells
from .tables import COUNT, DISTINCT, IN_CELL, NEWEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from ..epoch import Batch
    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from ..segments import Segments
    from .settings import RankingSettings
    from .tables import RankingTables

_LATE, _FRESH, _WAS, _DEAD = "_late", "_fresh", "_was", "_dead"
_LISTED = 500  # beyond this many segments a range prunes as well as a list, and plans faster
_UNORDERED = frozenset({"boolean", "binary"})


@frozen
class _Profile:
    """The little of a batch that planning needs to know."""

    rows: int
    dead_letters: int
    segments: tuple[int, ...]
    ids: Mapping[str, Between]
    newest: datetime | None


@frozen(eq=False)
class RankingStep:
    """The step of one ranking.

    Rows newer than all of their cell are ranked by the cell alone. A cell in which a row comes late, changes or goes is
    *disturbed*: it is read and ranked again, and no other is.
    """

    settings: RankingSettings
    tables: RankingTables
    segments: Segments
    engine: FrameEngine

    @property
    def cell(self) -> tuple[str, ...]:
        """The columns that name a cell."""
        return self.tables.cells.key

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """See `Service.step`."""
        checked = self.engine.persist(self.segments.assign(self._check(batch.rows), self.engine))
        profile = self._profile(checked)
        self.engine.expect(profile.rows)
        changes: dict[str, Change] = {}
        if profile.dead_letters:
            changes[self.tables.letters.name] = Change(append=dead_letter.letters(checked, batch))
        if profile.segments:
            good, ids = checked.filter(nw.col(ERROR).is_null()), list(self.settings.id)
            latest = good.unique(subset=ids, keep="last", order_by=[POSITION])
            changes |= self._apply(latest, self._earlier(good, latest, profile, snapshot), profile, snapshot)
        return Step(changes, profile.rows, profile.dead_letters, profile.newest)

    def _check(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Give every row that cannot be ranked its reason in `_error`."""
        reason, order = nw.col(ERROR), nw.col(self.settings.order_by)
        for name in self.settings.id:
            reason = dead_letter.or_else(reason, nw.col(name).is_null(), f"id column {name} is null")
        for name in self.settings.group:
            absent = nw.col(name).is_null()
            if self.settings.repeats == "anywhere":  # the stored row of an id tells the group that it leaves
                absent = absent & ~removes(nw.col(ROW_KIND))
            reason = dead_letter.or_else(reason, absent, f"group column {name} is null")
        if self.settings.schema[self.settings.order_by].name in {"float", "double"}:
            odd = ~(order.is_null() | order.is_finite())
            reason = dead_letter.or_else(reason, odd, f"order column {self.settings.order_by} is no finite number")
        return rows.with_columns(reason.alias(ERROR))

    def _profile(self, checked: nw.LazyFrame[Any]) -> _Profile:
        bounded = [name for name in self.settings.id if self.settings.schema[name].name not in _UNORDERED]
        low = [nw.col(name).min().alias(f"_low_{name}") for name in bounded]
        high = [nw.col(name).max().alias(f"_high_{name}") for name in bounded]
        timed = self.settings.event_time
        newest = [nw.col(timed).max().alias("_newest_time")] if timed else []
        dead = (~nw.col(ERROR).is_null()).alias(_DEAD)
        lines = collect_small(
            checked.with_columns(dead).group_by(_DEAD, SEGMENT).agg(nw.len().alias("_rows"), *low, *high, *newest)
        )
        good = [line for line in lines if not line[_DEAD]]
        times = [line["_newest_time"] for line in good] if timed else []
        return _Profile(
            rows=sum(line["_rows"] for line in lines),
            dead_letters=sum(line["_rows"] for line in lines if line[_DEAD]),
            segments=tuple(sorted(line[SEGMENT] for line in good)),
            ids={
                name: Between(min(line[f"_low_{name}"] for line in good), max(line[f"_high_{name}"] for line in good))
                for name in bounded
                if good
            },
            newest=newest_of(times),
        )

    def _earlier(
        self, good: nw.LazyFrame[Any], latest: nw.LazyFrame[Any], profile: _Profile, snapshot: Snapshot
    ) -> nw.LazyFrame[Any]:
        """The ids of the batch that may stand in the table already, with the cells they stand in."""
        if self.settings.repeats == "anywhere":
            ids = Matching(latest.select(*self.settings.id), within=profile.ids)
            earlier = snapshot.read(self.tables.ranked.name, ids)
        else:
            earlier = good.filter(removes(nw.col(ROW_KIND)))
        return earlier.select(*self.settings.id, *(name for name in self.cell if name not in self.settings.id))

    def _apply(
        self, latest: nw.LazyFrame[Any], earlier: nw.LazyFrame[Any], profile: _Profile, snapshot: Snapshot
    ) -> dict[str, Change]:
        coming = latest.filter(~removes(nw.col(ROW_KIND))).select(*self.settings.schema.names, SEGMENT)
        placed = self.engine.persist(self._place(coming, profile, snapshot))
        # A row that moves may keep its key, so the cell it moves to is ranked together with the one it leaves.
        moving = placed.join(earlier.select(*self.settings.id), on=list(self.settings.id), how="semi")
        parts = (placed.filter(nw.col(_LATE)), moving, earlier)
        cells = nw.concat([part.select(*self.cell) for part in parts])
        counted = collect_small(cells.group_by(SEGMENT).agg(nw.len().alias("_rows")))
        segments = tuple(sorted(line[SEGMENT] for line in counted))
        if not segments:
            return self._in_order(placed)
        disturbed = self.engine.persist(cells.unique())
        calm = self._in_order(placed.join(disturbed, on=list(self.cell), how="anti"))
        late_rows = placed.join(disturbed, on=list(self.cell), how="semi")
        stored = snapshot.read(self.tables.ranked.name, Matching(disturbed, within={SEGMENT: _listed(segments)}))
        return self._rerank(calm, disturbed, stored, late_rows, latest)

    def _place(self, rows: nw.LazyFrame[Any], profile: _Profile, snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Rows with the stored state of their cell, and whether they come late to it."""
        cells = Matching(rows.select(*self.cell), within={SEGMENT: _listed(profile.segments)})
        stored = snapshot.read(self.tables.cells.name, cells)
        newer = (nw.col(self.settings.order_by) > nw.col(NEWEST)).fill_null(value=False)
        late = (~nw.col(COUNT).is_null() & ~newer).alias(_LATE)
        return rows.join(stored, on=list(self.cell), how="left").with_columns(late)

    def _in_order(self, placed: nw.LazyFrame[Any]) -> dict[str, Change]:
        """Rows newer than all of their cell go behind it."""
        lift = nw.col(DISTINCT if self.settings.method == "dense_rank" else COUNT).fill_null(0)
        ranked = rank_cells(placed, self.settings, self.cell).with_columns(
            (nw.col(IN_CELL) + lift).alias(IN_CELL), (nw.col(DENSE) + nw.col(DISTINCT).fill_null(0)).alias(DENSE)
        )
        cells = self.engine.persist(count_cells(ranked, self.settings, self.cell, before=nw.col(COUNT).fill_null(0)))
        kept = self.tables.cells.schema.names
        return {
            self.tables.ranked.name: Change(append=ranked.select(*self.tables.ranked.schema.names)),
            self.tables.cells.name: Change(
                append=cells.filter(nw.col(BEFORE) == 0).select(*kept),
                merge=cells.filter(nw.col(BEFORE) > 0).select(*kept),
            ),
        }

    def _rerank(
        self,
        calm: Mapping[str, Change],
        disturbed: nw.LazyFrame[Any],
        stored: nw.LazyFrame[Any],
        coming: nw.LazyFrame[Any],
        latest: nw.LazyFrame[Any],
    ) -> dict[str, Change]:
        """Add to what calm cells change the disturbed ones, with the rows that come and without those that go."""
        ids, names = list(self.settings.id), (*self.settings.schema.names, SEGMENT)
        current = self.engine.persist(stored)
        staying = current.join(latest.select(*ids), on=ids, how="anti")
        leaving = current.join(latest.select(*ids), on=ids, how="semi")
        no_rank = nw.lit(None).cast(nw.Int64).alias(_WAS)
        pool = nw.concat([staying.select(*names, nw.col(IN_CELL).alias(_WAS)), coming.select(*names, no_rank)])
        again = self.engine.persist(rank_cells(pool, self.settings, self.cell))
        moved = again.filter(nw.col(_WAS).is_null() | (nw.col(IN_CELL) != nw.col(_WAS)))
        cells = self.engine.persist(count_cells(again, self.settings, self.cell))
        ranked_calm, cells_calm = calm[self.tables.ranked.name], calm[self.tables.cells.name]
        recounted = cells.select(*self.tables.cells.schema.names)
        return {
            self.tables.ranked.name: evolve(
                ranked_calm,
                merge=moved.select(*self.tables.ranked.schema.names),
                delete=leaving.join(again, on=list(self.tables.ranked.key), how="anti").select(*self.tables.ranked.key),
            ),
            self.tables.cells.name: evolve(
                cells_calm,
                merge=recounted if cells_calm.merge is None else nw.concat([cells_calm.merge, recounted]),
                delete=disturbed.join(cells, on=list(self.cell), how="anti"),
            ),
        }


def _listed(segments: Sequence[int]) -> tuple[int, ...] | Between:
    return tuple(segments) if len(segments) <= _LISTED else Between(segments[0], segments[-1])
