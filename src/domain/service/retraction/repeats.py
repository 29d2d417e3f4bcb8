"""Finds repeats: changes at or before the highest position that was already read from their log.

The rows of a log are processed in order of arrival, so epoch boundaries do not affect the result. Both images of an
update have the same position and are counted together. A position in a log is called a *place* in the code and in the
tables, because `POSITION` is the position of a row in its batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import narwhals as nw
from attrs import frozen

from ...duration import show_duration
from ...epoch.batch import ERROR, ORIGIN, Batch, lane
from ...epoch.watermark import format_second
from ...errors import BadInput
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine
from ...source.changelog.log_columns import COMMITTED, IN_LOG, LOG
from ...source.changelog.maxwell import LAST_ROW
from ...table.change import POSITION
from ...table.collect import collect_small
from ...table.row_kind import ROW_KIND, removes
from ...table.schema import INTEGERS
from .jumps import NEW_LOG, Jump, leave_out_earlier_logs, name_new_log, note_beginnings
from .settings import LAST_FILES, REPEAT_WINDOW, RetractionSettings
from .tables import COMMIT_TIME, PARTITION, PLACE, REPEATS, RetractionTables

REPEAT = "_repeat"
"""boolean: whether the change has been read before."""

_NEWEST_COMMITTED, _FILE, _LAST_FILE, _SEEN = "_newest_committed", "_place_file", "_last_file", "_seen_committed"
_BEHIND = "_behind"
_SIDE = "_side"
"""bigint: 0 for a row that is removed, else 1: of the two rows of a change, which have the same numbers, the old row
comes first.
"""
_DIGITS = 20
_ZEROS = "0" * _DIGITS
_KAFKA = r"/[0-9]+@[0-9]+$"
_LOG_FILE = r"\.[0-9]+$"
_NEVER = -(2**62)
_NAMES = dict(zip(IN_LOG, ("file", "position", "row"), strict=True))


@frozen(eq=False)
class Repeats:
    """Finds the repeats of one retraction."""

    settings: RetractionSettings
    tables: RetractionTables
    engine: FrameEngine

    def add_numbers(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add a column for each place column: a whole number as it is, of a text the number at its end, as text."""
        return rows.with_columns(self._number(name).alias(number) for name, number in self.number_columns.items())

    @property
    def number_columns(self) -> dict[str, str]:
        """The columns that `add_numbers` adds, by place column."""
        return {name: f"_number_{at}" for at, name in enumerate(self.settings.place_columns)}

    def _number(self, name: str) -> nw.Expr:
        if self._is_whole(name):
            return nw.col(name).cast(nw.Int64)
        return nw.col(name).str.replace_all(r"^.*[^0-9]", "")

    def has_number(self, name: str) -> nw.Expr:
        """Whether a place column has a number, of at most 20 digits and without a sign."""
        number = nw.col(self.number_columns[name])
        found = number >= 0 if self._is_whole(name) else number.str.contains(r"^[0-9]{1,20}$")
        return found.fill_null(value=False)

    def _is_whole(self, name: str) -> bool:
        return name in IN_LOG or self.settings.schema[name].name in INTEGERS

    @property
    def _order(self) -> tuple[str, ...]:
        """The columns whose values, compared one after the other, are the place of a row."""
        return (*self.number_columns.values(), _SIDE)

    def mark(
        self, numbered: nw.LazyFrame[Any], batch: Batch, snapshot: Snapshot, jumps: Sequence[Jump] = ()
    ) -> nw.LazyFrame[Any]:
        """Add the log of each row in `PARTITION`, which is null without a place, its place, and `REPEAT`.

        Args:
            numbered: rows of the batch, after `add_numbers`.
            batch: the batch. In a replay of dead letters, which has no order, only a row with the same place and commit
                time as an earlier row is a repeat.
            snapshot: the latest publication.
            jumps: the rows at which a new log begins.
        """
        rows = self._start_new_logs(self._add_places(numbered, batch), jumps)
        position, has_place = nw.col(POSITION), ~nw.col(PARTITION).is_null()
        if batch.replay:
            first = position.min().over(PARTITION, *self._order, *([COMMITTED] if self.settings.tells_log else []))
            return rows.with_columns((has_place & (position > first)).alias(REPEAT))
        rows = self.engine.behind(rows, self._order, within=PARTITION, order_by=POSITION, into=_BEHIND)
        stored = list(map(_stored, self._order))
        known = self._join_newest(rows, snapshot)
        old = _at_or_before(self._order, stored).fill_null(value=False)
        is_repeat = has_place & (nw.col(_BEHIND) | old)
        return known.with_columns(is_repeat.alias(REPEAT)).drop(_BEHIND, _NEWEST_COMMITTED, *stored)

    def _add_places(self, rows: nw.LazyFrame[Any], batch: Batch) -> nw.LazyFrame[Any]:
        """Add the log and the place of each row that has a place and no error."""
        numbers, checked = self.number_columns, self.settings.identity_columns  # without a number these have an error
        unchecked = (self.has_number(name) for name in numbers if name not in checked)
        good = nw.all_horizontal(nw.col(ERROR).is_null(), *unchecked, ignore_nulls=True)
        padded = (_pad(nw.col(into)).alias(into) for name, into in numbers.items() if not self._is_whole(name))
        side = nw.when(removes(nw.col(ROW_KIND))).then(nw.lit(0)).otherwise(nw.lit(1)).cast(nw.Int64)
        return rows.with_columns(nw.when(good).then(self._log(batch)).alias(PARTITION), side.alias(_SIDE), *padded)

    def _log(self, batch: Batch) -> nw.Expr:
        """The log of a row: the partition of the source, and the name of the log in the message."""
        has_name = self.settings.names_logs
        log = nw.col(LOG) if has_name else nw.lit("")
        of_lane = nw.concat_str([lane(), log], separator=" ") if has_name else lane()
        if batch.lanes:
            return of_lane
        return nw.when(nw.col(ORIGIN).str.contains(_KAFKA)).then(of_lane).otherwise(log)

    def _start_new_logs(self, rows: nw.LazyFrame[Any], jumps: Sequence[Jump]) -> nw.LazyFrame[Any]:
        """From each jump on, rename the log of the rows, so that they belong to a new log."""
        for number, jump in enumerate(jumps, 1):
            after = (nw.col(PARTITION) == jump.partition) & (nw.col(POSITION) >= jump.position)
            renamed = nw.when(after).then(nw.lit(name_new_log(jump.base, number))).otherwise(nw.col(PARTITION))
            rows = rows.with_columns(renamed.alias(PARTITION))
        return rows

    def _join_newest(self, rows: nw.LazyFrame[Any], snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Add the highest place and the latest commit time of each row's log, as of earlier epochs."""
        newest = self._read_places(snapshot).select(
            PARTITION, nw.col(COMMIT_TIME).alias(_NEWEST_COMMITTED), *self._read_numbers()
        )
        return rows.join(newest, on=PARTITION, how="left")

    def _read_numbers(self) -> Iterator[nw.Expr]:
        """Read the columns of `_order` from a stored place."""
        for at, (name, into) in enumerate(self.number_columns.items()):
            text = nw.col(PLACE).str.slice(at * (_DIGITS + 1), _DIGITS)
            yield (text.cast(nw.Int64) if self._is_whole(name) else text).alias(_stored(into))
        yield nw.col(PLACE).str.tail(1).cast(nw.Int64).alias(_stored(_SIDE))

    @property
    def _place(self) -> nw.Expr:
        """A place as it is stored: a text that sorts as its numbers do."""
        numbers = self.number_columns.items()
        texts = (_pad(nw.col(into).cast(nw.String)) if self._is_whole(name) else nw.col(into) for name, into in numbers)
        return nw.concat_str([*texts, nw.col(_SIDE).cast(nw.String)], separator=" ")

    def _read_places(self, snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Read the stored logs.

        Places written by version 0.1.0 lack the digit for the last image that was read; both images had been read.
        """
        place = nw.col(PLACE)
        whole = place.str.len_chars() == len(self.number_columns) * (_DIGITS + 1) - 1
        both = nw.concat_str([place, nw.lit("1")], separator=" ")
        return snapshot.read(self.tables.places.name).with_columns(
            nw.when(whole).then(both).otherwise(place).alias(PLACE)
        )

    def summarize_replay(self, marked: nw.LazyFrame[Any], snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Return the same as `summarize_logs`, but places only of rows that are surely from the current logs."""
        old = nw.col(REPEAT)  # is only counted
        current = leave_out_earlier_logs(marked.filter(~old), self._committed, self._read_places(snapshot))
        return self.summarize_logs(nw.concat([current, marked.filter(old)]))

    def summarize_logs(self, marked: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return a row per log: its highest place, its latest commit time (both without repeats), and its repeats."""
        placed, is_new = marked.filter(~nw.col(PARTITION).is_null()), ~nw.col(REPEAT)
        highest = self.engine.highest(placed.filter(is_new), PARTITION, self._order)
        columns = self.tables.places.schema.names
        rows = placed.with_columns(
            nw.lit(None).cast(nw.String).alias(PLACE),
            nw.when(is_new).then(self._committed).alias(COMMIT_TIME),
            nw.col(REPEAT).cast(nw.Int64).alias(REPEATS),
        )
        places = highest.with_columns(
            self._place.alias(PLACE), _unknown().alias(COMMIT_TIME), nw.lit(0).cast(nw.Int64).alias(REPEATS)
        )
        return _merge_logs(nw.concat([rows.select(*columns), places.select(*columns)]))

    @property
    def _committed(self) -> nw.Expr:
        return nw.col(COMMITTED) if self.settings.tells_log else _unknown()

    def restart_logs(self, marked: nw.LazyFrame[Any], jumps: Sequence[Jump], snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Return a row for every log, stored ones included; see `summarize_logs`.

        For a log with jumps, only the number of repeats from before its last jump is kept; see also `note_beginnings`.
        """
        named = [(jump.base, name_new_log(jump.base, number)) for number, jump in enumerate(jumps, 1)]
        last = dict(named)
        left = {*last, *(name for _, name in named)} - set(last.values())
        is_current = ~nw.col(PARTITION).is_in(sorted(left))
        columns = self.tables.places.schema.names
        logs = nw.concat([self._read_places(snapshot).select(*columns), self.summarize_logs(marked).select(*columns)])
        logs = logs.with_columns(nw.when(is_current).then(nw.col(name)).alias(name) for name in (PLACE, COMMIT_TIME))
        logs = logs.with_columns(nw.col(PARTITION).str.replace_all(NEW_LOG, ""))
        beginnings = self.engine.frame(note_beginnings(jumps), self.tables.places.schema)
        return _merge_logs(nw.concat([logs, beginnings.select(*columns)]))

    def count(self, snapshot: Snapshot) -> int:
        """The number of repeats that have been skipped in all epochs."""
        return sum(line[REPEATS] or 0 for line in collect_small(snapshot.read(self.tables.places.name).select(REPEATS)))

    def find_jumps(self, marked: nw.LazyFrame[Any], snapshot: Snapshot) -> list[Jump]:
        """Return the first row of each log that goes back further than a repeat may, in order of arrival."""
        running = self._add_running_maxima(self._join_newest(marked.filter(~nw.col(PARTITION).is_null()), snapshot))
        far = running.filter(nw.col(REPEAT), self._too_far)
        first = far.group_by(PARTITION).agg(nw.col(POSITION).min())
        lines = collect_small(
            far.join(first, on=[PARTITION, POSITION], how="inner").select(
                *(PARTITION, POSITION, ORIGIN, *self._order, COMMIT_TIME, _SEEN, _LAST_FILE)
            )
        )
        return [
            Jump(
                line[PARTITION],
                line[POSITION],
                line[ORIGIN],
                tuple(int(line[name]) for name in self.number_columns.values()),
                *(None if line[name] == _NEVER else line[name] for name in (COMMIT_TIME, _SEEN, _LAST_FILE)),
            )
            for line in sorted(lines, key=lambda line: int(line[POSITION]))
        ]

    def _add_running_maxima(self, known: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add each row's commit time and log file, and the latest ones before it in its log; `_NEVER` if unknown.

        For a row with a file, the first number of each row before it counts as a file, as that of a stored place does.
        """
        committed = nw.col(COMMITTED).fill_null(_NEVER) if self.settings.tells_log else _never()
        first = self._file_number(self._order[0])
        rows = known.with_columns(
            committed.alias(COMMIT_TIME), self._of_file(first).alias(_FILE), first.alias(_LAST_FILE)
        )
        rows = rows.with_columns(
            nw.when(nw.col(REPEAT)).then(_never()).otherwise(nw.col(COMMIT_TIME)).alias(_SEEN),
            nw.col(_LAST_FILE).cum_max().over(PARTITION, order_by=POSITION).alias(_LAST_FILE),
        )
        for before in (nw.col(_SEEN).cum_max(), nw.col(_SEEN).shift(1)):
            rows = rows.with_columns(before.over(PARTITION, order_by=POSITION).alias(_SEEN))
        stored = self._file_number(_stored(self._order[0])).fill_null(_NEVER)
        return rows.with_columns(
            nw.max_horizontal(nw.col(_SEEN).fill_null(_NEVER), nw.col(_NEWEST_COMMITTED).fill_null(_NEVER)).alias(
                _SEEN
            ),
            self._of_file(nw.max_horizontal(nw.col(_LAST_FILE), stored)).alias(_LAST_FILE),
        )

    def _of_file(self, number: nw.Expr) -> nw.Expr:
        """A number of each row whose place has a log file; `_NEVER` for the others."""
        return nw.when(self._has_file).then(number).otherwise(_never())

    def _file_number(self, column: str) -> nw.Expr:
        """The first number of a place; of a text, without two leading digits: a bigint does not hold 20 digits."""
        first = nw.col(column)
        whole = self._is_whole(self.settings.place_columns[0])
        return first if whole else first.str.slice(2, _DIGITS - 2).cast(nw.Int64)

    @property
    def _has_file(self) -> nw.Expr:
        """Whether the first number of a place is the number of a log file."""
        first = self.settings.place_columns[0]
        if self._is_whole(first):
            return nw.lit(first in IN_LOG)
        return nw.col(first).str.contains(_LOG_FILE)

    @property
    def _too_far(self) -> nw.Expr:
        """Whether a repeat goes back further than it may, or was committed after everything that was read before it."""
        committed, seen = nw.col(COMMIT_TIME), nw.col(_SEEN)
        has_times = (committed != _NEVER) & (seen != _NEVER)
        too_far: nw.Expr = has_times & (
            (committed > seen) | (committed < seen - self._window // timedelta(milliseconds=1))
        )
        if self.settings.repeat_window is not None:
            return too_far
        return too_far | ((nw.col(_FILE) != _NEVER) & (nw.col(_FILE) <= nw.col(_LAST_FILE) - LAST_FILES))

    @property
    def _window(self) -> timedelta:
        return REPEAT_WINDOW if self.settings.repeat_window is None else self.settings.repeat_window

    def make_error(self, jump: Jump) -> BadInput:
        """Return the error for a jump that stops the run, with the remedy."""
        reset = (
            'set log_reset = "accept": the changes are then counted, as a new log. Remove the setting once they are'
            " read, and make the messages name their server (Maxwell: output_server_id), which identifies its log"
        )
        remedy = (
            "It was committed after everything that was read before, so it is not a repeat. If it comes from another"
            f" server, or from a log that was reset, {reset}"
            if jump.later
            else f'If the connector sent old changes again, set repeat_window = "{self._suggest_window(jump)}": they'
            f" are then skipped. If they come from another server, or from a log that was reset, {reset}"
        )
        return BadInput(
            f"pipeline {self.settings.pipeline!r}: {self.describe(jump)}. A repeat may go back by"
            f" {self._allowed}. Nothing of this epoch was counted. {remedy}"
        )

    def describe(self, jump: Jump) -> str:
        """Return a text that says where a jump is and how far it goes back."""
        names = (_NAMES.get(name, name) for name in self.settings.place_columns)
        place = ", ".join(_show_number(name, number) for name, number in zip(names, jump.place, strict=True))
        log = f" of log {jump.base!r}" if jump.base else ""
        after = "" if jump.last_file is None else f" after file {jump.last_file} was read"
        times = (
            ""
            if jump.seen is None
            else f", committed {_show_time(jump.committed)} where {_show_time(jump.seen)} was read before"
        )
        return f"{jump.origin}: place{log} goes back to {place}{after}{times}"

    @property
    def _allowed(self) -> str:
        files = (
            f" of commit time, and to the last {LAST_FILES} log files" if self.settings.repeat_window is None else ""
        )
        return show_duration(self._window) + (files or " of commit time (repeat_window)")

    def _suggest_window(self, jump: Jump) -> str:
        """Return a window that is wide enough, in whole hours; one day if the commit times are unknown."""
        if jump.committed is None or jump.seen is None:
            return "1d"
        return show_duration(timedelta(hours=(jump.seen - jump.committed) // 3_600_000 + 1))


def _merge_logs(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    logs = rows.group_by(PARTITION).agg(nw.col(PLACE).max(), nw.col(COMMIT_TIME).max(), nw.col(REPEATS).sum())
    return logs.with_columns(nw.col(REPEATS).cast(nw.Int64))  # a sum may have another integer type


def _show_number(name: str, number: int) -> str:
    return f"last {name}" if number == LAST_ROW else f"{name} {number}"


def _stored(column: str) -> str:
    """The column with the same part of the highest stored place of the log."""
    return f"_newest{column}"


def _pad(number: nw.Expr) -> nw.Expr:
    """A number's digits as a text of fixed width."""
    return nw.concat_str([nw.lit(_ZEROS), number]).str.tail(_DIGITS)


def _at_or_before(left: Sequence[str], right: Sequence[str]) -> nw.Expr:
    """Whether the left columns, compared one after the other, are at most the right ones."""
    *pairs, (last, limit) = zip(left, right, strict=True)
    found: nw.Expr = nw.col(last) <= nw.col(limit)
    for mine, other in reversed(pairs):
        found = (nw.col(mine) < nw.col(other)) | ((nw.col(mine) == nw.col(other)) & found)
    return found


def _unknown() -> nw.Expr:
    return nw.lit(None).cast(nw.Int64)


def _never() -> nw.Expr:
    return nw.lit(_NEVER).cast(nw.Int64)


def _show_time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "at an unknown time"
    return format_second(datetime.fromtimestamp(milliseconds / 1000, UTC))
