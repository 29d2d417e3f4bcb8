"""Parts of the syntax tree of a SELECT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from ...sql.calls import AGGREGATES, calls
from ...sql.parsing import to_sql


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """The conditions that are connected by AND."""
    if isinstance(condition, exp.Paren):
        yield from conjuncts(condition.this)
    elif isinstance(condition, exp.And):
        yield from conjuncts(condition.left)
        yield from conjuncts(condition.right)
    elif condition is not None:
        yield condition


def own_nodes(tree: exp.Select, *kinds: type[exp.Expr]) -> Iterator[exp.Expr]:
    """Nodes of these kinds in the expressions of a SELECT, without its subqueries."""
    for root in _expressions(tree):
        for node in root.walk(prune=lambda node: isinstance(node, exp.Query)):
            if isinstance(node, kinds):
                yield node


def _expressions(tree: exp.Select) -> Iterator[exp.Expr]:
    yield from tree.selects
    yield from (join.args["on"] for join in tree.args.get("joins") or () if join.args.get("on"))
    for name in ("where", "group", "having", "qualify", "order"):
        if tree.args.get(name) is not None:
            yield tree.args[name]


def is_global_aggregate(tree: exp.Select) -> bool:
    """Whether a SELECT without GROUP BY aggregates all of its rows."""
    calls_ = own_nodes(tree, exp.AggFunc, exp.Anonymous)
    return any(calls(to_sql(each), AGGREGATES) and not _is_windowed(each) for each in calls_)


def _is_windowed(node: exp.Expr) -> bool:
    while isinstance(node.parent, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        node = node.parent
    return isinstance(node.parent, exp.Window)


def is_plain_condition(node: exp.Expr) -> bool:
    """Whether a condition filters rows directly, so that false and unknown have the same effect."""
    while isinstance(node.parent, (exp.And, exp.Or, exp.Paren)):
        node = node.parent
    return isinstance(node.parent, exp.Where)


def partition(window: exp.Expr, tree: exp.Select) -> Sequence[exp.Expr]:
    """The expressions in a window's PARTITION BY, which may be that of a named window."""
    if window.args.get("partition_by"):
        return list(window.args["partition_by"])
    name = window.alias.lower()
    for each in tree.args.get("windows") or ():
        if name and each.name.lower() == name:
            return partition(each, tree)
    return ()
