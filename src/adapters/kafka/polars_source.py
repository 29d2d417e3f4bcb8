"""Kafka topics as Polars frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define

from ..letters import JsonLetters
from ..polars_rows import polars_letters, polars_rows
from ..records import RecordDecoder
from . import broker, planning
from .source import KafkaSource

if TYPE_CHECKING:
    import narwhals as nw

    from ...domain.epoch import OffsetRange


@define(eq=False)
class PolarsKafkaSource(KafkaSource):
    """Topics as a stream of Polars frames."""

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The records of a range, with the columns of `Batch.rows`.

        Raises:
            SourceUnavailable: the cluster does not answer.
            SourceChanged: records of the range are gone.
        """
        records = broker.records(self.settings, planning.slices(offsets))
        return polars_rows(RecordDecoder(self.spec).batches(records), self.schema)

    def again(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return polars_letters(letters, JsonLetters(self.spec), self.schema)
