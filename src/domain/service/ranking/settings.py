"""The settings of a ranking pipeline, and the checks of their combinations."""

from __future__ import annotations

from typing import ClassVar

from attrs import asdict, field, frozen

from ...errors import ConfigError
from ...source.decoding import decoding_of, key_decoding, subtracted_decoding
from ...source.record_spec import RecordSpec
from ...table.column_checks import check_flat, check_own_names, free_name
from ...table.fingerprint import changed_settings, fingerprint, fix_found_by
from ...table.schema import TIMES, Schema
from ..base import one_of
from ..segments import Segments

METHODS = ("dense_rank", "rank", "row_number")
RANK = "rank"


@frozen
class RankingSettings:
    """The settings of a ranking pipeline.

    Args:
        pipeline: the pipeline's name.
        schema: the columns of the source's rows.
        group: the columns of the group; a row in which one of them is null is a dead letter.
        id: the columns that identify a row; a row replaces an earlier row with the same id.
        order_by: the order column: a timestamp, date or number.
        descending: whether the highest order value has rank 1.
        method: one of `METHODS`, with the meaning that it has in SQL.
        tie_break: for ``row_number``, the columns that order rows with equal order values, then the id. A leading ``-``
            means descending. Nulls are last.
        segment: the length of a segment: a duration for times (``1d``), else a number.
        offset: where segment 0 starts, in the same form.
        time_zone: IANA zone of segments of whole days, if the order column is a time.
        nulls: whether rows without an order value rank ``first`` or ``last``; they are equal to each other.
        event_time: the column of the watermark; None for no watermark.
        top: the number of ranks in the view `top`.
        repeats: where the earlier row of an id can be. ``anywhere``: in any segment; each epoch then reads the ids of
            all files whose range of ids overlaps that of the batch. ``same-segment``: in the group and segment of the
            new record; each epoch then reads the ids of such files in its own segments. This is right for events that
            stay in their group and segment, and for changelogs with complete before images.
        records: how the source's records are read; None: not on record.
    """

    kind: ClassVar[str] = "ranking"

    pipeline: str
    schema: Schema
    group: tuple[str, ...] = field(converter=tuple[str, ...])
    id: tuple[str, ...] = field(converter=tuple[str, ...])
    order_by: str
    descending: bool = False
    method: str = field(default="dense_rank", validator=one_of(*METHODS))
    tie_break: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    segment: str = "1d"
    offset: str = "0s"
    time_zone: str = "UTC"
    nulls: str = field(default="last", validator=one_of("first", "last"))
    event_time: str | None = None
    top: int = 10
    repeats: str = field(default="anywhere", validator=one_of("anywhere", "same-segment"))
    records: RecordSpec | None = field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        self._check_choices()
        self._check_columns()

    def _check_choices(self) -> None:
        if self.method == "row_number" and not self.tie_break:
            raise ConfigError("method row_number needs tie_break: without it, equal order values have no certain order")
        if self.method != "row_number" and self.tie_break:
            raise ConfigError(f"tie_break is for row_number; {self.method} gives equal order values equal ranks")
        if self.top < 1:
            raise ConfigError(f"top = {self.top} must be at least 1")

    def _check_columns(self) -> None:
        if not self.group or not self.id:
            raise ConfigError("group and id need at least one column each")
        ties = tuple(name.removeprefix("-") for name in self.tie_break)
        for what, names in (
            ("group", self.group),
            ("id", self.id),
            ("order_by", (self.order_by,)),
            ("tie_break", ties),
        ):
            for name in names:
                check_flat(f"{what} column {name!r}", self.schema[name])
        check_own_names(self.schema.names)
        if self.event_time and self.schema[self.event_time].name not in TIMES:
            raise ConfigError(f"event_time {self.event_time!r} must be a timestamp or date")

    @property
    def rank(self) -> str:
        """The name of the rank column in views: `rank`, or `_rank` if the source has a column `rank`."""
        return self.column_name(RANK)

    def column_name(self, column: str) -> str:
        """Return the name of one of our columns in views: with a leading `_` if the source has that name."""
        return free_name(column, self.schema.names)

    @property
    def segments(self) -> Segments:
        """How the order column is divided.

        Raises:
            ConfigError: it cannot be divided so.
        """
        return Segments.of(
            self.order_by,
            self.schema[self.order_by],
            interval=self.segment,
            offset=self.offset,
            zone=self.time_zone,
            nulls_lowest=(self.nulls == "first") != self.descending,
        )

    @property
    def fingerprint(self) -> str:
        """A text that changes with every setting that stored rows depend on."""
        values = asdict(
            self,
            filter=lambda attribute, _: attribute.name not in {"top", "repeats", "event_time", "schema", "records"},
        )
        if self.segments.is_corrected(self.schema[self.order_by]):
            values["segment"] = f"{self.segment} (divided exactly)"
        other_name = "" if self.rank == RANK else f" {self.rank}"
        text = f"{sorted(values.items())} {self.schema[self.order_by].ddl}{other_name}"
        order = f"{'-' if self.descending else ''}{self.order_by} ({self.schema[self.order_by].ddl})"
        columns = {name: ", ".join(getattr(self, name)) or "none" for name in ("group", "id", "tie_break")}
        own = {name: values[name] for name in ("method", "segment", "offset", "time_zone", "nulls")}
        return fingerprint(
            text,
            {**columns, "order_by": order, **own},
            views={"top": self.top},
            decoding=decoding_of(self.records),
            fixed_decoding=key_decoding(self.records, self.id),
            found_by=self._found_by,
        )

    @property
    def _found_by(self) -> dict[str, str]:
        """The settings of the source that decide where ``same-segment`` looks for the earlier row of an id."""
        columns = (*self.group, *self.id, self.order_by)
        return {**subtracted_decoding(self.records, columns), **key_decoding(self.records, columns)}

    def changed(self, built: str) -> str | None:
        """Return the settings that differ from the fingerprint of the tables; None if none does.

        With ``same-segment`` they include each setting of the source that decides where a row is found, if an epoch so
        far was read by another value of it.
        """
        now = self.fingerprint
        changed = changed_settings(built, now)
        if self.repeats == "anywhere":
            return changed
        found_by = changed_settings(fix_found_by(built), fix_found_by(now))
        if changed or not found_by:
            return found_by
        return f'{found_by} (repeats = "same-segment" finds stored rows by these; "anywhere" does not)'
