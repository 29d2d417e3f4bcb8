"""Frames that a program hands over, as Spark frames: pushed ones, and batches of Structured Streaming."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any

import narwhals as nw
import pyarrow as pa
from attrs import define, evolve, field
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_type

from ...domain.epoch.batch import BYTES, ERROR, ORIGIN, RAW
from ...domain.epoch.epoch import OffsetRange
from ...domain.errors import BadInput
from ...domain.table import schema
from ...domain.table.change import POSITION
from ...domain.table.row_kind import INSERT, ROW_KIND
from ..memory_limit import check_room
from ..records.column_types import check_columns
from ..records.dead_letters import FrameDeadLetters
from ..records.decoder import arrow_schema, batch_schema
from ..records.program_frames import is_of_spark, query_batch
from ..records.program_source import BY_HAND, LentRows, ProgramFrame, ProgramSource
from .arrow_map import map_in_arrow, with_offsets
from .dead_letters import spark_dead_letters
from .errors import explain_read_errors
from .faulty_values import texts_not_utf8, times_out_of_range
from .own_session import working_in
from .schema import bring_into, compute, drop_rows, lazy, named, size_of_computed, spark_type, widened

_AS_THE_DECODER_READS = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_PACKED = "batch binary"


@define(eq=False)
class SparkProgramSource(ProgramSource):
    """The source of a pipeline that `Headwater.foreach_batch` or `Headwater.push` feeds.

    Args:
        session: Headwater's session; the frames come from sessions of the user's program.
    """

    session: SparkSession
    _computed: DataFrame | None = field(init=False, default=None)
    _unread: DataFrame | None = field(init=False, default=None)
    """The computed rows of the frame that was handed over, if they are too many to lend and were not read since."""

    def submit(self, query: str | None, batch: int, rows: DataFrame) -> AbstractContextManager[None]:
        of = None if query else query_batch(rows)
        self._frame = ProgramFrame(query or (of.query if of else BY_HAND), batch, rows, batch=of)
        return self.holding()

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of the frame that the program has handed over.

        Raises:
            BadInput: a declared column is missing, or its type could lose values.
        """
        frame = self.frame_of(offsets)
        if is_of_spark(frame.rows):
            return lazy(self._rows(self._bring(self._declared(frame.rows, frame.what)), frame.origin))
        packed = [(_pack(batch),) for batch in self.decode(frame)]
        return lazy(map_in_arrow(self.session.createDataFrame(packed, _PACKED), _unpack, batch_schema(self.schema)))

    def lend(self) -> ProgramFrame:
        frame = super().lend()
        return evolve(frame, rows=LentRows(partial(self._collect, frame.rows)))

    def _collect(self, rows: DataFrame, frame: ProgramFrame) -> Iterator[pa.RecordBatch]:
        """The rows of a frame, as batches of `batch_schema`.

        Raises:
            BadInput: a declared column is missing, or its type could lose values.
            EngineLimit: they are too many.
        """
        schema = arrow_schema(batch_schema(self.schema))
        for batch in self._arrow_batches(rows, frame):
            yield from with_offsets(pa.Table.from_batches([batch])).select(schema.names).cast(schema).to_batches()

    def _arrow_batches(self, rows: DataFrame, frame: ProgramFrame) -> list[pa.RecordBatch]:
        with working_in(self.session), explain_read_errors():
            computed = self._compute(self._declared(rows, frame.what))
            self._unread = computed
            check_room(size_of_computed(computed))
            self._unread = None
            brought = self._rows(bring_into(self.session, computed), frame.origin)
            found: list[pa.RecordBatch] = brought._collect_as_arrow()
            return found

    def forget(self) -> None:
        super().forget()
        self._unread = None
        self._release()

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return spark_dead_letters(letters, FrameDeadLetters(self.spec), self.schema)

    def _bring(self, rows: DataFrame) -> DataFrame:
        """The rows that a frame has in the program's session, as a frame of Headwater's own."""
        unread, self._unread = self._unread, None
        if unread is not None:
            return bring_into(self.session, unread)
        return rows if rows.sparkSession is self.session else bring_into(self.session, self._compute(rows))

    def _compute(self, rows: DataFrame) -> DataFrame:
        self._release()
        self._computed = compute(rows)
        return self._computed

    def _release(self) -> None:
        if self._computed is not None:
            drop_rows(self._computed)
            self._computed = None

    def _rows(self, rows: DataFrame, origin: str) -> DataFrame:
        kind, wrong_kind = self._kind()
        types = {each.name: each.dataType for each in rows.schema.fields}
        errors = [*self._errors(types), wrong_kind]
        values = {each.name: self._value(each, types) for each in self.schema.columns}
        if len(errors) > 1:  # later steps compute with a value before dead letters are left out
            values = {name: F.when(F.col(ERROR).isNull(), value) for name, value in values.items()}
        # First the error: inside of a lambda, a name means the column that the same select has made of it.
        return rows.select("*", F.coalesce(*errors).alias(ERROR)).select(
            *(value.alias(name) for name, value in values.items()),
            kind.alias(ROW_KIND),
            F.monotonically_increasing_id().alias(POSITION),
            F.lit(origin).alias(ORIGIN),
            F.to_json(F.struct(*map(named, self.spec.schema.names)), _AS_THE_DECODER_READS).alias(RAW),
            F.lit(None).cast("binary").alias(BYTES),
            F.col(ERROR),
        )

    def _value(self, column: schema.Column, types: Mapping[str, spark_types.DataType]) -> Column:
        return widened(named(column.name), types[column.name], column.type, self.spec.time_zone)

    def _errors(self, types: Mapping[str, spark_types.DataType]) -> Iterator[Column]:
        for column in self.spec.schema.columns:
            value = self._value(column, types)
            yield from texts_not_utf8(value, column)
            yield from times_out_of_range(named(column.name), value, column)

    def _declared(self, rows: DataFrame, what: str) -> DataFrame:
        """The declared columns of a frame; the names of its other columns may differ from theirs in case only.

        Raises:
            BadInput: a declared column is missing, not the only one of its name, or its type could lose values.
        """
        declared, fields = self.spec.schema.names, rows.schema.fields
        types = {each.name: each.type for each in self.spec.schema.columns}
        there = [(each.name, _arrow_type(each.dataType, types.get(each.name), each.name, what)) for each in fields]
        check_columns(pa.schema(there), what, self.spec)
        apart = (each.name if each.name in declared else f"not declared, {at}" for at, each in enumerate(fields))
        return rows.toDF(*apart).select(*map(named, declared))

    def _kind(self) -> tuple[Column, Column]:
        """The row kind of each row, and the error of rows without one."""
        if self.spec.row_kind is None:
            return F.lit(INSERT), F.lit(None).cast("string")
        word = named(self.spec.row_kind)
        pairs, refusal = self.spec.row_kinds.words.items(), self.spec.row_kinds.refusal(self.spec.row_kind)
        known = F.create_map(*(F.lit(each) for pair in pairs for each in pair))[F.lower(word)]
        unknown = F.coalesce(F.concat(F.lit(f"{refusal}'"), word, F.lit("'")), F.lit(f"{refusal}null"))
        return known, F.when(known.isNull(), unknown)


def _arrow_type(found: spark_types.DataType, wanted: schema.DataType | None, place: str, what: str) -> pa.DataType:
    """The Arrow type of a column or of a part of it, for `check_columns`; any value inside may be null.

    Args:
        found: its type in Spark.
        wanted: its declared type; None if it is not declared, and so may have any type.
        place: its name, for messages.
        what: has the column, for messages.

    Raises:
        BadInput: Arrow has no such type, or a declared field of a struct is there in more than one case.
    """
    if wanted is None:
        return pa.null()
    inside, element = partial(_arrow_type, what=what), wanted.element or wanted
    if isinstance(found, spark_types.ArrayType):
        return pa.list_(inside(found.elementType, element, f"{place}[]"))
    if isinstance(found, spark_types.MapType):
        kinds = [_of_field(element, name) for name in (schema.KEY, schema.VALUE)]
        key = inside(found.keyType, kinds[0], f"{place}.{schema.KEY}")
        if pa.types.is_null(key):  # Arrow has no such keys; the map has no entries, so any key fits
            key = to_arrow_type(spark_type(kinds[0])) if kinds[0] else pa.string()
        return pa.map_(key, inside(found.valueType, kinds[1], f"{place}.{schema.VALUE}"))
    if isinstance(found, spark_types.StructType):
        _check_case(found, wanted, place, what)
        fields = ((each.name, each.dataType, _of_field(wanted, each.name)) for each in found.fields)
        return pa.struct([(name, inside(kind, own, f"{place}.{name}")) for name, kind, own in fields])
    with suppress(PySparkTypeError):
        if not isinstance(found, spark_types.UserDefinedType):
            return to_arrow_type(found)
    raise BadInput(f"{what}: column {place!r} is {found.simpleString()}, which no table can hold; cast it before")


def _of_field(wanted: schema.DataType, name: str) -> schema.DataType | None:
    """The declared type of a field, or None; a type that is not a struct is wanted of each field, and none fits."""
    return wanted if not wanted.fields else next((each.type for each in wanted.fields if each.name == name), None)


def _check_case(found: spark_types.StructType, wanted: schema.DataType, place: str, what: str) -> None:
    """Check that each declared field of a struct is there once, ignoring case: Spark takes no other."""
    for each in wanted.fields:
        same = [name for name in found.names if name.lower() == each.name.lower()]
        if len(same) > 1:
            raise BadInput(
                f"{what}: column '{place}.{each.name}' must exist exactly once, ignoring case; its struct has:"
                f" {', '.join(found.names)}; rename or leave out the others"
            )


def _pack(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _unpack(packed: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for rows in packed:
        for batch in rows.column(0).to_pylist():
            yield from pa.ipc.open_stream(batch)
