"""A SELECT that is being traced, and the origins of its expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import sqlglot
from attrs import field, frozen
from sqlglot import exp

from ...sql.calls import AGGREGATES, GENERATORS, WINDOWS, calls
from ...sql.parsing import DIALECT, to_sql
from .derivation import UNKNOWN, Derivation, JoinEquality, Origin, SourceExpr, equate
from .syntax import conjuncts, is_global_aggregate, own_nodes, partition

_MULTI_ROW_FUNCTIONS = AGGREGATES | GENERATORS | WINDOWS
"""Functions whose value does not depend on a single row only."""

Columns: TypeAlias = "Mapping[str, Mapping[str, Origin]]"
"""The origin of each column of each source, by the source's alias and the column's name, in lower case."""


@frozen
class Block:
    """A SELECT that is being traced.

    Args:
        derivation: that of the sources joined so far.
        sources: the columns of these sources.
        outer: the columns of the enclosing queries, which a subquery may name.
    """

    derivation: Derivation = field(factory=Derivation)
    sources: Columns = field(factory=dict)
    outer: Columns = field(factory=dict)

    @property
    def known(self) -> Columns:
        """The columns that an expression may name."""
        return {**self.outer, **self.sources}

    def find_equalities(self, condition: exp.Expr | None) -> Iterator[JoinEquality]:
        """The join equalities in a condition, which all hold where the condition holds."""
        for each in conjuncts(condition):
            if isinstance(each, exp.EQ):
                left, right = (self.origin(side) for side in (each.left, each.right))
                yield from equate(left, right)

    def origin(self, tree: exp.Expr) -> Origin:
        """The origin of an expression's value."""
        while isinstance(tree, (exp.Paren, exp.Alias)):
            tree = tree.this
        if isinstance(tree, exp.Column):
            return self.known.get(tree.table.lower(), {}).get(tree.name.lower(), UNKNOWN)
        if isinstance(tree, exp.Coalesce):
            merged = self._merged_origin([tree.this, *tree.expressions])
            if merged:
                return merged
        return self._expression_origin(tree)

    def _merged_origin(self, parts: Sequence[exp.Expr]) -> Origin:
        """The origin of a column that a join merges (``USING``): of the sides, those that are missing least often."""
        derivation, origins = self.derivation, [self.origin(each) for each in parts]
        pairs = {frozenset({each.left, each.right}) for each in derivation.equalities}
        so_far, repeated = set(origins[0]), set[int]()
        for each in origins[1:]:
            if not any(frozenset({one, other}) in pairs for one in each for other in so_far):
                return UNKNOWN
            repeated |= {expr.read for expr in each - so_far} & {expr.read for expr in so_far}
            so_far |= each
        missing = {
            expr: derivation.possibly_null_sides(expr.read) if expr.read in derivation.reads else frozenset()
            for expr in so_far
        }
        found = frozenset(expr for expr in so_far if not any(missing[other] < missing[expr] for other in so_far))
        # Two values of one read are equal only in rows to which the reads that link them contribute, too.
        certain = repeated.isdisjoint(expr.read for expr in found) or all(map(self._always_contributes, so_far))
        return found if certain else UNKNOWN

    def _always_contributes(self, expr: SourceExpr) -> bool:
        derivation = self.derivation
        return expr.read in derivation.reads and not derivation.possibly_null_sides(expr.read)

    def _expression_origin(self, tree: exp.Expr) -> Origin:
        """The origin of an expression over one read's columns, if that read contributes to every row; else unknown."""
        columns = list(tree.find_all(exp.Column))
        sql = to_sql(tree)
        if not columns or tree.find(exp.Query, exp.Window) or calls(sql, _MULTI_ROW_FUNCTIONS):
            return UNKNOWN
        origins = [self.origin(each) for each in columns]
        common = frozenset.intersection(*(frozenset(expr.read for expr in origin) for origin in origins))
        here = [
            each for each in common if each in self.derivation.reads and not self.derivation.possibly_null_sides(each)
        ]
        by_sql = dict(zip(map(to_sql, columns), origins, strict=True))
        return frozenset(SourceExpr(read, _rewrite(tree, by_sql, read)) for read in here)

    def group_origins(self, tree: exp.Select) -> Iterator[list[Origin]]:
        """For the grouping and each window: the origin of each column. Rows with the same values form one group."""
        group = tree.args.get("group")
        if group is not None and group.args.get("all"):
            plain = [each for each in tree.selects if not calls(to_sql(each), AGGREGATES)]
            yield [self.origin(each) for each in plain]
        elif group is not None:
            yield [self.origin(each) for each in group.expressions]
        elif is_global_aggregate(tree):
            yield []
        for window in own_nodes(tree, exp.Window):
            yield [self.origin(each) for each in partition(window, tree)]


def _rewrite(tree: exp.Expr, origins: Mapping[str, Origin], read: int) -> str:
    """The SQL of an expression, rewritten to the columns of the input.

    Of several expressions of the read that a column equals, it has the first in alphabetical order.
    """

    def replace(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        sql = min(expr.sql for expr in origins[to_sql(node)] if expr.read == read)
        found = sqlglot.parse_one(sql, dialect=DIALECT)
        return found if isinstance(found, exp.Column) else exp.Paren(this=found)

    return to_sql(tree.transform(replace))
