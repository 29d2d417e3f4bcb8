"""The step of a retraction pipeline: the changes that an epoch makes to its tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import narwhals as nw
from attrs import evolve, field, frozen

from ...duration import EPOCH, day_number
from ...epoch.batch import ERROR, Batch
from ...epoch.watermark import newest_of, subtract
from ...errors import ConfigError
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine, QueryEngine, Version
from ...source import dead_letter
from ...source.dead_letter import or_else
from ...table.change import Change
from ...table.collect import collect_small
from ...table.fingerprint import recorded_setting
from ...table.groups import as_key
from ...table.row_kind import INSERT, ROW_KIND
from ..base import MOST_DAYS_AHEAD, Step
from ..measures import ROWS, ValueMeasure, evaluate, sign
from ..memo import Memo
from ..segments import SEGMENT, Segments
from .daily_sums import Update, merge_changes
from .days import assign_day, deduplicate
from .jumps import Jump
from .log_names import check_log_names, is_listed
from .repeats import REPEAT, Repeats
from .settings import GIVEN_PAST, PAST, STOP, RetractionSettings
from .tables import CUT, NAME, PARTITION, TIMES, VALUE, RetractionTables

_DEAD, _UNPLACED, _LISTED = "_dead", "_unplaced", "_listed"

UNPLACED = (
    "there are messages without a position in their log; if one is sent again, it is counted again. Maxwell writes"
    " positions with output_binlog_position, output_xoffset and output_server_id; Debezium has them for MySQL and"
    ' MariaDB, but not for the rows of a snapshot; Canal has none. To count every message, set identity = "none"'
)
"""A warning; each run shows it once."""


@frozen
class _Profile:
    """The facts about a batch that decide the changes."""

    rows: int
    dead_letters: int
    days: tuple[int, ...]
    newest: datetime | None
    repeats: int
    unplaced: int
    listed: int


@frozen(eq=False)
class RetractionStep:
    """The step of one retraction. Each change is added to or subtracted from the sums of its group and day."""

    settings: RetractionSettings
    tables: RetractionTables
    days: Segments
    repeats: Repeats
    engine: FrameEngine
    queries: QueryEngine
    _cuts: Memo[Version, int | None] = field(init=False, factory=Memo)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        checked, profile, jumps = self._prepare(evolve(batch, rows=self._evaluate(batch.rows)), snapshot)
        self.engine.expect(profile.rows)
        changes: dict[str, Change] = {}
        if profile.dead_letters:
            changes[self.tables.dead_letters.name] = Change(append=dead_letter.extract(checked, batch))
        good = checked.filter(nw.col(ERROR).is_null(), ~nw.col(REPEAT))
        if jumps:
            changes[self.tables.places.name] = Change(overwrite=self.repeats.restart_logs(checked, jumps, snapshot))
        elif self.settings.place_columns and (profile.days or profile.repeats):
            changes[self.tables.places.name] = Change(
                merge=self.repeats.summarize_replay(checked, snapshot)
                if batch.replay
                else self.repeats.summarize_logs(checked)
            )
        changes |= self._change_sums(good, profile, snapshot)
        counts = (profile.rows, profile.dead_letters, profile.newest)
        return Step(changes, *counts, repeats=profile.repeats, warnings=tuple(self._warnings(profile, jumps, snapshot)))

    def _prepare(self, batch: Batch, snapshot: Snapshot) -> tuple[nw.LazyFrame[Any], _Profile, list[Jump]]:
        """Return the rows with their days, the profile of the batch, and the rows at which a new log begins.

        Raises:
            BadInput: a place goes back further than a repeat may, and `log_reset` is not ``accept``.
            ConfigError: see `check_log_names`.
        """
        rows = assign_day(batch.rows, self.settings, self.engine)
        jumps: list[Jump] = []
        while True:
            marked = deduplicate(rows, self.repeats, batch, snapshot, jumps)
            checked = self.engine.persist(self._check_dates(self.days.assign(marked, self.engine)))
            profile = self._profile(checked)
            if profile.listed or (batch.replay and self.settings.names_logs):
                check_log_names(self.settings.pipeline, checked, snapshot.read(self.tables.places.name))
            if batch.replay or not profile.repeats or not (more := self.repeats.find_jumps(checked, snapshot)):
                return checked, profile, jumps
            if self.settings.log_reset == STOP:
                raise self.repeats.make_error(more[0])
            jumps += more

    def _warnings(self, profile: _Profile, jumps: list[Jump], snapshot: Snapshot) -> Iterator[str]:
        for jump in jumps:
            yield f'{self.repeats.describe(jump)}: a new log begins there, as log_reset = "accept"'
        if profile.unplaced:
            yield UNPLACED
        if self.settings.roll_after is not None and self._is_far_ahead(snapshot):
            yield (
                f"the watermark, {snapshot.watermark:%Y-%m-%d}, is more than {MOST_DAYS_AHEAD} days after today, so"
                " roll_after moves no day into the past. One record that is dated far ahead does this. Instead, use"
                f" headwater roll … {self.settings.pipeline} --cut DAY"
            )

    def _check_dates(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Give a reason in `_error` to each row whose day, in the pipeline's zone, is outside the range of dates."""
        first, last = (day_number(day) for day in (date.min, date.max))
        outside = nw.col(ERROR).is_null() & ((nw.col(SEGMENT) < first) | (nw.col(SEGMENT) > last))
        why = f"its day in {self.settings.time_zone} is outside 0001-01-01 to 9999-12-31"
        return rows.with_columns(or_else(nw.col(ERROR), outside, why).alias(ERROR))

    def roll(self, cut: date, snapshot: Snapshot) -> Step:
        """Move the days before a cut into the past, or replace the past by the user-supplied table.

        Raises:
            ConfigError: the cut is before the current one.
        """
        to, update = day_number(cut), self._update(snapshot, ())
        if update.cut is not None and to < update.cut:
            raise ConfigError(f"the past already reaches up to day {_day(update.cut)}, so it cannot be cut at {cut}")
        if self.settings.past is None:
            parts = [update.roll(sums, self.engine.frame([], sums.live.schema), to) for sums in self.tables.daily_sums]
        else:
            past = self._read_past(cut)
            parts = [update.replace_past(sums, past[sums.past.name], to) for sums in self.tables.daily_sums]
        return Step(merge_changes(parts) | self._write_cut(to), 0, 0, None)

    def cut(self, snapshot: Snapshot) -> int | None:
        """The number of the first day that is not in the past; None if there is no past yet."""
        if (version := snapshot.version(self.tables.cut.name)) is None:
            return None
        # Read in every epoch, but changed about once a day.
        return self._cuts.find(version, lambda: self._read_cut(snapshot))

    def _read_cut(self, snapshot: Snapshot) -> int | None:
        lines = collect_small(snapshot.read(self.tables.cut.name))
        return lines[0][CUT] if lines else None

    def given_cut(self, snapshot: Snapshot) -> date | None:
        """The cut of the past at a publication, if that is a user-supplied one; None if there is no past yet."""
        built = snapshot.publication.fingerprint if snapshot.publication else ""
        if recorded_setting(built, PAST) not in (None, GIVEN_PAST) or snapshot.version(self.tables.cut.name) is None:
            return None
        number = self._read_cut(snapshot)
        return None if number is None else _day(number)

    def default_cut(self, watermark: datetime | None, now: datetime) -> date:
        """Return the day of the watermark, or today in the pipeline's zone if there is no watermark."""
        return _day(self.days.number_of(now) if watermark is None else self._day_of_watermark(watermark))

    def _day_of_watermark(self, watermark: datetime) -> int:
        """The day of a watermark, as in `_segment`. The watermark of an event time without a zone has none either."""
        days = evolve(self.days, zone="UTC") if self.settings.has_wall_watermark else self.days
        return days.number_of(watermark)

    def _evaluate(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add the columns of the measures' arguments and conditions."""
        return evaluate(rows, self.settings.measures, self.settings.schema, self.queries)

    def _profile(self, checked: nw.LazyFrame[Any]) -> _Profile:
        event_time = self.settings.event_time
        newest = [nw.col(event_time).max().alias("_newest_time")] if event_time else []
        dead = (~nw.col(ERROR).is_null()).alias(_DEAD)
        unplaced = nw.col(PARTITION).is_null() if self.settings.place_columns else nw.lit(self.settings.unplaced)
        listed = is_listed() if self.settings.names_logs else nw.lit(value=False)
        counted = (flag.cast(nw.Int64).alias(name) for name, flag in ((_UNPLACED, unplaced), (_LISTED, listed)))
        grouped = checked.with_columns(dead, *counted).group_by(_DEAD, REPEAT, SEGMENT)
        lines = collect_small(grouped.agg(nw.len().alias("_rows_read"), nw.col(_UNPLACED, _LISTED).sum(), *newest))
        good = [line for line in lines if not line[_DEAD] and not line[REPEAT]]
        return _Profile(
            rows=sum(line["_rows_read"] for line in lines),
            dead_letters=sum(line["_rows_read"] for line in lines if line[_DEAD]),
            days=tuple(sorted({line[SEGMENT] for line in good})),
            newest=newest_of(line["_newest_time"] for line in good) if event_time else None,
            repeats=sum(line["_rows_read"] for line in lines if line[REPEAT]),
            unplaced=sum(line[_UNPLACED] for line in good),
            listed=sum(line[_LISTED] for line in lines),
        )

    def _change_sums(self, good: nw.LazyFrame[Any], profile: _Profile, snapshot: Snapshot) -> dict[str, Change]:
        update = self._update(snapshot, profile.days)
        to = self._due(update.cut, snapshot)
        entries = self._entries(good)
        if to is not None:
            parts = [update.roll(sums, entries[sums.live.name], to) for sums in self.tables.daily_sums]
            return merge_changes(parts) | self._write_cut(to)
        if not profile.days:
            return {}
        return merge_changes([update.add(sums, entries[sums.live.name]) for sums in self.tables.daily_sums])

    def _update(self, snapshot: Snapshot, days: tuple[int, ...]) -> Update:
        absorbs = self.settings.past is None
        return Update(self.engine, snapshot, absorbs, self.cut(snapshot), days)

    def _due(self, cut: int | None, snapshot: Snapshot) -> int | None:
        """The cut that is due by the watermark of the previous epoch; None if the cut does not move."""
        if self.settings.roll_after is None or (watermark := snapshot.watermark) is None:
            return None
        if self._is_far_ahead(snapshot):  # a cut there could not be undone
            return None
        to = self._day_of_watermark(subtract(watermark, self.settings.roll_after))
        return to if cut is None or to > cut else None

    def _is_far_ahead(self, snapshot: Snapshot) -> bool:
        """Whether the watermark is too far after the clock that its publication was stamped with, to cut by it."""
        if (latest := snapshot.publication) is None or snapshot.watermark is None:
            return False
        return self._day_of_watermark(snapshot.watermark) > self.days.number_of(latest.published_at) + MOST_DAYS_AHEAD

    def _entries(self, rows: nw.LazyFrame[Any]) -> dict[str, nw.LazyFrame[Any]]:
        """Return the entries of each daily sums table, by the name of the live table: rows with signed sum columns."""
        signed_sums = (each for measure in self.settings.measures for each in measure.signed())
        keyed = as_key(rows, self.settings.groups).with_columns(sign().alias(ROWS), *signed_sums)
        entries = {self.tables.sums.live.name: keyed}
        for measure in self.settings.measures:
            if isinstance(measure, ValueMeasure):
                values = keyed.filter(measure.applies).with_columns(
                    measure.over.alias(VALUE), nw.col(ROWS).alias(TIMES)
                )
                entries[self.tables.values[measure.name].live.name] = values
        return entries

    def _read_past(self, cut: date) -> dict[str, nw.LazyFrame[Any]]:
        """Read the user-supplied past as the totals of each daily sums table, by the name of the past table."""
        past, sums = self.settings.past, self.tables.sums
        assert past is not None
        settings = self.settings
        columns = settings.schema.select(settings.used_columns)
        rows = past.read(self.queries, cut, columns, settings.groups, settings.measures)
        if past.holds == "totals":
            return {sums.past.name: past.to_sums(rows, settings.groups, settings.measures)}
        inserts = rows.with_columns(nw.lit(INSERT).alias(ROW_KIND))
        entries = self._entries(self._evaluate(inserts))
        return {each.past.name: entries[each.live.name] for each in self.tables.daily_sums}

    def _write_cut(self, to: int) -> dict[str, Change]:
        table = self.tables.cut
        return {table.name: Change(merge=self.engine.frame([{NAME: "past", CUT: to}], table.schema))}


def _day(number: int) -> date:
    """The date of a day; the first or the last date for a day of a zone before or after all dates."""
    ordinal = EPOCH.toordinal() + number
    return date.fromordinal(min(max(ordinal, date.min.toordinal()), date.max.toordinal()))
