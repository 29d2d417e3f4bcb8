"""Makes 0.0 of -0.0 where Spark does: in the keys of groups, and in distinct rows."""

from __future__ import annotations

from sqlglot import exp

from ....domain.sql.types import type_of
from ....domain.table.schema import FLOATS

_ZEROED = "hw_zeroed"


def normalize_zeros(tree: exp.Expr) -> None:
    """Change a query so that group keys, and columns of distinct rows, are never -0.0."""
    for query in list(tree.find_all(exp.Query)):
        if query.args.get("distinct"):
            for select in _selects(query):
                for each in select.expressions:
                    _zero(each.this if isinstance(each, exp.Alias) else each)
        if group := query.args.get("group"):
            keys = [each for each in group.expressions if _is_float(each)]
            for each in query.expressions:
                _zero_keys(each, keys)


def _selects(query: exp.Expr) -> list[exp.Select]:
    """The queries whose rows a query keeps once each."""
    if isinstance(query, exp.SetOperation):
        return [*_selects(query.left.unnest()), *_selects(query.right.unnest())]
    return [query] if isinstance(query, exp.Select) else []


def _zero_keys(node: exp.Expr, keys: list[exp.Expr]) -> None:
    """Normalize the keys in a column of a grouped query; aggregates see the values as they are."""
    if isinstance(node, (exp.AggFunc, exp.Query)):
        return
    if node in keys:
        _zero(node)
        return
    for each in list(node.iter_expressions()):
        _zero_keys(each, keys)


def _zero(node: exp.Expr) -> None:
    """Normalize one value, if it is a float."""
    if not _is_float(node):
        return
    made = exp.Anonymous(this=_ZEROED)
    made.type = node.type
    node.replace(made)
    made.set("expressions", [node])


def _is_float(node: exp.Expr) -> bool:
    return node.type is not None and type_of(node).name in FLOATS
