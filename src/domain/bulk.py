"""A table read in bulk, chunk by chunk, beside the changelog of the same table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field, frozen

from .epoch import Batch, OffsetRange
from .ports import BulkSource, StreamSource
from .topic_group import TOPIC

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime, timedelta

    from .epoch import Epoch, Offsets
    from .schema import Schema
    from .source import RecordSpec

CHUNK, SEARCH_TS = "_chunk", "_search_ts"
"""Of a bulk row: the number of its chunk, from 0 (bigint), and when it was read (timestamp; null if unknown)."""
CHANGELOG, BULK = "changelog", "bulk"
"""The two members: what `TOPIC` says of a row, and the keys of the offsets."""


MOST = 64
"""So many ranges are told apart at most."""


def reach_of(at: int) -> str:
    """The column that says how far a changelog must have come before a bulk row may show: a position's column.

    Args:
        at: the place of the column among those of the position, from 0.
    """
    return f"_reach_{at}"


@frozen
class KeyRange:
    """Values of a table's first key column from `low` to `high`, both included; None: without a bound there."""

    low: Any | None = None
    high: Any | None = None


def merged(ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
    """The same values in as few ranges as can be, in order; in `MOST` at most, which then hold some values more.

    >>> [(each.low, each.high) for each in merged([KeyRange(5, 9), KeyRange(1, 2), KeyRange(2, 6), KeyRange(12)])]
    [(1, 9), (12, None)]
    """
    found: list[KeyRange] = []
    for each in sorted(ranges, key=_start):
        last = found[-1] if found else None
        if last is None or (last.high is not None and each.low is not None and each.low > last.high):
            found.append(each)
        else:
            found[-1] = _hull(last, each)
    if len(found) > MOST:
        found = [*found[: MOST - 1], _hull(found[MOST - 1], found[-1])]
    return tuple(found)


def _start(each: KeyRange) -> tuple[bool, Any]:
    """What ranges are sorted by: those without a lower bound come first."""
    return (False, 0) if each.low is None else (True, each.low)


def _hull(first: KeyRange, last: KeyRange) -> KeyRange:
    ends: list[Any] = [first.high, last.high]
    return KeyRange(first.low, None if None in ends else max(ends))


@frozen
class BulkSpec:
    """What rows read in bulk hold, and when they were read.

    Args:
        records: their columns: the key first, then those of the changelog that the table shows, then the position's
            and `search_ts` where they are columns.
        key: columns that name a row.
        position: columns that place a row in the changelog; none where they do not share one.
        search_ts: when all rows were read (UTC), or the column that says when each was; None where only the source
            itself knows, or no one does.
        delay: how long after its `search_ts` a row waits for changes that came before.
        waits: whether no row can show before the watermark has passed its `search_ts` by the delay.
    """

    records: RecordSpec
    key: tuple[str, ...]
    position: tuple[str, ...]
    search_ts: datetime | str | None
    delay: timedelta
    waits: bool = True


@define(eq=False)
class BulkGroup(StreamSource):
    """A changelog, and the bulk of the table that it tells the changes of, read side by side in every epoch.

    Rows have `TOPIC`, the columns of their member and `epoch.BATCH_COLUMNS`; those of the two are told apart by
    `Batch.topics` or by `TOPIC`. Offsets are those of each member by its name. An epoch reads some chunks at most, so
    that changes never wait for the whole bulk.

    Args:
        changelog: the changes.
        bulk: the table.
    """

    changelog: StreamSource
    bulk: BulkSource
    schema: Schema = field(init=False)
    format: str = field(init=False)
    rereads: Collection[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.schema, self.format = self.changelog.schema, self.changelog.format
        self.rereads = self.changelog.rereads

    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """What each member has to read that does not depend on a watermark; see `plan_at`."""
        return self.plan_at(after, None)

    def plan_at(self, after: Offsets | None, watermark: datetime | None) -> OffsetRange | None:
        """What each member has to read; None if neither has anything.

        Args:
            after: where the newest epoch stands.
            watermark: of the changelog by then (UTC): a chunk that would have to wait for it need not be read yet.
        """
        so_far = after or {}
        changes, chunks = self.changelog.plan(so_far.get(CHANGELOG)), self.bulk.plan(so_far.get(BULK), watermark)
        planned = {CHANGELOG: changes, BULK: chunks}
        until = {member: each.until for member, each in planned.items() if each is not None}
        return OffsetRange(after, {**so_far, **until}) if until else None

    def readable(self, offsets: OffsetRange) -> bool:
        """Whether a range that was planned before can be read as it was then; see `BulkSource.readable`."""
        before, until = (offsets.after or {}).get(BULK), offsets.until.get(BULK)
        return until is None or until == before or self.bulk.readable(OffsetRange(before, until))

    def end(self) -> Offsets | None:
        """Where the changelog ends now: the bulk is read in any case."""
        end = self.changelog.end()
        return None if end is None else {CHANGELOG: end}

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of a range, of those members that have some in it."""
        return nw.concat(list(self._members(offsets).values()), how="diagonal")

    def batch(self, epoch: Epoch, offsets: OffsetRange) -> Batch:
        """As `read`, and by member as well."""
        members, remaining = self._members(offsets), self.bulk.remaining(offsets.until.get(BULK))
        rows = nw.concat(list(members.values()), how="diagonal")
        read = OffsetRange((offsets.after or {}).get(BULK), offsets.until[BULK]) if BULK in members else None
        ranges = self.bulk.ranges(read) if read else {}
        return Batch(epoch, rows, offsets, self.format, topics=members, remaining=remaining, ranges=ranges)

    def passed_over(self) -> Mapping[str, int]:
        """Of the changelog."""
        return self.changelog.passed_over()

    def again(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Read dead letters of the changelog once more; those of the bulk are of no format that `rereads` names."""
        return self.changelog.again(letters).with_columns(nw.lit(CHANGELOG).alias(TOPIC))

    def lag(self, after: Offsets | None) -> str:
        """How much waits in each."""
        so_far = after or {}
        chunks = self.bulk.lag(so_far.get(BULK))
        return f"{self.changelog.lag(so_far.get(CHANGELOG))}{', bulk: ' + chunks if chunks else ''}"

    def _members(self, offsets: OffsetRange) -> dict[str, nw.LazyFrame[Any]]:
        after, members = offsets.after or {}, {}
        sources: dict[str, StreamSource | BulkSource] = {CHANGELOG: self.changelog, BULK: self.bulk}
        for name, source in sources.items():
            until = offsets.until.get(name)
            if until is not None and until != after.get(name):
                rows = source.read(OffsetRange(after.get(name), until))
                members[name] = rows.with_columns(nw.lit(name).alias(TOPIC))
        return members
