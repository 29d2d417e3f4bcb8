"""Gives every column of a query the name of its table, and writes `USING` as `ON`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp
from sqlglot.errors import OptimizeError, SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import walk_in_scope
from sqlglot.schema import MappingSchema

from ..errors import first_line
from ..table.schema import DataType
from .aliases import miscounted_alias
from .bare_names import USING, check_bare_names, normalized, note_bare_names
from .parsing import DIALECT
from .types import node_type


def sqlglot_schema(tables: Mapping[str, Mapping[str, DataType]]) -> MappingSchema:
    """The types of the columns of tables, as sqlglot looks them up. Names may have any characters.

    sqlglot would parse names as SQL: of ``n--m`` and ``$n`` it would make ``n``.
    """
    schema: dict[str, object] = {
        normalized(table): {normalized(name): node_type(kind) for name, kind in columns.items()}
        for table, columns in tables.items()
    }
    return MappingSchema(schema, dialect=DIALECT, normalize=False)


def _name_tables(tree: exp.Expr) -> None:
    """Give each table its own name as its alias; sqlglot would parse the name to make one."""
    for table in tree.find_all(exp.Table):
        if not table.alias:
            alias = table.args.get("alias") or exp.TableAlias()
            alias.set("this", exp.to_identifier(table.name, quoted=True))
            table.set("alias", alias)


def qualified(tree: exp.Expr, schema: MappingSchema, *, quotes: bool) -> exp.Expr:
    """A query with the table of every column, its stars expanded, and its `USING` written as `ON`.

    Args:
        tree: the query, which is changed.
        schema: its tables; see `sqlglot_schema`.
        quotes: whether to quote all names.

    Raises:
        sqlglot.errors.SqlglotError: a column or a table is unknown, a name is ambiguous, or a subquery does not name
            each of its columns once.
    """
    _check_aliases(tree)
    note_bare_names(tree)
    _name_tables(tree)
    tree = qualify(tree, schema=schema, dialect=DIALECT, quote_identifiers=quotes)
    _check_aliases(tree)
    check_bare_names(tree, schema)
    for select in tree.find_all(exp.Select):
        _merge_left(select)
    return tree


def explain_unresolved(error: SqlglotError, tables: Mapping[str, Iterable[str]]) -> str:
    """What an error of `qualified` says, with the columns of the tables."""
    there = "; ".join(f"{table} ({', '.join(columns)})" for table, columns in tables.items())
    return f"{first_line(error)}; its tables and their columns: {there}"


def _check_aliases(tree: exp.Expr) -> None:
    if (problem := miscounted_alias(tree)) is not None:
        raise OptimizeError(problem)


def check_where(tree: exp.Expr, schema: MappingSchema) -> None:
    """Check that no `WHERE` uses a name that the `SELECT` gives: only sqlglot and DuckDB know it there.

    Raises:
        sqlglot.errors.SqlglotError: one does, or a name is ambiguous.
    """
    if not tree.find(exp.Where):
        return
    plain = tree.copy()
    _name_tables(plain)
    plain = qualify(plain, schema=schema, dialect=DIALECT, expand_alias_refs=False, validate_qualify_columns=False)
    for select in plain.find_all(exp.Select):
        where = select.args.get("where")
        given = {each.alias.lower() for each in select.expressions if isinstance(each, exp.Alias)}
        own = sources_of(select)
        for node in walk_in_scope(where.this) if where else ():
            # sqlglot and DuckDB prefer the name that is given to a column of an enclosing query.
            if isinstance(node, exp.Column) and (not node.table or (node.table not in own and node.name in given)):
                raise SqlglotError(f"no table has column {node.name!r}, and WHERE cannot use a name that SELECT gives")


def sources_of(select: exp.Select) -> set[str]:
    """The names of the tables and subqueries that a query joins."""
    from_ = select.args.get("from_") or select.args.get("from")
    joins = select.args.get("joins") or ()
    return {each.this.alias_or_name for each in ([from_] if from_ else []) + list(joins)}


def _merge_left(select: exp.Select) -> None:
    """Compare each `USING` with the column that the joins before it have merged.

    sqlglot compares it with the first table that has the column, which may have no row after a right or a full join.
    """
    merged: dict[str, list[exp.Expr]] = {}
    for join in select.args.get("joins") or ():
        names = join.meta.get(USING)
        if not names:
            continue
        found = {each.right.name.lower(): each for each in join.args["on"].find_all(exp.EQ)}
        conditions = []
        for name in names:
            condition = found[name.lower()]
            first = condition.left.this if isinstance(condition.left, exp.Coalesce) else condition.left
            parts = merged.setdefault(name.lower(), [first])
            value = exp.func("coalesce", *parts) if len(parts) > 1 else parts[0]
            conditions.append(exp.EQ(this=value.copy(), expression=condition.right.copy()))
            if not join.is_semi_or_anti_join:
                parts.append(condition.right)
        join.set("on", exp.and_(*conditions, copy=False))
