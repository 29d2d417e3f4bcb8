"""Gives every part of a query, over tables of known columns, the type that Spark gives it; without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from ..errors import ConfigError
from ..table.schema import Column, DataType, Schema
from .expression import Expression
from .node_types import COMPARISONS, NODE_TYPES
from .notation import check_notation, check_suffixes
from .parsing import DIALECT, parse
from .qualified import check_where, explain_unresolved, qualified, sqlglot_schema
from .spellings import with_known_spellings
from .subqueries import aggregates, check_subqueries
from .types import BOOLEAN, INTERVAL, OTHER, VOID, named, set_type, type_of

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
_PREDICATES = (exp.Not, exp.Is, exp.In, exp.Between, exp.Like, exp.RegexpLike)
_NESTED = (exp.DType.ARRAY, exp.DType.STRUCT)
_CARRIED: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Alias: ("this",),
    exp.Case: ("ifs", "default"),
    exp.Cast: ("this", "to"),
    exp.Coalesce: ("this", "expressions"),
    exp.Count: ("this",),
    exp.Dot: ("this",),
    exp.Explode: ("this",),
    exp.Filter: ("this",),
    exp.If: ("true", "false"),
    exp.Is: ("this",),
    exp.Lag: ("this", "default"),
    exp.Lead: ("this", "default"),
    exp.Paren: ("this",),
    exp.Select: ("expressions",),
    exp.Subquery: ("this",),
    exp.TryCast: ("this", "to"),
    exp.Window: ("this",),
}
"""The arguments that may be nested values."""
_REFUSED_ARGUMENTS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Join: ("method",),
    exp.Group: ("all", "totals"),
    exp.Select: ("windows",),
    exp.Star: ("except_", "except", "replace", "rename"),
    exp.Table: ("joins",),
    exp.Union: ("by_name",),
    exp.With: ("recursive",),
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
    check_notation(sql)
    tree = with_known_spellings(parse(sql))
    assert isinstance(tree, exp.Query)
    _check_known(tree)
    _check_joins(tree)
    _check_order_of_groups(tree)
    spelling = _spelling(tree, tables)
    tree = _typed(tree, tables)
    _check_known(tree)
    _check_branches(tree)
    _check_carried(tree)
    check_subqueries(tree)
    _check_exploded(tree)
    _check_order(tree)
    check_suffixes(sql, tree)
    columns = ((spelling.get(name := each.alias_or_name, name), type_of(each)) for each in tree.selects)
    return TypedQuery(tree, Schema(Column(name, _known(name, found)) for name, found in columns))


def type_expression(expression: Expression, schema: Schema) -> DataType:
    """The type of an expression over rows of a schema.

    Raises:
        ConfigError: the type is not known without Spark.
    """
    if (declared := expression.declared_type(schema)) is not None:
        return declared
    columns = {each.name: each.type.ddl for each in schema.columns}
    return type_query(f"SELECT {expression.sql} AS value FROM rows", {"rows": columns}).schema["value"]  # noqa: S608


def check_condition(expression: Expression, kind: DataType) -> None:
    """Check that an expression of this type is a condition.

    Raises:
        ConfigError: it is not.
    """
    if kind != BOOLEAN:
        raise ConfigError(f"{expression.sql} is a {kind.ddl}; write a condition, such as items is not null")


def _typed(tree: exp.Expr, tables: Mapping[str, Mapping[str, str]]) -> exp.Query:
    schema = sqlglot_schema(
        {table: {name: named(ddl) for name, ddl in columns.items()} for table, columns in tables.items()}
    )
    try:
        check_where(tree, schema)
        tree = qualified(tree, schema, quotes=True)
    except SqlglotError as error:
        raise ConfigError(explain_unresolved(error, tables)) from error
    metadata = {kind: {"annotator": _annotator(type_)} for kind, type_ in NODE_TYPES.items()}
    found = annotate_types(tree, schema=schema, dialect=DIALECT, expression_metadata=metadata)
    assert isinstance(found, exp.Query)
    return found


def _annotator(type_: Callable[[exp.Expr], DataType]) -> Callable[[object, exp.Expr], None]:
    return lambda _, node: set_type(node, type_(node))


def _known(name: str, found: DataType) -> DataType:
    column = f"column {name!r} of the result"
    if found == INTERVAL:
        raise ConfigError(f"{column} is an interval; add it to a date or a timestamp")
    if found == OTHER:
        raise ConfigError(
            f"{column} has a type that tables do not have, such as a time of day, a duration or a whole number beyond"
            " bigint; leave it out, or let its input have it as text, and cast that"
        )
    if found == VOID:
        raise ConfigError(f"{column} is NULL in every row; cast it to a type, such as CAST(NULL AS string)")
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


def _check_exploded(tree: exp.Expr) -> None:
    """Refuse a query in which rows are made twice, or made and grouped: Spark and DuckDB do it in different orders."""
    for select in tree.find_all(exp.Select):
        made = [each for each in select.expressions if isinstance(each.unalias(), exp.Explode)]
        grouped = aggregates(select) or any(each.find(exp.Window) for each in select.expressions)
        if len(made) > 1 or (made and grouped):
            raise ConfigError(
                f"{made[-1].sql('spark')} is beside another explode, GROUP BY, an aggregate or a window, which Spark"
                " computes in another order; explode in a subquery"
            )


def _check_order(tree: exp.Expr) -> None:
    """Refuse distinct rows in the order of what they do not have as a column."""
    for select in tree.find_all(exp.Select):
        names = {each.alias_or_name for each in select.expressions}
        for key in _sort_keys(select):
            selected = isinstance(key, exp.Column) and key.name in names
            if select.args.get("distinct") and not selected:
                raise ConfigError(f"ORDER BY {key.sql('spark')}: Spark takes the name of a selected column here")


def _check_order_of_groups(tree: exp.Expr) -> None:
    """Refuse chosen groups in the order of an aggregate, and groups in that of an aggregate of a name they give.

    sqlglot would replace an aggregate that is also a column by this column; so the tree is the text's.
    """
    for select in tree.find_all(exp.Select):
        given = {each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)}
        for key in _sort_keys(select):
            columns = (column for each in key.find_all(exp.AggFunc) for column in each.find_all(exp.Column))
            taken = any(not each.table and each.name.lower() in given for each in columns)
            if taken or (select.args.get("having") and key.find(exp.AggFunc)):
                raise ConfigError(f"ORDER BY {key.sql('spark')}: Spark takes the name of a selected column here")


def _sort_keys(select: exp.Select) -> list[exp.Expr]:
    return [each.this for each in order.expressions] if (order := select.args.get("order")) else []


def _check_carried(tree: exp.Expr) -> None:
    """Refuse nested values where they are more than carried: engines do not compare, sort or print them alike."""
    for node in tree.walk():
        if _is_nested(node) and (parent := node.parent) and node.arg_key not in _CARRIED.get(type(parent), ()):
            whole = parent.parent if isinstance(parent, exp.Ordered) and parent.parent else parent
            raise ConfigError(
                f"{whole.sql('spark')} uses {node.sql('spark')}, which is nested: nested values are carried, not"
                " compared or computed with; use a field of it, or explode an array"
            )
        if isinstance(node, exp.Query) and node.args.get("distinct") and any(map(_is_nested, node.selects)):
            raise ConfigError("DISTINCT, and UNION without ALL, compare rows, and a column of them is nested")


def _is_nested(node: exp.Expr) -> bool:
    return node.type is not None and node.type.this in _NESTED


def _check_known(tree: exp.Expr) -> None:
    for node in tree.walk():
        if isinstance(node, _PREDICATES) and isinstance(node.parent, (*_PREDICATES[1:], *COMPARISONS)):
            raise ConfigError(f"{node.parent.sql('spark')}: Spark reads {node.sql('spark')} only in parentheses here")
        if isinstance(node, exp.Limit) and not node.expression.is_int:
            raise ConfigError(f"{node.sql('spark')} has no number; write LIMIT 10")
        if isinstance(node, exp.Table) and node.args.get("alias") and node.args["alias"].columns:
            raise ConfigError(f"{node.sql('spark')} renames columns; do so in a subquery: n AS m")
        refused = [name for name in _REFUSED_ARGUMENTS.get(type(node), ()) if node.args.get(name)]
        if (type(node) not in NODE_TYPES and type(node) not in _STRUCTURE) or refused:
            raise ConfigError(f"{node.sql('spark')} is not known without Spark; docs/sql.md lists what is")
