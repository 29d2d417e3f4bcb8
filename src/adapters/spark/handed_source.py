"""Batches that a Structured Streaming query of the program's own hands over, one `foreachBatch` call each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field
from pyspark.sql import functions as F

from ...domain.changelog.row_kind import INSERT, KINDS, KNOWN
from ...domain.epoch import BYTES, ERROR, ORIGIN, POSITION, RAW, ROW_KIND, OffsetRange
from ...domain.errors import BadInput, NotSupported, SourceChanged
from ...domain.ports import HandedOver
from ..letters import JsonLetters
from .letters import spark_letters
from .schema import bring_into, lazy, named, spark_type

if TYPE_CHECKING:
    from collections.abc import Collection

    import narwhals as nw
    from pyspark.sql import Column, DataFrame, SparkSession

    from ...domain.epoch import Offsets
    from ...domain.schema import Schema
    from ...domain.source import RecordSpec


_AS_THE_DECODER_READS = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@define(eq=False)
class HandedSource(HandedOver):
    """What `Headwater.foreach_batch` gives a pipeline; offsets are the query and the number of its batch.

    A batch that the tables hold already is passed over, so the query may repeat it as Spark's guarantee has it.

    Args:
        spec: the rows' columns; frames come with just these names, typed, in any order.
        session: Headwater's; the frames come from sessions of the program's own.
    """

    spec: RecordSpec
    session: SparkSession
    schema: Schema = field(init=False)
    format: str = field(init=False)
    rereads: Collection[str] = field(init=False)
    _offered: tuple[str, int, DataFrame] | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.schema, self.format, self.rereads = self.spec.rows, self.spec.format, self.spec.rereads

    def offer(self, query: str, batch: int, rows: DataFrame) -> None:
        self._offered = (query, batch, bring_into(self.session, rows))

    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """The batch offered; None where there is none, or its epoch is published.

        Raises:
            SourceChanged: it comes from another query than the batch before: its checkpoint is new.
        """
        if self._offered is None:
            return None
        query, batch, _ = self._offered
        if after and after["query"] != query:
            raise SourceChanged(
                f"batch {batch} comes from query {query}, the batch before it from {after['query']}: which rows are in"
                " the tables already cannot be told. Give the query its old checkpoint back, or read the source"
                " through Headwater, which needs none"
            )
        if after and batch <= after["batch"]:
            return None
        return OffsetRange(after, {"query": query, "batch": batch})

    def end(self) -> Offsets | None:
        """Not known: the query alone knows what it will hand over.

        Raises:
            NotSupported: always.
        """
        raise NotSupported("telling where it ends", "a source of kind stream", "let its query say where it starts")

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of the batch offered.

        Raises:
            BadInput: a declared column is missing, or of another type.
            SourceChanged: the epoch begun is of another batch.
        """
        if self._offered is None or (self._offered[0], self._offered[1]) != _identity(offsets):
            begun = "{query}/{batch}".format(**offsets.until)
            raise SourceChanged(f"the epoch begun is of batch {begun}: start its query again, which repeats it")
        query, batch, rows = self._offered
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

    def again(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return spark_letters(letters, JsonLetters(self.spec), self.schema)

    def lag(self, after: Offsets | None) -> str:  # noqa: ARG002 - the port's
        """Unknown: the query alone knows its source."""
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
        """The row kind of each row, and the reason where it has none."""
        if self.spec.row_kind is None:
            return F.lit(INSERT), F.lit(None).cast("string")
        word = named(self.spec.row_kind)
        known = F.create_map(*(F.lit(each) for pair in KINDS.items() for each in pair))[F.lower(word)]
        wrong = F.concat(F.lit(f"column {self.spec.row_kind!r}: a row kind ({KNOWN}) wanted, not "), word)
        unknown = F.coalesce(wrong, F.lit(f"column {self.spec.row_kind!r}: a row kind ({KNOWN}) wanted, not null"))
        return known, F.when(known.isNull(), unknown)


def _identity(offsets: OffsetRange) -> tuple[str, int]:
    return offsets.until["query"], offsets.until["batch"]
