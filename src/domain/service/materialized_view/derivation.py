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
    """Two expressions of two reads. They are equal in every row to which both reads contribute.

    Args:
        left, right: the expressions.
        of_left, of_right: the origins of the two values that the condition compares. Of each, at least one read
            contributes to a row for which the condition holds.
    """

    left: SourceExpr
    right: SourceExpr
    of_left: Origin
    of_right: Origin

    @property
    def ends(self) -> tuple[tuple[SourceExpr, Origin], tuple[SourceExpr, Origin]]:
        """Each expression and its origin."""
        return ((self.left, self.of_left), (self.right, self.of_right))


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
        never_null: whether each of these columns is never null, whatever the inputs have.
    """

    reads: Mapping[int, str] = field(factory=dict)
    nullable_sides: Mapping[int, frozenset[int]] = field(factory=dict)
    equalities: tuple[JoinEquality, ...] = ()
    non_null: frozenset[int] = frozenset()
    outputs: Mapping[str, Origin] = field(factory=dict)
    never_null: tuple[bool, ...] = ()

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

    def is_within(self, origin: Origin, group: Sequence[Origin]) -> bool:
        """Whether rows with the same values of a group have the same value of an origin.

        Two values that share an expression are equal in the rows to which its read contributes. In other rows, one of
        them may be that of another read, as of a column that a join merges.

        Args:
            origin: the origin.
            group: the origin of each of its columns.
        """
        if not origin:
            return False
        if origin in group or any(self._are_equal(origin, each) for each in group):
            return True
        return len(origin) > 1 and all(self.is_within(frozenset({expr}), group) for expr in origin)

    def _are_equal(self, one: Origin, other: Origin) -> bool:
        """Whether two values are equal in every row: no read contributes to one without a read that both share."""
        sides = {expr: self.nullable_sides.get(expr.read, frozenset()) - self.non_null for expr in one | other}
        return any(all(sides[expr] <= each for each in sides.values()) for expr in one & other)

    def sides_of(self, origin: Origin) -> frozenset[int]:
        """The nullable sides that contribute to every row in which a value of this origin is not null.

        Of a read of another derivation, such as that of an enclosing query, none are known.
        """
        return frozenset.intersection(*(self.nullable_sides.get(each.read, frozenset()) for each in origin))

    def with_equalities(self, equalities: tuple[JoinEquality, ...]) -> Derivation:
        """This derivation with equalities that hold in every row: nullable sides of only one end are then non-null."""
        non_null = self.non_null.union(*(self.sides_of(a.of_left) ^ self.sides_of(a.of_right) for a in equalities))
        return evolve(self, equalities=(*self.equalities, *equalities), non_null=non_null)

    def with_non_null(self, columns: Sequence[str]) -> Derivation:
        """This derivation when these columns are never null."""
        non_null = self.non_null
        for name in columns:
            exprs = self.outputs[name]
            if exprs and all(expr.column for expr in exprs):
                non_null |= self.sides_of(exprs)
        return evolve(self, non_null=non_null)


def equate(left: Origin, right: Origin) -> tuple[JoinEquality, ...]:
    """The join equalities that follow if two origins are equal."""
    return tuple(JoinEquality(one, other, left, right) for one in left for other in right if one.read != other.read)
