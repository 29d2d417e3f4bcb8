"""The settings of a bulk merge, and the checks of their combinations."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import ClassVar

from attrs import field, frozen

from ...duration import show_duration
from ...errors import ConfigError
from ...source.changelog.settings import CHANGE_FORMATS, COUNTED, NONE
from ...source.decoding import decoding_of, key_decoding
from ...source.record_spec import RecordSpec
from ...table.column_checks import check_compared, check_own_names
from ...table.fingerprint import fingerprint
from ...table.schema import Column, Schema
from ..base import one_of

EXACT, UPSERT = "exact", "upsert"
MODES = (EXACT, UPSERT)
HISTORY = timedelta(days=1)


@frozen
class BulkMergeSettings:
    """The settings of a table that is loaded in bulk while its changelog is followed.

    Args:
        pipeline: the pipeline's name.
        key: columns that name a row.
        columns: the columns of view `rows`, the key first.
        changelog: how the changelog's records are read.
        event_time: the column of the changelog with the time of a change; None if there is no such column.
        watermark_delay: how late rows may be.
        position: columns of both the changelog and the bulk; they decide which of two images of a row is newer.
            They are compared from the first to the last. Empty if the two share no position.
        search_ts: the time at which the bulk was read, or the name of the column with this time (`BulkSpec`).
        delay: how long a bulk row waits after its `search_ts` for changes that were made before.
        mode: ``exact``: a bulk row waits until the changelog has caught up with it; ``upsert``: it is visible
            immediately, unless a change of its key came first.
        history: how far behind the watermark rows can still be read as of an event time.
        repeatable: whether a chunk of the bulk has the same rows each time it is read.
        grows: whether chunks may be added that were not known when the load began.
        lanes: whether the changelog consists of several logs that are ordered only in themselves (topic partitions).
    """

    kind: ClassVar[str] = "bulk_merge"

    pipeline: str
    key: tuple[str, ...] = field(converter=tuple[str, ...])
    columns: tuple[str, ...] = field(converter=tuple[str, ...])
    changelog: RecordSpec
    event_time: str | None = None
    watermark_delay: timedelta = timedelta()
    position: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    search_ts: datetime | str | None = None
    delay: timedelta = timedelta()
    mode: str = field(default=EXACT, validator=one_of(*MODES))
    history: timedelta = HISTORY
    repeatable: bool = True
    grows: bool = False
    lanes: bool = False

    def __attrs_post_init__(self) -> None:
        for name in self.key:
            check_compared(f"key column {name!r}", self.schema[name])
        for name in self.position:
            check_compared(f"position {name!r}", self.schema[name])
        check_own_names((*self.schema.names, *self.columns))
        if not set(self.key) < set(self.columns):
            raise ConfigError("columns must contain the key and at least one other column")
        self._check_times()

    def _check_times(self) -> None:
        if self.event_time and self.schema[self.event_time].name != "timestamp":
            raise ConfigError(
                f"event_time {self.event_time!r} must be a timestamp, not {self.schema[self.event_time].ddl}"
            )
        if self.history <= timedelta():
            raise ConfigError("history must be longer than 0; write a duration such as '1d'")
        if self.mode == EXACT and not self.position and not self.timed:
            raise ConfigError(
                'mode = "exact" needs a position or an event time: set `position` to the columns that the bulk and the'
                ' changelog share, or set event_time in the changelog\'s source; or choose mode = "upsert"'
            )

    @property
    def schema(self) -> Schema:
        """The columns of the changelog's rows."""
        return self.changelog.columns

    @property
    def rows(self) -> Schema:
        """The columns of view `rows`."""
        return self.schema.select(self.columns)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        return self.schema.select(self.key).columns

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that are not part of the key."""
        return tuple(name for name in self.columns if name not in self.key)

    @property
    def waits(self) -> bool:
        """Whether bulk rows wait until the changelog has caught up with them."""
        return self.mode == EXACT

    @property
    def timed(self) -> bool:
        """Whether rows can be read as of an event time."""
        return self.waits and (self.event_time is not None or self.transactional)

    @property
    def same_time(self) -> bool:
        """Whether `event_time` is metadata of a message: then all its images have the time of their change."""
        return self.event_time in self.changelog.changes.metadata

    @property
    def undated(self) -> str | None:
        """Why it is unknown when rows were deleted, for display; None if it is known."""
        is_known = self.transactional or self.same_time or self.changelog.format not in CHANGE_FORMATS
        if is_known or not self.timed:
            return None
        return (
            f"event_time {self.event_time} is a column of the row, so a deleted row has the time of an earlier change:"
            ' read the time of each change, metadata = { at = "commit_time" }, and set event_time = "at"'
        )

    @property
    def transactional(self) -> bool:
        """Whether changes are applied as whole transactions, at their commit times."""
        return self.waits and self.changelog.transactions != NONE

    @property
    def counted(self) -> bool:
        """Whether a transaction is complete when all of its events have been read, in whatever order they arrive."""
        return self.transactional and self.changelog.transactions == COUNTED

    @property
    def has_before_images(self) -> bool:
        """Whether every change contains its before-image."""
        return self.changelog.format in CHANGE_FORMATS and self.changelog.changes.before == "required"

    @property
    def follows(self) -> bool:
        """Whether a chunk is exact from the newest event time at which it settles, not from the time it was read.

        With positions, only the log knows the event time of a position. Without before-images in the changes, the rows
        of earlier times are unknown.
        """
        return bool(self.position) or not self.has_before_images

    @property
    def fingerprint(self) -> str:
        """Changes with every setting that stored rows depend on."""
        ordered = [(name, self.schema[name].ddl) for name in self.position]
        parts = f"{self.key} {self.rows.ddl} {ordered} {self.mode} {self.timed} {self.transactional} {self.history}"
        text = f"bulk_merge {parts}"
        settings = {
            "key": ", ".join(self.key),
            "columns": self.rows.ddl,
            "position": ", ".join(self.position) or "none",
            "mode": self.mode,
            "event_time": self.event_time,
            "transactions": self.changelog.transactions,
            "history": show_duration(self.history),
        }
        fixed = key_decoding(self.changelog, (*self.key, *self.position))
        return fingerprint(text, settings, decoding=decoding_of(self.changelog), fixed_decoding=fixed)
