"""What a bulk merge answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..bulk import CHUNK, SEARCH_TS
from ..change import Matching
from ..changelog.net import net_changes
from ..changelog.row_kind import removes
from ..collect import collect_small
from ..epoch import ROW_KIND
from ..errors import ConfigError
from ..schema import Column, Schema, column
from ..service import Kept, ReadAt, ViewSpec
from ..watermark import told
from .loading import row_count
from .tables import DELETED, EXACT_FROM, HIGH, LOW, ROWS, SETTLED

if TYPE_CHECKING:
    from datetime import datetime

    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from .history import History
    from .loading import Loading
    from .settings import BulkMergeSettings
    from .tables import BulkMergeTables

ROWS_VIEW, SETTLED_VIEW = "rows", "settled"
_CHUNK, _COUNT = "chunk", "_count"


def view_specs(settings: BulkMergeSettings) -> tuple[ViewSpec, ...]:
    """The views of a bulk merge, the default one first."""
    key, first = settings.key, settings.key_columns[0].type
    chunks = Schema(
        (
            column(_CHUNK, "bigint"),
            Column(LOW, first),
            Column(HIGH, first),
            column(ROWS, "bigint"),
            column(SEARCH_TS.removeprefix("_"), "timestamp"),
            column(SETTLED, "boolean"),
            column(EXACT_FROM, "timestamp"),
        )
    )
    about = "for each chunk of the bulk that was read the keys it holds, and whether they are exact"
    return (
        ViewSpec(ROWS_VIEW, settings.rows, key, key, "the newest image of each key", timed=settings.timed),
        ViewSpec(SETTLED_VIEW, chunks, (_CHUNK,), (_CHUNK,), about, timed=settings.timed),
    )


@frozen(eq=False)
class BulkMergeViews:
    """The views of one bulk merge."""

    settings: BulkMergeSettings
    tables: BulkMergeTables
    loading: Loading
    history: History | None
    engine: FrameEngine

    def view(self, spec: ViewSpec, at: ReadAt, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """A view's rows, of some keys where they are given.

        Raises:
            ConfigError: they cannot be told as of that event time.
        """
        if spec.name == SETTLED_VIEW:
            return self._chunks(spec, at, matching)
        if at.as_of is None:
            return self._shown(at.snapshot.read(self.tables.current.name, matching))
        if reason := self.held_back(at):
            raise ConfigError(f"rows of pipeline {self.settings.pipeline!r} as of {told(at.as_of)}: {reason}")
        assert self.history is not None
        return self.history.as_of(at.snapshot, at.as_of, matching)

    def held_back(self, at: ReadAt) -> str | None:
        """Why rows cannot be told exactly as of an event time; None if they can."""
        if at.as_of is None:
            return None
        if self.history is None:
            return "it needs mode exact, and a changelog with event_time"
        standing = self.loading.standing(at.snapshot)
        if not standing.done:
            waiting = (
                f"{len(standing.waiting)} chunks wait for the changelog" if standing.waiting else "chunks are unread"
            )
            return f"its bulk is still being loaded ({waiting})"
        if standing.exact_from is not None and at.as_of < standing.exact_from:
            return f"its bulk was read later; the earliest is {told(standing.exact_from)}"
        cut = self.history.cut(at.snapshot.publication.watermark if at.snapshot.publication else None)
        if cut is not None and at.as_of < cut:
            return f"its history reaches back to {told(cut)}; make `history` longer"
        return None

    def changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Net row kinds of a view between two snapshots, out of its table's own changes alone."""
        table = self.tables.current.name if spec.name == ROWS_VIEW else self.tables.chunks.name
        show = self._shown if spec.name == ROWS_VIEW else self._told
        changed = after.changes_since(before, table)
        if changed is None:
            none = show(after.read(table).head(0))
            return net_changes(none, none, spec.key)
        changed, old = self.engine.persist(changed), removes(nw.col(ROW_KIND))
        return net_changes(show(changed.filter(old)), show(changed.filter(~old)), spec.key)

    def changes_between(self, spec: ViewSpec, before: ReadAt, after: ReadAt) -> nw.LazyFrame[Any]:
        """Net row kinds of `rows` as of two event times, at the cost of what changed between them."""
        if before.snapshot.publication is None:
            now = self.view(spec, after)
            return net_changes(now.head(0), now, spec.key)
        assert self.history is not None
        assert before.as_of is not None
        assert after.as_of is not None
        keys = [self.history.keys_between(before.snapshot, before.as_of, after.snapshot, after.as_of)]
        changed = after.snapshot.changes_since(before.snapshot, self.tables.current.name)
        if changed is not None:
            keys.append(changed.select(*spec.key))
        touched = Matching(self.engine.persist(nw.concat(keys).unique()))
        return net_changes(self.view(spec, before, touched), self.view(spec, after, touched), spec.key)

    def bookkeeping(self, snapshot: Snapshot) -> dict[str, Kept]:
        """Rows of chunks that wait, keys remembered as deleted for the load's sake, rows of open transactions."""
        chunks, tables = self.loading.standing(snapshot).waiting, self.tables
        counts = {
            tables.waiting.name: (row_count(chunks), len(chunks)),
            tables.tombstones.name: (self._count(snapshot, tables.tombstones.name), None),
            tables.pending.name: (self._count(snapshot, tables.pending.name), None),
        }
        return {
            name.removeprefix(f"{self.settings.pipeline}."): Kept(rows, snapshot.size(name), chunks=parts)
            for name, (rows, parts) in counts.items()
            if rows
        }

    def _count(self, snapshot: Snapshot, table: str) -> int:
        if snapshot.version(table) is None:
            return 0
        (line,) = collect_small(snapshot.read(table).select(nw.len().alias(_COUNT)))
        return int(line[_COUNT])

    def _shown(self, stored: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return stored.filter(~nw.col(DELETED)).select(*self.settings.columns)

    def _chunks(self, spec: ViewSpec, at: ReadAt, matching: Matching | None) -> nw.LazyFrame[Any]:
        rows = self._told(at.snapshot.read(self.tables.chunks.name))
        if matching is not None and matching.keys is not None:
            rows = rows.join(matching.keys, on=list(spec.key), how="semi")
        return rows if at.as_of is None else rows.filter(_exact(at.as_of))

    def _told(self, chunks: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        told_ = (LOW, HIGH, ROWS, nw.col(SEARCH_TS).alias(SEARCH_TS.removeprefix("_")), SETTLED, EXACT_FROM)
        return chunks.select(nw.col(CHUNK).alias(_CHUNK), *told_)


def _exact(moment: datetime) -> nw.Expr:
    """Whether a chunk is exact as of an event time."""
    since = nw.col(EXACT_FROM)
    return nw.col(SETTLED) & (since.is_null() | (since <= moment))
