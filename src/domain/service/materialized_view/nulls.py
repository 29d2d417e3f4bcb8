"""Which columns of a query may be null, as far as its text shows. Rows whose key is null are not part of a view."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import sqlglot
from sqlglot import exp

from ...sql.parsing import DIALECT
from ...table.schema import NUMBERS, Schema
from .derivation import Derivation

_NEVER_NULL = (exp.Literal, exp.Boolean, exp.Count, exp.RowNumber)


def never_null(tree: exp.Expr, columns: Collection[str] = ()) -> bool:
    """Whether an expression is never null, such as ``coalesce(city, '')``, if these columns are not.

    >>> never_null(sqlglot.parse_one("coalesce(city, '')")), never_null(sqlglot.parse_one("coalesce(city, other)"))
    (True, False)
    """
    if isinstance(tree, (exp.Paren, exp.Alias, exp.Window)):
        return never_null(tree.this, columns)
    if isinstance(tree, exp.Coalesce):
        return any(never_null(each, columns) for each in (tree.this, *tree.expressions))
    if isinstance(tree, exp.Column):
        return tree.name in columns
    return isinstance(tree, _NEVER_NULL)


def may_be_null(derivation: Derivation, name: str, keys: Mapping[str, Collection[str]]) -> bool:
    """Whether a column of a derivation may be null.

    Args:
        derivation: where the column comes from.
        name: the column, in lower case.
        keys: the columns of each input that are never null.
    """
    if dict(zip(derivation.outputs, derivation.never_null, strict=True))[name]:
        return False
    certain = {read for read in derivation.reads if not derivation.possibly_null_sides(read)}
    equal = [each for each in derivation.equalities if {each.left.read, each.right.read} <= certain]
    compared = {end for each in equal for end in (each.left, each.right)}
    return not any(
        each in compared or never_null(sqlglot.parse_one(each.sql, dialect=DIALECT), keys[derivation.reads[each.read]])
        for each in derivation.outputs[name]
        if each.read in certain
    )


def explain_nulls(nullable: Sequence[str], schema: Schema) -> str:
    """What happens to rows in which one of these key columns is null, for display; empty if there are none."""
    if not nullable:
        return ""
    instead = {"string": "''", **dict.fromkeys(NUMBERS, "0")}
    kept = [f"coalesce({name}, {instead.get(schema[name].name, '…')})" for name in nullable]
    return f"rows whose {' or '.join(nullable)} is null are left out; {' and '.join(kept)} in the query would keep them"
