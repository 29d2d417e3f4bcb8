"""Chunks that come after the load is done, when not all deleted keys are known any more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import narwhals as nw
from attrs import evolve, frozen

from ...epoch.watermark import format_time, instant, newest_of
from ...errors import BadInput
from ...ledger.ledger import Snapshot
from ...source.transactions import AT
from ...table.collect import collect_small
from .load_progress import BulkLoadProgress, LoadState, Reach, highest_position
from .settings import BulkMergeSettings
from .tables import READ, BulkMergeTables
from .undo_log import UndoLog

_SEARCH_TS_REMEDY = "; or, if it was read later, set `search_ts` in `bulk` to the time of the read"


@frozen(eq=False)
class LateChunks:
    """Refuses chunks that may contain rows that were deleted since the chunks were written.

    While a load is under way, deletes are remembered for as long as an unsettled chunk may contain their keys. Once it
    is done, images with a position are compared with the deleted row, which stays in the table while history covers
    it. A row without a position loses to any change of its key, so no change may have been made since it was written.

    Args:
        settings: of the pipeline.
        tables: of the pipeline.
        undo_log: of the pipeline; None if rows cannot be read as of an event time.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    undo_log: UndoLog | None

    def resume(self, before: LoadState, progress: BulkLoadProgress, snapshot: Snapshot) -> LoadState:
        """The state of a load that was done, now that chunks come.

        Once a load is done, its state no longer follows the changelog. What the changelog has reached since is read
        from the tables.

        Args:
            before: the state at which the load was done.
            progress: of the load.
            snapshot: the newest publication.
        """
        newest = self._newest_change(snapshot)
        deletes_from = newest
        if self.undo_log and self.settings.position:
            deletes_from = self.undo_log.cut(snapshot.watermark)
        # History lacks deletes of keys that were unknown. No change is newer than the watermark plus its delay.
        times = [newest, snapshot.watermark and snapshot.watermark + self.settings.watermark_delay]
        state = evolve(before, done=False, deletes_from=deletes_from)
        return progress.advance(state, newest_of(times), self._log_position(snapshot))

    def _newest_change(self, snapshot: Snapshot) -> datetime | None:
        """The newest event time (UTC) in history, else the watermark; None without an undo log."""
        if self.undo_log is None:
            return None
        (line,) = collect_small(snapshot.read(self.tables.recent.name).select(nw.col(AT).max()))
        return snapshot.watermark if line[AT] is None else instant(line[AT])

    def _log_position(self, snapshot: Snapshot) -> Reach | None:
        """The highest position of the changes in `current`, deletes included. Its bulk rows may be beyond the log."""
        if not (self.settings.waits and self.settings.position):
            return None
        changes = snapshot.read(self.tables.current.name).filter(nw.col(READ) == 0)
        return highest_position(changes, self.tables.order)

    def check(self, chunks: Mapping[int, datetime | None], deletes_from: datetime) -> None:
        """Check chunks that were read now.

        Args:
            chunks: their numbers, each with the earliest time at which one of its rows was written (UTC).
            deletes_from: the time from which deletes are known (UTC).

        Raises:
            BadInput: a chunk has rows that were written before that time.
        """
        for number, earliest in chunks.items():
            if earliest is None or earliest - deletes_from < self.settings.delay:
                written, remedy = "without a search_ts", _SEARCH_TS_REMEDY
                if earliest is not None:
                    written, remedy = f"of {format_time(earliest)}", ""
                raise BadInput(
                    f"chunk {number} ({written}) came after the load was done. It may have rows that were deleted"
                    f" since it was written: only deletes after {format_time(deletes_from)} are known. Remove its file,"
                    f" and send its rows as changes; or load the whole table with another pipeline name{remedy}"
                )
