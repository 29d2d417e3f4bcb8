"""Batches from a Structured Streaming query of the user's program, one per `foreachBatch` call."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from attrs import define, field
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ...domain.epoch.batch import BYTES, ERROR, ORIGIN, RAW
from ...domain.epoch.epoch import OffsetRange, Offsets
from ...domain.errors import BadInput, NotSupported, SourceChanged
from ...domain.ports import Now, StreamSource
from ...domain.source.record_spec import RecordSpec
from ...domain.table.change import POSITION
from ...domain.table.row_kind import INSERT, KINDS, KNOWN, ROW_KIND
from ...domain.table.schema import Schema
from ..records.dead_letters import JsonDeadLetters
from .dead_letters import spark_dead_letters
from .schema import bring_into, lazy, named, spark_type

if TYPE_CHECKING:
    import narwhals as nw


_AS_THE_DECODER_READS = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@define(eq=False)
class HandedSource(StreamSource):
    """The source of a pipeline that `Headwater.foreach_batch` feeds; offsets are the query and its batch number.

    A batch that is already in the tables is skipped, so the query may repeat it, as Spark's guarantee allows.

    Args:
        spec: the rows' columns; frames have exactly these names, typed, in any order.
        session: Headwater's session; the frames come from sessions of the user's program.
    """

    spec: RecordSpec
    session: SparkSession
    schema: Schema = field(init=False)
    format: str = field(init=False)
    reread_formats: Collection[str] = field(init=False)
    _submitted: tuple[str, int, DataFrame] | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.schema, self.format, self.reread_formats = self.spec.rows, self.spec.format, self.spec.reread_formats

    def submit(self, query: str, batch: int, rows: DataFrame) -> None:
        self._submitted = (query, batch, bring_into(self.session, rows))

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:  # noqa: ARG002 - the port's
        """The submitted batch; None if there is none, or its epoch is published.

        Raises:
            SourceChanged: it comes from another query than the batch before, because the query's checkpoint is new.
        """
        if self._submitted is None:
            return None
        query, batch, _ = self._submitted
        if after and after["query"] != query:
            raise SourceChanged(
                f"batch {batch} comes from query {query}, the batch before it from {after['query']}: it is unknown"
                " which rows the tables have already. Give the query its old checkpoint back, or read the source"
                " through Headwater, which needs no checkpoint"
            )
        if after and batch <= after["batch"]:
            return None
        return OffsetRange(after, {"query": query, "batch": batch})

    def end(self) -> Offsets | None:
        """Unknown: only the query knows its next batches.

        Raises:
            NotSupported: always.
        """
        raise NotSupported("reporting its end", "a source of kind stream", "let its query say where it starts")

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of the submitted batch.

        Raises:
            BadInput: a declared column is missing, or of another type.
            SourceChanged: the unfinished epoch belongs to another batch.
        """
        if self._submitted is None or (self._submitted[0], self._submitted[1]) != _identity(offsets):
            begun = "{query}/{batch}".format(**offsets.until)
            raise SourceChanged(
                f"the unfinished epoch belongs to batch {begun}: start its query again, which repeats that batch"
            )
        query, batch, rows = self._submitted
        self._check(rows)
        kind, error = self._kind()
        return lazy(
            rows.select(
                *map(named, self.schema.names),
                kind.alias(ROW_KIND),
                F.monotonically_increasing_id().alias(POSITION),
                F.lit(f"{query}/{batch}").alias(ORIGIN),
                F.to_json(F.struct(*map(named, self.spec.schema.names)), _AS_THE_DECODER_READS).alias(RAW),
                F.lit(None).cast("binary").alias(BYTES),
                error.alias(ERROR),
            )
        )

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return spark_dead_letters(letters, JsonDeadLetters(self.spec), self.schema)

    def lag(self, after: Offsets | None) -> str:  # noqa: ARG002 - the port's
        """Unknown: only the query knows its source."""
        return "a lag that its query knows"

    def _check(self, rows: DataFrame) -> None:
        there = {each.name: each.dataType for each in rows.schema.fields}
        for column in self.spec.schema.columns:
            found = there.get(column.name)
            if found != spark_type(column.type):
                came = "is missing" if found is None else f"came as {found.simpleString()}"
                raise BadInput(
                    f"column {column.name!r} {came}, {column.type.ddl} wanted; select and cast it in the query"
                )

    def _kind(self) -> tuple[Column, Column]:
        """The row kind of each row, and the error of rows without one."""
        if self.spec.row_kind is None:
            return F.lit(INSERT), F.lit(None).cast("string")
        word = named(self.spec.row_kind)
        known = F.create_map(*(F.lit(each) for pair in KINDS.items() for each in pair))[F.lower(word)]
        wrong = F.concat(F.lit(f"column {self.spec.row_kind!r}: a row kind ({KNOWN}) wanted, not "), word)
        unknown = F.coalesce(wrong, F.lit(f"column {self.spec.row_kind!r}: a row kind ({KNOWN}) wanted, not null"))
        return known, F.when(known.isNull(), unknown)


def _identity(offsets: OffsetRange) -> tuple[str, int]:
    return offsets.until["query"], offsets.until["batch"]
