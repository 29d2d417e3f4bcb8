"""Measures that can be retracted: the columns that each adds up per group, and its value computed from them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import narwhals as nw
from attrs import frozen

from ..errors import ConfigError
from ..ports import QueryEngine
from ..sql import Aggregate, Expression, explain_names, parse_aggregate, parse_row_expression
from ..sql.typing import check_condition, type_expression
from ..table.groups import check_groupable
from ..table.row_kind import ROW_KIND, removes
from ..table.schema import INTEGERS, Column, DataType, Schema, is_column_name
from ..table.sums import SUM

ROWS = "_rows"
"""bigint: the number of rows of a group, or the change of it."""

_BIGINT = DataType("bigint")
_DIGITS = 10  # additional digits of a sum's type
_MAX_PRECISION = 38
_BATCH = "batch"
_OF_TABLES = re.compile("[A-Za-z0-9_-]{1,200}")
"""The names of measures that a table is named after. Its folder has at most 255 characters on most file systems."""


@frozen
class Measure(ABC):
    """A measure of a group. Each aggregate has its class; `parse` makes one.

    Args:
        name: the name of its column.
        aggregate: the aggregate.
        where: the condition on rows; None: all rows.
        value_type: the type of the aggregate's argument; a count does not use it.
    """

    additive: ClassVar[bool] = False
    """Whether its changes add up to its value."""

    name: str
    aggregate: Aggregate
    where: Expression | None
    value_type: DataType

    @staticmethod
    def parse(name: str, text: str, where: str | None, schema: Schema, *, estimates: bool = False) -> Measure:
        """Parse a measure from its SQL, such as ``sum(amount)``.

        Args:
            name: the name of its column.
            text: the SQL.
            where: the condition on rows, as SQL; None: all rows.
            schema: the schema of the rows.
            estimates: whether ``approx_count_distinct(x)`` is allowed, which cannot be retracted.

        Raises:
            ConfigError: it is not a measure, has an unknown column, cannot be retracted exactly, or cannot have this
                name.
        """
        with explain_names(text, schema):
            aggregate = parse_aggregate(text)
            if aggregate.argument:
                aggregate.argument.check_columns(schema)
        of_function = _BY_FUNCTION[aggregate.function]
        if of_function is Estimate and not estimates:
            raise ConfigError(f"{text!r} is an estimate, which cannot be retracted; write count(distinct …)")
        condition = parse_row_expression(where, schema) if where is not None else None
        if condition is not None:
            _check_condition(condition, schema)
        kind = aggregate.argument.declared_type(schema) if aggregate.argument else None
        if kind is None and of_function is not Count:
            raise ConfigError(
                f"{text!r}: the type of its argument is unknown; write a column, or cast(… as decimal(18,2))"
            )
        measure = of_function(name, aggregate, condition, kind or _BIGINT)
        measure.check(text)
        measure.check_name()
        return measure

    def check(self, text: str) -> None:  # noqa: ARG002 - others refuse it by its text
        """Check that it can be computed from values of this type; the text is its SQL, for messages."""
        check_groupable(self.name, self.value_type)

    def check_name(self) -> None:
        """Check that its column can have its name."""
        if not is_column_name(self.name):
            raise ConfigError(
                f"a column is named after measure {self.name!r}: its name must not be empty, nor have a dot or a"
                " backtick; give it another name"
            )

    @property
    def argument(self) -> str:
        """The aggregate's argument, as SQL."""
        return self.aggregate.argument.sql if self.aggregate.argument else "*"

    @property
    def condition(self) -> str:
        """The condition on rows, as SQL; empty if there is none."""
        return self.where.sql if self.where else ""

    @property
    def sql(self) -> str:
        """The measure as text: ``pv = count(*)``."""
        over = f" where {self.condition}" if self.condition else ""
        return f"{self.name} = {self.aggregate.function}({self.argument}){over}"

    @property
    def counts_all(self) -> bool:
        """Whether it is the count of a group's rows."""
        return self.aggregate == Aggregate("count", None) and self.where is None

    @property
    def type(self) -> DataType:
        """The type of its column."""
        return _BIGINT

    @property
    def expressions(self) -> Iterator[tuple[str, Expression]]:
        """The expressions to evaluate for each row, each with the column for its value."""
        if self.where is not None:
            yield f"_where_{self.name}", self.where
        if self.aggregate.argument is not None:
            yield f"_of_{self.name}", self.aggregate.argument

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads, as they are written in the SQL."""
        return tuple(name for _, expression in self.expressions for name in expression.columns)

    @property
    def over(self) -> nw.Expr:
        """The value of the argument in a row."""
        return nw.col(f"_of_{self.name}")

    @property
    def applies(self) -> nw.Expr:
        """Whether a row counts for the measure."""
        matches = nw.lit(value=True) if self.where is None else nw.col(f"_where_{self.name}").fill_null(value=False)
        return matches if self.aggregate.argument is None else matches & ~self.over.is_null()

    @property
    def _amounts(self) -> Mapping[Column, nw.Expr]:
        """What a row adds to each of `sums`."""
        return {}

    @property
    def sums(self) -> tuple[Column, ...]:
        """The columns that it stores for each group; each is a sum."""
        return tuple(self._amounts)

    def signed(self) -> Iterator[nw.Expr]:
        """The amounts that a row adds to `sums`, negative if the row is retracted."""
        for each, amount in self._amounts.items():
            none, one = (value.cast(each.type.narwhals) for value in (nw.lit(0), amount))
            signed = nw.when(removes(nw.col(ROW_KIND))).then(-one).otherwise(one)
            yield nw.when(self.applies).then(signed).otherwise(none).alias(each.name)


class SumMeasure(Measure):
    """A measure that is computed from sums; one of them is the number of rows that it applies to."""

    @property
    def _count(self) -> str:
        return ROWS if self.counts_all else f"_count_{self.name}"

    @property
    def _amounts(self) -> Mapping[Column, nw.Expr]:
        return {} if self.counts_all else {Column(self._count, _BIGINT): nw.lit(1)}

    @abstractmethod
    def summed(self) -> nw.Expr:
        """The measure's value, from `sums`. Over no rows a count is 0 and any other measure is null."""


class Count(SumMeasure):
    """The number of rows, or of values that are not null."""

    additive = True

    def check(self, text: str) -> None:
        """Values of any type can be counted."""

    def summed(self) -> nw.Expr:
        """The number; never null."""
        return nw.col(self._count).alias(self.name)


class Total(SumMeasure):
    """The sum of values; null if there are none."""

    additive = True

    def check(self, text: str) -> None:
        """Refuse values whose sums do not cancel exactly."""
        if self.value_type.name != "decimal" and self.value_type.name not in INTEGERS:
            raise ConfigError(
                f"{text!r} is over a {self.value_type.ddl}, whose sums do not cancel exactly; declare the column"
                " decimal(p,s) in the source's schema, or cast it to one"
            )

    @property
    def _sum(self) -> Column:
        digits, scale = self.value_type.precision, self.value_type.scale
        kind = DataType("decimal", min(_MAX_PRECISION, digits + _DIGITS), scale) if digits else _BIGINT
        return Column(f"{SUM}{self.name}", kind)

    @property
    def _amounts(self) -> Mapping[Column, nw.Expr]:
        return {**super()._amounts, self._sum: self.over}

    @property
    def type(self) -> DataType:
        return self._sum.type

    @property
    def _value(self) -> nw.Expr:
        return nw.col(self._sum.name)

    def summed(self) -> nw.Expr:
        """The value, or null."""
        return nw.when(nw.col(self._count) != 0).then(self._value).alias(self.name)


class Mean(Total):
    """The mean of values, computed from their sum; null if there are none."""

    additive = False

    @property
    def type(self) -> DataType:
        return DataType("double")

    @property
    def _value(self) -> nw.Expr:
        return super()._value.cast(nw.Float64) / nw.col(self._count).cast(nw.Float64)


class TableMeasure(Measure):
    """A measure that has a table of its own, because sums are not enough."""

    def check_name(self) -> None:
        """Check that its table can be named after it."""
        if not _OF_TABLES.fullmatch(self.name):
            raise ConfigError(
                f"a table is named after measure {self.name!r}, which needs more than sums: its name must be 1 to 200"
                " letters (a to z), digits, _ and -; give it another name"
            )


class ValueMeasure(TableMeasure):
    """A measure that is computed from its values and their counts."""

    @abstractmethod
    def of_values(self, value: nw.Expr) -> nw.Expr:
        """The measure's value, as an aggregate over the values of a group."""


class CountDistinct(ValueMeasure):
    """The number of different values."""

    def of_values(self, value: nw.Expr) -> nw.Expr:
        """The number; null only where there is no group."""
        return value.count().cast(nw.Int64).alias(self.name)


class Extreme(ValueMeasure):
    """The least or the greatest value."""

    @property
    def least(self) -> bool:
        """Whether it is the least one."""
        return self.aggregate.function == "min"

    @property
    def type(self) -> DataType:
        return self.value_type

    def of_values(self, value: nw.Expr) -> nw.Expr:
        """The value, or null."""
        return (value.min() if self.least else value.max()).alias(self.name)


class Estimate(TableMeasure):
    """An estimate of the number of different values, computed from their hashes."""


_BY_FUNCTION: dict[str, type[Measure]] = {
    "count": Count,
    "count_distinct": CountDistinct,
    "approx_count_distinct": Estimate,
    "sum": Total,
    "avg": Mean,
    "min": Extreme,
    "max": Extreme,
}


def _check_condition(condition: Expression, schema: Schema) -> None:
    try:
        kind = type_expression(condition, schema)
    except ConfigError:  # only Spark knows its type, and refuses it in the first epoch if it is not a condition
        return
    check_condition(condition, kind)


def sign() -> nw.Expr:
    """The amount that a row adds to the row count of its group: 1, or -1 if the row is retracted."""
    return nw.when(removes(nw.col(ROW_KIND))).then(-1).otherwise(1).cast(nw.Int64)


def fixed_parts(measures: Iterable[Measure]) -> list[tuple[str, ...]]:
    """Return what stored rows depend on in measures, sorted by name."""
    return sorted((one.name, one.aggregate.function, one.argument, one.condition, one.type.ddl) for one in measures)


def describe(measures: Iterable[Measure]) -> str:
    """Measures as text for messages, sorted by name."""
    return "; ".join(sorted(each.sql for each in measures))


def evaluate(
    rows: nw.LazyFrame[Any], measures: tuple[Measure, ...], schema: Schema, queries: QueryEngine
) -> nw.LazyFrame[Any]:
    """Add to rows the columns of the measures' arguments and conditions; see `Measure.expressions`."""
    wanted = {name: expression for measure in measures for name, expression in measure.expressions}
    if all(each.bare for each in wanted.values()):
        named = {name.lower(): name for name in schema.names}
        taken = (nw.col(named[str(each.bare).lower()]).alias(name) for name, each in wanted.items())
        return rows.with_columns(nw.col(ROW_KIND), *taken)
    listed = ", ".join(["*", *(f"{each.sql} AS `{name}`" for name, each in wanted.items())])
    return queries.query(f"SELECT {listed} FROM {_BATCH}", {_BATCH: rows})  # noqa: S608 - parsed, and quoted
