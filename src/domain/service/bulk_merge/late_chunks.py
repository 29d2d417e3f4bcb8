"""Chunks that come after the load is done, when not all deleted keys are known any more."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import narwhals as nw
from attrs import frozen

from ...epoch.watermark import instant
from ...errors import BadInput
from ...ledger.ledger import Snapshot
from ...source.transactions import AT
from ...table.collect import collect_small
from .load_progress import Chunk
from .settings import BulkMergeSettings
from .tables import BulkMergeTables
from .undo_log import UndoLog


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

    def deletes_from(self, snapshot: Snapshot) -> datetime | None:
        """The event time (UTC) after which deletes are known, at a publication at which the load is done; None: any."""
        if self.undo_log is None:
            return None
        watermark = snapshot.watermark
        return self.undo_log.cut(watermark) if self.settings.position else self._newest_change(snapshot) or watermark

    def _newest_change(self, snapshot: Snapshot) -> datetime | None:
        (line,) = collect_small(snapshot.read(self.tables.recent.name).select(nw.col(AT).max()))
        return None if line[AT] is None else instant(line[AT])

    def check(self, chunks: Iterable[Chunk], deletes_from: datetime) -> None:
        """Check chunks that were read now.

        Raises:
            BadInput: a chunk was written before the time from which deletes are known.
        """
        for chunk in chunks:
            if chunk.search_ts is None or chunk.search_ts - self.settings.delay < deletes_from:
                written = "without a search_ts" if chunk.search_ts is None else f"of {chunk.search_ts.isoformat()}"
                raise BadInput(
                    f"chunk {chunk.number} ({written}) came after the load was done. It may have rows that were deleted"
                    f" since it was written: only deletes after {deletes_from.isoformat()} are known. Remove its file,"
                    " and send its rows as changes; or load the whole table with another pipeline name"
                )
