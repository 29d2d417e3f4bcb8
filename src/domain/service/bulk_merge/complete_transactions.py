"""Selects the changelog rows whose transactions are complete. Other rows wait until the rest has arrived."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import narwhals as nw
from attrs import define, field, frozen

from ...epoch.batch import ERROR, Batch, lane
from ...epoch.watermark import instant
from ...ledger.ledger import Snapshot
from ...ports import FrameCache, Version
from ...source.transactions import AT, COMMIT_TIME, is_mark, split_complete
from ...table.change import POSITION, Change
from ...table.collect import collect_small
from ..memo import Memo
from .settings import BulkMergeSettings
from .tables import EPOCH, BulkMergeTables

_ROWS, _OLDEST = "_rows", "_oldest"


@frozen(eq=False)
class CompleteRows:
    """The changelog rows that can be merged now.

    Args:
        rows: the valid rows of complete transactions, with `AT`.
        pending: the change of the table of waiting rows.
        waits: whether any rows wait.
        oldest: the earliest commit time (UTC) of the waiting rows; None if no rows wait.
    """

    rows: nw.LazyFrame[Any]
    pending: Change
    waits: bool = False
    oldest: datetime | None = None


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
        engine: of the frames.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    engine: FrameCache
    _known: Memo[Version, _Pending] = field(init=False, factory=Memo)

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
        if batch.replay:  # their transactions were complete long ago
            replayed = rows.filter(valid, ~is_mark()).with_columns(nw.col(COMMIT_TIME).alias(AT))
            return CompleteRows(replayed, Change())
        before = self._pending(snapshot).rows
        if before:
            names = self.tables.pending.schema.names
            rows = nw.concat([snapshot.read(self.tables.pending.name).select(*names), rows.select(*names)])
        log_lane = lane() if self.settings.lanes else None
        marking = self.settings.changelog.transactions
        complete, waiting = split_complete(
            rows, self.engine, transactions=marking, order=[EPOCH, POSITION], lane=log_lane
        )
        waiting = self.engine.persist(waiting)
        pending = _summarize(waiting)
        change = (
            Change(overwrite=waiting.select(*self.tables.pending.schema.names)) if before or pending.rows else Change()
        )
        return CompleteRows(self.engine.persist(complete.filter(valid)), change, bool(pending.rows), pending.oldest)

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
