"""Which of the changelog's rows count: those whose transactions have been seen whole. The others wait for the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field, frozen

from ..change import Change
from ..collect import collect_small
from ..epoch import ERROR, POSITION, lane
from ..transactions import AT, COMMIT_TIME, is_mark, whole
from ..watermark import instant
from .tables import EPOCH

if TYPE_CHECKING:
    from datetime import datetime

    from ..epoch import Batch
    from ..ledger import Snapshot
    from ..ports import FrameEngine, Version
    from .settings import BulkMergeSettings
    from .tables import BulkMergeTables

_ROWS, _OLDEST = "_rows", "_oldest"


@frozen(eq=False)
class Counted:
    """What of a changelog counts.

    Args:
        rows: those that can be used, with `AT`.
        pending: what becomes of the table of rows that wait.
        waits: whether some do.
        oldest: the earliest commit time of these (UTC).
    """

    rows: nw.LazyFrame[Any]
    pending: Change
    waits: bool = False
    oldest: datetime | None = None


@frozen
class _Pending:
    """How many rows wait, and the earliest commit time (UTC) among them."""

    rows: int = 0
    oldest: datetime | None = None


@define(eq=False)
class Counting:
    """Keeps rows back until their transactions have been seen whole, where the changelog tells.

    Args:
        settings, tables: of the pipeline.
        engine: of the frames.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    engine: FrameEngine
    _known: dict[Version, _Pending] = field(init=False, factory=dict)

    def counted(self, rows: nw.LazyFrame[Any], batch: Batch, snapshot: Snapshot) -> Counted:
        """The rows that count by now, of this batch and of those before.

        Args:
            rows: of the changelog, as `Events.changes` gives them; persisted.
            batch: theirs.
            snapshot: the newest publication.
        """
        good = nw.col(ERROR).is_null()
        if not self.settings.whole:
            return Counted(rows.filter(good), Change())
        if batch.again:  # their transactions have passed long ago
            late = rows.filter(good, ~is_mark()).with_columns(nw.col(COMMIT_TIME).alias(AT))
            return Counted(late, Change())
        before = self._pending(snapshot).rows
        if before:
            names = self.tables.pending.schema.names
            rows = nw.concat([snapshot.read(self.tables.pending.name).select(*names), rows.select(*names)])
        logs = lane() if self.settings.lanes else None
        told = self.settings.changelog.transactions
        counting, waiting = whole(rows, self.engine, transactions=told, order=[EPOCH, POSITION], lane=logs)
        waiting = self.engine.persist(waiting)
        pending = _summed(waiting)
        moved = (
            Change(overwrite=waiting.select(*self.tables.pending.schema.names)) if before or pending.rows else Change()
        )
        return Counted(self.engine.persist(counting.filter(good)), moved, bool(pending.rows), pending.oldest)

    def oldest(self, snapshot: Snapshot) -> datetime | None:
        """The earliest commit time (UTC) of the rows that wait."""
        return self._pending(snapshot).oldest if self.settings.whole else None

    def _pending(self, snapshot: Snapshot) -> _Pending:
        """The rows that wait."""
        version = snapshot.version(self.tables.pending.name)
        if version is None:
            return _Pending()
        if version not in self._known:  # asked in every epoch, and none most of the time
            self._known.clear()
            self._known[version] = _summed(snapshot.read(self.tables.pending.name))
        return self._known[version]


def _summed(rows: nw.LazyFrame[Any]) -> _Pending:
    (line,) = collect_small(rows.select(nw.len().alias(_ROWS), nw.col(COMMIT_TIME).min().alias(_OLDEST)))
    return _Pending(line[_ROWS], None if line[_OLDEST] is None else instant(line[_OLDEST]))
