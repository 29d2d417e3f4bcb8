"""The tables that a retraction keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from .. import dead_letter
from ..groups import group_key
from ..measures import ROWS
from ..merge import Max, Sum
from ..schema import Column, Schema, column
from ..table import TableSpec
from .books import Book

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .settings import RetractionSettings

VALUE, TIMES = "_value", "_times"
"""Of a counted value: the value, and how often the group has it (bigint)."""
NAME, CUT = "name", "day"
"""Of the cut: its name, and the number of the first day that is not in the past (bigint)."""
PARTITION, PLACE, COMMIT_TIME, REPEATS = "partition", "place", "committed", "repeats"
"""Of a log: its name, which is its partition of the source and what messages call it (string); the newest place read,
as text that sorts; the newest commit time (bigint, milliseconds since 1970); how many repeats were passed over.
"""


@frozen
class RetractionTables:
    """The tables of one retraction.

    Args:
        letters: see `dead_letter.spec`.
        sums: ``sums`` by day and ``past``: the rows of each group and the sums that measures are answered from.
        values: for each measure that sums do not tell, ``values_…`` and ``past_values_…``: how often each value occurs.
        cut: up to where the past reaches; one row, or none.
        places: the newest place read of each log.
    """

    letters: TableSpec
    sums: Book
    values: Mapping[str, Book]
    cut: TableSpec
    places: TableSpec

    @classmethod
    def of(cls, settings: RetractionSettings) -> RetractionTables:
        """The tables for these settings."""
        name, key = settings.pipeline, group_key(settings.groups)
        summed = (each for measure in settings.measures for each in measure.sums)
        times = Schema((column(TIMES, "bigint"),))
        return cls(
            letters=dead_letter.spec(name),
            sums=Book.of(f"{name}.sums", f"{name}.past", key, Schema((column(ROWS, "bigint"), *summed))),
            values={
                each.name: Book.of(
                    f"{name}.values_{each.name}",
                    f"{name}.past_values_{each.name}",
                    key.plus(Column(VALUE, each.value_type)),
                    times,
                )
                for each in settings.measures
                if each.counted
            },
            cut=TableSpec(f"{name}.cut", Schema((column(NAME, "string"), column(CUT, "bigint"))), key=(NAME,)),
            places=TableSpec(
                f"{name}.places",
                Schema.parse(f"{PARTITION} string, {PLACE} string, {COMMIT_TIME} bigint, {REPEATS} bigint"),
                key=(PARTITION,),
                rules={PLACE: Max(), COMMIT_TIME: Max(), REPEATS: Sum()},
            ),
        )

    @property
    def books(self) -> tuple[Book, ...]:
        """All books."""
        return (*self.values.values(), self.sums)

    def in_order(self, *, placed: bool) -> tuple[TableSpec, ...]:
        """All tables in the order of their commits; the sums come last, as every epoch has some.

        Args:
            placed: whether the newest place read is kept.
        """
        counted = (spec for book in self.values.values() for spec in (book.past, book.live))
        return (
            self.letters,
            *counted,
            self.sums.past,
            self.cut,
            *([self.places] if placed else []),
            self.sums.live,
        )
