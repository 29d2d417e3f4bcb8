"""What to rank by, and which combinations of it make sense."""

from __future__ import annotations

from attrs import asdict, field, frozen

from ..errors import ConfigError
from ..fingerprint import fingerprint
from ..schema import TIMES, Schema, check_own_names, free_name

METHODS = ("dense_rank", "rank", "row_number")
RANK = "rank"


@frozen
class RankingSettings:
    """What to rank by.

    Args:
        pipeline: the pipeline's name.
        schema: the columns of the source's rows.
        group: columns of the group; a row in which one is null goes to the dead letters.
        id: columns that identify a row; a row whose id came before replaces the earlier one.
        order_by: the order column: a timestamp, date or number.
        descending: whether the highest order value has rank 1.
        method: one of `METHODS`, with SQL's meaning.
        tie_break: columns that order equal values for ``row_number``, a leading ``-`` for descending, nulls last; the
            id comes behind them.
        segment: length of a segment, a duration for times (``1d``), else a number.
        offset: where segments start, likewise.
        time_zone: IANA zone whose days segments are, where the order column is a time.
        nulls: whether rows without an order value rank ``first`` or ``last``; they are equal to each other.
        event_time: the column that the watermark follows; None for no watermark.
        top: how many ranks the view `top` shows.
        repeats: where the earlier row of an id may be. ``anywhere``: wherever it is, which costs a look at the ids of
            those files whose range of ids overlaps the batch's. ``same-segment``: in the group and segment that the
            new record names, which costs nothing more: right for events that never change and for changelogs with
            complete before images.
    """

    pipeline: str
    schema: Schema
    group: tuple[str, ...] = field(converter=tuple[str, ...])
    id: tuple[str, ...] = field(converter=tuple[str, ...])
    order_by: str
    descending: bool = False
    method: str = "dense_rank"
    tie_break: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    segment: str = "1d"
    offset: str = "0s"
    time_zone: str = "UTC"
    nulls: str = "last"
    event_time: str | None = None
    top: int = 10
    repeats: str = "anywhere"

    def __attrs_post_init__(self) -> None:
        self._check_choices()
        self._check_columns()

    def _check_choices(self) -> None:
        for name, value, allowed in (
            ("method", self.method, METHODS),
            ("nulls", self.nulls, ("first", "last")),
            ("repeats", self.repeats, ("anywhere", "same-segment")),
        ):
            if value not in allowed:
                raise ConfigError(f"{name} = {value!r} is not one of {', '.join(allowed)}")
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
        for name in (*self.group, *self.id, self.order_by, *ties, *filter(None, [self.event_time])):
            if name not in self.schema:
                raise ConfigError(f"no column {name!r}; there are: {', '.join(self.schema.names)}")
        check_own_names(self.schema.names)
        if self.event_time and self.schema[self.event_time].name not in TIMES:
            raise ConfigError(f"event_time {self.event_time!r} must be a timestamp or date")

    @property
    def rank(self) -> str:
        """The column of the rank: `rank`, or `_rank` beside a column of the source that is called so."""
        return self.named(RANK)

    def named(self, column: str) -> str:
        """The name of a column that views show beside those of the source."""
        return free_name(column, self.schema.names)

    @property
    def fingerprint(self) -> str:
        """Changes with every setting that stored rows depend on."""
        kept = asdict(
            self, filter=lambda attribute, _: attribute.name not in {"top", "repeats", "event_time", "schema"}
        )
        renamed = "" if self.rank == RANK else f" {self.rank}"
        ordered = f"{sorted(kept.items())} {self.schema[self.order_by].ddl}{renamed}"
        order = f"{'-' if self.descending else ''}{self.order_by} ({self.schema[self.order_by].ddl})"
        columns = {name: ", ".join(getattr(self, name)) or "none" for name in ("group", "id", "tie_break")}
        own = {name: kept[name] for name in ("method", "segment", "offset", "time_zone", "nulls")}
        return fingerprint(ordered, {**columns, "order_by": order, **own})
