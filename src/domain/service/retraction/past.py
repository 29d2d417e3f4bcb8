"""A user-supplied past: a table, or the result of a query, as of the cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NoReturn

import narwhals as nw
from attrs import field, frozen
from narwhals.dtypes import DType

from ...errors import ConfigError
from ...ports import QueryEngine
from ...sql import with_parameters
from ...table.groups import as_key
from ...table.schema import DataType, Schema
from ..base import one_of
from ..input import PlainTable
from ..measures import ROWS, Measure, ValueMeasure
from .past_values import check_count, check_integers, check_sum

HOLDS = ("rows", "totals")


@frozen
class PastTable:
    """The tables and the query of a user-supplied past.

    Args:
        tables: the tables, by their name in the query.
        sql: the query, with the parameter ``:cut`` (the cut, a date); None: the only table is read as it is.
        holds: ``rows``: the rows of the source's table at the end of the day before the cut, from which the measures
            are computed; ``totals``: the columns of the group and a column for each measure.
    """

    tables: Mapping[str, PlainTable]
    sql: str | None = None
    holds: str = field(default="rows", validator=one_of(*HOLDS))

    def __attrs_post_init__(self) -> None:
        if self.sql is None and len(self.tables) != 1:
            raise ConfigError("past needs a path, or sql and the tables that it is over")

    def check(self, measures: Sequence[Measure]) -> None:
        """Check that all measures can be computed from the past.

        Raises:
            ConfigError: totals are not enough for a measure.
        """
        if self.holds == "totals":
            for measure in measures:
                _Totals(measures).sums_of(measure)
            if not any(measure.counts_all for measure in measures):
                raise ConfigError("totals need the number of rows of each group: add a measure count(*)")

    def read(
        self, queries: QueryEngine, cut: date, rows: Schema, group: Schema, measures: Sequence[Measure]
    ) -> nw.LazyFrame[Any]:
        """Read the rows of the table or the query, in the types of the source.

        Args:
            queries: runs the query.
            cut: the first day that is not in the past.
            rows: the columns that views depend on, if the past holds rows.
            group: the columns of the group, if the past holds totals.
            measures: the measures of the pipeline.

        Raises:
            ConfigError: a column is missing, or has another type than in the source.
            BadInput: a number cannot be stored as it is; see `past_values`.
            SumOverflow: a sum does not fit into the type of its measure.
        """
        tables = {name: queries.scan(each.path, each.format) for name, each in self.tables.items()}
        if self.sql is None:
            (table,) = tables.values()
        else:
            table = queries.query(with_parameters(self.sql, {"cut": cut}), tables)
        if self.holds == "rows":
            return _cast(table, rows, ())
        totals = _cast(table, group, [measure.name for measure in measures])
        _Totals(measures).check(totals, group.names)
        return totals

    def to_sums(self, rows: nw.LazyFrame[Any], group: Schema, measures: Sequence[Measure]) -> nw.LazyFrame[Any]:
        """Convert a past that holds totals to the columns of the table `past`."""
        totals = _Totals(measures)
        sums = [expression for measure in measures for expression in totals.sums_of(measure)]
        count = next(measure for measure in measures if measure.counts_all)
        keyed = as_key(rows.select(*group.names, *(measure.name for measure in measures)), group)
        return keyed.with_columns(nw.col(count.name).cast(nw.Int64).alias(ROWS), *sums)


@frozen
class _Totals:
    """Converts the totals of measures to the sums that are stored for them."""

    measures: Sequence[Measure]

    def check(self, totals: nw.LazyFrame[Any], group: Sequence[str]) -> None:
        """Check that all totals can be stored as they are; see `past_values`."""
        for measure in self._of("count"):
            check_count(totals, measure.name, group)
        for measure in self._of("sum"):
            check_sum(totals, measure, self._find(measure, "count").name, group)

    def _of(self, function: str) -> list[Measure]:
        return [measure for measure in self.measures if measure.aggregate.function == function]

    def sums_of(self, measure: Measure) -> list[nw.Expr]:
        """Return the sums of a measure, computed from the totals.

        Raises:
            ConfigError: they cannot be computed from the totals.
        """
        if measure.counts_all:
            return []
        if isinstance(measure, ValueMeasure):
            self._refuse(measure, "its values")
        count, *others = measure.sums
        count_measure = measure if measure.aggregate.function == "count" else self._find(measure, "count")
        sums = [nw.col(count_measure.name).cast(nw.Int64).alias(count.name)]
        for each in others:
            sum_measure = measure if measure.aggregate.function == "sum" else self._find(measure, "sum")
            zero, total = nw.lit(0).cast(each.type.narwhals), nw.col(sum_measure.name).cast(each.type.narwhals)
            sums.append(nw.when(total.is_null()).then(zero).otherwise(total).alias(each.name))
        return sums

    def _find(self, measure: Measure, function: str) -> Measure:
        """Return the measure with this function over the same argument and the same rows.

        Raises:
            ConfigError: there is no such measure.
        """
        for each in self.measures:
            same = (each.aggregate.argument, each.where) == (measure.aggregate.argument, measure.where)
            if same and each.aggregate.function == function:
                return each
        where = f" where {measure.condition}" if measure.condition else ""
        return self._refuse(measure, f"measure {function}({measure.argument}){where}")

    def _refuse(self, measure: Measure, missing: str) -> NoReturn:
        raise ConfigError(
            f"measure {measure.name!r} cannot be computed from totals, which do not contain {missing}; add that, or set"
            ' holds = "rows"'
        )


def _cast(table: nw.LazyFrame[Any], columns: Schema, numbers: Sequence[str]) -> nw.LazyFrame[Any]:
    """Cast the columns of a table to their declared types. The columns in `numbers` keep their type.

    Raises:
        ConfigError: a column is missing, or has another type.
        BadInput: an integer does not fit into its declared type.
    """
    found = table.collect_schema()
    for name in (*columns.names, *numbers):
        if name not in found:
            raise ConfigError(f"the past has no column {name!r}; it has: {', '.join(found)}")
    for each in columns.columns:
        if not _matches(each.type.narwhals, found[each.name]):
            raise _type_error(each.name, found[each.name], each.type.ddl)
    for name in numbers:
        if not found[name].is_numeric():
            raise _type_error(name, found[name], "number")
    check_integers(table, columns)
    casts = [nw.col(each.name).cast(each.type.narwhals) for each in columns.columns]
    return table.with_columns(*casts) if casts else table


def _matches(declared: DType, found: DType) -> bool:
    """Whether a column can have the declared type: the types are equal, or both are integers."""
    return declared == found or (declared.is_integer() and found.is_integer())


def _type_error(name: str, found: DType, wanted: str) -> ConfigError:
    try:
        kind = DataType.of(found).ddl
    except ConfigError:  # a type that tables do not have
        kind = str(found)
    return ConfigError(f"the past's column {name!r} is {kind}, not a {wanted}: cast it in the past's sql")
