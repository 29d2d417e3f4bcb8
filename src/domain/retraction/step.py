"""What an epoch does to the tables of a retraction."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import evolve, field, frozen

from .. import dead_letter
from ..change import Change
from ..changelog.row_kind import INSERT
from ..collect import collect_small
from ..dead_letter import or_else
from ..epoch import ERROR, ROW_KIND
from ..errors import ConfigError
from ..groups import as_key
from ..measures import ROWS, evaluated, sign
from ..segments import SEGMENT
from ..service import Step
from ..watermark import earlier, newest_of
from .books import Posting, merged
from .repeats import REPEAT
from .settings import STOP
from .tables import CUT, NAME, PLACE, TIMES, VALUE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ..epoch import Batch
    from ..ledger import Snapshot
    from ..ports import FrameEngine, QueryEngine, Version
    from ..segments import Segments
    from .books import Book
    from .filing import Filing
    from .repeats import Jump
    from .settings import RetractionSettings
    from .tables import RetractionTables

_DEAD, _UNPLACED = "_dead", "_unplaced"
_FIRST_DAY = date(1970, 1, 1)


UNPLACED = (
    "messages without a position in their log came in; if such a message is sent again, it counts again. Maxwell writes"
    " positions with output_binlog_position, output_xoffset and output_server_id; Debezium has them for MySQL and"
    ' MariaDB, but not for the rows of a snapshot; Canal has none. identity = "none" says that every message counts'
)
"""Told once in a run."""


def day_number(day: date) -> int:
    """A day as segments number it."""
    return (day - _FIRST_DAY).days


@frozen
class _Profile:
    """The little of a batch that planning needs to know."""

    rows: int
    dead_letters: int
    days: tuple[int, ...]
    newest: datetime | None
    repeats: int
    unplaced: int


@frozen(eq=False)
class RetractionStep:
    """The step of one retraction: each change adds to the sums of its group and day, or takes from them."""

    settings: RetractionSettings
    tables: RetractionTables
    days: Segments
    filing: Filing
    engine: FrameEngine
    queries: QueryEngine
    _cuts: dict[Version, int | None] = field(init=False, factory=dict)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """See `Service.step`."""
        checked, profile, jumps = self._filed(evolve(batch, rows=self._evaluated(batch.rows)), snapshot)
        self.engine.expect(profile.rows)
        changes: dict[str, Change] = {}
        if profile.dead_letters:
            changes[self.tables.letters.name] = Change(append=dead_letter.letters(checked, batch))
        fresh = checked.filter(nw.col(ERROR).is_null(), ~nw.col(REPEAT))
        if jumps:
            changes[self.tables.places.name] = Change(
                overwrite=self.filing.repeats.places_after(checked, jumps, snapshot)
            )
        elif self.settings.placed_by and (profile.days or profile.repeats):
            changes[self.tables.places.name] = Change(merge=self.filing.repeats.places(checked))
        changes |= self._posted(fresh, profile, snapshot)
        counts = (profile.rows, profile.dead_letters, profile.newest)
        return Step(changes, *counts, repeats=profile.repeats, warnings=tuple(self._warnings(profile, jumps)))

    def _filed(self, batch: Batch, snapshot: Snapshot) -> tuple[nw.LazyFrame[Any], _Profile, list[Jump]]:
        """The rows filed under their days, what they come to, and where a log begins again.

        Raises:
            BadInput: a place goes back further than a repeat does, and no log may begin again.
        """
        repeats = self.filing.repeats
        jumps: list[Jump] = []
        while True:
            filed = self.filing.file(batch, snapshot, jumps)
            checked = self.engine.persist(self._dated(self.days.assign(filed, self.engine)))
            profile = self._profile(checked)
            if batch.again or not profile.repeats or not (more := repeats.jumps(checked, snapshot)):
                return checked, profile, jumps
            if self.settings.log_reset == STOP:
                raise repeats.refusal(more[0])
            jumps += more

    def _warnings(self, profile: _Profile, jumps: list[Jump]) -> Iterator[str]:
        for jump in jumps:
            yield f'{self.filing.repeats.shown(jump)}: a new log begins there, as log_reset = "accept"'
        if profile.unplaced:
            yield UNPLACED

    def _dated(self, filed: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Give every row whose day, in the pipeline's zone, is not a date its reason."""
        first, last = (day_number(day) for day in (date.min, date.max))
        by = nw.col(ERROR).is_null() & ((nw.col(SEGMENT) < first) | (nw.col(SEGMENT) > last))
        why = f"its day in {self.settings.time_zone} lies outside 0001-01-01 to 9999-12-31"
        return filed.with_columns(or_else(nw.col(ERROR), by, why).alias(ERROR))

    def roll(self, cut: date, snapshot: Snapshot) -> Step:
        """Move the days before a cut into the past, or put the user's table in the past's place.

        Raises:
            ConfigError: the past reaches farther already.
        """
        to, posting = day_number(cut), self._posting(snapshot, ())
        if posting.cut is not None and to < posting.cut:
            raise ConfigError(f"the past reaches up to day {_day(posting.cut)} already, and cannot be cut at {cut}")
        if self.settings.past is None:
            nothing = {book.live.name: self._nothing(book, snapshot) for book in self.tables.books}
            parts = [posting.rolled(book, nothing[book.live.name], to) for book in self.tables.books]
        else:
            past = self._past(cut)
            parts = [posting.replaced(book, past[book.past.name], to) for book in self.tables.books]
        return Step(merged(parts) | self._cut_at(to, snapshot), 0, 0, None)

    def cut(self, snapshot: Snapshot) -> int | None:
        """The number of the first day that is not in the past; None if there is no past yet."""
        if (version := snapshot.version(self.tables.cut.name)) is None:
            return None
        if version not in self._cuts:  # asked in every epoch, changed once a day
            self._cuts.clear()
            lines = collect_small(snapshot.read(self.tables.cut.name))
            self._cuts[version] = lines[0][CUT] if lines else None
        return self._cuts[version]

    def day_of(self, moment: datetime) -> date:
        """The day that holds a moment, in the pipeline's zone: as `_segment` has it."""
        return _day(self.days.number_of(moment))

    def _evaluated(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Rows with what their measures are over."""
        return evaluated(rows, self.settings.measures, self.settings.schema, self.queries)

    def _profile(self, checked: nw.LazyFrame[Any]) -> _Profile:
        timed = self.settings.event_time
        newest = [nw.col(timed).max().alias("_newest_time")] if timed else []
        dead = (~nw.col(ERROR).is_null()).alias(_DEAD)
        placed = nw.col(PLACE).is_null() if self.settings.placed_by else nw.lit(self.settings.unplaced)
        grouped = checked.with_columns(dead, placed.cast(nw.Int64).alias(_UNPLACED)).group_by(_DEAD, REPEAT, SEGMENT)
        lines = collect_small(grouped.agg(nw.len().alias("_rows_read"), nw.col(_UNPLACED).sum(), *newest))
        good = [line for line in lines if not line[_DEAD] and not line[REPEAT]]
        return _Profile(
            rows=sum(line["_rows_read"] for line in lines),
            dead_letters=sum(line["_rows_read"] for line in lines if line[_DEAD]),
            days=tuple(sorted({line[SEGMENT] for line in good})),
            newest=newest_of(line["_newest_time"] for line in good) if timed else None,
            repeats=sum(line["_rows_read"] for line in lines if line[REPEAT]),
            unplaced=sum(line[_UNPLACED] for line in good),
        )

    def _posted(self, fresh: nw.LazyFrame[Any], profile: _Profile, snapshot: Snapshot) -> dict[str, Change]:
        posting = self._posting(snapshot, profile.days)
        to = self._due(posting.cut, snapshot)
        entries = self._entries(fresh)
        if to is not None:
            rolled = [posting.rolled(book, entries[book.live.name], to) for book in self.tables.books]
            return merged(rolled) | self._cut_at(to, snapshot)
        if not profile.days:
            return {}
        return merged([posting.changes(book, entries[book.live.name]) for book in self.tables.books])

    def _posting(self, snapshot: Snapshot, days: tuple[int, ...]) -> Posting:
        absorbs = self.settings.past is None
        return Posting(self.engine, snapshot, absorbs, self.cut(snapshot), days)

    def _due(self, cut: int | None, snapshot: Snapshot) -> int | None:
        """The cut up to which days are to be rolled now, by the watermark of the epoch before; None if none are."""
        watermark = snapshot.publication.watermark if snapshot.publication else None
        if self.settings.roll_after is None or watermark is None:
            return None
        to = self.days.number_of(earlier(watermark, self.settings.roll_after))
        return to if cut is None or to > cut else None

    def _entries(self, rows: nw.LazyFrame[Any]) -> dict[str, nw.LazyFrame[Any]]:
        """What the rows bring to each book, by the name of its live table."""
        signed = (each for measure in self.settings.measures for each in measure.signed())
        keyed = as_key(rows, self.settings.groups).with_columns(sign().alias(ROWS), *signed)
        entries = {self.tables.sums.live.name: keyed}
        for measure in self.settings.measures:
            if measure.counted:
                values = keyed.filter(measure.applies).with_columns(
                    measure.over.alias(VALUE), nw.col(ROWS).alias(TIMES)
                )
                entries[self.tables.values[measure.name].live.name] = values
        return entries

    def _past(self, cut: date) -> dict[str, nw.LazyFrame[Any]]:
        """What the user's table brings to each book, by the name of its past table."""
        past, sums = self.settings.past, self.tables.sums
        assert past is not None
        rows = past.read(self.queries, cut, self.settings)
        if past.holds == "totals":
            return {sums.past.name: past.totals(rows, self.settings.groups, self.settings.measures)}
        inserted = rows.with_columns(nw.lit(INSERT).alias(ROW_KIND))
        entries = self._entries(self._evaluated(inserted))
        return {book.past.name: entries[book.live.name] for book in self.tables.books}

    def _nothing(self, book: Book, snapshot: Snapshot) -> nw.LazyFrame[Any]:
        return book.days(snapshot, None).head(0)

    def _cut_at(self, to: int, snapshot: Snapshot) -> dict[str, Change]:
        """Write the cut down: one row, made of a table's since a frame comes from nowhere else."""
        one = snapshot.read(self.tables.cut.name).select(nw.len().alias(CUT))
        cut = one.select(nw.lit("past").alias(NAME), nw.lit(to).cast(nw.Int64).alias(CUT))
        return {self.tables.cut.name: Change(merge=cut)}


def _day(number: int) -> date:
    return date.fromordinal(_FIRST_DAY.toordinal() + number)
