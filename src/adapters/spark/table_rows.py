"""Rows of a foreign table in the declared types: a value that would lose information makes a dead letter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import define
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from ...domain.epoch.batch import BYTES, ERROR, ORIGIN, RAW
from ...domain.errors import BadInput
from ...domain.source.decode import INTEGER_BITS
from ...domain.source.record_spec import RecordSpec
from ...domain.table import schema
from ...domain.table.change import POSITION
from ...domain.table.row_kind import INSERT, ROW_KIND
from ...domain.table.schema import DataType
from .faulty_values import texts_not_utf8, times_out_of_range
from .schema import in_zone, named, sorted_entries, spark_type

_WHOLE = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)
_FLOATS = (spark_types.FloatType, spark_types.DoubleType)
_TIMESTAMP_BOUNDS = (-(2**63), 2**63 - 1)
"""Spark's first and last timestamp, in microseconds since 1970-01-01."""


@define(eq=False)
class TableRows:
    """Reads the rows of one table.

    Args:
        name: the name of the table, for messages.
        spec: the spec of the wanted columns.
        origin: the column with the origin of each row; None: the table's name.
    """

    name: str
    spec: RecordSpec
    origin: str | None = None

    def names(self, there: Iterable[str]) -> dict[str, str]:
        """The table's name of each declared column: the same name, else one that differs in case, as databases fold it.

        Raises:
            BadInput: the table lacks a column.
        """
        same = {each: each for each in there}
        found = {each.lower(): each for each in same}
        for column in self.spec.schema.columns:
            if column.name.lower() not in found and column.name not in self.spec.optional:
                raise BadInput(f"table {self.name} has no column {column.name!r}; it has: {', '.join(sorted(same))}")
        wanted = {name: same.get(name, found.get(name.lower())) for name in self.spec.schema.names}
        return {name: own for name, own in wanted.items() if own is not None}

    def typed(self, rows: DataFrame, unread: Mapping[str, str] | None = None) -> DataFrame:
        """The declared columns and those of `Batch.rows`, from the table's own rows.

        A wall-clock time for a column of instants is taken in the spec's time zone.

        Args:
            rows: the rows.
            unread: for some of the table's columns, the column with the texts of values that Spark cannot read. Such a
                value makes a dead letter.

        Raises:
            BadInput: a column cannot be converted to its declared type.
        """
        unread = unread or {}
        own, types = self.names(rows.columns), {each.name: each.dataType for each in rows.schema.fields}
        values, errors = [], [F.lit(None).cast("string")]
        for column in self.spec.schema.columns:
            if column.name not in own:
                values.append(F.lit(None).cast(spark_type(column.type)).alias(column.name))
                continue
            source, found = named(own[column.name]), types[own[column.name]]
            value = self._value(source, found, column.type, f"column {column.name!r}")
            wrong = list(_errors(source, found, value, column))
            self._check_cast(rows, found, column, [value, *wrong])
            if (text := unread.get(own[column.name])) is not None:
                wrong.append(_not_read(named(text), column))
            errors += wrong
            values.append(value.alias(column.name))
        error = F.coalesce(*errors)
        # A value or its text is null, and is left out of the JSON.
        texts = [named(text).alias(name) for name, text in unread.items() if name in own.values()]
        declared = zip(self.spec.schema.names, values, strict=True)
        usable = [F.when(error.isNull(), value).alias(name) for name, value in declared]
        return rows.select(
            *(usable if len(errors) > 1 else values),
            F.when(error.isNull(), F.lit(INSERT)).alias(ROW_KIND),
            F.monotonically_increasing_id().alias(POSITION),
            (F.lit(self.name) if self.origin is None else F.col(self.origin)).alias(ORIGIN),
            F.to_json(F.struct(*map(named, own.values()), *texts)).alias(RAW),
            F.lit(None).cast("binary").alias(BYTES),
            error.alias(ERROR),
        )

    def _value(self, source: Column, found: spark_types.DataType, kind: DataType, what: str) -> Column:
        """A value in its declared type; of a nested one, each value inside, which must hold all values that are there.

        Raises:
            BadInput: a nested type differs by more than fields that are not declared, and types that hold less.
        """
        if kind.is_nested:
            return self._nested(source, found, kind, what)
        return in_zone(source.cast(spark_type(kind)), found, kind, self.spec.time_zone)

    def _nested(self, source: Column, found: spark_types.DataType, kind: DataType, what: str) -> Column:
        if kind.is_map and kind.element is not None and isinstance(found, spark_types.MapType):
            return self._entries(source, found, kind.element, what)
        if kind.element is not None and not kind.is_map and isinstance(found, spark_types.ArrayType):
            element, inside = kind.element, found.elementType
            self._check_inside(inside, element, f"{what}[]")
            return F.transform(source, lambda each: self._value(each, inside, element, f"{what}[]"))
        if kind.fields and isinstance(found, spark_types.StructType):
            there, fields = {each.name.lower(): each for each in found.fields}, []
            for each in kind.fields:
                where = f"{what}.{each.name}"
                if (own := there.get(each.name.lower())) is None:
                    raise BadInput(f"table {self.name}: {where} is missing; there are: {', '.join(found.names)}")
                self._check_inside(own.dataType, each.type, where)
                fields.append(self._value(source[own.name], own.dataType, each.type, where).alias(each.name))
            return F.when(source.isNotNull(), F.struct(*fields))
        raise BadInput(
            f"table {self.name}: {what} is {found.simpleString()}, and {kind.declared} is wanted; declare it so"
        )

    def _entries(self, source: Column, found: spark_types.MapType, entry: DataType, what: str) -> Column:
        """The entries of a map, in the order of their keys."""
        key, value = entry.fields
        self._check_inside(found.keyType, key.type, f"{what}.{key.name}")
        self._check_inside(found.valueType, value.type, f"{what}.{value.name}")

        def of(name: Column, inside: Column) -> Column:
            own = self._value(name, found.keyType, key.type, f"{what}.{key.name}").alias(key.name)
            inside = self._value(inside, found.valueType, value.type, f"{what}.{value.name}")
            return F.struct(own, inside.alias(value.name))

        return sorted_entries(source, of)

    def _check_cast(
        self, rows: DataFrame, found: spark_types.DataType, column: schema.Column, used: Sequence[Column]
    ) -> None:
        """Check that Spark can convert a column to its declared type, and back to notice losses."""
        if column.type.is_nested or _fits(found, spark_type(column.type)):
            return
        try:
            rows.select(*used)
        except AnalysisException as error:
            raise BadInput(
                f"table {self.name}: column {column.name!r} is {found.simpleString()}, which cannot be read as"
                f" {column.type.ddl}; declare its own type, or read a view that converts it"
            ) from error

    def _check_inside(self, found: spark_types.DataType, kind: DataType, what: str) -> None:
        if not kind.is_nested and not _fits(found, spark_type(kind)):
            raise BadInput(
                f"table {self.name}: {what} is {found.simpleString()}, which {kind.ddl} cannot hold without loss;"
                " declare its type"
            )


def _errors(source: Column, found: spark_types.DataType, value: Column, column: schema.Column) -> Iterator[Column]:
    """What makes a value a dead letter: a loss, a time out of range, and bytes that are no text."""
    if not column.type.is_nested and not _fits(found, spark_type(column.type)):
        lost = source.isNotNull() & ~_is_same(source, found, value, spark_type(column.type))
        message = f"column {column.name!r}: {column.type.ddl} wanted, not "
        yield F.when(lost, F.concat(F.lit(message), source.cast("string")))
    if isinstance(found, spark_types.BinaryType):
        yield from texts_not_utf8(value, column)
    yield from times_out_of_range(source, value, column)


def _is_same(source: Column, found: spark_types.DataType, value: Column, wanted: spark_types.DataType) -> Column:
    """Whether a value is the same in its declared type (boolean).

    Spark replaces a float or a timestamp beyond the range of another type by the bound of that range. So at a bound,
    a changed value may be equal after the cast back.
    """
    same = source.eqNullSafe(value.cast(found))
    if isinstance(found, spark_types.TimestampType) and isinstance(wanted, spark_types.NumericType):
        return same & ~F.unix_micros(source).isin(*_TIMESTAMP_BOUNDS)
    if type(found) in _WHOLE and isinstance(wanted, _FLOATS):
        return same & (value < _beyond(found, wanted))
    if isinstance(found, _FLOATS) and type(wanted) in _WHOLE:
        return same & (source < _beyond(wanted, found))
    return same


def _beyond(whole: spark_types.DataType, floating: spark_types.DataType) -> Column:
    """The first number above the range of a type of whole numbers, in a floating-point type.

    A comparison with a double would not do: Spark simplifies a cast to a float and then to a double to the cast to a
    double, and so would compare the whole number before it was rounded.
    """
    return F.lit(2.0 ** (INTEGER_BITS[whole.simpleString()] - 1)).cast(floating)


def _not_read(text: Column, column: schema.Column) -> Column:
    return F.concat(F.lit(f"column {column.name!r}: {column.type.ddl} wanted, not "), text)


def _fits(found: spark_types.DataType, wanted: spark_types.DataType) -> bool:
    """Whether a type holds all values of another one."""
    if found == wanted:
        return True
    if isinstance(found, spark_types.TimestampNTZType):  # a wall-clock time in the declared zone
        return isinstance(wanted, spark_types.TimestampType)
    if isinstance(found, spark_types.DecimalType) and isinstance(wanted, spark_types.DecimalType):
        return wanted.scale >= found.scale and wanted.precision - wanted.scale >= found.precision - found.scale
    if type(found) in _WHOLE and type(wanted) in _WHOLE:
        return _WHOLE.index(type(wanted)) > _WHOLE.index(type(found))
    return isinstance(found, spark_types.FloatType) and isinstance(wanted, spark_types.DoubleType)
