"""Selects the changelog rows whose transactions are complete. Other rows wait until the rest has arrived."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import narwhals as nw
from attrs import define, field, frozen

from ...epoch.batch import ERROR, Batch, lane
from ...epoch.watermark import format_time, instant
from ...ledger.ledger import Snapshot
from ...ports import FrameCache, Version
from ...source.dead_letter import or_else
from ...source.transactions import (
    AT,
    COMMIT_TIME,
    FOLLOWS,
    TRANSACTION,
    find_incomplete,
    is_mark,
    mark_followers,
    split_complete,
)
from ...table.change import POSITION, Change
from ...table.collect import collect_small
from ..memo import Memo
from .applied_transactions import AppliedTransactions
from .settings import BulkMergeSettings
from .tables import EPOCH, BulkMergeTables

_ROWS, _OLDEST = "_rows", "_oldest"
_LONG = timedelta(hours=1)
"""How far behind the newest change a transaction may wait before a warning says so; partitions may differ by less."""
_WAITS = "its transaction, or an earlier one with its key, still waits for other rows: replay it after these have come"


@frozen(eq=False)
class CompleteRows:
    """The changelog rows that can be merged now.

    Args:
        rows: the valid rows of complete transactions, with `AT`.
        pending: the change of the table of waiting rows.
        waiting: the rows that wait after the epoch; None if no rows wait.
        oldest: the earliest commit time (UTC) of the waiting rows; None if no rows wait.
        applied: all rows of complete transactions; None if the names of these are not remembered.
        repeats: the number of rows that were skipped because their transactions were applied before.
    """

    rows: nw.LazyFrame[Any]
    pending: Change
    waiting: nw.LazyFrame[Any] | None = None
    oldest: datetime | None = None
    applied: nw.LazyFrame[Any] | None = None
    repeats: int = 0


@frozen
class _Pending:
    """The number of waiting rows, and their earliest commit time (UTC)."""

    rows: int = 0
    oldest: datetime | None = None


@define(eq=False)
class TransactionFilter:
    """Holds rows back until their transactions are complete, if the changelog marks transactions.

    Args:
        settings, tables: of the pipeline.
        applied: the transactions that were applied; None if they are not remembered.
        engine: of the frames.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    applied: AppliedTransactions | None
    engine: FrameCache
    _known: Memo[Version, _Pending] = field(init=False, factory=Memo)

    def check_replayed(self, rows: nw.LazyFrame[Any], snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Replayed rows; those of waiting transactions, and those that have to wait for these, get a reason.

        Args:
            rows: the changelog's rows, as returned by `Events.changes`; persisted.
            snapshot: the newest publication.
        """
        waiting = self.waiting(snapshot)
        if waiting is None:
            return rows
        key = self.settings.key
        marked = mark_followers(rows, waiting, self.engine, order=[EPOCH, POSITION], key=key)
        return marked.with_columns(or_else(nw.col(ERROR), nw.col(FOLLOWS), _WAITS).alias(ERROR)).drop(FOLLOWS)

    def filter_complete(self, rows: nw.LazyFrame[Any], batch: Batch, snapshot: Snapshot) -> CompleteRows:
        """The rows of complete transactions, from this batch and from earlier ones.

        Args:
            rows: the changelog's rows, as returned by `Events.changes`; persisted.
            batch: the batch of these rows.
            snapshot: the newest publication.
        """
        valid = nw.col(ERROR).is_null()
        if not self.settings.transactional:
            return CompleteRows(rows.filter(valid), Change())
        if batch.replay:  # see `check_replayed`
            replayed = rows.filter(valid, ~is_mark()).with_columns(nw.col(COMMIT_TIME).alias(AT))
            return CompleteRows(replayed, Change(), self.waiting(snapshot), self.oldest(snapshot))
        rows, repeats = self.applied.drop_repeats(rows, snapshot) if self.applied else (rows, 0)
        before = self._pending(snapshot).rows
        complete, waiting = self._split(rows, snapshot if before else None)
        pending = _summarize(waiting)
        change = (
            Change(overwrite=waiting.select(*self.tables.pending.schema.names)) if before or pending.rows else Change()
        )
        return CompleteRows(
            self.engine.persist(complete.filter(valid)),
            change,
            waiting if pending.rows else None,
            pending.oldest,
            complete if self.applied else None,
            repeats,
        )

    def _split(self, rows: nw.LazyFrame[Any], snapshot: Snapshot | None) -> tuple[nw.LazyFrame[Any], nw.LazyFrame[Any]]:
        """Split the rows of a batch, and those that waited in a snapshot, into complete and waiting rows."""
        if snapshot is not None:
            names = self.tables.pending.schema.names
            rows = nw.concat([snapshot.read(self.tables.pending.name).select(*names), rows.select(*names)])
        complete, waiting = split_complete(
            rows,
            self.engine,
            transactions=self.settings.changelog.transactions,
            order=[EPOCH, POSITION],
            lane=lane() if self.settings.lanes else None,
            key=self.settings.key,
        )
        return complete, self.engine.persist(waiting)

    def find_warnings(self, complete: CompleteRows, newest: datetime | None) -> tuple[str, ...]:
        """A warning if a transaction waits although much later changes have been read.

        Args:
            complete: the rows of the epoch.
            newest: the newest commit time of the batch (UTC).
        """
        waiting, oldest = complete.pending.overwrite, complete.oldest
        if waiting is None or oldest is None or newest is None or newest - oldest <= _LONG:
            return ()
        named = waiting.filter(~nw.col(TRANSACTION).is_null(), ~nw.col(COMMIT_TIME).is_null())
        if self.settings.counted:  # others wait only for these
            named = named.join(find_incomplete(named), on=TRANSACTION, how="semi")
        first = collect_small(named.sort(COMMIT_TIME, TRANSACTION).head(1).select(TRANSACTION, COMMIT_TIME))
        return tuple(
            f"transaction {line[TRANSACTION]} of {format_time(instant(line[COMMIT_TIME]))} still waits for its"
            " other rows. Later changes of the same keys wait for it, and so does the watermark. It goes on by itself"
            " if its partition is only read later than others. If its rows were lost, send all of them again, or load"
            " the table with another pipeline name"
            for line in first
        )

    def waiting(self, snapshot: Snapshot) -> nw.LazyFrame[Any] | None:
        """The waiting rows; None if no rows wait."""
        waits = self.settings.transactional and self._pending(snapshot).rows
        return snapshot.read(self.tables.pending.name) if waits else None

    def oldest(self, snapshot: Snapshot) -> datetime | None:
        """The earliest commit time (UTC) of the waiting rows; None if no rows wait."""
        return self._pending(snapshot).oldest if self.settings.transactional else None

    def _pending(self, snapshot: Snapshot) -> _Pending:
        """The count and the earliest commit time of the waiting rows."""
        version = snapshot.version(self.tables.pending.name)
        if version is None:
            return _Pending()
        # Asked in every epoch, and mostly there are no rows.
        return self._known.find(version, lambda: _summarize(snapshot.read(self.tables.pending.name)))


def _summarize(rows: nw.LazyFrame[Any]) -> _Pending:
    (line,) = collect_small(rows.select(nw.len().alias(_ROWS), nw.col(COMMIT_TIME).min().alias(_OLDEST)))
    return _Pending(line[_ROWS], None if line[_OLDEST] is None else instant(line[_OLDEST]))
