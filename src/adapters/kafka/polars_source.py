"""Kafka topics as Polars frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import polars as pl
import pyarrow as pa
from attrs import define

from ..records import RecordDecoder, arrow_schema, batch_schema
from . import broker, planning
from .source import KafkaSource

if TYPE_CHECKING:
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
        batches = RecordDecoder(self.spec).batches(records)
        table = pa.Table.from_batches(batches, schema=arrow_schema(batch_schema(self.schema)))
        return nw.from_native(pl.DataFrame(pl.from_arrow(table)).lazy())
