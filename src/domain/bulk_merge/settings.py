"""What to load and follow, and which combinations of it make sense."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from attrs import field, frozen

from ..changelog.settings import CHANGE_FORMATS, NONE
from ..duration import show_duration
from ..errors import ConfigError
from ..fingerprint import fingerprint
from ..schema import Column, Schema, check_compared, check_own_names

if TYPE_CHECKING:
    from datetime import datetime

    from ..source import RecordSpec

EXACT, UPSERT = "exact", "upsert"
MODES = (EXACT, UPSERT)
HISTORY = timedelta(days=1)


@frozen
class BulkMergeSettings:
    """A table that is loaded in bulk and follows its changelog at the same time.

    Args:
        pipeline: the pipeline's name.
        key: columns that name a row.
        columns: those that rows show, the key first.
        changelog: how the changelog's records are read.
        event_time: the column of the changelog that says when a change was made; None where nothing does.
        watermark_delay: how far the newest event time runs ahead of completeness.
        position: columns, of the changelog and of the bulk, by which of two images of a row the newer one is told,
            compared from the first to the last; none where they share no position.
        search_ts: when the bulk was read, or its column that says so (`BulkSpec`).
        delay: how long after its `search_ts` a bulk row waits for changes that came before.
        mode: ``exact``: a bulk row waits until the changelog has come as far; ``upsert``: it shows at once, unless a
            change of its key came first.
        history: how far behind the watermark rows can still be read as of an event time.
        repeatable: whether a chunk of the bulk that is read again has the same rows.
        lanes: whether the changelog is several logs, each in order of itself alone (partitions of a topic).
    """

    pipeline: str
    key: tuple[str, ...] = field(converter=tuple[str, ...])
    columns: tuple[str, ...] = field(converter=tuple[str, ...])
    changelog: RecordSpec
    event_time: str | None = None
    watermark_delay: timedelta = timedelta()
    position: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    search_ts: datetime | str | None = None
    delay: timedelta = timedelta()
    mode: str = EXACT
    history: timedelta = HISTORY
    repeatable: bool = True
    lanes: bool = False

    def __attrs_post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"mode = {self.mode!r} is not one of {', '.join(MODES)}")
        for name in self.key:
            check_compared(f"key column {name!r}", self.schema[name])
        for name in self.position:
            check_compared(f"position {name!r}", self.schema[name])
        check_own_names((*self.schema.names, *self.columns))
        if not set(self.key) < set(self.columns):
            raise ConfigError("columns needs the key, and at least one column beside it")
        self._check_times()

    def _check_times(self) -> None:
        if self.event_time and self.schema[self.event_time].name != "timestamp":
            raise ConfigError(
                f"event_time {self.event_time!r} must be a timestamp, not {self.schema[self.event_time].ddl}"
            )
        if self.history <= timedelta():
            raise ConfigError("history must be longer than nothing; write a duration such as '1d'")
        if self.mode == EXACT and not self.position and not self.timed:
            raise ConfigError(
                "a bulk row waits for the changelog's position or for its watermark: name the `position` that both"
                ' share, or give the changelog an event_time; or choose mode = "upsert"'
            )

    @property
    def schema(self) -> Schema:
        """The columns of the changelog's rows."""
        return self.changelog.columns

    @property
    def rows(self) -> Schema:
        """The columns that rows show."""
        return self.schema.select(self.columns)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The key with its types."""
        return self.schema.select(self.key).columns

    @property
    def values(self) -> tuple[str, ...]:
        """The columns beside the key."""
        return tuple(name for name in self.columns if name not in self.key)

    @property
    def waits(self) -> bool:
        """Whether bulk rows wait until the changelog has come as far as they."""
        return self.mode == EXACT

    @property
    def timed(self) -> bool:
        """Whether rows can be read as of an event time."""
        return self.waits and (self.event_time is not None or self.whole)

    @property
    def whole(self) -> bool:
        """Whether changes count as whole transactions, at the moments of their commits."""
        return self.waits and self.changelog.transactions != NONE

    @property
    def tells_before(self) -> bool:
        """Whether every change brings the image that it replaces."""
        return self.changelog.format in CHANGE_FORMATS and self.changelog.changes.before == "required"

    @property
    def fingerprint(self) -> str:
        """Changes with every setting that stored rows depend on."""
        ordered = [(name, self.schema[name].ddl) for name in self.position]
        text = f"bulk_merge {self.key} {self.rows.ddl} {ordered} {self.mode} {self.timed} {self.whole} {self.history}"
        settings = {
            "key": ", ".join(self.key),
            "columns": self.rows.ddl,
            "position": ", ".join(self.position) or "none",
            "mode": self.mode,
            "event_time": self.event_time,
            "transactions": self.changelog.transactions,
            "history": show_duration(self.history),
        }
        return fingerprint(text, settings)
