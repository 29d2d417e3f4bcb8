"""Which changes are repeats of ones that were read before: those not beyond the newest place read of their log.

The rows of a log are taken in order of arrival, so it does not matter where epochs are cut. Both images of an update
have one place, and count together.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..changelog.log import COMMITTED, IN_LOG, LOG
from ..changelog.maxwell import LAST_ROW
from ..changelog.row_kind import removes
from ..collect import collect_small
from ..duration import show_duration
from ..epoch import ERROR, ORIGIN, POSITION, ROW_KIND
from ..errors import BadInput
from ..schema import INTEGERS
from .settings import LAST_FILES, REPEAT_WINDOW
from .tables import COMMIT_TIME, PARTITION, PLACE, REPEATS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..epoch import Batch
    from ..ledger import Snapshot
    from .settings import RetractionSettings
    from .tables import RetractionTables

REPEAT = "_repeat"
"""boolean: whether the change was read before."""

_NEWEST, _KNOWN, _BACKWARDS, _FILE, _LAST_FILE, _SEEN = (
    *("_newest_place", "_newest_committed", "_backwards"),
    *("_place_file", "_last_file", "_seen_committed"),
)
_DIGITS = 20
_ZEROS = "0" * _DIGITS
_KAFKA = r"/\d+@\d+$"
_LOG_FILE = r"\.\d+$"
_NEVER = -(2**62)
_AGAIN = r" #\d+$"
_NAMES = dict(zip(IN_LOG, ("file", "position", "row"), strict=True))


@frozen
class Jump:
    """A place that goes back further than a repeat does.

    Args:
        partition: the log, and the partition of the source that brought it.
        position: of the row in its batch.
        origin: of the row.
        place: its place, as it is stored.
        committed: its commit time in milliseconds since 1970; None where it is not known.
        seen: the newest commit time before it.
        last_file: the newest log file before it; None where places have no file.
    """

    partition: str
    position: int
    origin: str
    place: str
    committed: int | None
    seen: int | None
    last_file: int | None

    @property
    def later(self) -> bool:
        """Whether it was committed after all that was read before, so that it cannot be a repeat."""
        return self.committed is not None and self.seen is not None and self.committed > self.seen

    @property
    def base(self) -> str:
        """The log that it leaves, as it is stored."""
        return re.sub(_AGAIN, "", self.partition)


@frozen(eq=False)
class Repeats:
    """Tells the repeats of one retraction."""

    settings: RetractionSettings
    tables: RetractionTables

    def numbered(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add the number at the end of each column that places a change, as text."""
        return rows.with_columns(self._number(name).alias(number) for name, number in self.numbers.items())

    @property
    def numbers(self) -> dict[str, str]:
        """By the column that places a change, the column of its number."""
        return {name: f"_number_{at}" for at, name in enumerate(self.settings.placed_by)}

    def _number(self, name: str) -> nw.Expr:
        text = nw.col(name).cast(nw.String)
        return text if self._is_whole(name) else text.str.replace_all(r"^.*\D", "")

    def _is_whole(self, name: str) -> bool:
        return name in IN_LOG or self.settings.schema[name].name in INTEGERS

    def mark(
        self, numbered: nw.LazyFrame[Any], batch: Batch, snapshot: Snapshot, jumps: Sequence[Jump] = ()
    ) -> nw.LazyFrame[Any]:
        """Rows with `PARTITION` and `PLACE`, null where they have none, and `REPEAT`.

        Args:
            numbered: rows of the batch, their numbers added.
            batch: where dead letters are read again, only equal places are repeats: they come in no order.
            snapshot: the newest publication.
            jumps: where a log begins again.
        """
        rows = self._begun_again(self._placed(numbered), jumps).drop(*self.numbers.values())
        position, placed = nw.col(POSITION), ~nw.col(PLACE).is_null()
        if batch.again:
            return rows.with_columns((placed & (position > position.min().over(PARTITION, PLACE))).alias(REPEAT))
        known = self._known(rows.with_columns((-position).alias(_BACKWARDS)), snapshot)
        # The first arrival of all that have this place or one behind it.
        first = position.cum_min(reverse=True).over(PARTITION, order_by=[PLACE, _BACKWARDS])
        old = (nw.col(PLACE) <= nw.col(_NEWEST)).fill_null(value=False)
        return known.with_columns((placed & ((first < position) | old)).alias(REPEAT)).drop(_BACKWARDS, _NEWEST, _KNOWN)

    def _placed(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add log and place of each row that has a place and can be filed.

        One thing a step: an engine that puts one expression in the place of each mention of it would make thousands.
        """
        numbers = list(self.numbers.values())
        good = nw.col(ERROR).is_null() & nw.all_horizontal(
            *(~nw.col(each).is_null() for each in numbers), ignore_nulls=True
        )
        padded = rows.with_columns(
            nw.when(good).then(self._log).alias(PARTITION),
            *(nw.concat_str([nw.lit(_ZEROS), nw.col(each)], ignore_nulls=True).alias(each) for each in numbers),
        )
        # What an update or a change of a key takes away has the place of what it brings, and comes before that.
        side = nw.when(removes(nw.col(ROW_KIND))).then(nw.lit("0")).otherwise(nw.lit("1"))
        place = nw.concat_str([*(nw.col(each).str.tail(_DIGITS) for each in numbers), side], separator=" ")
        return padded.with_columns(nw.when(~nw.col(PARTITION).is_null()).then(place).alias(PLACE))

    @property
    def _log(self) -> nw.Expr:
        """The log of a row: its partition of the source, and what its message calls the log."""
        origin, named = nw.col(ORIGIN), self.settings.placed_by == IN_LOG
        topic, of_topic = origin.str.replace_all(r"@\d+$", ""), origin.str.contains(_KAFKA)
        if not named:
            return nw.when(of_topic).then(topic).otherwise(nw.lit(""))
        return nw.when(of_topic).then(nw.concat_str([topic, nw.col(LOG)], separator=" ")).otherwise(nw.col(LOG))

    def _begun_again(self, rows: nw.LazyFrame[Any], jumps: Sequence[Jump]) -> nw.LazyFrame[Any]:
        """Give the rows from each jump on a log of their own."""
        for number, jump in enumerate(jumps, 1):
            behind = (nw.col(PARTITION) == jump.partition) & (nw.col(POSITION) >= jump.position)
            renamed = nw.when(behind).then(nw.lit(f"{jump.base} #{number}")).otherwise(nw.col(PARTITION))
            rows = rows.with_columns(renamed.alias(PARTITION))
        return rows

    def _known(self, rows: nw.LazyFrame[Any], snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Add what is known of each row's log from earlier epochs: the newest place and commit time."""
        newest = self._stored(snapshot).select(
            PARTITION, nw.col(PLACE).alias(_NEWEST), nw.col(COMMIT_TIME).alias(_KNOWN)
        )
        return rows.join(newest, on=PARTITION, how="left")

    def _stored(self, snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """The logs as they are stored. A place of version 0.1.0 does not say which image came last: both had come."""
        place = nw.col(PLACE)
        whole = place.str.len_chars() == len(self.numbers) * (_DIGITS + 1) - 1
        both = nw.concat_str([place, nw.lit("1")], separator=" ")
        return snapshot.read(self.tables.places.name).with_columns(
            nw.when(whole).then(both).otherwise(place).alias(PLACE)
        )

    def places(self, marked: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """What rows tell of each log: the newest place and commit time of those that count, and how many repeats."""
        fresh, committed = ~nw.col(REPEAT), nw.col(COMMITTED) if self.settings.tells_log else _unknown()
        told = marked.filter(~nw.col(PLACE).is_null()).with_columns(
            nw.when(fresh).then(nw.col(PLACE)).alias(PLACE),
            nw.when(fresh).then(committed).alias(COMMIT_TIME),
            nw.col(REPEAT).cast(nw.Int64).alias(REPEATS),
        )
        return _joined(told)

    def places_after(self, marked: nw.LazyFrame[Any], jumps: Sequence[Jump], snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """All logs, where some began again: what was read before their last jump is forgotten, but for the repeats."""
        last = {jump.base: f"{jump.base} #{number}" for number, jump in enumerate(jumps, 1)}
        left = {*last, *(f"{jump.base} #{number}" for number, jump in enumerate(jumps, 1))} - set(last.values())
        stands = ~nw.col(PARTITION).is_in(sorted(left))
        columns = self.tables.places.schema.names
        together = nw.concat([self._stored(snapshot).select(*columns), self.places(marked).select(*columns)])
        kept = together.with_columns(nw.when(stands).then(nw.col(name)).alias(name) for name in (PLACE, COMMIT_TIME))
        return _joined(kept.with_columns(nw.col(PARTITION).str.replace_all(_AGAIN, "")))

    def count(self, snapshot: Snapshot) -> int:
        """How many repeats have been passed over."""
        return sum(line[REPEATS] or 0 for line in collect_small(snapshot.read(self.tables.places.name).select(REPEATS)))

    def jumps(self, marked: nw.LazyFrame[Any], snapshot: Snapshot) -> list[Jump]:
        """The first place of each log that goes back further than a repeat does."""
        running = self._running(self._known(marked.filter(~nw.col(PLACE).is_null()), snapshot))
        far = running.filter(nw.col(REPEAT), self._too_far)
        first = far.group_by(PARTITION).agg(nw.col(POSITION).min())
        lines = collect_small(
            far.join(first, on=[PARTITION, POSITION], how="inner").select(
                *(PARTITION, POSITION, ORIGIN, PLACE, COMMIT_TIME, _SEEN, _LAST_FILE)
            )
        )
        return [
            Jump(
                *(line[name] for name in (PARTITION, POSITION, ORIGIN, PLACE)),
                *(None if line[name] == _NEVER else line[name] for name in (COMMIT_TIME, _SEEN, _LAST_FILE)),
            )
            for line in sorted(lines, key=lambda line: int(line[POSITION]))
        ]

    def _running(self, known: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add a row's commit time and log file, and the newest ones of its log before it; `_NEVER` if not known."""
        committed = nw.col(COMMITTED).fill_null(_NEVER) if self.settings.tells_log else _never()
        rows = known.with_columns(committed.alias(COMMIT_TIME), self._file.alias(_FILE))
        rows = rows.with_columns(
            nw.when(nw.col(REPEAT)).then(_never()).otherwise(nw.col(COMMIT_TIME)).alias(_SEEN),
            nw.col(_FILE).cum_max().over(PARTITION, order_by=POSITION).alias(_LAST_FILE),
        )
        for before in (nw.col(_SEEN).cum_max(), nw.col(_SEEN).shift(1)):
            rows = rows.with_columns(before.over(PARTITION, order_by=POSITION).alias(_SEEN))
        stored = nw.when(self._has_file).then(_file_of(_NEWEST))
        return rows.with_columns(
            nw.max_horizontal(nw.col(_SEEN).fill_null(_NEVER), nw.col(_KNOWN).fill_null(_NEVER)).alias(_SEEN),
            nw.max_horizontal(nw.col(_LAST_FILE), stored.otherwise(_never()).fill_null(_NEVER)).alias(_LAST_FILE),
        )

    @property
    def _file(self) -> nw.Expr:
        return nw.when(self._has_file).then(_file_of(PLACE)).otherwise(_never())

    @property
    def _has_file(self) -> nw.Expr:
        """Whether the first number of a place is that of a log file."""
        first = self.settings.placed_by[0]
        if self._is_whole(first):
            return nw.lit(first in IN_LOG)
        return nw.col(first).str.contains(_LOG_FILE)

    @property
    def _too_far(self) -> nw.Expr:
        """Whether a repeat goes back further than it may, or was committed after all that was read before it."""
        committed, seen = nw.col(COMMIT_TIME), nw.col(_SEEN)
        told = (committed != _NEVER) & (seen != _NEVER)
        too_far: nw.Expr = told & ((committed > seen) | (committed < seen - self._window // timedelta(milliseconds=1)))
        if self.settings.repeat_window is not None:
            return too_far
        return too_far | ((nw.col(_FILE) != _NEVER) & (nw.col(_FILE) <= nw.col(_LAST_FILE) - LAST_FILES))

    @property
    def _window(self) -> timedelta:
        return REPEAT_WINDOW if self.settings.repeat_window is None else self.settings.repeat_window

    def refusal(self, jump: Jump) -> BadInput:
        """Why a jump stops the run, and what can be done."""
        reset = (
            'set log_reset = "accept": the changes count, in a new log. Take it out again when they are read, and let'
            " the messages name their server (Maxwell: output_server_id), which tells its log apart"
        )
        remedy = (
            "It was committed after all that was read before, so it is not a repeat. If it is of another server, or of"
            f" a log that was reset, {reset}"
            if jump.later
            else f'If the connector sent old changes again, set repeat_window = "{self._wide(jump)}": they are passed'
            f" over. If they are of another server, or of a log that was reset, {reset}"
        )
        return BadInput(
            f"pipeline {self.settings.pipeline!r}: {self.shown(jump)}. A repeat may go back by"
            f" {self._allowed}. Nothing of this epoch was counted. {remedy}"
        )

    def shown(self, jump: Jump) -> str:
        """Where a jump is and how far it goes, in words."""
        names = (_NAMES.get(name, name) for name in self.settings.placed_by)
        numbers = map(int, jump.place.split(" "))  # one more than names: which image it is
        place = ", ".join(_numbered(name, number) for name, number in zip(names, numbers, strict=False))
        log = f" of log {jump.base!r}" if jump.base else ""
        behind = "" if jump.last_file is None else f" after file {jump.last_file} was read"
        times = (
            "" if jump.seen is None else f", committed {_time(jump.committed)} where {_time(jump.seen)} was read before"
        )
        return f"{jump.origin}: place{log} goes back to {place}{behind}{times}"

    @property
    def _allowed(self) -> str:
        files = (
            f" of commit time, and to the last {LAST_FILES} log files" if self.settings.repeat_window is None else ""
        )
        return show_duration(self._window) + (files or " of commit time (repeat_window)")

    def _wide(self, jump: Jump) -> str:
        """A window that is wide enough, in whole hours."""
        if jump.committed is None or jump.seen is None:
            return "1d"
        return show_duration(timedelta(hours=(jump.seen - jump.committed) // 3_600_000 + 1))


def _joined(told: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    joined = told.group_by(PARTITION).agg(nw.col(PLACE).max(), nw.col(COMMIT_TIME).max(), nw.col(REPEATS).sum())
    return joined.with_columns(nw.col(REPEATS).cast(nw.Int64))  # as wide as it was


def _numbered(name: str, number: int) -> str:
    return f"last {name}" if number == LAST_ROW else f"{name} {number}"


def _file_of(place: str) -> nw.Expr:
    """The first number of a place; its two leading digits would not fit a bigint."""
    return nw.col(place).str.slice(2, _DIGITS - 2).cast(nw.Int64)


def _unknown() -> nw.Expr:
    return nw.lit(None).cast(nw.Int64)


def _never() -> nw.Expr:
    return nw.lit(_NEVER).cast(nw.Int64)


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "at an unknown time"
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
