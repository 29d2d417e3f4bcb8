"""A table read in bulk, chunk by chunk, together with the changelog of the same table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field, frozen

from ..epoch.batch import Batch
from ..epoch.epoch import OffsetRange
from ..ports import BulkSource, StreamSource
from .topic_group import TOPIC

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime, timedelta

    from ..epoch.epoch import Epoch, Offsets
    from ..table.schema import Schema
    from .record_spec import RecordSpec

CHUNK, SEARCH_TS = "_chunk", "_search_ts"
"""Columns of bulk rows: the number of the chunk, from 0 (bigint); the time of the read (timestamp; null: unknown)."""
CHANGELOG, BULK = "changelog", "bulk"
"""The two members: values of `TOPIC`, and keys of the offsets."""


def reach_of(at: int) -> str:
    """The column with the changelog position that must have been read before a bulk row may be shown.

    Args:
        at: the index of the position's column, from 0.
    """
    return f"_reach_{at}"


@frozen
class BulkSpec:
    """The columns of rows read in bulk, and the time of their read.

    Args:
        records: their columns: the key, the changelog columns that the table has, the position's columns, and
            `search_ts`, if the last two are columns.
        key: the columns that identify a row.
        position: the columns with a row's position in the changelog; empty if there is no common position.
        search_ts: the time when all rows were read (UTC), or the column with the time of each row; None if only the
            source knows it, or if it is unknown.
        delay: how long after its `search_ts` a row waits for earlier changes.
        waits: whether a row is shown only after the watermark has passed `search_ts` plus the delay.
    """

    records: RecordSpec
    key: tuple[str, ...]
    position: tuple[str, ...]
    search_ts: datetime | str | None
    delay: timedelta
    waits: bool = True


@define(eq=False)
class BulkGroup(StreamSource):
    """A changelog and the bulk of its table. Each epoch reads from both.

    Rows have `TOPIC`, the columns of their member and `BATCH_COLUMNS`. `TOPIC` and `Batch.topics` distinguish the
    members. Offsets are those of each member, by its name. An epoch reads only a few chunks, so that changes never wait
    for the whole bulk.

    Args:
        changelog: the changes.
        bulk: the table.
    """

    changelog: StreamSource
    bulk: BulkSource
    schema: Schema = field(init=False)
    format: str = field(init=False)
    reread_formats: Collection[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.schema, self.format = self.changelog.schema, self.changelog.format
        self.reread_formats = self.changelog.reread_formats

    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """As `plan_at`, without a watermark."""
        return self.plan_at(after, None)

    def plan_at(self, after: Offsets | None, watermark: datetime | None) -> OffsetRange | None:
        """The next range of each member; None if neither has anything to read.

        Args:
            after: the offsets of the latest epoch.
            watermark: the changelog's watermark after that epoch (UTC); a chunk whose rows would have to wait for the
                watermark may be read later.
        """
        so_far = after or {}
        changes, chunks = self.changelog.plan(so_far.get(CHANGELOG)), self.bulk.plan(so_far.get(BULK), watermark)
        planned = {CHANGELOG: changes, BULK: chunks}
        until = {member: each.until for member, each in planned.items() if each is not None}
        return OffsetRange(after, {**so_far, **until}) if until else None

    def readable(self, offsets: OffsetRange) -> bool:
        """Whether a range that was planned before can still be read with the same rows; see `BulkSource.readable`."""
        before, until = (offsets.after or {}).get(BULK), offsets.until.get(BULK)
        return until is None or until == before or self.bulk.readable(OffsetRange(before, until))

    def end(self) -> Offsets | None:
        """The present end of the changelog; the bulk is always read from its beginning."""
        end = self.changelog.end()
        return None if end is None else {CHANGELOG: end}

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of a range, of the members that have rows in it."""
        return nw.concat(list(self._members(offsets).values()), how="diagonal")

    def batch(self, epoch: Epoch, offsets: OffsetRange) -> Batch:
        """As `read`, with the rows of each member in `Batch.topics`."""
        members, remaining = self._members(offsets), self.bulk.remaining(offsets.until.get(BULK))
        rows = nw.concat(list(members.values()), how="diagonal")
        read = OffsetRange((offsets.after or {}).get(BULK), offsets.until[BULK]) if BULK in members else None
        ranges = self.bulk.ranges(read) if read else {}
        return Batch(epoch, rows, offsets, self.format, topics=members, remaining=remaining, ranges=ranges)

    def passed_over(self) -> Mapping[str, int]:
        """The skipped messages of the changelog."""
        return self.changelog.passed_over()

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Read dead letters of the changelog again; the format of the bulk's is not in `reread_formats`."""
        return self.changelog.reread(letters).with_columns(nw.lit(CHANGELOG).alias(TOPIC))

    def lag(self, after: Offsets | None) -> str:
        """The unread input of both members, for display."""
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
