"""The expiry of deleted rows, so that the table does not grow forever."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import narwhals as nw
from attrs import frozen

from ...duration import day_number
from ...epoch.watermark import advance_group, advance_topics, subtract
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine
from ...table.change import Between, Change, Matching
from ...table.spec import TableSpec
from ..segments import SEGMENT, Segments
from .etl import TopicEtl

_EVER = 2**62
"""Later than any day. The day of deletes without an event time, which never expire."""


@frozen(eq=False)
class Horizon:
    """Stores the owner's deletes by day (UTC), and expires deleted rows day by day.

    The day of a delete is that of its event time, but not before the owner's watermark after the epoch that reads it: a
    delete in a changelog has the event time of the deleted row, which may have been updated long before. The day
    follows from the batch and the latest publication, so an epoch that is repeated stores the same days.

    A deleted row expires when `after` has passed since the day of its delete, by the watermark, if the owner's newest
    record is still a delete. The columns of all topics expire with it. An epoch stores its own deletes. The first epoch
    whose watermark crosses a midnight also reads the deletes of the days that are due. So each delete is written once
    and read once.

    Of several deletes of a key, that of the latest day counts, even if it is not the owner's newest record: to tell
    which one is, an epoch would have to read the stored rows of its deletes, or store their sequences.

    Args:
        owner: the topic whose deletes remove rows.
        wide: the table of rows.
        tombstones: the table of deletes. Key: the key of the row, and ``_segment``, the day.
        after: how long a delete is kept.
        days: the days of the owner's event time.
        engine: the engine of the frames.
    """

    owner: TopicEtl
    wide: TableSpec
    tombstones: TableSpec
    after: timedelta
    days: Segments
    engine: FrameEngine

    @property
    def deleted(self) -> str:
        """Boolean column: whether a row of the owner is a delete."""
        return self.owner.columns.deleted

    def changes(
        self,
        good: nw.LazyFrame[Any],
        removing: nw.LazyFrame[Any] | None,
        snapshot: Snapshot,
        watermarks: Mapping[str, datetime | None],
    ) -> dict[str, Change]:
        """Store the deletes of an epoch, and expire deleted rows.

        Args:
            good: the rows of the batch that change the table.
            removing: the owner's deletes in `good`; None if there are none.
            snapshot: the latest publication before the batch.
            watermarks: the watermark of each topic according to this batch alone (UTC).

        Returns:
            A change of `tombstones`, and a change of `wide` that deletes none of the keys of `good`.
        """
        tombstones = None if removing is None else self._tombstones(removing, snapshot, watermarks)
        due = self._due(snapshot, watermarks)
        if due is None:
            return {} if tombstones is None else {self.tombstones.name: Change(merge=tombstones)}
        key = list(self.wide.key)
        expired = snapshot.read(self.tombstones.name, Matching(within={SEGMENT: Between(-_EVER, due - 1)}))
        # A key of this batch waits for the next midnight, because a key cannot be merged and deleted in one change.
        expired = self.engine.persist(expired.join(good.select(*key).unique(), on=key, how="anti"))
        return {
            self.tombstones.name: Change(merge=tombstones, delete=expired),
            self.wide.name: Change(delete=self._expired_rows(expired.select(*key).unique(), snapshot, due)),
        }

    def _tombstones(
        self, removing: nw.LazyFrame[Any], snapshot: Snapshot, watermarks: Mapping[str, datetime | None]
    ) -> nw.LazyFrame[Any]:
        """Return the deletes with their days, in the columns of `tombstones`."""
        rows = self.days.assign(removing, self.engine)
        if owner := _advance(snapshot, watermarks).get(self.owner.columns.topic.name):
            read, own = nw.lit(_day(owner)), nw.col(SEGMENT)
            rows = rows.with_columns(nw.when(own < read).then(read).otherwise(own).alias(SEGMENT))
        return rows.select(*self.tombstones.key).unique()

    def _due(self, snapshot: Snapshot, watermarks: Mapping[str, datetime | None]) -> int | None:
        """The first day that does not expire yet; None if this batch does not move it."""
        before = snapshot.watermark
        advanced = advance_group(before, watermarks, _advance(snapshot, watermarks))
        if advanced is None or before == advanced:
            return None
        day = self._last_day(advanced)
        return day if before is None or day > self._last_day(before) else None

    def _last_day(self, watermark: datetime) -> int:
        """The day that is `after` before a watermark."""
        return _day(subtract(watermark, self.after))

    def _expired_rows(self, keys: nw.LazyFrame[Any], snapshot: Snapshot, due: int) -> nw.LazyFrame[Any]:
        """Return the keys of deleted rows, without those that were deleted again on a later day."""
        key = list(self.wide.key)
        deleted = snapshot.read(self.wide.name, Matching(keys)).filter(nw.col(self.deleted)).select(*key)
        later = snapshot.read(self.tombstones.name, Matching(keys, within={SEGMENT: Between(due, _EVER)}))
        return deleted.join(later.select(*key).unique(), on=key, how="anti")


def _advance(snapshot: Snapshot, watermarks: Mapping[str, datetime | None]) -> dict[str, datetime]:
    """The watermark of each topic after the batch (UTC)."""
    before = snapshot.publication
    return advance_topics(before.watermarks if before else {}, watermarks)


def _day(moment: datetime) -> int:
    return day_number(moment.astimezone(UTC).date())
