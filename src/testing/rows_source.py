"""A source of plain rows, for tests of services: no files, no broker, epochs cut where the test says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field

from ..adapters.records import batch_schema
from ..domain.changelog.row_kind import INSERT, UPDATE_AFTER, UPDATE_BEFORE
from ..domain.collect import collect_small
from ..domain.dead_letter import IN_ORDER
from ..domain.epoch import ORIGIN, POSITION, RAW, ROW_KIND, OffsetRange
from ..domain.ports import StreamSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import narwhals as nw

    from ..domain.epoch import Offsets
    from ..domain.schema import Schema


@define(eq=False)
class RowsSource(StreamSource):
    """Rows given by the test, as dicts by column name; ``_row_kind`` is ``+I`` where it is left out.

    A row that became a dead letter is read again as it is given by then.

    Args:
        schema: the rows' columns; those a row leaves out are null.
        frame: makes a frame of the engine under test from rows of values.
        limit: how many rows an epoch reads at most; one more where that would part the images of an update.
    """

    schema: Schema
    frame: Callable[[Sequence[tuple[Any, ...]], Schema], nw.LazyFrame[Any]]
    limit: int = 1_000_000
    given: list[Mapping[str, Any]] = field(factory=list)
    format: str = "rows"
    rereads: Collection[str] = ("rows",)

    def give(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Let more rows come."""
        self.given.extend(rows)

    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """The rows not read yet, at most `limit`."""
        start = after["rows"] if after else 0
        stop = min(start + self.limit, len(self.given))
        while self._parts(stop):
            stop += 1
        return OffsetRange(after, {"rows": stop}) if stop > start else None

    def end(self) -> Offsets | None:
        """Behind the last row given."""
        return {"rows": len(self.given)} if self.given else None

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of a range."""
        start = offsets.after["rows"] if offsets.after else 0
        return self._frame(range(start, offsets.until["rows"]))

    def again(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows of letters, as they are given now."""
        lines = collect_small(letters.sort(*IN_ORDER).select("raw"))
        return self._frame(int(line["raw"].partition(" ")[0]) for line in lines)

    def lag(self, after: Offsets | None) -> str:
        """The rows not read yet."""
        return f"{len(self.given) - (after['rows'] if after else 0)} rows"

    def _parts(self, at: int) -> bool:
        """Whether a cut before a row parts the images of an update, which came in one record."""
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
