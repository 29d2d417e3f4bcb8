"""How a change of one input leads to the rows of a view, and how these lead to the rows that they are made of."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from ..errors import ConfigError
from ..schema import INTEGERS, DataType
from ..sql.parsing import shown
from .lineage import Link, Term, derivations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .lineage import Derivation
    from .settings import Shapes, ViewSettings

_VIEW = -1
"""The number of the view itself, among the reads."""


@frozen
class Hop:
    """Rows of one more read, found by values at hand.

    Args:
        input: what is looked up.
        read: which read of it.
        by: the value at hand, and the one of the wanted rows that equals it.
    """

    input: str
    read: int
    by: tuple[tuple[Term, Term], ...]


@frozen
class Route:
    """From the rows of one read to others.

    Args:
        start: the values that it starts from.
        hops: what is looked up on the way, in order.
        ends: the value at hand, and what it is at the end.
    """

    start: tuple[Term, ...]
    hops: tuple[Hop, ...]
    ends: tuple[tuple[Term, Term], ...]

    def needed(self, after: int) -> tuple[Term, ...]:
        """The values that are used after so many hops, each once."""
        later = [value for hop in self.hops[after:] for value, _ in hop.by]
        return tuple(dict.fromkeys([*later, *(value for value, _ in self.ends)]))


@frozen
class ReadRoutes:
    """One place where a query reads an input.

    Args:
        input: which.
        upward: from its changed rows to the scope; None where only a declared query leads there.
        downward: from the scope to the rows that matter; None where all of them may.
    """

    input: str
    upward: Route | None
    downward: Route | None


@frozen
class Routes:
    """How the changes of a view's inputs are followed.

    Args:
        scope: columns of the view's key that what is computed anew is told by: all rows that share their values.
        reads: every place where an input is read, one of each derivation.
    """

    scope: tuple[str, ...]
    reads: tuple[ReadRoutes, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs that the query reads, each once."""
        return tuple(dict.fromkeys(each.input for each in self.reads))

    def of(self, input: str) -> tuple[ReadRoutes, ...]:  # noqa: A002 - as configurations call it
        """The places where an input is read."""
        return tuple(each for each in self.reads if each.input == input)

    @property
    def lookups(self) -> Iterator[tuple[str, tuple[Term, ...]]]:
        """Every input that rows are looked up in, and by which of its values."""
        for read in self.reads:
            for route in (read.upward, read.downward):
                for hop in route.hops if route else ():
                    yield hop.input, tuple(term for _, term in hop.by)
            if read.downward:
                yield read.input, tuple(term for _, term in read.downward.ends)


def routes(settings: ViewSettings, shapes: Shapes) -> Routes:
    """The routes of a view.

    Raises:
        ConfigError: with the reason: no column of the key tells which part of the view is to be computed anew, or a
            change of some input does not tell which.
    """
    sql, key = settings.sql, settings.key
    columns = {name: each.schema for name, each in shapes.inputs.items()}
    traced = derivations(sql, columns)
    found = [_typed(each, key, shapes) for each in traced]
    scope = tuple(name for name in key if all(each.outputs[name.lower()] for each in found))
    if not scope:
        raise ConfigError(
            f"{shown(sql)}: no part of the view can be computed alone, as none of its key ({', '.join(key)}) is a"
            " column of an input, of its type, that stands in every GROUP BY and PARTITION BY; add such a column to the"
            " key"
        )
    reads = [read for each in found for read in _of(each.with_key([name.lower() for name in scope]), scope)]
    for each in reads:
        if each.upward is None and each.input not in settings.changes:
            wanted = ", ".join(scope)
            example = f'changes = {{ {each.input} = "SELECT {wanted} FROM {each.input} …" }}'  # noqa: S608 - for people
            raise ConfigError(
                f"{shown(sql)}: a change of {each.input!r} does not tell which {wanted} it concerns: from some place"
                f" where it is read no equality of a join leads there{_told_apart(traced, each.input, shapes)};"
                f' add one, or declare it: {example}, or {{ {each.input} = "all" }}'
            )
    return Routes(scope, tuple(reads))


def _typed(derivation: Derivation, key: Sequence[str], shapes: Shapes) -> Derivation:
    """The same with links of one type alone, and without columns of the key that are of another type than their origin.

    A comparison that casts may find equal what no look-up by value does. Whole numbers alone keep their value whatever
    their type, so that the narrower one of a link is widened.
    """
    kind = _kinds(derivation, shapes)
    links = tuple(alike for each in derivation.links for alike in _alike(each, kind))
    outputs = {}
    for name in key:
        terms = derivation.outputs.get(name.lower(), frozenset())
        same = all(kind(term) == shapes.schema[name] for term in terms)
        outputs[name.lower()] = terms if same else frozenset()
    return evolve(derivation, links=links, outputs=outputs)


def _alike(link: Link, kind: Callable[[Term], DataType]) -> tuple[Link, ...]:
    """The link between values of one type; none where a cast may change a value."""
    left, right = kind(link.left), kind(link.right)
    if left == right:
        return (link,)
    if not {left.name, right.name} <= INTEGERS:
        return ()
    wide = DataType("bigint" if "bigint" in {left.name, right.name} else "int")
    return (Link(_widened(link.left, left, wide), _widened(link.right, right, wide)),)


def _kinds(derivation: Derivation, shapes: Shapes) -> Callable[[Term], DataType]:
    """The types of the values of a derivation's reads."""
    return lambda term: shapes.types(derivation.reads[term.read], term)


def _told_apart(traced: Sequence[Derivation], name: str, shapes: Shapes) -> str:
    """In words, the equalities of an input that compare two types; nothing where there are none."""
    found = [
        f"{_described(derivation, link.left, shapes)} = {_described(derivation, link.right, shapes)}"
        for derivation in traced
        for link in derivation.links
        if name in {derivation.reads[link.left.read], derivation.reads[link.right.read]}
        and not _alike(link, _kinds(derivation, shapes))
    ]
    told = ", ".join(dict.fromkeys(found))
    return f" ({told}: cast one of the two to the type of the other)" if found else ""


def _described(derivation: Derivation, term: Term, shapes: Shapes) -> str:
    name = derivation.reads[term.read]
    return f"{name}.{term.column or term.sql} ({shapes.types(name, term).ddl})"


def _widened(term: Term, found: DataType, wanted: DataType) -> Term:
    return term if found == wanted else Term(term.read, f"CAST({term.sql} AS {wanted.ddl.upper()})")


def _of(derivation: Derivation, scope: Sequence[str]) -> Iterator[ReadRoutes]:
    search = _Search(derivation, tuple(Term(_VIEW, name, name) for name in scope))
    for read, name in derivation.reads.items():
        yield ReadRoutes(name, search.upward(read), search.downward(read))


class _Search:
    """Looks for routes in one derivation."""

    def __init__(self, derivation: Derivation, scope: tuple[Term, ...]) -> None:
        self._derivation = derivation
        self._scope = scope
        self._origins = {each: derivation.outputs[str(each.column).lower()] for each in scope}
        self._equal: dict[Term, list[Term]] = defaultdict(list)
        for link in derivation.links:
            self._equal[link.left].append(link.right)
            self._equal[link.right].append(link.left)
        terms = {*self._equal, *(term for origin in self._origins.values() for term in origin)}
        self._terms = {
            read: sorted((term for term in terms if term.read == read), key=lambda term: term.sql)
            for read in derivation.reads
        }

    def upward(self, read: int) -> Route | None:
        """From a read's changed rows to the scope."""

        def ends(known: Mapping[Term, Term]) -> tuple[tuple[Term, Term], ...] | None:
            found = []
            for each in self._scope:
                if (
                    value := next((known[term] for term in _sorted(self._origins[each]) if term in known), None)
                ) is None:
                    return None
                found.append((value, each))
            return tuple(found)

        return self._search({term: term for term in self._terms[read]}, {read}, ends, up=True)

    def downward(self, read: int) -> Route | None:
        """From the scope to the rows of a read that matter."""

        def ends(known: Mapping[Term, Term]) -> tuple[tuple[Term, Term], ...] | None:
            return tuple((known[term], term) for term in self._terms[read] if term in known) or None

        start = {term: each for each, origin in self._origins.items() for term in origin}
        return self._search(start, set(), ends, up=False)

    def _search(
        self,
        start: dict[Term, Term],
        held: set[int],
        ends: Callable[[Mapping[Term, Term]], tuple[tuple[Term, Term], ...] | None],
        *,
        up: bool,
    ) -> Route | None:
        """The shortest way, hop by hop; None if there is none."""
        known, hops = self._spread(start, up=up), list[Hop]()
        while (found := ends(known)) is None:
            near = self._near(known, held)
            if not near:
                return None
            for hop in near:
                held.add(hop.read)
                hops.append(hop)
                known = self._spread({**{term: term for term in self._terms[hop.read]}, **known}, up=up)
        return _pruned(tuple(dict.fromkeys(start.values())), hops, found)

    def _near(self, known: Mapping[Term, Term], held: set[int]) -> list[Hop]:
        """The reads of which some value is known, each by the values of one row at hand."""
        hops = []
        for read, name in self._derivation.reads.items():
            by = [(known[term], term) for term in self._terms[read] if term in known]
            if read in held or not by:
                continue
            first = by[0][0].read
            hops.append(Hop(name, read, tuple(pair for pair in by if pair[0].read == first)))
        return hops

    def _spread(self, known: Mapping[Term, Term], *, up: bool) -> dict[Term, Term]:
        """What is known, and all that is equal to it."""
        spread, todo = dict(known), list(known)
        while todo:
            term = todo.pop()
            for other in self._equal[term]:
                if other not in spread and self._crosses(term.read, other.read, up=up):
                    spread[other] = spread[term]
                    todo.append(other)
        return spread

    def _crosses(self, start: int, end: int, *, up: bool) -> bool:
        """Whether a value may be taken over: upward what it leads to must be there, downward where it comes from."""
        there, here = self._derivation.missing(end), self._derivation.missing(start)
        return there <= here if up else here <= there


def _pruned(start: tuple[Term, ...], hops: Sequence[Hop], ends: tuple[tuple[Term, Term], ...]) -> Route:
    """A route without the hops that nothing comes of."""
    needed, kept = {value.read for value, _ in ends}, list[Hop]()
    for hop in reversed(hops):
        if hop.read in needed:
            kept.insert(0, hop)
            needed |= {value.read for value, _ in hop.by}
    route = Route(start, tuple(kept), ends)
    used = {*route.needed(0)}
    return evolve(route, start=tuple(each for each in start if each in used))


def _sorted(origin: frozenset[Term]) -> list[Term]:
    return sorted(origin, key=lambda term: (term.read, term.sql))
