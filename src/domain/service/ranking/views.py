"""The views of a ranking pipeline."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import narwhals as nw
from attrs import frozen

from ...errors import ConfigError
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine
from ...table.change import Matching
from ...table.net_changes import net_changes
from ...table.row_kind import DELETE, INSERT, ROW_KIND, UPDATE_AFTER, UPDATE_BEFORE
from ...table.schema import TIMES, Schema, column
from ...table.view_spec import ViewSpec
from ..row_changes import find_changed_groups
from ..segments import SEGMENT, Segments
from .cells import count_cells, rank_cells
from .settings import RankingSettings
from .tables import COUNT, DISTINCT, IN_CELL, RankingTables

RANKS = "ranks"
_BASE_COLUMNS, _CHANGE_COLUMNS = ("start", "end", "base_rank"), ("row_kind", "old_rank", "new_rank")
_SIZE, _BASE, _TOTAL, _NEXT, _OLD = "_size", "_base", "_total", "_next", "_old"


def view_specs(settings: RankingSettings) -> tuple[ViewSpec, ...]:
    """The views of a ranking, the default one first."""
    schema, group = settings.schema, settings.group
    ranks, sort = schema.plus(column(settings.rank, "bigint")), (*group, settings.rank, *settings.id)
    edge = "timestamp" if schema[settings.order_by].name in TIMES else "double"
    start, end, base = (settings.column_name(name) for name in _BASE_COLUMNS)
    base_schema = schema.select(group).plus(column(start, edge), column(end, edge), column(base, "bigint"))
    kind, old, new = (settings.column_name(name) for name in _CHANGE_COLUMNS)
    change_schema = Schema((column(kind, "string"), *schema.columns, column(old, "bigint"), column(new, "bigint")))
    return (
        ViewSpec(
            RANKS, ranks, settings.id, sort, "each row with its rank in its group over all history", takes_as_of=True
        ),
        ViewSpec(
            "top", ranks, settings.id, sort, f"the rows with ranks 1 to {settings.top} of each group", takes_as_of=True
        ),
        ViewSpec(
            "base",
            base_schema,
            (),
            (*group, start),
            "how many ranks lie before each segment of a group",
            takes_as_of=True,
        ),
        ViewSpec(
            "changes",
            change_schema,
            (),
            (*group, new, *settings.id),
            "rows that came (+I), went (-D), or changed rank or content (+U), with old and new rank",
            between=True,
        ),
    )


@frozen(eq=False)
class RankingViews:
    """The views of one ranking. A rank is the base of the row's cell plus the rank inside it, from one snapshot."""

    settings: RankingSettings
    tables: RankingTables
    segments: Segments
    engine: FrameEngine

    def view(self, spec: ViewSpec, snapshot: Snapshot, as_of: datetime | None) -> nw.LazyFrame[Any]:
        """Return the rows of a view of a single snapshot; with `as_of`, without rows whose order value is later."""
        rows = self._rows(spec, snapshot, None) if as_of is None else self._rows_as_of(spec, snapshot, as_of)
        return rows.select(*spec.schema.names)

    def find_ranks(self, spec: ViewSpec, snapshot: Snapshot, ids: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return the rows of some ids with their ranks; `ids` has some or all of the id columns."""
        rows = self.engine.persist(snapshot.read(self.tables.ranked.name, Matching(ids)))
        groups = Matching(rows.select(*self.settings.group).unique())
        cells = self._with_base(snapshot.read(self.tables.cells.name, groups))
        return self._add_ranks(spec, rows, cells).select(*spec.schema.names)

    def changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Return the net changes of a view between two snapshots. Only groups with a change are read."""
        tables = (self.tables.cells, self.tables.ranked)
        groups = find_changed_groups(tables, self.settings.group, before, after, self.engine)
        old, new = (self._rows(spec, at, groups).select(*spec.schema.names) for at in (before, after))
        return net_changes(old, new, spec.key)

    def rank_changes(self, ranks: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Return the rows that were added, deleted or changed between two snapshots, with their old and new rank."""
        net, kind = self.engine.persist(self.changes(ranks, before, after)), nw.col(ROW_KIND)
        ids, rank, none = list(self.settings.id), nw.col(self.settings.rank), nw.lit(None).cast(nw.Int64)
        old = net.filter(kind == UPDATE_BEFORE).select(*ids, rank.alias(_OLD))
        updated = net.filter(kind == UPDATE_AFTER).join(old, on=ids, how="inner")
        parts = (
            (net.filter(kind == INSERT), none, rank),
            (updated, nw.col(_OLD), rank),
            (net.filter(kind == DELETE), rank, none),
        )
        names, (kind_, before_, after_) = (
            self.settings.schema.names,
            (self.settings.column_name(name) for name in _CHANGE_COLUMNS),
        )
        return nw.concat(
            [rows.select(kind.alias(kind_), *names, was.alias(before_), now.alias(after_)) for rows, was, now in parts]
        )

    def _rows(self, spec: ViewSpec, snapshot: Snapshot, groups: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        """Return the rows of a view; only of some groups if `groups` is set."""
        matching = Matching(groups)
        cells = self._with_base(snapshot.read(self.tables.cells.name, matching))
        if spec.name == "base":
            return self._base_view(cells)
        if spec.name == "top":
            cells = cells.filter(self._before_cell() < self.settings.top)
            matching = Matching(cells.select(*self.tables.cells.key))
        return self._add_ranks(spec, snapshot.read(self.tables.ranked.name, matching), cells)

    def _rows_as_of(self, spec: ViewSpec, snapshot: Snapshot, moment: datetime) -> nw.LazyFrame[Any]:
        """Return the rows of a view without rows whose order value is after a moment; ranks all cells again."""
        order, cell = self.settings.order_by, self.tables.cells.key
        if (kind := self.settings.schema[order]).name != "timestamp":
            raise ConfigError(f"ranks as of a time need a timestamp column as order_by, but {order!r} is {kind.ddl}")
        past = snapshot.read(self.tables.ranked.name).filter(nw.col(order) <= moment)
        rows = rank_cells(past, self.settings, cell, self.engine)
        cells = self._with_base(count_cells(rows, self.settings, cell))
        return self._base_view(cells) if spec.name == "base" else self._add_ranks(spec, rows, cells)

    def _add_ranks(self, spec: ViewSpec, rows: nw.LazyFrame[Any], cells: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add the rank of each row: the base of its cell plus its rank inside the cell."""
        rank = nw.col(_BASE) + nw.col(IN_CELL)
        if self.settings.descending:
            rank = nw.col(_TOTAL) + 1 - rank
        ranks = rows.join(cells, on=list(self.tables.cells.key), how="inner").with_columns(
            rank.alias(self.settings.rank)
        )
        return ranks.filter(nw.col(self.settings.rank) <= self.settings.top) if spec.name == "top" else ranks

    def _with_base(self, cells: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return the cells with their number of ranks, that of the group's earlier cells, and that of all its cells."""
        size, group = nw.col(DISTINCT if self.settings.method == "dense_rank" else COUNT), self.settings.group
        return cells.select(
            *self.tables.cells.key,
            size.alias(_SIZE),
            (size.cum_sum().over(*group, order_by=SEGMENT) - size).alias(_BASE),
            size.sum().over(*group).alias(_TOTAL),
        )

    def _before_cell(self) -> nw.Expr:
        """The number of ranks before the first rank of a cell."""
        return nw.col(_TOTAL) - nw.col(_BASE) - nw.col(_SIZE) if self.settings.descending else nw.col(_BASE)

    def _base_view(self, cells: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return the rows of view `base`: half-open intervals of the order value, and the number of ranks before each.

        The end of a group's newest interval is null.
        """
        real = cells.filter(nw.col(SEGMENT) != self.segments.null_segment)
        following = nw.col(SEGMENT).shift(-1).over(*self.settings.group, order_by=SEGMENT)
        start, end, base = (self.settings.column_name(name) for name in _BASE_COLUMNS)
        spans = real.with_columns(following.alias(_NEXT), self._before_cell().alias(base))
        started = self.segments.start(spans, self.engine, SEGMENT, into=start)
        return self.segments.start(started, self.engine, _NEXT, into=end)
