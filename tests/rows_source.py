"""A source of in-memory rows for tests of services, without files or a broker. The test decides where epochs end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field

from headwater.adapters.records.decoder import batch_schema
from headwater.domain.epoch.batch import ORIGIN, RAW
from headwater.domain.epoch.epoch import OffsetRange, Offsets
from headwater.domain.errors import SourceChanged
from headwater.domain.ports import Now, StreamSource
from headwater.domain.source.dead_letter import IN_ORDER
from headwater.domain.table.change import POSITION
from headwater.domain.table.collect import collect_small
from headwater.domain.table.row_kind import INSERT, ROW_KIND, UPDATE_AFTER, UPDATE_BEFORE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import narwhals as nw

    from headwater.domain.table.schema import Schema


@define(eq=False)
class RowsSource(StreamSource):
    """A source of the rows that the test gives, as dicts by column name; ``_row_kind`` is ``+I`` if left out.

    A row that became a dead letter is read again with the values that it has in `given` at that time.

    Args:
        schema: the columns of the rows; a column that a row leaves out is null.
        frame: makes a frame of the engine under test, from rows as tuples of values.
        limit: the maximum number of rows in an epoch; one more if the limit falls between the images of an update.
        given: all rows so far.
    """

    schema: Schema
    frame: Callable[[Sequence[tuple[Any, ...]], Schema], nw.LazyFrame[Any]]
    limit: int = 1_000_000
    given: list[Mapping[str, Any]] = field(factory=list)
    format: str = "rows"
    reread_formats: Collection[str] = ("rows",)
    eager: bool = True

    def give(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows to the source."""
        self.given.extend(rows)

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:  # noqa: ARG002 - rows are always due
        """The range of the rows after `after`, at most `limit`; None if there are no more rows."""
        start = after["rows"] if after else 0
        stop = min(start + self.limit, len(self.given))
        while self._parts(stop):
            stop += 1
        return OffsetRange(after, {"rows": stop}) if stop > start else None

    def check_complete(self, beginning: Offsets | None, until: Offsets) -> None:
        """Nothing to check: rows are never removed."""

    def end(self) -> Offsets | None:
        """The offsets after the last row; None if there are no rows."""
        return {"rows": len(self.given)} if self.given else None

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        start = offsets.after["rows"] if offsets.after else 0
        return self._frame(range(start, offsets.until["rows"]))

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows of dead letters, with their current values in `given`."""
        lines = collect_small(letters.sort(*IN_ORDER).select("raw"))
        return self._frame(int(line["raw"].partition(" ")[0]) for line in lines)

    def lag(self, after: Offsets | None) -> str:
        return f"{len(self.given) - (after['rows'] if after else 0)} rows"

    def _parts(self, at: int) -> bool:
        """Whether row `at` is the new image of an update and the row before it the old one, of the same record."""
        kinds = [row.get(ROW_KIND) for row in self.given[max(at - 1, 0) : at + 1]]
        return kinds == [UPDATE_BEFORE, UPDATE_AFTER]

    def _frame(self, numbers: Iterable[int]) -> nw.LazyFrame[Any]:
        return self.frame([self._values(at, number) for at, number in enumerate(numbers)], batch_schema(self.schema))

    def _values(self, at: int, number: int) -> tuple[Any, ...]:
        row = self.given[number]
        own = {
            ROW_KIND: INSERT,
            POSITION: at,
            ORIGIN: str(number - self._parts(number)),
            RAW: f"{number} {dict(row)}",
            **row,
        }
        return tuple(own.get(name) for name in batch_schema(self.schema).names)


@define(eq=False)
class ExpiringRows(RowsSource):
    """A source that loses its oldest rows: those before row `first` are gone."""

    first: int = 0

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:
        """As `RowsSource.plan`, from the oldest row on; raises `SourceChanged` if the next row is gone."""
        start = after or self.beginning()
        if start["rows"] < self.first:
            raise SourceChanged(f"rows {start['rows']} to {self.first - 1} were removed before they were read")
        return super().plan(start, now)

    def beginning(self) -> Offsets:
        """The offsets before the oldest row."""
        return {"rows": self.first}
