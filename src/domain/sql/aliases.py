"""Counts the columns that a subquery names beside its alias, as in ``(SELECT …) AS t(a, b)``."""

from __future__ import annotations

from sqlglot import exp

_NAMES = "headwater_names"
_SEVERAL = (exp.Aliases, exp.Anonymous, exp.Inline, exp.Posexplode, exp.QueryTransform, exp.Stack)
"""May be several columns, or is a function of which this is unknown."""


def miscounted_alias(tree: exp.Expr) -> str | None:
    """What is wrong with an alias that does not name each column of its subquery once; None if there is no such alias.

    Call it before sqlglot removes these names, and again when the stars are expanded: the aliases of subqueries with a
    star remember the names.
    """
    for alias in tree.find_all(exp.TableAlias):
        names = alias.meta.get(_NAMES) or [each.name for each in alias.columns]
        columns = _columns_of(alias) if names else []
        may_be_more = any(map(_may_be_several, columns))
        if columns and (len(columns) > len(names) or (len(columns) < len(names) and not may_be_more)):
            return (
                f"{alias.name}({', '.join(names)}) names {_number(len(names))}, and its query has"
                f" {_number(len(columns))}{' or more' if may_be_more else ''}: write one name for each column"
            )
        if may_be_more:
            alias.meta[_NAMES] = names
    return None


def _columns_of(alias: exp.TableAlias) -> list[exp.Expr]:
    """The columns of an alias's query; empty if it is none."""
    query = alias.parent.this if isinstance(alias.parent, (exp.CTE, exp.Subquery)) else None
    return query.selects if isinstance(query, exp.Query) else []


def _may_be_several(column: exp.Expr) -> bool:
    """Whether a column stands for several: a star, or a function like ``explode`` of a map."""
    return column.is_star or isinstance(column, exp.Explode) or isinstance(column.unalias(), _SEVERAL)


def _number(count: int) -> str:
    return f"{count} column{'s' if count > 1 else ''}"
