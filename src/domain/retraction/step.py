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
from .filing import REPEAT
from .tables import CUT, NAME, TIMES, VALUE

if TYPE_CHECKING:
    from datetime import datetime

    from ..epoch import Batch
    from ..ledger import Snapshot
    from ..ports import FrameEngine, QueryEngine, Version
    from ..segments import Segments
    from .books import Book
    from .filing import Filing
    from .settings import RetractionSettings
    from .tables import RetractionTables

_DEAD = "_dead"
_FIRST_DAY = date(1970, 1, 1)


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
        filed = self.filing.file(evolve(batch, rows=self._evaluated(batch.rows)), snapshot)
        checked = self.engine.persist(self._dated(self.days.assign(filed, self.engine)))
        profile = self._profile(checked)
        self.engine.expect(profile.rows)
        changes: dict[str, Change] = {}
        if profile.dead_letters:
            changes[self.tables.letters.name] = Change(append=dead_letter.letters(checked, batch))
        fresh = checked.filter(nw.col(ERROR).is_null(), ~nw.col(REPEAT))
        if profile.days and self.settings.identity:
            changes[self.tables.places.name] = Change(merge=self.filing.places(fresh))
        changes |= self._posted(fresh, profile, snapshot)
        return Step(changes, profile.rows, profile.dead_letters, profile.newest)

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
        grouped = checked.with_columns(dead).group_by(_DEAD, REPEAT, SEGMENT)
        lines = collect_small(grouped.agg(nw.len().alias("_rows_read"), *newest))
        good = [line for line in lines if not line[_DEAD] and not line[REPEAT]]
        return _Profile(
            rows=sum(line["_rows_read"] for line in lines),
            dead_letters=sum(line["_rows_read"] for line in lines if line[_DEAD]),
            days=tuple(sorted({line[SEGMENT] for line in good})),
            newest=newest_of(line["_newest_time"] for line in good) if timed else None,
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
