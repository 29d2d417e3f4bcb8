"""Counts skipped messages by table on the workers, without a separate query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen
from pyspark.accumulators import Accumulator, AccumulatorParam

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Counts: TypeAlias = "dict[tuple[str, str], int]"


class _PartByPart(AccumulatorParam[_Counts]):
    """Counts by table and part of the input: a part that is read again, as Spark may do, counts once."""

    def zero(self, value: _Counts) -> _Counts:  # noqa: ARG002 - as PySpark asks for it
        return {}

    def addInPlace(self, value1: _Counts, value2: _Counts) -> _Counts:  # noqa: N802 - PySpark's name
        for part, count in value2.items():
            value1[part] = max(count, value1.get(part, 0))
        return value1


@frozen(eq=False)
class PassedOver:
    """Counts of messages, which are sent with the results of Spark's tasks."""

    _counts: Accumulator[_Counts]

    @classmethod
    def of(cls, session: SparkSession) -> PassedOver:
        """New counts for the tasks of a session."""
        return cls(session.sparkContext.accumulator({}, _PartByPart()))

    def add(self, part: str, counts: Mapping[str, int]) -> None:
        """Count messages by table; call it on a worker, once for each part of the input."""
        if counts:
            self._counts.add({(part, table): count for table, count in counts.items()})

    def take(self) -> Counter[str]:
        """The counts by table since the last call; call it on the driver."""
        found: Counter[str] = Counter()
        for (_, table), count in self._counts.value.items():
            found[table] += count
        self._counts.value = {}
        return found
