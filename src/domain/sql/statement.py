"""One query, and the tables and functions that it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlglot
from attrs import frozen
from sqlglot import exp

from ..errors import ConfigError
from .calls import changing
from .parsing import DIALECT, parsed, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


@frozen
class Statement:
    """A query in Spark's dialect.

    Args:
        sql: as the user wrote it.
        tables: names that it reads from, as written, each once, in their order.
        named: queries that it names itself (``WITH``).
        changing: functions in it that may answer otherwise next time.
    """

    sql: str
    tables: tuple[str, ...]
    named: tuple[str, ...] = ()
    changing: tuple[str, ...] = ()

    def check_tables(self, known: Iterable[str]) -> None:
        """Refuse tables that are not given, and queries named like one; letters' case does not count.

        Raises:
            ConfigError: with those there are.
        """
        given = tuple(known)
        lower = {each.lower() for each in given}
        if taken := [name for name in self.named if name.lower() in lower]:
            raise ConfigError(f"{shown(self.sql)} names a query like its input {taken[0]!r}; give it another name")
        if missing := [name for name in self.tables if name.lower() not in lower]:
            raise ConfigError(f"{shown(self.sql)}: no table {missing[0]!r}; there are: {', '.join(given) or 'none'}")

    def check_repeatable(self) -> None:
        """Refuse functions that may answer otherwise next time.

        Raises:
            ConfigError: with the first of them.
        """
        if self.changing:
            raise ConfigError(
                f"{shown(self.sql)} calls {self.changing[0]}, whose answer changes: a repeated epoch would then give"
                " other rows; take the moment or the chance from a column"
            )


def parse_statement(text: str) -> Statement:
    """Read one query.

    Raises:
        ConfigError: it cannot be parsed, is no query, leaves a column without a name, or reads from anything but
            tables of a plain name.

    >>> parse_statement("with x as (select a from t) select a from x join u using (a)").tables
    ('t', 'u')
    """
    tree = parsed(text)
    if not isinstance(tree, exp.Query):
        raise ConfigError(f"{shown(text)} is no query; write a SELECT")
    _check_casts(text)
    _check_names(tree, text)
    named = tuple(each.alias for each in tree.find_all(exp.CTE))
    tables = _tables(tree, {name.lower() for name in named}, text)
    return Statement(text.strip().rstrip(";"), tables, named, changing(text, tree))


def check_column_names(sql: str, tables: Mapping[str, Iterable[str]]) -> None:
    """Refuse names that no table and nothing in the query could explain, whatever engine runs it.

    Args:
        sql: see `parse_statement`.
        tables: the columns of all that it may read, by table.

    Raises:
        ConfigError: with the columns that there are.
    """
    tree = parsed(sql)
    given = {column for columns in tables.values() for column in columns}
    names = {each.name.lower() for each in tree.find_all(exp.Identifier) if not isinstance(each.parent, exp.Column)}
    known = names | {name.lower() for name in given} | {_METADATA}
    for column in tree.find_all(exp.Column):
        parts = [each.name.lower() for each in column.parts if not isinstance(each, exp.Star)]
        if parts and not known.intersection(parts[-1:] if len(parts) <= 1 else parts[1:]):
            raise ConfigError(f"{shown(sql)}: no column {column.name!r}; there are: {', '.join(sorted(given))}")


_METADATA = "_metadata"
"""Of files, which Spark has beside a table's own columns."""


def _check_casts(text: str) -> None:
    # Numbers with a suffix, such as 2L, become casts in the same words: what was written tells.
    if any(text[token.start : token.end + 1] == "::" for token in sqlglot.tokenize(text, read=DIALECT)):
        raise ConfigError(f"{shown(text)} casts by '::', which Spark does not know; write CAST(value AS type)")


def _check_names(tree: exp.Query, text: str) -> None:
    for each in tree.selects:
        if not (isinstance(each, (exp.Alias, exp.Column)) or each.is_star):
            raise ConfigError(
                f"{shown(text)}: column {each.sql(dialect=DIALECT)!r} has no name; add one: {each.sql(dialect=DIALECT)}"
                " AS name"
            )


def _tables(tree: exp.Query, own: Collection[str], text: str) -> tuple[str, ...]:
    found = [_table_name(each, text) for each in tree.find_all(exp.Table)]
    return tuple(sorted({name for name in found if name.lower() not in own}))


def _table_name(table: exp.Table, text: str) -> str:
    if table.db or not isinstance(table.this, exp.Identifier):
        raise ConfigError(
            f"{shown(text)} reads from {table.sql(dialect=DIALECT)}; it may read from its inputs, by their plain names"
        )
    return table.name
