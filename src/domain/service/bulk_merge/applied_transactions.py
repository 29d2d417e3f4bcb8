"""The transactions that were applied. Their events are skipped if they are sent again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import narwhals as nw
from attrs import frozen

from ...epoch.watermark import instant
from ...ledger.ledger import Snapshot
from ...ports import FrameCache
from ...source.transactions import AT, COMMIT_TIME, TRANSACTION, is_mark
from ...table.change import POSITION, Change, Matching
from ...table.collect import collect_small
from .tables import BulkMergeTables
from .undo_log import UndoLog

_APPLIED_AT, _ROWS, _MARKS = "_applied_at", "_rows", "_marks"


@frozen(eq=False)
class AppliedTransactions:
    """Remembers the names of applied transactions for as long as the undo log has their changes.

    A producer that has crashed sends events again, often only the last ones of a transaction. Without the names, these
    would wait for events that do not come again.

    Args:
        tables: of the pipeline.
        undo_log: of the pipeline; it divides the table into segments.
        engine: of the frames.
    """

    tables: BulkMergeTables
    undo_log: UndoLog
    engine: FrameCache

    def drop_repeats(self, rows: nw.LazyFrame[Any], snapshot: Snapshot) -> tuple[nw.LazyFrame[Any], int]:
        """The rows without those of applied transactions, and the number of rows that were dropped, without marks.

        Args:
            rows: the changelog's rows, as returned by `Events.changes`; persisted.
            snapshot: the newest publication.
        """
        if snapshot.version(self.tables.applied.name) is None or (oldest := _oldest(rows)) is None:
            return rows, 0
        # A repeat has the times of the first copy, so it is not older than its transaction's segment.
        names = rows.filter(~nw.col(TRANSACTION).is_null()).select(TRANSACTION).unique()
        matching = Matching(names, self.undo_log.since(oldest).within)
        known = snapshot.read(self.tables.applied.name, matching)
        known = known.group_by(TRANSACTION).agg(nw.col(AT).max().alias(_APPLIED_AT))
        marked = self.engine.persist(rows.join(known, on=TRANSACTION, how="left"))
        # After a reset of the log, names may return with later events; these are other transactions. The mark of an end
        # may have the time at which it was sent, so it does not count.
        later = (~is_mark() & (nw.col(COMMIT_TIME) > nw.col(_APPLIED_AT))).fill_null(value=False)
        is_new = nw.col(_APPLIED_AT).is_null() | (later.cast(nw.Int64).max().over(TRANSACTION) > 0)
        repeats = marked.filter(~is_new).select(is_mark().cast(nw.Int64).alias(_MARKS))
        (line,) = collect_small(repeats.select(nw.len().alias(_ROWS), nw.col(_MARKS).sum()))
        if not line[_ROWS]:
            return rows, 0
        return self.engine.persist(marked.filter(is_new).drop(_APPLIED_AT)), line[_ROWS] - line[_MARKS]

    def find_commits(self, rows: nw.LazyFrame[Any], snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """The commit times (`AT`) of the rows whose transactions were applied, each with the row's `POSITION`.

        Args:
            rows: the changelog's rows, as returned by `Events.changes`; persisted.
            snapshot: the newest publication.
        """
        named = rows.filter(~nw.col(TRANSACTION).is_null()).select(POSITION, TRANSACTION, COMMIT_TIME)
        known = snapshot.read(self.tables.applied.name, Matching(named.select(TRANSACTION).unique()))
        # After a reset of the log, a name may return with a later time.
        both = named.join(known.select(TRANSACTION, AT), on=TRANSACTION, how="inner")
        return both.filter(nw.col(AT) >= nw.col(COMMIT_TIME)).group_by(POSITION).agg(nw.col(AT).min())

    def change(self, applied: nw.LazyFrame[Any] | None, watermark: datetime | None, snapshot: Snapshot) -> Change:
        """The change of the table: new names are added, and names that expire are removed.

        Args:
            applied: rows of the transactions that are applied now, with `AT`; None if there are none.
            watermark: the watermark after the epoch (UTC).
            snapshot: the newest publication.
        """
        table, added = self.tables.applied, None
        if applied is not None:
            named = applied.filter(~nw.col(TRANSACTION).is_null(), ~nw.col(AT).is_null())
            names = named.group_by(TRANSACTION).agg(nw.col(AT).max())
            added = self.undo_log.assign_segments(names, watermark, table)
        expired = self.undo_log.read_expired(snapshot, watermark, table)
        return Change(append=added, delete=None if expired is None else expired.select(*table.key))


def _oldest(rows: nw.LazyFrame[Any]) -> datetime | None:
    (line,) = collect_small(rows.filter(~nw.col(TRANSACTION).is_null()).select(nw.col(COMMIT_TIME).min()))
    return None if line[COMMIT_TIME] is None else instant(line[COMMIT_TIME])
