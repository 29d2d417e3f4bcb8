"""What to count, and which combinations of it make sense."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from attrs import field, frozen

from ..changelog.log import IN_LOG
from ..errors import ConfigError
from ..fingerprint import fingerprint
from ..groups import check_groupable
from ..measures import Measure, described
from ..schema import INTEGERS, TIMES, Schema, check_own_names, free_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .past import PastTable

_DAY = "day"
AUTO, NONE = "auto", "none"
STOP, ACCEPT = "stop", "accept"
LOG_RESETS = (STOP, ACCEPT)
REPEAT_WINDOW = timedelta(minutes=10)
"""How far back a repeat may go, if `RetractionSettings.repeat_window` does not say."""
LAST_FILES = 3
"""A repeat is of one of the last log files, if `RetractionSettings.repeat_window` does not say how far back it goes."""


def _identity(given: str | Iterable[str]) -> str | tuple[str, ...]:
    """A word, or columns; no column at all is ``none``."""
    return given if isinstance(given, str) else tuple(given) or NONE


@frozen
class RetractionSettings:
    """What to count.

    Args:
        pipeline: the pipeline's name.
        schema: the columns of the source's rows.
        group: columns of the group; null is a group of its own. None: one group of all rows.
        measures: what is computed for each group.
        updated_at: the column that files a change under its day: when the row, as it is now, was updated. The old
            image of an update is filed with its new one.
        deleted_at: the same for deletes, whose image tells of the update before; `updated_at`, if not given.
        time_zone: IANA zone of the days.
        same_time: whether both images of an update bear the same `updated_at`, as what a message says of itself does.
        identity: what places a change in its log; a change that is not beyond the newest place read of its log is a
            repeat. ``auto``: its `LOG_COLUMNS`, where rows have them (`tells_log`); a row without a place counts.
            ``none``: every row counts. Or columns, such as file, position and row, each bigint, or a string with a
            number at its end; a row without a place is a dead letter, and each partition of the source is one log.
        tells_log: whether rows have `LOG_COLUMNS`.
        unplaced: whether the source's messages are of a log, but do not say where in it they stand.
        repeat_window: how far back in commit time a repeat may go; one that goes back further stops the run. None:
            `REPEAT_WINDOW`, and no further than the `LAST_FILES` last files.
        log_reset: what becomes of a place that goes back further: ``stop``: an error; ``accept``: a new log begins.
        event_time: the column that the watermark follows; None for no watermark.
        roll_after: days go into the past by themselves when the watermark has passed their end by this; None: they
            wait to be told.
        past: the table of the user's own that the past is replaced by; None: it is made up of the days that passed.
    """

    pipeline: str
    schema: Schema
    measures: tuple[Measure, ...] = field(converter=tuple[Measure, ...])
    updated_at: str
    group: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    deleted_at: str | None = None
    time_zone: str = "UTC"
    same_time: bool = False
    identity: str | tuple[str, ...] = field(default=AUTO, converter=_identity)
    tells_log: bool = False
    unplaced: bool = False
    repeat_window: timedelta | None = None
    log_reset: str = STOP
    event_time: str | None = None
    roll_after: timedelta | None = None
    past: PastTable | None = None

    def __attrs_post_init__(self) -> None:
        if not self.measures:
            raise ConfigError('measures needs at least one, such as { orders = "count(*)" }')
        self._check_columns()
        self._check_times()
        if self.past:
            self.past.check(self.measures)
            if self.roll_after is not None:
                raise ConfigError("roll_after is for a past of our own; with `past` it is replaced by `headwater roll`")
        elif self.roll_after is not None and self.event_time is None:
            raise ConfigError("roll_after goes by the watermark, so the source needs event_time")

    def _check_columns(self) -> None:
        for name in self.group:
            check_groupable(name, self.schema[name])
        if self.identity not in (AUTO, NONE) and isinstance(self.identity, str):
            raise ConfigError(f"identity {self.identity!r} is not {AUTO}, {NONE} or a list of columns")
        for name in self.columns_of_identity:
            if (kind := self.schema[name]).name != "string" and kind.name not in INTEGERS:
                raise ConfigError(f"identity column {name!r} must be a bigint or a string, not {kind.ddl}")
        check_own_names((*self._answered, *self.schema.names))
        lower = [name.lower() for name in self._answered]
        if twice := {name for name in self._answered if lower.count(name.lower()) > 1}:
            raise ConfigError(f"{', '.join(sorted(twice))}: measures and groups need different names")

    def _check_times(self) -> None:
        times = (self.updated_at, self.deleted_at, self.event_time)
        for name in filter(None, times):
            if self.schema[name].name not in TIMES:
                raise ConfigError(f"column {name!r} must be a timestamp or date, not {self.schema[name].ddl}")
        if self.deleted_at and self.schema[self.deleted_at] != self.schema[self.updated_at]:
            raise ConfigError("deleted_at and updated_at must have the same type")

    @property
    def _answered(self) -> tuple[str, ...]:
        return (*self.group, *(measure.name for measure in self.measures))

    @property
    def day(self) -> str:
        """The column of the day that views show: `day`, or `_day` beside a group or measure that is called so."""
        return free_name(_DAY, self._answered)

    @property
    def columns_of_identity(self) -> tuple[str, ...]:
        """The columns that `identity` names; none if it is a word."""
        return () if isinstance(self.identity, str) else self.identity

    @property
    def placed_by(self) -> tuple[str, ...]:
        """The columns that place a change in its log; none if every row counts."""
        return IN_LOG if self.identity == AUTO and self.tells_log else self.columns_of_identity

    @property
    def groups(self) -> Schema:
        """The columns of the group."""
        return self.schema.select(self.group)

    @property
    def counted(self) -> tuple[str, ...]:
        """The columns that answers depend on: those of the group, and what measures are over."""
        read = {name.lower() for measure in self.measures for name in measure.columns}
        return tuple(name for name in self.schema.names if name in self.group or name.lower() in read)

    @property
    def fingerprint(self) -> str:
        """Changes with every setting that stored rows depend on."""
        measures = sorted(
            (each.name, each.aggregate.function, each.argument, each.condition, each.type.ddl) for each in self.measures
        )
        named = self.columns_of_identity
        filed = (self.updated_at, self.deleted_at, self.time_zone, self.same_time, named, bool(self.past))
        text = f"retraction {self.groups.ddl} {measures} {filed}"
        settings = {
            "group": self.groups.ddl or "none",
            "measures": described(self.measures),
            "updated_at": self.updated_at,
            "deleted_at": self.deleted_at,
            "time_zone": self.time_zone,
            "identity": ", ".join(named) or "auto or none",
            "past": "a table of yours" if self.past else "made of the days that passed",
        }
        return fingerprint(text, settings)
