"""The views of a bulk merge."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import narwhals as nw
from attrs import evolve, frozen

from ...epoch.watermark import format_time, instant
from ...errors import ConfigError
from ...ledger.ledger import Snapshot
from ...ports import FrameCache
from ...source.bulk import CHUNK, SEARCH_TS
from ...source.transactions import COMMIT_TIME
from ...table.change import Matching
from ...table.collect import collect_small
from ...table.net_changes import net_changes
from ...table.schema import Column, Schema, column
from ...table.view_spec import ViewSpec
from ..base import PendingRows, ReadAt
from ..row_changes import read_row_changes
from .load_progress import BulkLoadProgress, row_count
from .settings import BulkMergeSettings
from .tables import DELETED, EXACT_FROM, HIGH, LOW, ROWS, SETTLED, BulkMergeTables
from .undo_log import UndoLog

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
    about = "one row per chunk that was read: its range of keys, and whether they are exact"
    return (
        ViewSpec(
            ROWS_VIEW,
            settings.rows,
            key,
            key,
            "the newest image of each key",
            takes_as_of=True,
            timed=settings.timed and not settings.undated,
            undated=settings.undated,
        ),
        ViewSpec(SETTLED_VIEW, chunks, (_CHUNK,), (_CHUNK,), about, takes_as_of=True, timed=settings.timed),
    )


@frozen(eq=False)
class BulkMergeViews:
    """The views of one bulk merge."""

    settings: BulkMergeSettings
    tables: BulkMergeTables
    progress: BulkLoadProgress
    undo_log: UndoLog | None
    engine: FrameCache

    def view(self, spec: ViewSpec, at: ReadAt, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The rows of a view, restricted by `matching` if it is set.

        Raises:
            ConfigError: the rows cannot be read as of that event time.
        """
        if spec.name == SETTLED_VIEW:
            return self._read_chunks(spec, at, matching)
        if at.as_of is None:
            return self._select_rows(at.snapshot.read(self.tables.current.name, matching))
        if reason := self.held_back(at):
            raise ConfigError(f"rows of pipeline {self.settings.pipeline!r} as of {format_time(at.as_of)}: {reason}")
        assert self.undo_log is not None
        return self.undo_log.read_as_of(at.snapshot, at.as_of, matching)

    def held_back(self, at: ReadAt) -> str | None:
        """The reason why rows are not exact as of an event time; None if they are."""
        if at.as_of is None:
            return None
        if self.undo_log is None or self.settings.undated:
            return self.settings.undated or 'it needs mode = "exact", and a changelog with event_time'
        state = self.progress.read_state(at.snapshot)
        if not state.done:
            waiting = f"{len(state.waiting)} chunks wait for the changelog" if state.waiting else "chunks are unread"
            return f"its bulk is still being loaded ({waiting})"
        if state.exact_from is not None and at.as_of < state.exact_from:
            return f"its bulk was read later; the earliest possible time is {format_time(state.exact_from)}"
        cut = self.undo_log.cut(at.snapshot.watermark)
        if cut is not None and at.as_of < cut:
            return f"its history reaches back to {format_time(cut)}; make `history` longer"
        return None

    def changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Net changes of a view between two snapshots, computed only from the changes of its table."""
        table = self.tables.current.name if spec.name == ROWS_VIEW else self.tables.chunks.name
        select = self._select_rows if spec.name == ROWS_VIEW else self._select_chunks
        return read_row_changes(table, before, after, select, spec.key, engine=self.engine)

    def changes_between(self, spec: ViewSpec, before: ReadAt, after: ReadAt) -> nw.LazyFrame[Any]:
        """Net changes of `rows` between two event times, computed only for the keys that changed between them."""
        if before.snapshot.publication is None:
            now = self.view(spec, after)
            return net_changes(now.head(0), now, spec.key)
        assert self.undo_log is not None
        assert before.as_of is not None
        assert after.as_of is not None
        keys = [self.undo_log.find_keys_between(before.snapshot, before.as_of, after.snapshot, after.as_of)]
        changed = after.snapshot.changed_keys_since(before.snapshot, self.tables.current.name)
        if changed is not None:
            keys.append(changed.select(*spec.key))
        touched = Matching(self.engine.persist(nw.concat(keys).unique()))
        return net_changes(self.view(spec, before, touched), self.view(spec, after, touched), spec.key)

    def bookkeeping(self, snapshot: Snapshot) -> dict[str, PendingRows]:
        """The temporary rows: those of waiting chunks, of tombstones, and of incomplete transactions."""
        chunks, tables = self.progress.read_state(snapshot).waiting, self.tables
        found = {
            tables.waiting.name: PendingRows(row_count(chunks), 0, chunks=len(chunks)),
            tables.tombstones.name: PendingRows(self._aggregate(snapshot, tables.tombstones.name)[_COUNT], 0),
            tables.pending.name: self._pending(snapshot),
        }
        return {
            name.removeprefix(f"{self.settings.pipeline}."): evolve(rows, size=snapshot.size(name))
            for name, rows in found.items()
            if rows.rows
        }

    def _pending(self, snapshot: Snapshot) -> PendingRows:
        line = self._aggregate(snapshot, self.tables.pending.name, nw.col(COMMIT_TIME).min())
        oldest = line.get(COMMIT_TIME)
        return PendingRows(line[_COUNT], 0, oldest=None if oldest is None else instant(oldest))

    def _aggregate(self, snapshot: Snapshot, table: str, *more: nw.Expr) -> dict[str, Any]:
        """The number of rows of a table, and more aggregates."""
        if snapshot.version(table) is None:
            return {_COUNT: 0}
        (line,) = collect_small(snapshot.read(table).select(nw.len().alias(_COUNT), *more))
        return line

    def _select_rows(self, stored: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return stored.filter(~nw.col(DELETED)).select(*self.settings.columns)

    def _read_chunks(self, spec: ViewSpec, at: ReadAt, matching: Matching | None) -> nw.LazyFrame[Any]:
        rows = self._select_chunks(at.snapshot.read(self.tables.chunks.name))
        if matching is not None and matching.keys is not None:
            rows = rows.join(matching.keys, on=list(spec.key), how="semi")
        return rows if at.as_of is None else rows.filter(_is_exact(at.as_of))

    def _select_chunks(self, chunks: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        columns = (LOW, HIGH, ROWS, nw.col(SEARCH_TS).alias(SEARCH_TS.removeprefix("_")), SETTLED, EXACT_FROM)
        return chunks.select(nw.col(CHUNK).alias(_CHUNK), *columns)


def _is_exact(moment: datetime) -> nw.Expr:
    """Whether a chunk is exact as of an event time."""
    since = nw.col(EXACT_FROM)
    return nw.col(SETTLED) & (since.is_null() | (since <= moment))
