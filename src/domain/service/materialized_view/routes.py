"""Routes from a changed input row to the affected rows of a view, and from these to the input rows they need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from ...errors import ConfigError
from ...sql.parsing import quote
from ...table.schema import INTEGERS, DataType
from .derivation import UNKNOWN, Derivation, JoinEquality, Origin, SourceExpr
from .lineage import derivations
from .nulls import may_be_null
from .settings import Shapes, ViewSettings

_VIEW = -1
"""The read number of the view itself."""
_MERGED = -2
"""The read numbers of merged values count down from here; see `_Search`."""
_BY_SIZE = ("tinyint", "smallint", "int", "bigint")


@frozen
class Hop:
    """A lookup of rows of one more read by known values.

    Args:
        input: the input that is looked up.
        read: the number of the read.
        by: pairs of a known value and the expression of the wanted rows that equals it.
    """

    input: str
    read: int
    by: tuple[tuple[SourceExpr, SourceExpr], ...]


@frozen
class Route:
    """A sequence of lookups that leads from the rows of one read to other rows.

    Args:
        start: the values at the start.
        hops: the lookups, in order.
        ends: pairs of a known value and the expression that it equals at the end.
    """

    start: tuple[SourceExpr, ...]
    hops: tuple[Hop, ...]
    ends: tuple[tuple[SourceExpr, SourceExpr], ...]

    def needed(self, after: int) -> tuple[SourceExpr, ...]:
        """The values that are used after the first `after` hops, each once."""
        later = [value for hop in self.hops[after:] for value, _ in hop.by]
        return tuple(dict.fromkeys([*later, *(value for value, _ in self.ends)]))


@frozen
class ReadRoutes:
    """One place where a query reads an input.

    Args:
        input: the input's name.
        upward: the route from its changed rows to the scope; None if only a declared query leads there.
        downward: the route from the scope to the rows it needs; None if all rows may be needed.
    """

    input: str
    upward: Route | None
    downward: Route | None


@frozen
class Routes:
    """All routes of a view.

    Args:
        scope: the columns of the view's key by which it is recomputed: always all rows with the same values in them.
        reads: every place where an input is read, for each derivation.
        nullable: the columns of the view's key that may be null in rows of the query.
    """

    scope: tuple[str, ...]
    reads: tuple[ReadRoutes, ...]
    nullable: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs that the query reads, each once."""
        return tuple(dict.fromkeys(each.input for each in self.reads))

    def of(self, input: str) -> tuple[ReadRoutes, ...]:  # noqa: A002 - the name in the configuration
        """The places where an input is read."""
        return tuple(each for each in self.reads if each.input == input)

    @property
    def lookups(self) -> Iterator[tuple[str, tuple[SourceExpr, ...]]]:
        """Every lookup: the input, and the expressions by which its rows are looked up."""
        for read in self.reads:
            for route in (read.upward, read.downward):
                for hop in route.hops if route else ():
                    yield hop.input, tuple(expr for _, expr in hop.by)
            if read.downward:
                yield read.input, tuple(expr for _, expr in read.downward.ends)


def routes(settings: ViewSettings, shapes: Shapes) -> Routes:
    """The routes of a view.

    Raises:
        ConfigError: no column of the key says which part of the view has to be recomputed, or a change of some input
            does not lead to such a column.
    """
    sql, key = settings.sql, settings.key
    columns = {name: each.schema for name, each in shapes.inputs.items()}
    traced = derivations(sql, columns)
    found = [_match_types(each, key, shapes) for each in traced]
    scope = tuple(name for name in key if all(each.outputs[name.lower()] for each in found))
    if not scope:
        raise ConfigError(
            f"{quote(sql)}: no part of the view can be recomputed alone: no column of its key ({', '.join(key)}) is"
            " an input's column of the same type that is in every GROUP BY and PARTITION BY; add such a column to the"
            " key. If all rows make one result, compute it in a pipeline of service snapshots, or of service retraction"
        )
    columns_of_scope = [name.lower() for name in scope]
    reads = [read for each in found for read in _read_routes(each.with_non_null(columns_of_scope), scope)]
    for each in reads:
        if each.upward is None and each.input not in settings.changes:
            wanted = ", ".join(scope)
            mismatches = _type_mismatches(traced, each.input, shapes)
            example = f'changes = {{ {each.input} = "SELECT {wanted} FROM {each.input} …" }}'  # noqa: S608 - for display
            raise ConfigError(
                f"{quote(sql)}: a change of {each.input!r} does not determine which {wanted} it affects: in at least"
                f" one place where it is read, no join equality leads to the key{mismatches}; add one, or declare"
                f' it: {example}, or {{ {each.input} = "all" }}. Only = leads to the key, not <=>, and each side must'
                " be a column, or an expression of one input that no outer join leaves out"
            )
    keys = {name: () if each.null_keys else each.key for name, each in shapes.inputs.items()}
    nullable = tuple(name for name in key if any(may_be_null(each, name.lower(), keys) for each in traced))
    return Routes(scope, tuple(reads), nullable)


def _match_types(derivation: Derivation, key: Sequence[str], shapes: Shapes) -> Derivation:
    """The derivation with equalities of one type only, and key columns only if they have the type of their origin.

    A comparison with a cast may match values that a lookup by value does not find. Only integers keep their value in
    a wider type, so the narrower side of such an equality is widened.
    """
    kind = _kinds(derivation, shapes)
    equalities = tuple(matched for each in derivation.equalities for matched in _with_one_type(each, kind))
    outputs = {}
    for name in key:
        exprs = derivation.outputs.get(name.lower(), frozenset())
        same = all(kind(expr) == shapes.schema[name] for expr in exprs)
        outputs[name.lower()] = exprs if same else frozenset()
    return evolve(derivation, equalities=equalities, outputs=outputs)


def _with_one_type(equality: JoinEquality, kind: Callable[[SourceExpr], DataType]) -> tuple[JoinEquality, ...]:
    """The equality with both sides of one type; empty if a cast may change a value."""
    left, right = kind(equality.left), kind(equality.right)
    if left == right:
        wide = left
    elif {left.name, right.name} <= INTEGERS:
        wide = DataType("bigint" if "bigint" in {left.name, right.name} else "int")
    else:
        return ()
    return (
        JoinEquality(
            _widen(equality.left, left, wide),
            _widen(equality.right, right, wide),
            _widen_all(equality.of_left, kind, wide),
            _widen_all(equality.of_right, kind, wide),
        ),
    )


def _widen_all(origin: Origin, kind: Callable[[SourceExpr], DataType], wanted: DataType) -> Origin:
    """An origin with all its expressions of one type; unknown if a cast may change a value."""
    kinds = {each: kind(each) for each in origin}
    if all(found == wanted or _is_narrower(found, wanted) for found in kinds.values()):
        return frozenset(_widen(each, found, wanted) for each, found in kinds.items())
    return UNKNOWN


def _is_narrower(one: DataType, other: DataType) -> bool:
    return {one.name, other.name} <= INTEGERS and _BY_SIZE.index(one.name) < _BY_SIZE.index(other.name)


def _kinds(derivation: Derivation, shapes: Shapes) -> Callable[[SourceExpr], DataType]:
    """A function that returns the type of an expression over a derivation's read."""
    return lambda expr: shapes.types(derivation.reads[expr.read], expr)


def _type_mismatches(traced: Sequence[Derivation], name: str, shapes: Shapes) -> str:
    """The equalities of an input that compare two types, as text for a message; empty if there are none."""
    found = [
        f"{_describe(derivation, equality.left, shapes)} = {_describe(derivation, equality.right, shapes)}"
        for derivation in traced
        for equality in derivation.equalities
        if name in {derivation.reads[equality.left.read], derivation.reads[equality.right.read]}
        and not _with_one_type(equality, _kinds(derivation, shapes))
    ]
    mismatches = ", ".join(dict.fromkeys(found))
    return f" ({mismatches}: cast one of the two to the type of the other)" if found else ""


def _describe(derivation: Derivation, expr: SourceExpr, shapes: Shapes) -> str:
    name = derivation.reads[expr.read]
    return f"{name}.{expr.column or expr.sql} ({shapes.types(name, expr).ddl})"


def _widen(expr: SourceExpr, found: DataType, wanted: DataType) -> SourceExpr:
    return expr if found == wanted else SourceExpr(expr.read, f"CAST({expr.sql} AS {wanted.ddl.upper()})")


def _read_routes(derivation: Derivation, scope: Sequence[str]) -> Iterator[ReadRoutes]:
    search = _Search(derivation, tuple(SourceExpr(_VIEW, name, name) for name in scope))
    for read, name in derivation.reads.items():
        yield ReadRoutes(name, search.upward(read), search.downward(read))


class _Search:
    """Searches routes in one derivation.

    A value with an origin of several reads, such as a column that a FULL JOIN merges, is a node of the graph too, a
    *merged value*. It contributes to a row if all of the nullable sides do that its reads share, so an equality with it
    holds in rows to which only some of these reads contribute.
    """

    def __init__(self, derivation: Derivation, scope: tuple[SourceExpr, ...]) -> None:
        self._derivation = derivation
        self._scope = scope
        self._origins = {each: derivation.outputs[str(each.column).lower()] for each in scope}
        self._equal: dict[SourceExpr, list[SourceExpr]] = defaultdict(list)
        self._possibly_null = {read: derivation.possibly_null_sides(read) for read in derivation.reads}
        for equality in derivation.equalities:
            self._equate(equality.left, equality.right)
        self._merged = self._merge()
        exprs = {*self._equal, *(expr for origin in self._origins.values() for expr in origin)}
        self._exprs = {
            read: sorted((expr for expr in exprs if expr.read == read), key=lambda expr: expr.sql)
            for read in derivation.reads
        }

    def _equate(self, one: SourceExpr, other: SourceExpr) -> None:
        self._equal[one].append(other)
        self._equal[other].append(one)

    def _merge(self) -> dict[Origin, SourceExpr]:
        """The merged values, by their origin."""
        compared = [end for equality in self._derivation.equalities for end in equality.ends]
        origins = dict.fromkeys([*self._origins.values(), *(origin for _, origin in compared)])
        merged = {
            origin: SourceExpr(_MERGED - number, "")
            for number, origin in enumerate(each for each in origins if len(each) > 1)
        }
        for origin, value in merged.items():
            sides = self._derivation.sides_of(origin)
            self._possibly_null[value.read] = sides - self._derivation.non_null
            for expr in origin:
                self._equate(value, expr)
            for other, whole in merged.items():
                if origin < other:
                    self._equate(value, whole)
        for equality in self._derivation.equalities:
            left, right = (merged.get(origin, end) for end, origin in equality.ends)
            if (left, right) != (equality.left, equality.right):
                self._equate(left, right)
        return merged

    def _values_of(self, origin: Origin) -> list[SourceExpr]:
        """The values that a column of this origin is equal to."""
        merged = [self._merged[origin]] if origin in self._merged else []
        return [*merged, *sorted(origin, key=lambda expr: (expr.read, expr.sql))]

    def upward(self, read: int) -> Route | None:
        """The route from a read's changed rows to the scope; None if there is none."""

        def ends(known: Mapping[SourceExpr, SourceExpr]) -> tuple[tuple[SourceExpr, SourceExpr], ...] | None:
            found = []
            for each in self._scope:
                if (
                    value := next((known[expr] for expr in self._values_of(self._origins[each]) if expr in known), None)
                ) is None:
                    return None
                found.append((value, each))
            return tuple(found)

        return self._search({expr: expr for expr in self._exprs[read]}, {read}, ends, up=True)

    def downward(self, read: int) -> Route | None:
        """The route from the scope to the needed rows of a read; None if there is none."""

        def ends(known: Mapping[SourceExpr, SourceExpr]) -> tuple[tuple[SourceExpr, SourceExpr], ...] | None:
            return tuple((known[expr], expr) for expr in self._exprs[read] if expr in known) or None

        start = {expr: each for each, origin in self._origins.items() for expr in self._values_of(origin)}
        return self._search(start, set(), ends, up=False)

    def _search(
        self,
        start: dict[SourceExpr, SourceExpr],
        visited: set[int],
        ends: Callable[[Mapping[SourceExpr, SourceExpr]], tuple[tuple[SourceExpr, SourceExpr], ...] | None],
        *,
        up: bool,
    ) -> Route | None:
        """The route with the fewest hops; None if there is none."""
        known, hops = self._spread(start, up=up), list[Hop]()
        while (found := ends(known)) is None:
            reachable = self._reachable(known, visited)
            if not reachable:
                return None
            for hop in reachable:
                visited.add(hop.read)
                hops.append(hop)
                known = self._spread({**{expr: expr for expr in self._exprs[hop.read]}, **known}, up=up)
        return _prune(tuple(dict.fromkeys(start.values())), hops, found)

    def _reachable(self, known: Mapping[SourceExpr, SourceExpr], visited: set[int]) -> list[Hop]:
        """The reads that can be looked up next, each by the known values of one read."""
        hops = []
        for read, name in self._derivation.reads.items():
            by = [(known[expr], expr) for expr in self._exprs[read] if expr in known]
            if read in visited or not by:
                continue
            first = by[0][0].read
            hops.append(Hop(name, read, tuple(pair for pair in by if pair[0].read == first)))
        return hops

    def _spread(self, known: Mapping[SourceExpr, SourceExpr], *, up: bool) -> dict[SourceExpr, SourceExpr]:
        """The known values, and all values that are equal to them."""
        spread, todo = dict(known), list(known)
        while todo:
            expr = todo.pop()
            for other in self._equal[expr]:
                if other not in spread and self._crosses(expr.read, other.read, up=up):
                    spread[other] = spread[expr]
                    todo.append(other)
        return spread

    def _crosses(self, start: int, end: int, *, up: bool) -> bool:
        """Whether an equality may be followed: upward its end must contribute to the row, downward its start."""
        there, here = self._possibly_null[end], self._possibly_null[start]
        return there <= here if up else here <= there


def _prune(
    start: tuple[SourceExpr, ...], hops: Sequence[Hop], ends: tuple[tuple[SourceExpr, SourceExpr], ...]
) -> Route:
    """The route without hops that it does not need."""
    needed, useful = {value.read for value, _ in ends}, list[Hop]()
    for hop in reversed(hops):
        if hop.read in needed:
            useful.insert(0, hop)
            needed |= {value.read for value, _ in hop.by}
    route = Route(start, tuple(useful), ends)
    used = {*route.needed(0)}
    return evolve(route, start=tuple(each for each in start if each in used))
