"""Measures that can be retracted: the columns that each adds up per group, and its value computed from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..errors import ConfigError
from ..sql import Aggregate, Expression, parse_aggregate, parse_expression
from ..table.groups import check_groupable
from ..table.row_kind import ROW_KIND, removes
from ..table.schema import INTEGERS, Column, DataType, column
from ..table.sums import SUM

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..ports import QueryEngine
    from ..table.schema import Schema

ROWS = "_rows"
"""bigint: the number of rows of a group, or the change of it."""

_BIGINT = DataType("bigint")
_DIGITS = 10  # additional digits of a sum's type
_MAX_PRECISION = 38
_BATCH = "batch"


@frozen
class Measure:
    """A measure of a group.

    Args:
        name: the name of its column.
        aggregate: the aggregate.
        where: the condition on rows; None: all rows.
        value_type: the type of the aggregate's argument; a count does not use it.
    """

    name: str
    aggregate: Aggregate
    where: Expression | None
    value_type: DataType

    @classmethod
    def parse(cls, name: str, text: str, where: str | None, schema: Schema, *, estimates: bool = False) -> Measure:
        """Parse a measure from its SQL, such as ``sum(amount)``.

        Args:
            name: the name of its column.
            text: the SQL.
            where: the condition on rows, as SQL; None: all rows.
            schema: the schema of the rows.
            estimates: whether ``approx_count_distinct(x)`` is allowed, which cannot be retracted.

        Raises:
            ConfigError: it is not a measure, has an unknown column, or cannot be retracted exactly.
        """
        aggregate = parse_aggregate(text)
        if aggregate.function == "approx_count_distinct" and not estimates:
            raise ConfigError(f"{text!r} is an estimate, which cannot be retracted; write count(distinct …)")
        condition = parse_expression(where) if where is not None else None
        for expression in filter(None, (aggregate.argument, condition)):
            expression.check_of_one_row()
            expression.check_columns(schema)
        kind = aggregate.argument.declared_type(schema) if aggregate.argument else None
        if kind is None and aggregate.function != "count":
            raise ConfigError(
                f"{text!r}: the type of its argument is unknown; write a column, or cast(… as decimal(18,2))"
            )
        measure = cls(name, aggregate, condition, kind or _BIGINT)
        measure._check(text)
        return measure

    def _check(self, text: str) -> None:
        if self.aggregate.function == "count":
            return
        if self.counted or self.estimated:
            check_groupable(self.name, self.value_type)
        elif self.value_type.name != "decimal" and self.value_type.name not in INTEGERS:
            raise ConfigError(
                f"{text!r} is over a {self.value_type.ddl}, whose sums do not cancel exactly; declare the column"
                " decimal(p,s) in the source's schema, or cast it to one"
            )

    @property
    def counted(self) -> bool:
        """Whether it is computed from its values and their counts, because sums are not enough."""
        return self.aggregate.function in {"count_distinct", "min", "max"}

    @property
    def estimated(self) -> bool:
        """Whether it is an estimate, computed from hashes of its values."""
        return self.aggregate.function == "approx_count_distinct"

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
    def type(self) -> DataType:
        """The type of its column."""
        match self.aggregate.function:
            case "count" | "count_distinct" | "approx_count_distinct":
                return _BIGINT
            case "avg":
                return DataType("double")
            case "sum":
                return self.sum_type
            case _:
                return self.value_type

    @property
    def sum_type(self) -> DataType:
        """The type of a sum of the argument."""
        kind = self.value_type
        if kind.precision is None:
            return _BIGINT
        return DataType("decimal", min(_MAX_PRECISION, kind.precision + _DIGITS), kind.scale)

    @property
    def sums(self) -> tuple[Column, ...]:
        """The columns that it stores for each group; each is a sum."""
        if self.counted or self.estimated or self.counts_all:
            return ()
        count = column(self._count, "bigint")
        return (count,) if self.aggregate.function == "count" else (count, Column(self._sum, self.sum_type))

    @property
    def counts_all(self) -> bool:
        """Whether it is the count of a group's rows."""
        return self.aggregate.function == "count" and self.aggregate.argument is None and self.where is None

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

    def signed(self) -> Iterator[nw.Expr]:
        """The amounts that a row adds to `sums`, negative if the row is retracted."""
        for each in self.sums:
            none = nw.lit(0).cast(each.type.narwhals)
            one = nw.lit(1).cast(nw.Int64) if each.name == self._count else self.over.cast(each.type.narwhals)
            signed = nw.when(removes(nw.col(ROW_KIND))).then(-one).otherwise(one)
            yield nw.when(self.applies).then(signed).otherwise(none).alias(each.name)

    def summed(self) -> nw.Expr:
        """The measure's value, from `sums`. Over no rows a count is 0 and any other measure is null."""
        count, function = nw.col(ROWS if self.counts_all else self._count), self.aggregate.function
        if function == "count":
            return count.alias(self.name)
        total = nw.col(self._sum)
        if function == "avg":
            total = total.cast(nw.Float64) / count.cast(nw.Float64)
        return nw.when(count != 0).then(total).alias(self.name)

    def of_values(self, value: nw.Expr) -> nw.Expr:
        """The measure's value, as an aggregate over the values of a group."""
        match self.aggregate.function:
            case "min":
                return value.min().alias(self.name)
            case "max":
                return value.max().alias(self.name)
            case _:
                return value.count().cast(nw.Int64).alias(self.name)

    @property
    def _count(self) -> str:
        return f"_count_{self.name}"

    @property
    def _sum(self) -> str:
        return f"{SUM}{self.name}"


def sign() -> nw.Expr:
    """The amount that a row adds to the row count of its group: 1, or -1 if the row is retracted."""
    return nw.when(removes(nw.col(ROW_KIND))).then(-1).otherwise(1).cast(nw.Int64)


def describe(measures: Iterable[Measure]) -> str:
    """Measures as text for messages, sorted by name."""
    return "; ".join(sorted(each.sql for each in measures))


def evaluate(
    rows: nw.LazyFrame[Any], measures: tuple[Measure, ...], schema: Schema, queries: QueryEngine
) -> nw.LazyFrame[Any]:
    """Add to rows the columns of the measures' arguments and conditions; see `Measure.expressions`.

    Args:
        rows: the rows of a batch.
        measures: the measures.
        schema: the columns of the source's rows.
        queries: evaluates expressions that are more than a column.
    """
    wanted = {name: expression for measure in measures for name, expression in measure.expressions}
    if all(each.bare for each in wanted.values()):
        named = {name.lower(): name for name in schema.names}
        taken = (nw.col(named[str(each.bare).lower()]).alias(name) for name, each in wanted.items())
        return rows.with_columns(nw.col(ROW_KIND), *taken)
    listed = ", ".join(["*", *(f"{each.sql} AS `{name}`" for name, each in wanted.items())])
    return queries.query(f"SELECT {listed} FROM {_BATCH}", {_BATCH: rows})  # noqa: S608 - parsed, and quoted
