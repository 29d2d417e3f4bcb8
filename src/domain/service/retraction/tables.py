"""The tables of a retraction pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from ...source import dead_letter
from ...table.groups import group_key
from ...table.merge import Max, Sum
from ...table.schema import Column, Schema, column
from ...table.spec import TableSpec
from ..measures import ROWS, ValueMeasure
from .daily_sums import DailySums
from .settings import RetractionSettings

VALUE, TIMES = "_value", "_times"
"""A value of a counted measure, and how often the group has it (bigint)."""
NAME, CUT = "name", "day"
"""Columns of the cut: its name (string), and the number of the first day that is not in the past (bigint)."""
PARTITION, PLACE, COMMIT_TIME, REPEATS = "partition", "place", "committed", "repeats"
"""Columns of a log: its name, which is the partition of the source and the log's name in the messages (string); the
highest place that was read, as text that sorts (string); the latest commit time (bigint, milliseconds since 1970); and
the number of repeats that were skipped (bigint).
"""


@frozen
class RetractionTables:
    """The tables of one retraction.

    Args:
        dead_letters: see `dead_letter.spec`.
        sums: ``sums`` by day and ``past``: for each group, its number of rows and the sums of its measures.
        values: for each measure that needs more than sums, ``values_…`` and ``past_values_…``: how often each value
            occurs.
        cut: the end of the past; one row, or empty if there is no past.
        places: the highest place that was read from each log.
    """

    dead_letters: TableSpec
    sums: DailySums
    values: Mapping[str, DailySums]
    cut: TableSpec
    places: TableSpec

    @classmethod
    def of(cls, settings: RetractionSettings) -> RetractionTables:
        name, key = settings.pipeline, group_key(settings.groups)
        sums = (each for measure in settings.measures for each in measure.sums)
        times = Schema((column(TIMES, "bigint"),))
        return cls(
            dead_letters=dead_letter.spec(name),
            sums=DailySums.of(f"{name}.sums", f"{name}.past", key, Schema((column(ROWS, "bigint"), *sums))),
            values={
                each.name: DailySums.of(
                    f"{name}.values_{each.name}",
                    f"{name}.past_values_{each.name}",
                    key.plus(Column(VALUE, each.value_type)),
                    times,
                )
                for each in settings.measures
                if isinstance(each, ValueMeasure)
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
    def daily_sums(self) -> tuple[DailySums, ...]:
        """All daily sums: those of each value table, then `sums`."""
        return (*self.values.values(), self.sums)

    def in_order(self, *, has_places: bool) -> tuple[TableSpec, ...]:
        """Return all tables in the order of their commits. The sums are last, because every epoch changes them.

        Args:
            has_places: whether the table `places` is needed.
        """
        value_tables = (spec for values in self.values.values() for spec in (values.past, values.live))
        return (
            self.dead_letters,
            *value_tables,
            self.sums.past,
            self.cut,
            *([self.places] if has_places else []),
            self.sums.live,
        )
