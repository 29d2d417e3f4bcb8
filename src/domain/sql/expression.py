"""One expression over the columns of a row, and what it must not hold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrs import frozen
from sqlglot import exp

from ..errors import ConfigError
from ..schema import DataType
from .calls import AGGREGATES, GENERATORS, WINDOWS, calls, changing
from .parsing import DIALECT, parsed, shown, written

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..schema import Schema


@frozen
class Expression:
    """An expression in Spark's dialect.

    Args:
        sql: its text, names in backticks.
        columns: that it reads, as written, each once.
        bare: the column that it is, where it is nothing else.
        cast_to: the type that it ends in, where it is a cast.
        aggregates: aggregate functions in it.
        windows: window functions in it.
        subqueries: subqueries in it.
        generators: functions in it that make several rows of one.
        generates: whether it is such a function, with nothing around it.
        changing: functions in it that may answer otherwise next time.
    """

    sql: str
    columns: tuple[str, ...]
    bare: str | None = None
    cast_to: DataType | None = None
    aggregates: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    subqueries: tuple[str, ...] = ()
    generators: tuple[str, ...] = ()
    generates: bool = False
    changing: tuple[str, ...] = ()

    def declared_type(self, schema: Schema) -> DataType | None:
        """The type, where it is plain: of a column that stands alone, or of a cast around all; None otherwise."""
        if self.bare is None:
            return self.cast_to
        return next((each.type for each in schema.columns if each.name.lower() == self.bare.lower()), None)

    def check_of_one_row(self, generators: Collection[str] = ()) -> None:
        """Refuse whatever needs more than the row at hand, or more than its values.

        Args:
            generators: functions that may make several rows of one, where they stand alone.

        Raises:
            ConfigError: with the reason.
        """
        for found, what, remedy in (
            (self.windows, "a window function", _LATER),
            (self.aggregates, "an aggregate", _LATER),
            (self.subqueries, "a subquery", _LATER),
            (
                tuple(each for each in self.generators if each not in generators),
                "a function that makes several rows of one",
                _LATER,
            ),
            (self.changing, "a function whose answer changes", "take the moment or the chance from a column"),
        ):
            if found:
                raise ConfigError(f"{shown(self.sql)} has {what}, {found[0]}: it may use one row's values; {remedy}")
        if self.generators and not self.generates:
            raise ConfigError(
                f"{shown(self.sql)} has {self.generators[0]} inside another expression, where it cannot make rows:"
                " write what is around it inside, as in explode(cast(split(a, ',') as array<bigint>))"
            )

    def check_columns(self, schema: Schema) -> None:
        """Refuse columns that the schema lacks; letters' case does not count.

        Raises:
            ConfigError: with those there are.
        """
        known = {name.lower() for name in schema.names}
        if missing := [name for name in self.columns if name.lower() not in known]:
            raise ConfigError(f"{shown(self.sql)}: no column {missing[0]!r}; there are: {', '.join(schema.names)}")


_GROUP_BY = re.compile(r"\bgroup\s+by\b", re.IGNORECASE)
_LATER = "group and rank in a pipeline of their own"


def parse_expression(text: str) -> Expression:
    """Read one expression.

    Raises:
        ConfigError: it cannot be parsed, is a statement or a list, has a name, or names a table.

    >>> parse_expression("items + 0").sql
    '`items` + 0'
    """
    try:
        tree = parsed(text)
    except ConfigError as error:
        if not _GROUP_BY.search(text):
            raise
        raise ConfigError(f"{shown(text)} has a GROUP BY: it may use one row's values; {_LATER}") from error
    if isinstance(tree, exp.Subquery):
        raise ConfigError(f"{shown(text)} is a subquery: it may use one row's values; {_LATER}")
    if not isinstance(tree, exp.Condition) or isinstance(tree, exp.Star):
        raise ConfigError(f"{shown(text)} is no expression; write one over the columns of a row, such as a + 1")
    if isinstance(tree, exp.Alias):
        raise ConfigError(f"{shown(text)} has a name of its own; write the expression alone")
    return expression_of(tree)


def expression_of(tree: exp.Expr) -> Expression:
    """The expression that a tree stands for.

    Raises:
        ConfigError: a column of it names a table, or a type is unknown.
    """
    sql = written(tree)
    windows = tuple(written(each) for each in tree.find_all(exp.Window))
    return Expression(
        sql,
        columns=tuple(dict.fromkeys(_column_name(each) for each in tree.find_all(exp.Column))),
        bare=_column_name(tree) if isinstance(tree, exp.Column) else None,
        cast_to=_cast_to(tree),
        aggregates=calls(sql, AGGREGATES),
        windows=windows or calls(sql, WINDOWS),
        subqueries=tuple(written(each) for each in tree.find_all(exp.Query)),
        generators=calls(sql, GENERATORS),
        generates=isinstance(tree, exp.UDTF),
        changing=changing(sql, tree),
    )


def _column_name(column: exp.Column) -> str:
    if column.table or isinstance(column.this, exp.Star):
        raise ConfigError(f"{column.sql(dialect=DIALECT)!r} is no column of a row; write its name alone")
    return column.name


def _cast_to(tree: exp.Expr) -> DataType | None:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return DataType.parse(tree.to.sql(dialect=DIALECT)) if isinstance(tree, exp.Cast) else None
