"""Kafka topics as Polars frames."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ..letters import JsonLetters
from ..polars_rows import polars_letters, polars_rows
from ..records import RecordDecoder
from . import broker, planning
from .source import KafkaSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    import narwhals as nw

    from ...domain.epoch import OffsetRange


@define(eq=False)
class PolarsKafkaSource(KafkaSource):
    """Topics as a stream of Polars frames."""

    _passed_over: Counter[str] = field(init=False, factory=Counter)

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The records of a range, with the columns of `Batch.rows`.

        Raises:
            SourceUnavailable: the cluster does not answer.
            SourceChanged: records of the range are gone.
        """
        records = broker.records(self.settings, planning.slices(offsets))
        decoder = RecordDecoder(self.spec, passed_over=self._passed_over)
        return polars_rows(decoder.batches(records), self.schema)

    def passed_over(self) -> Mapping[str, int]:
        found, self._passed_over = self._passed_over, Counter()
        return found

    def again(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return polars_letters(letters, JsonLetters(self.spec), self.schema)
