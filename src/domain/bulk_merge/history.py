"""The undo log: what each change of late took and brought, so that rows can be told as of an event time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field

from ..change import Between, Matching
from ..changelog.row_kind import removes
from ..epoch import ROW_KIND
from ..natural_order import with_natural
from ..schema import DataType
from ..segments import SEGMENT, Segments
from ..transactions import AT
from ..watermark import earlier
from .tables import ADDS, DELETED

if TYPE_CHECKING:
    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from .events import Events
    from .settings import BulkMergeSettings
    from .tables import BulkMergeTables

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PARTS = 24
"""The history is given up in so many parts, each as a whole."""
_SHORTEST = timedelta(seconds=1)
_EVER = 2**62


@define(eq=False)
class History:
    """Files changes under the segments of their event times, tells rows as of one, and forgets what lies far back.

    As of W a key shows what the first of its changes after W replaced; where none came after W, its newest image. So
    the newest rows are read as they are, and those as of W at the cost of the changes after W.

    Args:
        settings: of the pipeline.
        tables: of the pipeline.
        events: the order of its changes.
        engine: of the frames.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    events: Events
    engine: FrameEngine
    _every: timedelta = field(init=False)
    _segments: Segments = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._every = max(self.settings.history / _PARTS, _SHORTEST)
        kind = DataType("timestamp")
        every = f"{self._every // _SHORTEST}s"
        self._segments = Segments.of(AT, kind, interval=every, offset="0s", zone="UTC", nulls_lowest=True)

    def cut(self, watermark: datetime | None) -> datetime | None:
        """The earliest event time (UTC) as of which rows are told at a watermark; None: any."""
        return None if watermark is None else _EPOCH + self._first(watermark) * self._interval

    def filed(self, told: nw.LazyFrame[Any], watermark: datetime | None) -> nw.LazyFrame[Any]:
        """What changes took and brought as the table keeps it; what lies before the cut already is left out."""
        rows = self._segments.assign(told, self.engine)
        if watermark is not None:
            rows = rows.filter(nw.col(SEGMENT) >= self._first(watermark))
        return rows.select(*self.tables.recent.schema.names)

    def passed(self, snapshot: Snapshot, until: datetime | None) -> nw.LazyFrame[Any] | None:
        """What lies before the cut of a watermark and did not before, if anything can; persisted.

        Args:
            snapshot: the newest publication.
            until: the watermark (UTC).
        """
        before = snapshot.publication.watermark if snapshot.publication else None
        if until is None or before is None or self._first(until) == self._first(before):
            return None
        before_it = Matching(within={SEGMENT: Between(-_EVER, self._first(until) - 1)})
        return self.engine.persist(snapshot.read(self.tables.recent.name, before_it))

    def forgotten(self, passed: nw.LazyFrame[Any], snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Keys of deleted rows that nothing can bring back by mistake any more."""
        key = list(self.settings.key)
        taken = passed.filter(~nw.col(ADDS)).select(*key).unique()
        gone = snapshot.read(self.tables.current.name, Matching(taken)).filter(nw.col(DELETED)).select(*key)
        later = snapshot.read(self.tables.recent.name, Matching(taken)).join(
            passed.select(*self.tables.recent.key), on=list(self.tables.recent.key), how="anti"
        )
        return gone.join(later.select(*key).unique(), on=key, how="anti")

    def as_of(self, snapshot: Snapshot, moment: datetime | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The rows as of an event time (UTC), those of all that is known where it is None; see `TableStore.read`."""
        current = snapshot.read(self.tables.current.name, matching).filter(~nw.col(DELETED))
        if moment is None:
            return current.select(*self.settings.columns)
        key = list(self.settings.key)
        keys = matching.keys if matching else None
        within = {SEGMENT: Between(self._number(moment), _EVER)}
        later = snapshot.read(self.tables.recent.name, Matching(keys, within)).filter(nw.col(AT) > moment)
        # What came later is read twice: to keep it would take a job for each look-up of a few keys.
        stayed = current.join(later.select(*key), on=key, how="anti")
        later, order = with_natural(later, [*self.events.in_order, ADDS])
        first = later.unique(subset=key, keep="first", order_by=order)
        return nw.concat([each.select(*self.settings.columns) for each in (stayed, first.filter(~nw.col(ADDS)))])

    def keys_between(self, before: Snapshot, since: datetime, after: Snapshot, until: datetime) -> nw.LazyFrame[Any]:
        """Keys whose rows the undo log may show otherwise as of a later event time; a key may come several times.

        Rows as of W depend on `current` and on the changes after W. So a key shows otherwise only if a change of it
        lies between the two event times, if it got a change after the first of them (one that undoes another may leave
        no trace in `current`), or if its row of `current` differs, which is not looked at here. A change that the log
        has dropped since lies before `until`, and is found in the earlier snapshot.

        Args:
            before: the earlier snapshot.
            since: the event time (UTC) as of which it is read.
            after: the later snapshot.
            until: the event time (UTC) as of which that is read, not before `since`.
        """
        within = Matching(within={SEGMENT: Between(self._number(since), self._number(until))})
        between = before.read(self.tables.recent.name, within).filter(nw.col(AT) > since, nw.col(AT) <= until)
        keys = [between.select(*self.settings.key)]
        changed = after.changes_since(before, self.tables.recent.name)
        if changed is not None:
            added = changed.filter(~removes(nw.col(ROW_KIND)), nw.col(AT) > since)
            keys.append(added.select(*self.settings.key))
        return nw.concat(keys)

    @property
    def _interval(self) -> timedelta:
        return self._every // _SHORTEST * _SHORTEST

    def _number(self, moment: datetime) -> int:
        return (moment - _EPOCH) // self._interval

    def _first(self, watermark: datetime) -> int:
        """The first segment that is kept at a watermark."""
        return self._number(earlier(watermark, self.settings.history))
