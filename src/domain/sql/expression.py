"""Expressions over the columns of one row, and the checks on them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from attrs import frozen
from sqlglot import exp

from ..errors import ConfigError
from ..table.schema import DataType, Schema
from .calls import AGGREGATES, GENERATORS, WINDOWS, calls, nondeterministic_calls
from .notation import check_grouping
from .parsing import DIALECT, parse, quote, to_sql


@frozen
class Expression:
    """An expression in Spark's dialect.

    Args:
        sql: its text, with names in backticks.
        columns: the columns that it reads, as written, each once.
        bare: the column's name, if the expression is only a column.
        cast_to: the target type, if the whole expression is a cast.
        aggregates: the aggregate functions in it.
        windows: the window functions in it.
        subqueries: the subqueries in it.
        generators: the functions in it that make several rows from one.
        generates: whether the whole expression is such a function.
        nondeterministic: the functions in it whose result may differ between runs.
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
    nondeterministic: tuple[str, ...] = ()

    def declared_type(self, schema: Schema) -> DataType | None:
        """The type of a bare column, or of a cast around the whole expression; None otherwise."""
        if self.bare is None:
            return self.cast_to
        return next((each.type for each in schema.columns if each.name.lower() == self.bare.lower()), None)

    def check_of_one_row(self, generators: Collection[str] = ()) -> None:
        """Check that the expression needs only the values of one row.

        Args:
            generators: functions that are allowed to make several rows from one, as the whole expression.

        Raises:
            ConfigError: it needs more; the message has the reason.
        """
        for found, what, remedy in (
            (self.windows, "a window function", _LATER),
            (self.aggregates, "an aggregate", _LATER),
            (self.subqueries, "a subquery", _LATER),
            (
                tuple(each for each in self.generators if each not in generators),
                "a function that makes several rows from one",
                _LATER,
            ),
            (
                self.nondeterministic,
                "a nondeterministic function",
                "read the time or the random value from a column",
            ),
        ):
            if found:
                raise ConfigError(f"{quote(self.sql)} has {what}, {found[0]}: it may use one row's values; {remedy}")
        if self.generators and not self.generates:
            raise ConfigError(
                f"{quote(self.sql)} has {self.generators[0]} inside another expression, where it cannot make rows:"
                " write what is around it inside, as in explode(cast(split(a, ',') as array<bigint>))"
            )

    def check_columns(self, schema: Schema) -> None:
        """Check that the schema has all columns; names are case-insensitive.

        Raises:
            ConfigError: a column is unknown; the message lists the known ones.
        """
        known = {name.lower() for name in schema.names}
        if missing := [name for name in self.columns if name.lower() not in known]:
            raise ConfigError(f"{quote(self.sql)}: no column {missing[0]!r}; there are: {', '.join(schema.names)}")


_GROUP_BY = re.compile(r"\bgroup\s+by\b", re.IGNORECASE)
_LATER = "group and rank in a pipeline of their own"


def parse_expression(text: str) -> Expression:
    """Parse one expression.

    Raises:
        ConfigError: it cannot be parsed, is a statement or a list, has an alias, names a table, or is grouped otherwise
            on Spark.

    >>> parse_expression("items + 0").sql
    '`items` + 0'
    """
    try:
        tree = parse(text)
    except ConfigError as error:
        if not _GROUP_BY.search(text):
            raise
        raise ConfigError(f"{quote(text)} has a GROUP BY: it may use one row's values; {_LATER}") from error
    check_grouping(text)
    if isinstance(tree, exp.Subquery):
        raise ConfigError(f"{quote(text)} is a subquery: it may use one row's values; {_LATER}")
    if not isinstance(tree, exp.Condition) or isinstance(tree, exp.Star):
        raise ConfigError(f"{quote(text)} is not an expression; write one over the columns of a row, such as a + 1")
    if isinstance(tree, exp.Alias):
        raise ConfigError(f"{quote(text)} has an alias; write only the expression")
    return expression_of(tree)


def parse_row_expression(text: str, schema: Schema, generators: Collection[str] = ()) -> Expression:
    """Parse an expression over the rows of a schema. A text that is exactly a column's name is that column.

    Args:
        text: the SQL, or a column's name, ignoring case.
        schema: the columns of the rows.
        generators: functions that are allowed to make several rows from one, as the whole expression.

    Raises:
        ConfigError: it is not an expression, needs more than one row, or has an unknown column.

    >>> parse_row_expression("seq-no", Schema.parse("seq int, no int, `seq-no` int")).sql
    '`seq-no`'
    """
    if text.lower() in {name.lower() for name in schema.names}:
        return parse_expression(f"`{text}`")
    with explain_names(text, schema):
        expression = parse_expression(text)
        expression.check_of_one_row(generators)
        expression.check_columns(schema)
    return expression


@contextmanager
def explain_names(text: str, schema: Schema) -> Iterator[None]:
    """Add to an error about a text which columns need backticks, if it may have them without.

    Raises:
        ConfigError: the error, with the remedy.
    """
    try:
        yield
    except ConfigError as error:
        lower = text.lower()
        named = (each for each in schema.names if each.lower() in lower and f"`{each.lower()}`" not in lower)
        if (odd := next((each for each in named if not _is_plain(each)), None)) is None:
            raise
        raise ConfigError(f"{error}; if you mean the column {odd!r}, write it in backticks: `{odd}`") from error


def _is_plain(name: str) -> bool:
    """Whether SQL reads a column's name without backticks as that column."""
    try:
        return parse_expression(name).bare == name
    except ConfigError:
        return False


def expression_of(tree: exp.Expr) -> Expression:
    """The expression of a syntax tree.

    Raises:
        ConfigError: a column of it names a table, or a type is unknown.
    """
    sql = to_sql(tree)
    windows = tuple(to_sql(each) for each in tree.find_all(exp.Window))
    return Expression(
        sql,
        columns=tuple(dict.fromkeys(_column_name(each) for each in tree.find_all(exp.Column))),
        bare=_column_name(tree) if isinstance(tree, exp.Column) else None,
        cast_to=_cast_to(tree),
        aggregates=calls(sql, AGGREGATES),
        windows=windows or calls(sql, WINDOWS),
        subqueries=tuple(to_sql(each) for each in tree.find_all(exp.Query)),
        generators=calls(sql, GENERATORS),
        generates=isinstance(tree, exp.UDTF),
        nondeterministic=nondeterministic_calls(sql, tree),
    )


def _column_name(column: exp.Column) -> str:
    if column.table or isinstance(column.this, exp.Star):
        raise ConfigError(f"{column.sql(dialect=DIALECT)!r} is not a column of a row; write only its name")
    return column.name


def _cast_to(tree: exp.Expr) -> DataType | None:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return DataType.parse(tree.to.sql(dialect=DIALECT)) if isinstance(tree, exp.Cast) else None
