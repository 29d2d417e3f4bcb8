"""When rows that are gone are forgotten, so that deletes do not pile up for ever."""

from __future__ import annotations

from datetime import UTC, date
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..change import Between, Change, Matching
from ..segments import SEGMENT, Segments
from ..watermark import earlier, furthest, slowest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from ..table import TableSpec
    from .etl import TopicEtl

_FIRST_DAY = date(1970, 1, 1)
_EVER = 2**62
"""Beyond any day; that of deletes without an event time, which are never forgotten."""


@frozen(eq=False)
class Horizon:
    """Files the owner's deletes under the days (UTC) of their event times, and forgets rows day by day.

    A row is forgotten with all that other topics said of it, once the watermark has passed the day of its delete by
    the horizon, if that is still what its owner said last. So an epoch looks at deletes of its own, and at the first
    crossing of a midnight at those of the days that are due: each delete is written once, and read once.

    Args:
        owner: the topic whose deletes remove rows.
        wide: the table of rows.
        tombstones: the table of deletes; key the row's and ``_segment``, the day.
        after: how long a delete is remembered.
        days: of the owner's event time.
        engine: of the frames.
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
        return self.owner.kept.deleted

    def changes(
        self,
        good: nw.LazyFrame[Any],
        removing: nw.LazyFrame[Any] | None,
        snapshot: Snapshot,
        watermarks: Mapping[str, datetime | None],
    ) -> dict[str, Change]:
        """What is to be filed and forgotten in an epoch.

        Args:
            good: the rows of the batch that act.
            removing: the owner's deletes among them, if there are any.
            snapshot: the newest publication before it.
            watermarks: how far the batch brought each topic.

        Returns:
            A change of `tombstones`, and one of `wide` that deletes none of the keys of `good`.
        """
        filed = None if removing is None else self._filed(removing)
        due = self._due(snapshot, watermarks)
        if due is None:
            return {} if filed is None else {self.tombstones.name: Change(merge=filed)}
        key = list(self.wide.key)
        passed = snapshot.read(self.tombstones.name, Matching(within={SEGMENT: Between(-_EVER, due - 1)}))
        # A key that the batch brings waits for the next midnight: no key may be merged and deleted at once.
        passed = self.engine.persist(passed.join(good.select(*key).unique(), on=key, how="anti"))
        return {
            self.tombstones.name: Change(merge=filed, delete=passed),
            self.wide.name: Change(delete=self._forgotten(passed.select(*key).unique(), snapshot, due)),
        }

    def _filed(self, removing: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return self.days.assign(removing, self.engine).select(*self.tombstones.key).unique()

    def _due(self, snapshot: Snapshot, watermarks: Mapping[str, datetime | None]) -> int | None:
        """The first day that is not to be forgotten yet, if this batch is the one that moves it."""
        before = snapshot.publication
        so_far = before.watermark if before else None
        reached = slowest(so_far, watermarks, furthest(before.watermarks if before else {}, watermarks))
        if reached is None or so_far == reached:
            return None
        day = self._day(reached)
        return day if so_far is None or day > self._day(so_far) else None

    def _day(self, watermark: datetime) -> int:
        return (earlier(watermark, self.after).astimezone(UTC).date() - _FIRST_DAY).days

    def _forgotten(self, keys: nw.LazyFrame[Any], snapshot: Snapshot, due: int) -> nw.LazyFrame[Any]:
        """Those of some keys that are gone, and were not deleted again later."""
        key = list(self.wide.key)
        gone = snapshot.read(self.wide.name, Matching(keys)).filter(nw.col(self.deleted)).select(*key)
        later = snapshot.read(self.tombstones.name, Matching(keys, within={SEGMENT: Between(due, _EVER)}))
        return gone.join(later.select(*key).unique(), on=key, how="anti")
