"""Where the rows and columns of a query come from: the values that its lineage consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import evolve, field, frozen


@frozen
class SourceExpr:
    """An expression over the columns of one read.

    Args:
        read: the number of the read.
        sql: the expression over the columns of its input, in Spark's dialect.
        column: the column's name if the expression is only a column, else None.
    """

    read: int
    sql: str
    column: str | None = None


Origin: TypeAlias = "frozenset[SourceExpr]"
"""The expressions that a column equals, for each of their reads that contributes to a row; empty if unknown."""
UNKNOWN: Origin = frozenset()


@frozen
class JoinEquality:
    """Two expressions of two reads. They are equal in every row to which both reads contribute."""

    left: SourceExpr
    right: SourceExpr


@frozen
class Derivation:
    """One way in which rows of the query are derived from its inputs.

    Args:
        reads: the input of each read, by the read's number.
        nullable_sides: the nullable sides of outer joins that each read belongs to, by the read's number. Each side has
            a number. A read contributes to a row only if all of its nullable sides do.
        equalities: see `JoinEquality`.
        non_null: the nullable sides that contribute to every row anyway, because a condition excludes their nulls.
        outputs: the origin of each column, by its name in lower case.
    """

    reads: Mapping[int, str] = field(factory=dict)
    nullable_sides: Mapping[int, frozenset[int]] = field(factory=dict)
    equalities: tuple[JoinEquality, ...] = ()
    non_null: frozenset[int] = frozenset()
    outputs: Mapping[str, Origin] = field(factory=dict)

    def combine(self, other: Derivation) -> Derivation:
        """Both derivations as one, without outputs; the caller sets these."""
        return Derivation(
            {**self.reads, **other.reads},
            {**self.nullable_sides, **other.nullable_sides},
            (*self.equalities, *other.equalities),
            self.non_null | other.non_null,
        )

    def add_nullable_sides(self, reads: Mapping[int, str], parts: frozenset[int]) -> Derivation:
        """This derivation, with these reads in these nullable sides as well."""
        return evolve(
            self, nullable_sides={**self.nullable_sides, **{each: self.nullable_sides[each] | parts for each in reads}}
        )

    def possibly_null_sides(self, read: int) -> frozenset[int]:
        """The nullable sides of a read that may not contribute to a row."""
        return self.nullable_sides[read] - self.non_null

    def with_equalities(self, equalities: tuple[JoinEquality, ...]) -> Derivation:
        """This derivation with equalities that hold in every row: nullable sides of only one end are then non-null."""
        non_null = self.non_null.union(
            *(self.nullable_sides[a.left.read] ^ self.nullable_sides[a.right.read] for a in equalities)
        )
        return evolve(self, equalities=(*self.equalities, *equalities), non_null=non_null)

    def with_non_null(self, columns: Sequence[str]) -> Derivation:
        """This derivation when these columns are never null."""
        non_null = self.non_null
        for name in columns:
            exprs = self.outputs[name]
            if exprs and all(expr.column for expr in exprs):
                non_null |= frozenset.intersection(*(self.nullable_sides[expr.read] for expr in exprs))
        return evolve(self, non_null=non_null)


def equate(left: Origin, right: Origin) -> tuple[JoinEquality, ...]:
    """The join equalities that follow if two origins are equal."""
    return tuple(JoinEquality(one, other) for one in left for other in right if one.read != other.read)
