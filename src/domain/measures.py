"""Measures that can be taken back: what each adds up of the rows of a group, and what that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from .changelog.row_kind import removes
from .epoch import ROW_KIND
from .errors import ConfigError
from .groups import check_groupable
from .schema import INTEGERS, Column, DataType, column
from .sql import Aggregate, Expression, parse_aggregate, parse_expression
from .sums import SUM

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .ports import QueryEngine
    from .schema import Schema

ROWS = "_rows"
"""bigint: how many rows a group has, or by how many that changes."""

_BIGINT = DataType("bigint")
_DIGITS = 10  # that a sum has more than its addends, as in Spark
_MAX_PRECISION = 38
_BATCH = "batch"


@frozen
class Measure:
    """A measure of a group.

    Args:
        name: of its column.
        aggregate: what is computed.
        where: which rows it is over; None for all.
        argument_type: of what is aggregated; None for a count.
    """

    name: str
    aggregate: Aggregate
    where: Expression | None = None
    argument_type: DataType | None = None

    @classmethod
    def parse(cls, name: str, text: str, where: str | None, schema: Schema, *, estimates: bool = False) -> Measure:
        """A measure from its SQL, such as ``sum(amount)``.

        Args:
            name: of its column.
            text: the SQL.
            where: which rows it is over, as SQL; None for all.
            schema: of the rows.
            estimates: whether ``approx_count_distinct(x)`` is allowed, which cannot be taken back.

        Raises:
            ConfigError: it is none, names no column of the schema, or cannot be taken back exactly.
        """
        aggregate = parse_aggregate(text)
        if aggregate.function == "approx_count_distinct" and not estimates:
            raise ConfigError(f"{text!r} is an estimate, which cannot be taken back; write count(distinct …)")
        condition = parse_expression(where) if where is not None else None
        for expression in filter(None, (aggregate.argument, condition)):
            expression.check_of_one_row()
            expression.check_columns(schema)
        kind = aggregate.argument.declared_type(schema) if aggregate.argument else None
        measure = cls(name, aggregate, condition, kind)
        measure._check(text)
        return measure

    def _check(self, text: str) -> None:
        if self.aggregate.function == "count":
            return
        if self.argument_type is None:
            raise ConfigError(
                f"{text!r}: the type of what it is over is not plain; write a column, or cast(… as decimal(18,2))"
            )
        if self.counted or self.estimated:
            check_groupable(self.name, self.argument_type)
        elif self.argument_type.name != "decimal" and self.argument_type.name not in INTEGERS:
            raise ConfigError(
                f"{text!r} is over a {self.argument_type.ddl}, whose sums do not cancel exactly; declare the column"
                " decimal(p,s) in the source's schema, or cast it to one"
            )

    @property
    def counted(self) -> bool:
        """Whether it is answered from its values and how often each occurs, as sums do not tell it."""
        return self.aggregate.function in {"count_distinct", "min", "max"}

    @property
    def estimated(self) -> bool:
        """Whether it is an estimate, from the hashes of its values."""
        return self.aggregate.function == "approx_count_distinct"

    @property
    def argument(self) -> str:
        """What is aggregated, as SQL."""
        return self.aggregate.argument.sql if self.aggregate.argument else "*"

    @property
    def condition(self) -> str:
        """Which rows it is over, as SQL; nothing for all."""
        return self.where.sql if self.where else ""

    @property
    def sql(self) -> str:
        """The measure as it may be written: ``pv = count(*)``."""
        over = f" where {self.condition}" if self.condition else ""
        return f"{self.name} = {self.aggregate.function}({self.argument}){over}"

    @property
    def simple(self) -> bool:
        """Whether its columns are the batch's own, so that no SQL has to be evaluated."""
        return self.where is None and (self.aggregate.argument is None or self.aggregate.argument.bare is not None)

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
    def value_type(self) -> DataType:
        """Of what it is over."""
        if self.argument_type is None:
            raise ConfigError(f"measure {self.name!r} is over no values")
        return self.argument_type

    @property
    def sum_type(self) -> DataType:
        """Of a sum of what it is over."""
        kind = self.value_type
        if kind.precision is None:
            return _BIGINT
        return DataType("decimal", min(_MAX_PRECISION, kind.precision + _DIGITS), kind.scale)

    @property
    def sums(self) -> tuple[Column, ...]:
        """The columns that it keeps for each group; each is a sum."""
        if self.counted or self.estimated or self.counts_all:
            return ()
        count = column(self._count, "bigint")
        return (count,) if self.aggregate.function == "count" else (count, Column(self._sum, self.sum_type))

    @property
    def counts_all(self) -> bool:
        """Whether it is the count of a group's rows."""
        return self.aggregate.function == "count" and self.aggregate.argument is None and self.where is None

    @property
    def evaluated(self) -> Iterator[tuple[str, Expression]]:
        """What is to be evaluated for each row, by the column that takes it."""
        if self.where is not None:
            yield f"_where_{self.name}", self.where
        if self.aggregate.argument is not None:
            yield f"_of_{self.name}", self.aggregate.argument

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads, as written."""
        return tuple(name for _, expression in self.evaluated for name in expression.columns)

    @property
    def over(self) -> nw.Expr:
        """What a row brings."""
        return nw.col(f"_of_{self.name}")

    @property
    def applies(self) -> nw.Expr:
        """Whether a row counts."""
        chosen = nw.lit(value=True) if self.where is None else nw.col(f"_where_{self.name}").fill_null(value=False)
        return chosen if self.aggregate.argument is None else chosen & ~self.over.is_null()

    def signed(self) -> Iterator[nw.Expr]:
        """What a row adds to `sums`, or takes from them."""
        for each in self.sums:
            none = nw.lit(0).cast(each.type.narwhals)
            one = nw.lit(1).cast(nw.Int64) if each.name == self._count else self.over.cast(each.type.narwhals)
            signed = nw.when(removes(nw.col(ROW_KIND))).then(-one).otherwise(one)
            yield nw.when(self.applies).then(signed).otherwise(none).alias(each.name)

    def summed(self) -> nw.Expr:
        """The answer, from `sums`; a count is 0 over nothing, all else null."""
        count, function = nw.col(ROWS if self.counts_all else self._count), self.aggregate.function
        if function == "count":
            return count.alias(self.name)
        total = nw.col(self._sum)
        if function == "avg":
            total = total.cast(nw.Float64) / count.cast(nw.Float64)
        return nw.when(count != 0).then(total).alias(self.name)

    def of_values(self, value: nw.Expr) -> nw.Expr:
        """The answer, as an aggregate of the values that a group has."""
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
    """What a row adds to the rows of its group: 1, or -1 where it is taken back."""
    return nw.when(removes(nw.col(ROW_KIND))).then(-1).otherwise(1).cast(nw.Int64)


def described(measures: Iterable[Measure]) -> str:
    """Measures for a message, in the order of their names."""
    return "; ".join(sorted(each.sql for each in measures))


def evaluated(
    rows: nw.LazyFrame[Any], measures: tuple[Measure, ...], schema: Schema, queries: QueryEngine
) -> nw.LazyFrame[Any]:
    """Rows with what their measures are over, and which rows these count.

    Args:
        rows: of a batch.
        measures: see above.
        schema: the columns of the source's rows.
        queries: evaluates what is more than a column.
    """
    wanted = {name: expression for measure in measures for name, expression in measure.evaluated}
    if all(measure.simple for measure in measures):
        named = {name.lower(): name for name in schema.names}
        taken = (nw.col(named[str(each.bare).lower()]).alias(name) for name, each in wanted.items())
        return rows.with_columns(nw.col(ROW_KIND), *taken)
    listed = ", ".join(["*", *(f"{each.sql} AS `{name}`" for name, each in wanted.items())])
    return queries.query(f"SELECT {listed} FROM {_BATCH}", {_BATCH: rows})  # noqa: S608 - parsed, and quoted
