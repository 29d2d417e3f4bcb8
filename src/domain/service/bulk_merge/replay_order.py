"""The order of replayed dead letters among the changes that were read before them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import narwhals as nw
from attrs import frozen

from ...epoch.batch import ERROR
from ...epoch.watermark import format_time
from ...ledger.ledger import Snapshot
from ...ports import FrameCache
from ...source.dead_letter import or_else
from ...source.transactions import AT, COMMIT, COMMIT_TIME, TRANSACTION, is_mark
from ...table.change import POSITION, Matching
from ...table.row_kind import INSERT, ROW_KIND
from .applied_transactions import AppliedTransactions
from .events import OLDER_EPOCH, Events
from .settings import BulkMergeSettings
from .tables import EPOCH, BulkMergeTables
from .undo_log import UndoLog

_TIME, _EXACT, _LATER, _SAME, _FORGOTTEN = "_time", "_exact", "_later", "_same", "_forgotten"
_RESEND = "If the row is still right, send it again as a change"
_UNTIMED = f'mode = "upsert" without position: it is unknown whether a later change of its key has been read. {_RESEND}'
_NO_TIME = f"its commit time is null: it is unknown whether a later change of its key has been read. {_RESEND}"
_SAME_TIME = f"a change of its key at the same time has been read: it is unknown which of the two is later. {_RESEND}"
_UNCOMMITTED = (
    "a later change of its key has been read, but perhaps of the same transaction, whose commit time is unknown: so it"
    f" is unknown which of the two is later. {_RESEND}"
)
_NO_IMAGE = (
    "a later change of its key has been read, so `rows` do not need it. Their history cannot take it, because changes"
    " do not contain before-images"
)
_NO_PLACE = (
    "a later change of its key has been read, so `rows` do not need it. Their history cannot take it, because an insert"
    " may be of a row that was there before, and does not contain it"
)


@frozen(eq=False)
class ReplayOrder:
    """Finds out which replayed rows are older than changes of their keys that were read before.

    Positions show which of two images is newer. Without positions, the times of the changes in the undo log do. A row
    whose order is unknown stays a dead letter.

    Args:
        settings, tables: of the pipeline.
        events: of the pipeline.
        undo_log: the undo log; None if rows cannot be read as of an event time.
        applied: the transactions that were applied; None if they are not remembered.
        engine: of the frames.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    events: Events
    undo_log: UndoLog | None
    applied: AppliedTransactions | None
    engine: FrameCache

    def place(self, rows: nw.LazyFrame[Any], snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Replayed rows. Those that are older than a change of their key have `OLDER_EPOCH` as `EPOCH`.

        Args:
            rows: as returned by `Events.changes`; persisted. They get a reason if their order is unknown.
            snapshot: the newest publication.
        """
        if self.settings.position:
            return self._place_by_position(rows, self.undo_log, snapshot) if self.undo_log else rows
        if self.undo_log is None:
            return rows.with_columns(or_else(nw.col(ERROR), ~is_mark(), _UNTIMED).alias(ERROR))
        rows = self.engine.persist(self._with_times(rows, snapshot))
        rows = rows.join(self._compare(rows, snapshot), on=POSITION, how="left")
        later, same = (nw.col(each).fill_null(0) > 0 for each in (_LATER, _SAME))
        reason = or_else(nw.col(ERROR), ~is_mark() & nw.col(_TIME).is_null(), _NO_TIME)
        if cut := self.undo_log.cut(snapshot.watermark):
            reason = or_else(reason, ~is_mark() & (nw.col(_TIME) < cut), _before_history(cut))
        reason = or_else(reason, same, _SAME_TIME)
        reason = or_else(reason, later & ~nw.col(_EXACT), _UNCOMMITTED)
        if not self.settings.has_before_images:
            reason = or_else(reason, later, _NO_IMAGE)
        placed = nw.when(later).then(nw.lit(OLDER_EPOCH)).otherwise(nw.col(EPOCH))
        placed_rows = rows.with_columns(reason.alias(ERROR), placed.cast(nw.Int64).alias(EPOCH))
        return placed_rows.drop(_TIME, _EXACT, _LATER, _SAME)

    def _place_by_position(self, rows: nw.LazyFrame[Any], undo_log: UndoLog, snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """The rows, with a reason for those that the history cannot take, or whose later change may be forgotten."""
        key = list(self.settings.key)
        rows = self.engine.persist(self._with_times(rows, snapshot))
        valid = rows.filter(nw.col(ERROR).is_null(), ~is_mark())
        stored = self.engine.persist(
            snapshot.read(self.tables.current.name, Matching(valid.select(*key).unique())).select(
                *key, *self.tables.order
            )
        )
        reason = nw.col(ERROR)
        if self.settings.has_before_images:
            inserts = valid.filter(nw.col(ROW_KIND) == INSERT).select(POSITION, *key, *self.tables.order)
            rows = _mark(rows, self.events.older_than(stored, inserts), _LATER)
            reason = or_else(reason, ~nw.col(_LATER).is_null(), _NO_PLACE)
        if cut := undo_log.cut(snapshot.watermark):
            unknown = valid.filter(nw.col(_TIME) < cut).join(stored, on=key, how="anti")
            rows = _mark(rows, unknown, _FORGOTTEN)
            reason = or_else(reason, ~nw.col(_FORGOTTEN).is_null(), _before_history(cut))
        return rows.with_columns(reason.alias(ERROR)).drop(_TIME, _EXACT, _LATER, _FORGOTTEN, strict=False)

    def _with_times(self, rows: nw.LazyFrame[Any], snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Rows with the time at which they took effect (UTC), and whether it is that of their commit."""
        if not self.settings.transactional:
            return rows.with_columns(nw.col(AT).alias(_TIME), nw.lit(value=True).alias(_EXACT))
        alone = nw.col(TRANSACTION).is_null()
        if self.applied is None:
            is_last = nw.col(COMMIT).fill_null(value=False)
            return rows.with_columns(nw.col(COMMIT_TIME).alias(_TIME), (alone | is_last).alias(_EXACT))
        rows = rows.join(self.applied.find_commits(rows, snapshot), on=POSITION, how="left")
        time, exact = nw.coalesce(nw.col(AT), nw.col(COMMIT_TIME)), alone | ~nw.col(AT).is_null()
        return rows.with_columns(time.alias(COMMIT_TIME), time.alias(_TIME), exact.alias(_EXACT)).drop(AT)

    def _compare(self, rows: nw.LazyFrame[Any], snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """For each row, by `POSITION`: whether the undo log has a later change of its key, and one at the same time.

        Both are 1 or 0. A row is missing if the undo log has no change of its key.
        """
        key = list(self.settings.key)
        valid = self.engine.persist(rows.filter(nw.col(ERROR).is_null(), ~is_mark()).select(POSITION, *key, _TIME))
        known = snapshot.read(self.tables.recent.name, Matching(valid.select(*key).unique()))
        both = valid.join(known.select(*key, AT).unique(), on=key, how="inner").with_columns(
            (nw.col(AT) > nw.col(_TIME)).cast(nw.Int64).alias(_LATER),
            (nw.col(AT) == nw.col(_TIME)).cast(nw.Int64).alias(_SAME),
        )
        return both.group_by(POSITION).agg(nw.col(_LATER, _SAME).max())


def _before_history(cut: datetime) -> str:
    return (
        f"its time is before {format_time(cut)}, where the history begins: it is unknown whether a later change of its"
        f" key has been read. {_RESEND}"
    )


def _mark(rows: nw.LazyFrame[Any], some: nw.LazyFrame[Any], name: str) -> nw.LazyFrame[Any]:
    """The rows, with a column that is not null in some of them."""
    marks = some.select(POSITION).unique().with_columns(nw.lit(1).alias(name))
    return rows.join(marks, on=POSITION, how="left")
