"""Queries, with the tables and functions that they use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date

import sqlglot
from attrs import frozen
from sqlglot import exp

from ..errors import ConfigError
from .aliases import miscounted_alias
from .calls import nondeterministic_calls
from .notation import check_grouping
from .parsing import DIALECT, parse, quote


@frozen
class Statement:
    """A query in Spark's dialect.

    Args:
        sql: the user's text.
        tables: the names of the tables that it reads, as written, each once, sorted.
        named: the names of its ``WITH`` queries.
        nondeterministic: the functions in it whose result may differ between runs.
        columns: the names of its result's columns that are in the text; ``*`` has more.
    """

    sql: str
    tables: tuple[str, ...]
    named: tuple[str, ...] = ()
    nondeterministic: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def check_tables(self, known: Iterable[str]) -> None:
        """Check that all tables are known, and that no ``WITH`` query has the name of one; case-insensitive.

        Raises:
            ConfigError: one of these is not so; the message lists the known tables.
        """
        given = tuple(known)
        lower = {each.lower() for each in given}
        if taken := [name for name in self.named if name.lower() in lower]:
            raise ConfigError(f"{quote(self.sql)} has a WITH query with the name of its input {taken[0]!r}; rename it")
        if missing := [name for name in self.tables if name.lower() not in lower]:
            raise ConfigError(f"{quote(self.sql)}: no table {missing[0]!r}; there are: {', '.join(given) or 'none'}")

    def check_repeatable(self) -> None:
        """Check that the query has no nondeterministic function.

        Raises:
            ConfigError: it has one; the message names the first.
        """
        if self.nondeterministic:
            raise ConfigError(
                f"{quote(self.sql)} calls {self.nondeterministic[0]}, which is nondeterministic: a repeated epoch would"
                " give other rows; read the time or the random value from a column"
            )


def parse_statement(text: str) -> Statement:
    """Parse one query.

    Raises:
        ConfigError: it cannot be parsed, is not a query, has a column without a name or a subquery that does not name
            each column once, or reads from something other than tables with plain names.

    >>> parse_statement("with x as (select a from t) select a from x join u using (a)").tables
    ('t', 'u')
    """
    tree = parse(text)
    if not isinstance(tree, exp.Query):
        raise ConfigError(f"{quote(text)} is not a query; write a SELECT")
    _check_casts(text)
    _check_names(tree, text)
    named = tuple(each.alias for each in tree.find_all(exp.CTE))
    tables = _tables(tree, {name.lower() for name in named}, text)
    columns = tuple(each.alias_or_name for each in tree.selects if not each.is_star)
    return Statement(text.strip().rstrip(";"), tables, named, nondeterministic_calls(text, tree), columns)


def check_column_names(sql: str, tables: Mapping[str, Iterable[str]]) -> None:
    """Check that each column name occurs in a table or elsewhere in the query, without an engine.

    Args:
        sql: see `parse_statement`.
        tables: the columns of the tables that it may read, by table.

    Raises:
        ConfigError: a column is unknown; the message lists the known columns.
    """
    tree = parse(sql)
    given = {column for columns in tables.values() for column in columns}
    names = {each.name.lower() for each in tree.find_all(exp.Identifier) if not isinstance(each.parent, exp.Column)}
    known = names | {name.lower() for name in given} | {_METADATA}
    for column in tree.find_all(exp.Column):
        parts = [each.name.lower() for each in column.parts if not isinstance(each, exp.Star)]
        if parts and not known.intersection(parts[-1:] if len(parts) <= 1 else parts[1:]):
            raise ConfigError(f"{quote(sql)}: no column {column.name!r}; there are: {', '.join(sorted(given))}")


def with_parameters(sql: str, values: Mapping[str, date]) -> str:
    """A query with its parameters, such as ``:cut``, replaced by dates.

    Raises:
        ConfigError: it cannot be parsed, Spark groups it otherwise, or it has a parameter without a value.

    >>> from datetime import date
    >>> with_parameters("SELECT a FROM t WHERE d < :cut", {"cut": date(2024, 3, 1)})
    "SELECT a FROM t WHERE d < CAST('2024-03-01' AS DATE)"
    """
    tree = parse(sql)
    check_grouping(sql)
    for each in list(tree.find_all(exp.Placeholder)):
        if (name := str(each.name)) not in values:
            raise ConfigError(f"{quote(sql)}: no parameter :{name}; there are: :{', :'.join(values)}")
        each.replace(exp.cast(exp.Literal.string(values[name].isoformat()), "date"))
    return tree.sql(dialect=DIALECT)


_METADATA = "_metadata"
"""Spark's additional column of tables that are read from files."""


def _check_casts(text: str) -> None:
    # Numbers with a suffix, such as 2L, become the same casts in the tree, so the text is checked.
    if any(text[token.start : token.end + 1] == "::" for token in sqlglot.tokenize(text, read=DIALECT)):
        raise ConfigError(f"{quote(text)} casts by '::', which Spark does not know; write CAST(value AS type)")


def _check_names(tree: exp.Query, text: str) -> None:
    for each in tree.selects:
        if not (isinstance(each, (exp.Alias, exp.Column)) or each.is_star):
            raise ConfigError(
                f"{quote(text)}: column {each.sql(dialect=DIALECT)!r} has no name; add one: {each.sql(dialect=DIALECT)}"
                " AS name"
            )
    if (problem := miscounted_alias(tree)) is not None:
        raise ConfigError(f"{quote(text)}: {problem}")


def _tables(tree: exp.Query, own: Collection[str], text: str) -> tuple[str, ...]:
    found = [_table_name(each, text) for each in tree.find_all(exp.Table)]
    return tuple(sorted({name for name in found if name.lower() not in own}))


def _table_name(table: exp.Table, text: str) -> str:
    if table.db or not isinstance(table.this, exp.Identifier):
        raise ConfigError(
            f"{quote(text)} reads from {table.sql(dialect=DIALECT)}; it may read from its inputs, by their plain names"
        )
    return table.name
