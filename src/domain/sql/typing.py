"""Gives every part of a query, over tables of known columns, the type that Spark gives it; without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

from ..errors import ConfigError
from ..table.schema import Column, DataType, Schema
from .node_types import NODE_TYPES
from .parsing import DIALECT, parse
from .spellings import with_known_spellings
from .types import INTERVAL, VOID, is_array, set_type, type_of

_STRUCTURE = frozenset(
    {
        exp.Column,
        exp.CTE,
        exp.DataType,
        exp.DataTypeParam,
        exp.Except,
        exp.From,
        exp.Group,
        exp.Identifier,
        exp.Intersect,
        exp.Limit,
        exp.Order,
        exp.Ordered,
        exp.Select,
        exp.Star,
        exp.Table,
        exp.TableAlias,
        exp.Union,
        exp.Var,
        exp.WindowSpec,
        exp.With,
    }
)
_REFUSED_ARGUMENTS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Join: ("method",),
    exp.Group: ("all", "totals"),
    exp.Union: ("by_name",),
}


@frozen
class TypedQuery:
    """A query of which the type of every part is known.

    Args:
        tree: its syntax, all columns with their tables; each node has its type.
        schema: the schema of its rows, with Spark's types; the case of names may differ.
    """

    tree: exp.Query
    schema: Schema


def type_query(sql: str, tables: Mapping[str, Mapping[str, str]]) -> TypedQuery:
    """The types of a query that has been parsed once before.

    Args:
        sql: in Spark's dialect.
        tables: the DDL types of each table's columns.

    Raises:
        ConfigError: there is no such column or function, or its type is not known without Spark.
    """
    tree = with_known_spellings(parse(sql))
    assert isinstance(tree, exp.Query)
    _check_known(tree)
    _check_joins(tree)
    spelling = _spelling(tree, tables)
    tree = _typed(tree, tables)
    _check_known(tree)
    _check_branches(tree)
    columns = ((each.alias_or_name, _known(type_of(each))) for each in tree.selects)
    return TypedQuery(tree, Schema(Column(spelling.get(name, name), found) for name, found in columns))


def _typed(tree: exp.Expr, tables: Mapping[str, Mapping[str, str]]) -> exp.Query:
    schema: dict[str, object] = {name: dict(columns) for name, columns in tables.items()}
    try:
        tree = qualify(tree, schema=schema, dialect=DIALECT)
    except SqlglotError as error:
        raise ConfigError(f"{str(error).splitlines()[0]}; look at its columns and tables") from error
    metadata = {kind: {"annotator": _annotator(type_)} for kind, type_ in NODE_TYPES.items()}
    found = annotate_types(tree, schema=schema, dialect=DIALECT, expression_metadata=metadata)
    assert isinstance(found, exp.Query)
    return found


def _annotator(type_: Callable[[exp.Expr], DataType]) -> Callable[[object, exp.Expr], None]:
    return lambda _, node: set_type(node, type_(node))


def _known(found: DataType) -> DataType:
    if found == INTERVAL:
        raise ConfigError("a column of the result is an interval; add it to a date or a timestamp")
    if is_array(found):
        raise ConfigError("a column of the result is an array; take it apart: explode(…)")
    if found == VOID:
        raise ConfigError("a column of the result is NULL in every row; cast it to a type")
    return found


def _spelling(tree: exp.Query, tables: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The spelling of each name, by its lower case; the outermost query decides."""
    given = [name for columns in tables.values() for name in columns]
    aliases = [each.alias for each in tree.find_all(exp.Alias)]
    outermost = [each.alias_or_name for each in tree.selects if not each.is_star]
    return {name.lower(): name for name in (*given, *aliases, *outermost)}


def _check_joins(tree: exp.Expr) -> None:
    for join in tree.find_all(exp.Join):
        if join.kind in {"SEMI", "ANTI"}:
            raise ConfigError(f"{join.sql('spark')} is not known without Spark; write WHERE EXISTS (...)")


def _check_branches(tree: exp.Expr) -> None:
    """Refuse unions of columns of different types: Spark and DuckDB would widen them differently."""
    for each in tree.find_all(exp.SetOperation):
        for left, right in zip(each.left.selects, each.right.selects, strict=False):
            if type_of(left) != type_of(right):
                raise ConfigError(
                    f"column {left.alias_or_name} is {type_of(left).ddl} in one query and {type_of(right).ddl} in the"
                    " other; cast it to one type in both"
                )


def _check_known(tree: exp.Expr) -> None:
    for node in tree.walk():
        refused = [name for name in _REFUSED_ARGUMENTS.get(type(node), ()) if node.args.get(name)]
        if (type(node) not in NODE_TYPES and type(node) not in _STRUCTURE) or refused:
            raise ConfigError(f"{node.sql('spark')} is not known without Spark; docs/sql.md lists what is")
