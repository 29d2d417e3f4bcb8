"""A past that is the user's own: a table, or the answer of a query, as of the day cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import narwhals as nw
from attrs import field, frozen

from ..collect import collect_small
from ..errors import ConfigError
from ..groups import as_key
from ..measures import ROWS
from ..schema import DataType
from ..sql import with_parameters
from ..sums import overflow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from narwhals.dtypes import DType

    from ..measures import Measure
    from ..plain_table import PlainTable
    from ..ports import QueryEngine
    from ..schema import Schema
    from .settings import RetractionSettings

HOLDS = ("rows", "totals")
_BIGINT = DataType("bigint")


@frozen
class PastTable:
    """Where the past comes from.

    Args:
        tables: tables by the name that the query calls them.
        sql: the query; ``:cut`` in it is the cut, a date. Without, there is one table, taken as it is.
        holds: ``rows``: the source's table as it was when the day before the cut ended, from which everything is
            counted; ``totals``: the group and a column for each measure.
    """

    tables: Mapping[str, PlainTable]
    sql: str | None = None
    holds: str = field(default="rows")

    def __attrs_post_init__(self) -> None:
        if self.holds not in HOLDS:
            raise ConfigError(f"holds = {self.holds!r} is not one of {', '.join(HOLDS)}")
        if self.sql is None and len(self.tables) != 1:
            raise ConfigError("past needs a path, or sql and the tables that it is over")

    def check(self, measures: Sequence[Measure]) -> None:
        """Refuse totals from which a measure could not go on.

        Raises:
            ConfigError: it says what to add, or that rows are needed.
        """
        if self.holds == "totals":
            for measure in measures:
                _Totals(measures).sums_of(measure)
            if not any(measure.counts_all for measure in measures):
                raise ConfigError("totals need the number of rows of each group: add a measure count(*)")

    def read(self, queries: QueryEngine, cut: date, settings: RetractionSettings) -> nw.LazyFrame[Any]:
        """The table's rows, or the query's.

        Raises:
            ConfigError: a column lacks, or is of another type than the source's.
            SumOverflow: a total does not fit into its measure's sum.
        """
        tables = {name: queries.scan(each.path, each.format) for name, each in self.tables.items()}
        if self.sql is None:
            (table,) = tables.values()
        else:
            table = queries.query(with_parameters(self.sql, {"cut": cut}), tables)
        checked = self._checked(table, settings)
        for measure in settings.measures if self.holds == "totals" else ():
            _check_fits(checked, measure, settings.group)
        return checked

    def _checked(self, table: nw.LazyFrame[Any], settings: RetractionSettings) -> nw.LazyFrame[Any]:
        found = table.collect_schema()
        typed = settings.schema.select(settings.counted) if self.holds == "rows" else settings.groups
        numbers = () if self.holds == "rows" else tuple(measure.name for measure in settings.measures)
        for name in (*typed.names, *numbers):
            if name not in found:
                raise ConfigError(f"the past has no column {name!r}; it has: {', '.join(found)}")
        for each in typed.columns:
            if not _holds(each.type.narwhals, found[each.name]):
                raise _of_another_type(each.name, found[each.name], each.type.ddl)
        for name in numbers:
            if not found[name].is_numeric():
                raise _of_another_type(name, found[name], "number")
        casts = [nw.col(each.name).cast(each.type.narwhals) for each in typed.columns]
        return table.with_columns(*casts) if casts else table

    def totals(self, rows: nw.LazyFrame[Any], group: Schema, measures: Sequence[Measure]) -> nw.LazyFrame[Any]:
        """What totals bring to a book of sums."""
        own = _Totals(measures)
        sums = [expression for measure in measures for expression in own.sums_of(measure)]
        count = next(measure for measure in measures if measure.counts_all)
        keyed = as_key(rows.select(*group.names, *(measure.name for measure in measures)), group)
        return keyed.with_columns(nw.col(count.name).cast(nw.Int64).alias(ROWS), *sums)


@frozen
class _Totals:
    """What sums are kept for measures whose totals are all that is known."""

    measures: Sequence[Measure]

    def sums_of(self, measure: Measure) -> list[nw.Expr]:
        """The sums of a measure, from the totals.

        Raises:
            ConfigError: they cannot be told from the totals.
        """
        if measure.counts_all:
            return []
        if measure.counted:
            self._refuse(measure, "its values")
        count, *total = measure.sums
        counting = measure if measure.aggregate.function == "count" else self._like(measure, "count")
        taken = [nw.col(counting.name).cast(nw.Int64).fill_null(0).alias(count.name)]
        for each in total:
            summing = measure if measure.aggregate.function == "sum" else self._like(measure, "sum")
            none, given = nw.lit(0).cast(each.type.narwhals), nw.col(summing.name).cast(each.type.narwhals)
            taken.append(nw.when(given.is_null()).then(none).otherwise(given).alias(each.name))
        return taken

    def _like(self, measure: Measure, function: str) -> Measure:
        """The measure that aggregates the same by another function."""
        for each in self.measures:
            over = (each.aggregate.argument, each.where) == (measure.aggregate.argument, measure.where)
            if over and each.aggregate.function == function:
                return each
        where = f" where {measure.condition}" if measure.condition else ""
        return self._refuse(measure, f"measure {function}({measure.argument}){where}")

    def _refuse(self, measure: Measure, lacks: str) -> NoReturn:
        raise ConfigError(
            f"measure {measure.name!r} cannot go on from totals, which do not tell {lacks}; add that, or set"
            ' holds = "rows"'
        )


def _check_fits(table: nw.LazyFrame[Any], measure: Measure, group: Sequence[str]) -> None:
    """Refuse totals that do not fit into the measure's sum; engines would make null of them, or another number.

    Raises:
        SumOverflow: it names a group of which one does not.
    """
    kind, found = measure.type, table.collect_schema()[measure.name]
    if measure.aggregate.function != "sum" or found == kind.narwhals or (kind == _BIGINT and found.is_integer()):
        return
    limit = 2.0**63 if kind.precision is None else 10.0 ** (kind.precision - (kind.scale or 0))
    lost = table.filter(nw.col(measure.name).cast(nw.Float64).abs() >= limit).select(*group).head(1)
    if lines := collect_small(lost):
        raise overflow(f"measure {measure.name!r} in the past's totals", kind.ddl, lines[0])


def _holds(declared: DType, found: DType) -> bool:
    """Whether a column may be taken for one of the declared type: it is, or both are whole numbers."""
    return declared == found or (declared.is_integer() and found.is_integer())


def _of_another_type(name: str, found: DType, wanted: str) -> ConfigError:
    return ConfigError(f"the past's column {name!r} is {found}, not a {wanted}: cast it in the past's sql")
