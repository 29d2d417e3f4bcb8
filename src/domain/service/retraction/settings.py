"""The settings of a retraction pipeline, and the checks of their combinations."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import ClassVar

from attrs import field, frozen

from ...errors import ConfigError
from ...source.changelog.log_columns import IN_LOG
from ...source.decoding import decoding_of, subtracted_decoding
from ...source.record_spec import RecordSpec
from ...table.column_checks import check_own_names, free_name
from ...table.fingerprint import fingerprint
from ...table.groups import check_groupable
from ...table.schema import INTEGERS, TIMES, Schema
from ..measures import Measure, describe, fixed_parts
from .past import PastTable

_DAY = "day"
AUTO, NONE = "auto", "none"
PAST, GIVEN_PAST = "past", "a table of yours"
"""The setting in a fingerprint, and its value for a user-supplied past."""
STOP, ACCEPT = "stop", "accept"
LOG_RESETS = (STOP, ACCEPT)
REPEAT_WINDOW = timedelta(minutes=10)
"""How far back a repeat may go, if `RetractionSettings.repeat_window` is not set."""
LAST_FILES = 3
"""How many log files back a repeat may go, if `RetractionSettings.repeat_window` is not set."""


def _to_identity(value: str | Iterable[str]) -> str | tuple[str, ...]:
    """Return a word as it is, columns as a tuple, and ``none`` for an empty list of columns."""
    return value if isinstance(value, str) else tuple(value) or NONE


@frozen
class RetractionSettings:
    """The settings of a retraction pipeline.

    Args:
        pipeline: the pipeline's name.
        schema: the columns of the source's rows.
        group: columns of the group; null is a separate group. If empty, all rows are one group.
        measures: the measures of each group.
        updated_at: the column with the time at which the row, as it is now, was updated. The day of a change is the day
            of this time. The old image of an update has the day of the new image.
        deleted_at: the same for deletes, because `updated_at` of a deleted row is the time of the update before;
            `updated_at` if not set.
        time_zone: IANA zone of the days.
        same_time: whether both images of an update have the same `updated_at`, as metadata of a message does.
        identity: the columns of a change's position in its log. A change at or before the highest position that was
            read from its log is a repeat. ``auto``: `LOG_COLUMNS`, if rows have them (`tells_log`); a row without a
            position counts. ``none``: every row counts. Or columns, such as file, position and row, each an integer, or
            a string with a number at its end; a row without a position is a dead letter, and each partition of the
            source is one log.
        tells_log: whether rows have `LOG_COLUMNS`.
        unplaced: whether the source's messages are those of a log, but lack the position in it.
        repeat_window: how far back in commit time a repeat may go; a change that goes back further stops the run. None:
            `REPEAT_WINDOW`, and at most the last `LAST_FILES` log files.
        log_reset: the treatment of a change that goes back further: ``stop`` raises an error, ``accept`` starts a new
            log.
        event_time: the column of the watermark; None for no watermark.
        roll_after: a day moves into the past when the watermark is later than its end by this time; None: only a
            command moves days.
        past: a user-supplied table that replaces the past; None: the past is the sum of the days before the cut.
        records: how the source's records are read; None: not on record.
    """

    kind: ClassVar[str] = "retraction"

    pipeline: str
    schema: Schema
    measures: tuple[Measure, ...] = field(converter=tuple[Measure, ...])
    updated_at: str
    group: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    deleted_at: str | None = None
    time_zone: str = "UTC"
    same_time: bool = False
    identity: str | tuple[str, ...] = field(default=AUTO, converter=_to_identity)
    tells_log: bool = False
    unplaced: bool = False
    repeat_window: timedelta | None = None
    log_reset: str = STOP
    event_time: str | None = None
    roll_after: timedelta | None = None
    past: PastTable | None = None
    records: RecordSpec | None = field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if not self.measures:
            raise ConfigError('measures needs at least one, such as { orders = "count(*)" }')
        self._check_columns()
        self._check_times()
        if self.past:
            self.past.check(self.measures)
            if self.roll_after is not None:
                raise ConfigError("roll_after is only for Headwater's own past; with `past`, use `roll` instead")
        elif self.roll_after is not None and self.event_time is None:
            raise ConfigError("roll_after goes by the watermark, so the source needs event_time")

    def _check_columns(self) -> None:
        for name in self.group:
            check_groupable(name, self.schema[name])
        if self.identity not in (AUTO, NONE) and isinstance(self.identity, str):
            raise ConfigError(f"identity {self.identity!r} is not {AUTO}, {NONE} or a list of columns")
        for name in self.identity_columns:
            if (kind := self.schema[name]).name != "string" and kind.name not in INTEGERS:
                raise ConfigError(f"identity column {name!r} must be a bigint or a string, not {kind.ddl}")
        check_own_names((*self._answer_columns, *self.schema.names))
        lower = [name.lower() for name in self._answer_columns]
        if repeated := {name for name in self._answer_columns if lower.count(name.lower()) > 1}:
            raise ConfigError(f"measures: {', '.join(sorted(repeated))}: measures and groups need different names")

    def _check_times(self) -> None:
        for key in ("updated_at", "deleted_at", "event_time"):
            name = getattr(self, key)
            if name and self.schema[name].name not in TIMES:
                raise ConfigError(f"{key}: column {name!r} must be a timestamp or date, not {self.schema[name].ddl}")
        if self.deleted_at and self.schema[self.deleted_at] != self.schema[self.updated_at]:
            raise ConfigError("deleted_at and updated_at must have the same type")

    @property
    def _answer_columns(self) -> tuple[str, ...]:
        return (*self.group, *(measure.name for measure in self.measures))

    @property
    def day(self) -> str:
        """The name of the day column in views: `day`, or `_day` if a group column or a measure is called `day`."""
        return free_name(_DAY, self._answer_columns)

    @property
    def identity_columns(self) -> tuple[str, ...]:
        """The columns in `identity`; empty if it is ``auto`` or ``none``."""
        return () if isinstance(self.identity, str) else self.identity

    @property
    def place_columns(self) -> tuple[str, ...]:
        """The columns of a change's position in its log; empty if every row counts."""
        return IN_LOG if self.identity == AUTO and self.tells_log else self.identity_columns

    @property
    def names_logs(self) -> bool:
        """Whether positions are those in the logs that messages name."""
        return self.place_columns == IN_LOG

    @property
    def has_wall_watermark(self) -> bool:
        """Whether event times have no zone (a date or a timestamp_ntz), so that the watermark is a wall time."""
        return self.event_time is not None and self.schema[self.event_time].name != "timestamp"

    @property
    def groups(self) -> Schema:
        return self.schema.select(self.group)

    @property
    def used_columns(self) -> tuple[str, ...]:
        """The columns that views depend on: those of the group and of the measures."""
        in_measures = {name.lower() for measure in self.measures for name in measure.columns}
        return tuple(name for name in self.schema.names if name in self.group or name.lower() in in_measures)

    @property
    def fingerprint(self) -> str:
        """A text that changes with every setting that stored rows depend on."""
        measures = fixed_parts(self.measures)
        identity = self.identity_columns
        others = (self.updated_at, self.deleted_at, self.time_zone, self.same_time, identity, bool(self.past))
        text = f"retraction {self.groups.ddl} {measures} {others}"
        settings = {
            "group": self.groups.ddl or "none",
            "measures": describe(self.measures),
            "updated_at": self.updated_at,
            "deleted_at": self.deleted_at,
            "time_zone": self.time_zone,
            "identity": ", ".join(identity) or "auto or none",
            PAST: GIVEN_PAST if self.past else "made of the days that passed",
        }
        typed = dict.fromkeys((*self.used_columns, *filter(None, (self.updated_at, self.deleted_at))))
        return fingerprint(
            text,
            settings,
            columns=self.schema.select(typed),  # the day depends on the type of a time
            decoding=decoding_of(self.records),
            fixed_decoding=subtracted_decoding(self.records, typed),
        )
