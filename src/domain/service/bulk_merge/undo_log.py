"""The undo log: the images that recent changes removed and added. With it, rows can be read as of an event time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import narwhals as nw
from attrs import define, field

from ...duration import EPOCH
from ...epoch.watermark import subtract
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine, Version
from ...source.transactions import AT
from ...table.apply import select_matching
from ...table.change import POSITION, Between, Change, Matching
from ...table.natural_order import with_natural
from ...table.schema import DataType
from ...table.spec import TableSpec
from ..memo import Memo
from ..segments import SEGMENT, Segments
from .events import OLDER_EPOCH, Events, before
from .load_progress import LoadState
from .settings import BulkMergeSettings
from .tables import ADDS, DELETED, BulkMergeTables
from .tables import EPOCH as EPOCH_NUMBER

_PARTS = 24
"""The history expires in this many steps."""
_SHORTEST = timedelta(seconds=1)
_UNBOUNDED = 2**62
_BEGINNING, _END = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_SINCE, _PLACE, _AGAIN = "_since", "_place", "_again"
_BY_TIME = [AT, EPOCH_NUMBER, POSITION, ADDS]
"""The order of a replay: by the times of the changes."""
_MOMENTS = 4
"""The number of moments whose later changes are kept: two for each view that follows the pipeline."""


@define(eq=False)
class UndoLog:
    """Stores changes by the segment of their event time, reads rows as of an event time, and drops expired segments.

    The row of a key as of time W is the image that its first change after W replaced. Without a change after W, it is
    the newest image. So a read of the newest rows does not need the log, and a read as of W reads the changes after W.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    events: Events
    engine: FrameEngine
    _every: timedelta = field(init=False)
    _segments: Segments = field(init=False)
    _known: Memo[tuple[Version | None, datetime], nw.LazyFrame[Any]] = field(init=False, factory=lambda: Memo(_MOMENTS))

    def __attrs_post_init__(self) -> None:
        self._every = max(self.settings.history / _PARTS, _SHORTEST)
        kind = DataType("timestamp")
        every = f"{self._every // _SHORTEST}s"
        self._segments = Segments.of(AT, kind, interval=every, offset="0s", zone="UTC", nulls_lowest=True)

    def cut(self, watermark: datetime | None) -> datetime | None:
        """The earliest event time (UTC) as of which rows can be read at a watermark; None: any."""
        return None if watermark is None else subtract(EPOCH, -self._first(watermark) * self._interval)

    def since_when(self, watermark: datetime | None, state: LoadState) -> datetime:
        """The earliest event time (UTC) as of which rows can be read, now or once the load is done."""
        if not state.done:
            return _END  # they will be exact from the newest event time of then
        return max((each for each in (self.cut(watermark), state.exact_from) if each is not None), default=_BEGINNING)

    def insert_replayed(self, change: Change, replay: int, snapshot: Snapshot) -> Change:
        """Put replayed changes that are older than others before these.

        The order of the log is that of the epochs and positions. So the changes that follow an older one are stored
        again, with the number of the replay's epoch and new positions. They are ordered by their times.

        Args:
            change: appends the entries of a replay, which contain before-images.
            replay: the number of its epoch.
            snapshot: the newest publication.

        Returns:
            It appends the entries, and deletes the stored ones that they replace.
        """
        entries, names = change.append, [each for each in self.tables.recent.schema.names if each != SEGMENT]
        if entries is None:
            return change
        key = self.settings.key
        older = entries.filter(nw.col(EPOCH_NUMBER) == OLDER_EPOCH).group_by(*key).agg(nw.col(AT).min().alias(_SINCE))
        older = self.engine.persist(older)
        stored = snapshot.read(self.tables.recent.name, Matching(older.select(*key)))
        stored = stored.join(older, on=list(key), how="inner").filter(nw.col(AT) > nw.col(_SINCE)).drop(_SINCE)
        stored = self.engine.persist(stored)
        both = self._with_new_previous(nw.concat([each.select(*names) for each in (entries, stored)]))
        both = both.with_columns(nw.lit(1).alias(_PLACE))
        place = nw.col(_PLACE).cum_sum().over(*key, order_by=_BY_TIME)
        numbered = both.with_columns(
            place.cast(nw.Int64).alias(POSITION), nw.lit(replay).cast(nw.Int64).alias(EPOCH_NUMBER)
        )
        return Change(append=numbered.drop(_PLACE), delete=stored.select(*names))

    def _with_new_previous(self, entries: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Entries in which an insert of a row that was there removes what is before it now; see `PreviousImages`.

        What it removed has its own epoch and position. It goes if a replayed change has deleted the row before.
        """
        key, values = self.settings.key, self.settings.values

        def neighbour(name: str, by: int) -> nw.Expr:
            return nw.col(name).shift(by).over(*key, order_by=_BY_TIME)

        own = [(nw.col(name) == neighbour(name, -1)).fill_null(value=False) for name in (EPOCH_NUMBER, POSITION)]
        previous = [neighbour(name, 1).alias(before(name)) for name in (ADDS, *values)]
        marked = entries.with_columns((~nw.col(ADDS) & own[0] & own[1]).alias(_AGAIN), *previous)
        adds = nw.col(before(ADDS))
        kept = marked.filter(~nw.col(_AGAIN) | adds.fill_null(value=True))
        replaces = nw.col(_AGAIN) & adds.fill_null(value=False)
        images = [nw.when(replaces).then(nw.col(before(name))).otherwise(nw.col(name)).alias(name) for name in values]
        return kept.with_columns(*images).drop(_AGAIN, *map(before, (ADDS, *values)))

    def with_segments(self, change: Change, watermark: datetime | None) -> Change:
        """Add segments to the rows of a change, and keep only the key of those that it deletes."""
        append, delete = (
            None if rows is None else self.assign_segments(rows, watermark) for rows in (change.append, change.delete)
        )
        return Change(append=append, delete=None if delete is None else delete.select(*self.tables.recent.key))

    def assign_segments(
        self, entries: nw.LazyFrame[Any], watermark: datetime | None, table: TableSpec | None = None
    ) -> nw.LazyFrame[Any]:
        """Entries in the columns of a table, with segments. Entries before the cut of the watermark are dropped.

        Args:
            entries: rows with `AT`.
            watermark: the watermark after the epoch (UTC).
            table: the table; None: `recent`.
        """
        rows = self._segments.assign(entries, self.engine)
        if watermark is not None:
            rows = rows.filter(nw.col(SEGMENT) >= self._first(watermark))
        return rows.select(*(table or self.tables.recent).schema.names)

    def read_expired(
        self, snapshot: Snapshot, until: datetime | None, table: TableSpec | None = None
    ) -> nw.LazyFrame[Any] | None:
        """The rows of a table that expire at a watermark, persisted; None if no segment expires.

        Args:
            snapshot: the newest publication, with the watermark before.
            until: the new watermark (UTC).
            table: the table, partitioned as `recent`; None: `recent`.
        """
        before = snapshot.watermark
        if until is None or before is None or self._first(until) == self._first(before):
            return None
        expired = Matching(within={SEGMENT: Between(-_UNBOUNDED, self._first(until) - 1)})
        return self.engine.persist(snapshot.read((table or self.tables.recent).name, expired))

    def since(self, moment: datetime) -> Matching:
        """A filter for the segments from a moment (UTC) on."""
        return Matching(within={SEGMENT: Between(self._number(moment), _UNBOUNDED)})

    def find_expired_keys(self, expired: nw.LazyFrame[Any], snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Keys of deleted rows that the log no longer covers: their deletes expire, and they have no later change.

        Args:
            expired: the rows of the log that expire.
            snapshot: the newest publication.
        """
        key = list(self.settings.key)
        # The delete of an unknown key is an addition, see `PreviousImages`.
        stored = snapshot.read(self.tables.current.name, Matching(expired.select(*key).unique()))
        marked = self.engine.persist(stored.filter(nw.col(DELETED)).select(*key))
        later = snapshot.read(self.tables.recent.name, Matching(marked)).join(
            expired.select(*self.tables.recent.key), on=list(self.tables.recent.key), how="anti"
        )
        return marked.join(later.select(*key).unique(), on=key, how="anti")

    def read_as_of(
        self, snapshot: Snapshot, moment: datetime | None, matching: Matching | None = None
    ) -> nw.LazyFrame[Any]:
        """The rows as of an event time (UTC); the newest rows if it is None. See `TableReader.read` for `matching`."""
        current = snapshot.read(self.tables.current.name, matching).filter(~nw.col(DELETED))
        if moment is None:
            return current.select(*self.settings.columns)
        key, keys = list(self.settings.key), matching.keys if matching else None
        if keys is not None and not self._is_recent(snapshot, moment):
            later = self._read_first_after(snapshot, moment, keys)
        else:
            later = self._first_after(snapshot, moment)
        unchanged = current.join(later.select(key), on=key, how="anti")
        replaced = later.filter(~nw.col(ADDS))
        if keys is not None:
            replaced = select_matching(replaced, Matching(keys), self.settings.rows)
        return nw.concat([each.select(*self.settings.columns) for each in (unchanged, replaced)])

    def _is_recent(self, snapshot: Snapshot, moment: datetime) -> bool:
        """Whether so few changes are after a moment that reading them all costs no more than those of a few keys."""
        newest = snapshot.watermark
        return newest is not None and self._number(moment) >= self._number(newest) - 1

    def _first_after(self, snapshot: Snapshot, moment: datetime) -> nw.LazyFrame[Any]:
        """As `_read_first_after` for all keys; a view that reads rows as of a moment asks several times in an epoch."""
        at = (snapshot.version(self.tables.recent.name), moment)
        return self._known.find(at, lambda: self.engine.persist(self._read_first_after(snapshot, moment)))

    def _read_first_after(
        self, snapshot: Snapshot, moment: datetime, keys: nw.LazyFrame[Any] | None = None
    ) -> nw.LazyFrame[Any]:
        """The first change of each key after a moment, with the image that it removed or added."""
        within = {SEGMENT: Between(self._number(moment), _UNBOUNDED)}
        later = snapshot.read(self.tables.recent.name, Matching(keys, within)).filter(nw.col(AT) > moment)
        later, order = with_natural(later, [*self.events.order_columns, ADDS])
        first = later.unique(subset=list(self.settings.key), keep="first", order_by=order)
        return first.select(*self.settings.columns, ADDS)

    def find_keys_between(
        self, before: Snapshot, since: datetime, after: Snapshot, until: datetime
    ) -> nw.LazyFrame[Any]:
        """Keys whose rows may differ between two event times because of the undo log; a key may occur several times.

        Rows as of W depend on `current` and on the changes after W. So the row of a key differs only in three cases:

        * a change of the key is between the two event times;
        * the later snapshot has a new change of the key (`current` may not show it, as one change may undo another);
        * its row in `current` differs; the caller checks this case.

        A change that the log has dropped since is before `until`, and is found in the earlier snapshot.

        Args:
            before: the earlier snapshot.
            since: the event time (UTC) as of which the earlier snapshot is read.
            after: the later snapshot.
            until: the event time (UTC) as of which the later snapshot is read, not before `since`.
        """
        within = Matching(within={SEGMENT: Between(self._number(since), self._number(until))})
        between = before.read(self.tables.recent.name, within).filter(nw.col(AT) > since, nw.col(AT) <= until)
        keys = [between.select(*self.settings.key)]
        changed = after.changed_keys_since(before, self.tables.recent.name)
        if changed is not None:
            keys.append(changed.select(*self.settings.key))
        return nw.concat(keys)

    @property
    def _interval(self) -> timedelta:
        return self._every // _SHORTEST * _SHORTEST

    def _number(self, moment: datetime) -> int:
        return (moment - EPOCH) // self._interval

    def _first(self, watermark: datetime) -> int:
        """The first segment that has not expired at a watermark."""
        return self._number(subtract(watermark, self.settings.history))
