"""Refuses subqueries that Spark does not answer, or answers otherwise than SQL defines."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from ..errors import ConfigError
from .qualified import sources_of

_PLACES = (exp.Select, exp.Where, exp.Having, exp.Join, exp.Group, exp.Order)
_TABLES = (exp.From, exp.Join, exp.CTE, exp.In, exp.Exists, exp.SetOperation, exp.Subquery)
"""A query below one of these is not a single value."""


def check_subqueries(tree: exp.Expr) -> None:
    """Check the subqueries of a query whose columns all have their table.

    Raises:
        ConfigError: Spark refuses one of them, or gives other rows than SQL defines.
    """
    for node in tree.find_all(exp.In, exp.Exists, exp.Subquery):
        query = _query_of(node)
        if query is None:
            continue
        if isinstance(node, exp.In) and not _is_condition(node):
            raise ConfigError(
                f"{node.sql('spark')} is used as a value: Spark says false where it is null; write it as a condition"
                " of WHERE, or CASE WHEN … THEN true ELSE false END"
            )
        place = _place_of(node)
        if not isinstance(node, exp.Subquery) and (place is exp.Order or (place, type(node)) == (exp.Join, exp.Exists)):
            raise ConfigError(
                f"{node.sql('spark')} in ORDER BY or ON is refused by Spark; select it as a column before"
            )
        if outer := [each for each in query.find_all(exp.Column) if not _sees(each, query)]:
            _check_correlated(node, query, outer)


def aggregates(select: exp.Select) -> bool:
    """Whether a query makes one row of several, with or without `GROUP BY`."""
    return bool(select.args.get("group")) or any(
        each.parent_select is select and not _in_window(each) for each in select.find_all(exp.AggFunc)
    )


def _in_window(function: exp.Expr) -> bool:
    parent = function.parent.parent if isinstance(function.parent, exp.Filter) else function.parent
    return isinstance(parent, exp.Window) and parent.this in {function, function.parent}


def _query_of(node: exp.Expr) -> exp.Query | None:
    """The query of an `IN`, an `EXISTS`, or one that is a single value; None for all others."""
    if isinstance(node, exp.Subquery) and (node.parent is None or isinstance(node.parent, _TABLES)):
        return None
    query = node.args.get("query") if isinstance(node, exp.In) else node.this
    found = query.unnest() if query is not None else None
    return found if isinstance(found, exp.Query) else None


def _is_condition(node: exp.Expr) -> bool:
    """Whether null and false mean the same where a node is used."""
    while isinstance(node.parent, exp.Paren):
        node = node.parent
    if isinstance(node.parent, exp.Not):
        node = node.parent
    while isinstance(node.parent, (exp.And, exp.Or, exp.Paren)):
        node = node.parent
    parent = node.parent
    if isinstance(parent, exp.If):
        return node.arg_key == "this" and (not isinstance(parent.parent, exp.Case) or parent.parent.this is None)
    return isinstance(parent, (exp.Where, exp.Having, exp.Join))


def _place_of(node: exp.Expr) -> type[exp.Expr]:
    """The part of its query in which a node is; `Select` for a column of it."""
    place = node.find_ancestor(*_PLACES)
    return exp.Select if place is None else type(place)


def _sees(column: exp.Column, query: exp.Query) -> bool:
    """Whether a column is one of a table inside the query."""
    return not column.table or any(column.table in sources_of(each) for each in _selects_around(column, query))


def _selects_around(node: exp.Expr, query: exp.Query) -> Iterator[exp.Select]:
    """The queries around a node, from the inside to this one."""
    parent: exp.Expr | None = node
    while parent is not None and parent is not query.parent:
        if isinstance(parent, exp.Select):
            yield parent
        parent = parent.parent


def _check_correlated(node: exp.Expr, query: exp.Query, outer: list[exp.Column]) -> None:
    """Check a subquery that uses columns of the query around it."""
    shown, around = query.sql("spark"), node.parent_select
    if around is None or any(each.table not in sources_of(around) for each in outer):
        raise ConfigError(
            f"{shown} uses a column from two queries further out, which Spark does not know; join instead"
        )
    for each in outer:
        where = each.find_ancestor(exp.Select, exp.Where, exp.Having)
        if not (isinstance(where, (exp.Where, exp.Having)) and isinstance(where.parent, exp.Select)):
            raise ConfigError(
                f"{shown} uses {each.sql('spark')} of the query around it outside its WHERE; join instead"
            )
    if query.find(exp.Limit, exp.Window, exp.SetOperation):
        raise ConfigError(
            f"{shown} has a LIMIT, a window or a union, and a column of the query around it; join instead"
        )
    _check_aggregates(node, query, outer)
    place = _place_of(node)
    within = node.find_ancestor(exp.AggFunc, exp.Select)
    grouped = place is exp.Select and aggregates(around) and not isinstance(within, exp.AggFunc)
    if grouped or place in {exp.Join, exp.Group, exp.Order} or (place is exp.Having and isinstance(node, exp.Subquery)):
        raise ConfigError(
            f"{shown} uses a column of the query around it, which Spark does not answer beside GROUP BY and"
            " aggregates, in ON and in ORDER BY; compute it in a query before"
        )


def _check_aggregates(node: exp.Expr, query: exp.Query, outer: list[exp.Column]) -> None:
    """Check that a single value is an aggregate over all its rows, and that no others are."""
    single = isinstance(node, exp.Subquery)
    if single and not (isinstance(query, exp.Select) and aggregates(query) and not query.args.get("group")):
        raise ConfigError(
            f"{query.sql('spark')} uses a column of the query around it, and Spark wants one aggregate of it, without"
            " GROUP BY; write max(…), or join"
        )
    for column in outer:
        for select in _selects_around(column, query):
            if aggregates(select) and not select.args.get("group") and not (single and select is query):
                raise ConfigError(
                    f"{select.sql('spark')} uses a column of the query around it. With an aggregate and no GROUP BY"
                    " it always has a row, but not on Spark; add GROUP BY, or leave the aggregate out"
                )
