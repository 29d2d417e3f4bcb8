"""Bulk loads of files as Spark frames; whole Parquet files are read by Spark's own reader."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq
from attrs import define, field
from pyspark.sql import DataFrame, SparkSession

from ..records.decoder import batch_schema
from ..spark.arrow_map import map_in_arrow
from ..spark.schema import lazy
from ..spark.table_rows import TableRows
from .bulk import FileBulk
from .parquet import is_int96, may_have_nanos
from .pieces import Part
from .spark_parquet import NO_PLAIN_PATH
from .spark_source import SplitReader

_INSTANT = pa.timestamp("us", "UTC")
_ARROW_POSITIONS = 2**11
"""The first ordinal of parts that Spark does not read itself: their positions come after those of Spark's parts."""


@define(eq=False)
class SparkFileBulk(FileBulk):
    """The files of a folder as Spark frames; the folder must be mounted on every worker."""

    spark: SparkSession = field(kw_only=True)

    def _rows(self, parts: list[Part]) -> nw.LazyFrame[Any]:
        own: dict[pa.Schema, list[str]] = {}
        others = []
        for part in parts:
            path = self._pieces.path(part.name)
            found = self._natively(path) if part.is_whole and self.spec.records.format == "parquet" else None
            if found is None:
                others.append(part)
            else:
                self._pieces.listing.check_size(part.name, part.size)
                own.setdefault(found, []).append(str(path))
        frames = [self._parquet(paths) for paths in own.values()]
        if others or not frames:
            frames.append(self._through_arrow(others))
        return lazy(reduce(DataFrame.unionByName, frames))

    def _through_arrow(self, parts: list[Part]) -> DataFrame:
        first = enumerate(parts, _ARROW_POSITIONS)
        splits = [split for ordinal, part in first for split in self._pieces.splits(ordinal, part)]
        numbers = self.spark.range(0, len(splits), 1, max(1, len(splits)))
        return map_in_arrow(numbers, SplitReader(splits, self.spec.records), batch_schema(self.schema))

    def _natively(self, path: Path) -> pa.Schema | None:
        """The declared columns of a file, if Spark reads the same values as `parquet.read`; else None."""
        if NO_PLAIN_PATH.search(str(path)):
            return None
        with pq.ParquetFile(path) as file:
            there = file.schema_arrow
            wanted = [each.name for each in self.schema.columns if each.name in there.names]
            int96 = {name for name in wanted if is_int96(file, name)}
            if int96 and may_have_nanos(file):
                return None
            kinds = {name: _INSTANT if name in int96 else there.field(name).type for name in wanted}
        return pa.schema(kinds.items()) if all(map(_is_plain, kinds.values())) else None

    def _parquet(self, paths: list[str]) -> DataFrame:
        rows = self.spark.read.parquet(*paths)
        return TableRows(self.path, self.spec.records, "_metadata.file_name").typed(rows)


def _is_plain(kind: pa.DataType) -> bool:
    """Whether Spark reads a column of this type unchanged: not nanoseconds, dictionaries, half floats, nested types."""
    if pa.types.is_timestamp(kind):
        return str(kind.unit) != "ns"
    return not (pa.types.is_dictionary(kind) or pa.types.is_float16(kind) or pa.types.is_nested(kind))
