"""Where the rows of a bulk load come from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

import narwhals as nw
from attrs import field, frozen

from ..epoch.epoch import OffsetRange, Offsets
from ..epoch.key_range import KeyRange
from ..table.schema import Schema


@frozen(eq=False)
class BulkRows:
    """The rows of some chunks of a bulk load.

    Args:
        rows: columns of `BulkSource.schema`, `bulk.CHUNK`, `bulk.SEARCH_TS` and `BATCH_COLUMNS`. If rows have a
            position, it is the changelog's position before the read: every change after it is newer than the row or
            already in it. The columns `bulk.reach_of` then hold the changelog's position after the read: the rows may
            be shown once the changelog has been read up to there.
        ranges: the range of the first key column of each chunk, by chunk number; empty if chunks are `repeatable`. No
            read of a chunk has keys outside of its range.
    """

    rows: nw.LazyFrame[Any]
    ranges: Mapping[int, KeyRange] = field(factory=dict)


class BulkFaults(Protocol):
    """What of a bulk load cannot be read, or not again."""

    @property
    @abstractmethod
    def trouble(self) -> tuple[str, ...]:
        """Messages about the chunks whose last read failed, each with the reason."""

    def set_aside(self, offsets: OffsetRange) -> tuple[str, ...]:  # noqa: ARG002 - overriding methods use it
        """Set aside what cannot be read of a range, after an epoch that reads the range has failed.

        `plan` then skips these chunks, and the range is no longer `readable`.

        Returns:
            Messages about these chunks. By default there are none: `plan` finds all chunks that cannot be read.
        """
        return ()

    def check_after(self, after: Offsets | None) -> None:  # noqa: ARG002 - overriding methods use it
        """Check that the load continues after these offsets, as far as no network is needed to know.

        Args:
            after: the offsets so far; None if nothing has been read.

        Raises:
            ConfigError: nothing has been read, and there is nothing to read from.
            SourceChanged: rows read before are gone or have been rewritten.
        """
        return  # by default a source finds out when it plans

    def check_complete(self, until: Offsets | None) -> None:  # noqa: ARG002 - overriding methods use it
        """Check that a new load finds all rows again that were read up to some offsets.

        By default it does: a database and a Delta table are read as they are now.

        Raises:
            SourceChanged: rows that were read are gone.
        """
        return


class BulkSource(BulkFaults, Protocol):
    """A table that is read once, in chunks, each with the time or the log position of its read.

    The offsets record which chunks are done. They stay small for any number of chunks.
    """

    schema: Schema
    """The columns of its rows, without those that `read` adds."""

    repeatable: bool
    """Whether a second read of a chunk returns the same rows: true for files, false for a database."""

    @abstractmethod
    def plan(self, after: Offsets | None, watermark: datetime | None) -> OffsetRange | None:
        """The next chunks to read, few enough that changes need not wait; None if all are read or no chunk is due.

        A chunk that cannot be read is skipped for now, so that the others continue; `trouble` reports it.

        Args:
            after: the offsets so far.
            watermark: the changelog's watermark (UTC). Rows that cannot be shown before the watermark reaches a known
                time may be read only then.

        Raises:
            SourceUnavailable: a temporary fault.
            SourceChanged: rows read before are gone or have been rewritten.
        """

    def find_trouble(self, after: Offsets | None, watermark: datetime | None) -> tuple[str, ...]:
        """As `trouble`, also in a process that does not plan the chunks; it may have to look for what cannot be read.

        By default it plans the chunks itself, if they are `repeatable`. Arguments and errors are those of `plan`.
        """
        if self.repeatable:
            self.plan(after, watermark)
        return self.trouble

    @abstractmethod
    def read(self, offsets: OffsetRange) -> BulkRows:
        """The rows of the chunks of a range."""

    def readable(self, offsets: OffsetRange) -> bool:  # noqa: ARG002 - overriding methods use it
        """See `Source.readable`.

        If a chunk may have other rows on a second read, the source must plan different offsets, so that the commits of
        the first try are rolled back.
        """
        return self.repeatable

    @abstractmethod
    def remaining(self, after: Offsets | None) -> tuple[KeyRange, ...]:
        """Ranges of the first key column that unfinished chunks may contain: a few, and none once all are done."""

    @abstractmethod
    def lag(self, after: Offsets | None) -> str:
        """The amount of unread input after these offsets, for display, with its unit; empty if all is read."""
