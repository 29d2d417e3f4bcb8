"""Where the rows of a query come from: each place that reads an input, and which of its values equal which.

Every query is taken apart into derivations without unions: one a combination of branches. A derivation is a graph of
*reads* of inputs and *links*, equalities of a value of one read with a value of another that hold in every answer row
both take part in. Predicates on some columns of an answer may be pushed down along it, and changes traced up; both are
right exactly where filters on those columns could be pushed down by any optimizer:

* through joins by their equalities; to the optional side of an outer join, and up from it, never past it;
* through a grouping by its groups, through windows by what all of them are partitioned by;
* into both sides of a union, an intersection or a difference, by position;
* into a subquery of a condition by what correlates it.
"""

from __future__ import annotations

from itertools import count, product
from typing import TYPE_CHECKING, TypeAlias

import sqlglot
from attrs import evolve, field, frozen
from sqlglot import exp
from sqlglot.errors import OptimizeError, SchemaError
from sqlglot.optimizer.qualify import qualify

from ..errors import ConfigError
from ..sql import parse_statement
from ..sql.calls import AGGREGATES, GENERATORS, WINDOWS, calls
from ..sql.parsing import DIALECT, shown, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..schema import Schema

_MOST = 32
"""Derivations that a query may have: its unions multiply."""
_OF_MANY = AGGREGATES | GENERATORS | WINDOWS
"""Functions whose value is not one of a row's own."""


@frozen
class Term:
    """A value of a row that a read brings.

    Args:
        read: which.
        sql: an expression over the columns of its input, in Spark's dialect.
        column: the column that it is, where it is nothing else.
    """

    read: int
    sql: str
    column: str | None = None


Origin: TypeAlias = "frozenset[Term]"
"""What a column's value is, of whichever of these reads takes part; nothing where it cannot be told."""
_OPAQUE: Origin = frozenset()


@frozen
class Link:
    """Two values, of two reads, that are equal wherever both reads take part in a row."""

    left: Term
    right: Term


@frozen
class Derivation:
    """One way in which rows come about.

    Args:
        reads: the input that each read reads, by its number.
        optional: of each read the optional parts that it belongs to: it takes part in a row only if all of them do.
        links: see `Link`.
        present: optional parts that take part in every row nevertheless.
        outputs: what each column's value is, by its name in lower case.
    """

    reads: Mapping[int, str] = field(factory=dict)
    optional: Mapping[int, frozenset[int]] = field(factory=dict)
    links: tuple[Link, ...] = ()
    present: frozenset[int] = frozenset()
    outputs: Mapping[str, Origin] = field(factory=dict)

    def beside(self, other: Derivation) -> Derivation:
        """Both at once; the outputs are for the caller to say."""
        return Derivation(
            {**self.reads, **other.reads},
            {**self.optional, **other.optional},
            (*self.links, *other.links),
            self.present | other.present,
        )

    def in_part(self, reads: Mapping[int, str], parts: frozenset[int]) -> Derivation:
        """The same, with these reads in these optional parts as well."""
        return evolve(self, optional={**self.optional, **{each: self.optional[each] | parts for each in reads}})

    def missing(self, read: int) -> frozenset[int]:
        """The optional parts of a read that may be missing from a row."""
        return self.optional[read] - self.present

    def linked(self, left: Origin, right: Origin) -> tuple[Link, ...]:
        """The links that an equality makes."""
        return tuple(Link(one, other) for one in left for other in right if one.read != other.read)

    def with_inner(self, links: tuple[Link, ...]) -> Derivation:
        """The same where links hold in every row: what they touch is there."""
        present = self.present.union(*(self.optional[a.left.read] ^ self.optional[a.right.read] for a in links))
        return evolve(self, links=(*self.links, *links), present=present)

    def with_key(self, columns: Sequence[str]) -> Derivation:
        """The same where these columns are null in no row."""
        present = self.present
        for name in columns:
            terms = self.outputs[name]
            if terms and all(term.column for term in terms):
                present |= frozenset.intersection(*(self.optional[term.read] for term in terms))
        return evolve(self, present=present)


def derivations(sql: str, inputs: Mapping[str, Schema]) -> tuple[Derivation, ...]:
    """The ways in which rows of a query come about.

    Args:
        sql: see `sql.parse_statement`.
        inputs: columns of what it reads, by name.

    Raises:
        ConfigError: it names no such column, or is of a shape that no part of its rows can be computed alone.
    """
    statement = parse_statement(sql)
    statement.check_tables(inputs)
    statement.check_repeatable()
    names = {name.lower(): name for name in inputs}
    schema: dict[str, object] = {
        name: {each.name: each.type.ddl for each in columns.columns} for name, columns in inputs.items()
    }
    try:
        tree = qualify(
            sqlglot.parse_one(statement.sql, dialect=DIALECT), schema=schema, dialect=DIALECT, quote_identifiers=False
        )
    except (OptimizeError, SchemaError) as error:
        raise ConfigError(f"{shown(sql)}: {str(error).splitlines()[0]}; look at its columns and tables") from error
    assert isinstance(tree, exp.Query)
    found = _Tracer(sql, names, inputs).query(tree, {}, _Outer())
    followed = {name for each in found for name in each.reads.values()}
    if lost := [name for name in statement.tables if names[name.lower()] not in followed]:
        raise ConfigError(f"{shown(sql)}: it cannot be followed what {lost[0]!r} is read for; leave it out")
    if len(found) > _MOST:
        raise ConfigError(f"{shown(sql)} combines {len(found)} branches of unions; {_MOST} at most can be followed")
    return tuple(found)


@frozen
class _Outer:
    """What a subquery may name beside its own sources."""

    outputs: Mapping[str, Mapping[str, Origin]] = field(factory=dict)
    derivation: Derivation = field(factory=Derivation)


@frozen
class _Block:
    """A SELECT under way: what has been joined so far, and the columns of each source by its alias."""

    derivation: Derivation
    sources: Mapping[str, Mapping[str, Origin]]

    def known(self, outer: _Outer) -> Mapping[str, Mapping[str, Origin]]:
        return {**outer.outputs, **self.sources}


class _Tracer:
    """Follows one query.

    Args:
        sql: for messages.
        names: of the inputs, by their lower case.
        inputs: their columns.
    """

    def __init__(self, sql: str, names: Mapping[str, str], inputs: Mapping[str, Schema]) -> None:
        self._sql = sql
        self._names = names
        self._inputs = inputs
        self._numbers = count()

    def query(self, tree: exp.Expr, named: Mapping[str, exp.Expr], outer: _Outer) -> list[Derivation]:
        """The derivations of a query, with those that are named around it."""
        self._check_shape(tree)
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, self._with_own(tree, named), outer)
        named = self._with_own(tree, named)
        if isinstance(tree, exp.SetOperation):
            left, right = (self.query(side, named, outer) for side in (tree.left, tree.right))
            names = tuple(left[0].outputs)
            return [*left, *(evolve(each, outputs=dict(zip(names, each.outputs.values()))) for each in right)]  # noqa: B905 - engines check the count
        if isinstance(tree, exp.Select):
            return [
                ended for block in self._joined(tree, named, outer) for ended in self._ended(block, tree, named, outer)
            ]
        raise self._refused(tree, "is no plain query")

    def _with_own(self, tree: exp.Expr, named: Mapping[str, exp.Expr]) -> Mapping[str, exp.Expr]:
        with_ = tree.args.get("with_") or tree.args.get("with")
        if with_ is None:
            return named
        if with_.args.get("recursive"):
            raise self._refused(tree, "is recursive")
        return {**named, **{each.alias.lower(): each.this for each in with_.expressions}}

    def _check_shape(self, tree: exp.Expr) -> None:
        for name, what in _REFUSED.items():
            if tree.args.get(name):
                raise self._refused(tree, what)
        group = tree.args.get("group")
        if group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
            raise self._refused(tree, "groups in several ways at once; make them views of their own")

    def _refused(self, tree: exp.Expr, why: str) -> ConfigError:
        part = tree.sql(dialect=DIALECT)
        return ConfigError(f"a view cannot be kept by its key: {shown(part)} {why}")

    # ---- sources and joins -----------------------------------------------------------------------------------------

    def _joined(self, tree: exp.Select, named: Mapping[str, exp.Expr], outer: _Outer) -> Iterator[_Block]:
        from_ = tree.args.get("from_") or tree.args.get("from")
        blocks = [_Block(Derivation(), {})]
        if from_ is not None:
            blocks = [_Block(each, {alias: each.outputs}) for alias, each in self._source(from_.this, named)]
        for join in tree.args.get("joins") or ():
            blocks = [
                self._join(block, join, alias, right, outer)
                for block in blocks
                for alias, right in self._source(join.this, named)
            ]
        for lateral in tree.args.get("laterals") or ():
            if lateral.find(exp.Query):
                raise self._refused(lateral, "is a query for each row; write a join")
            blocks = [evolve(block, sources={**block.sources, **_generated(lateral)}) for block in blocks]
        for block in blocks:
            yield self._filtered(block, tree, outer)

    def _source(self, tree: exp.Expr, named: Mapping[str, exp.Expr]) -> Iterator[tuple[str, Derivation]]:
        if tree.args.get("joins") or tree.args.get("pivots") or tree.args.get("sample"):
            raise self._refused(tree, "joins inside parentheses, pivots or samples; write it as a query of its own")
        alias = tree.alias_or_name.lower()
        if isinstance(tree, exp.Table):
            yield from ((alias, each) for each in self._table(tree, named))
        elif isinstance(tree, exp.Subquery):
            yield from ((alias, each) for each in self.query(tree, named, _Outer()))
        elif isinstance(tree, exp.UDTF) and not tree.find(exp.Query):
            yield alias, Derivation(outputs={name.lower(): _OPAQUE for name in tree.alias_column_names})
        else:
            raise self._refused(tree, "is no table, and no query")

    def _table(self, tree: exp.Table, named: Mapping[str, exp.Expr]) -> list[Derivation]:
        name = tree.name.lower()
        if name in named:
            # A named query sees those named before it, which the ones around it include.
            others = {each: query for each, query in named.items() if each != name}
            found = self.query(named[name], others, _Outer())
            columns = tree.alias_column_names
            if not columns:
                return found
            return [evolve(each, outputs=dict(zip(columns, each.outputs.values(), strict=True))) for each in found]
        read, given = next(self._numbers), self._names[name]
        outputs = {each.lower(): frozenset({Term(read, f"`{each}`", each)}) for each in self._inputs[given].names}
        return [Derivation({read: given}, {read: frozenset()}, outputs=outputs)]

    def _join(self, block: _Block, join: exp.Join, alias: str, right: Derivation, outer: _Outer) -> _Block:
        if join.method:
            raise self._refused(join, f"is a {join.method} join; write JOIN … USING or ON")
        left = block.derivation
        kind = join.kind if join.kind in {"SEMI", "ANTI"} else join.side
        both, sides = (
            left.beside(right),
            {"LEFT": (0, 1), "SEMI": (0, 1), "ANTI": (0, 1), "RIGHT": (1, 0), "FULL": (1, 1)},
        )
        for optional, reads in zip(sides.get(kind, (0, 0)), (left.reads, right.reads), strict=True):
            if optional:
                both = both.in_part(reads, frozenset({next(self._numbers)}))
        sources = {**block.sources, alias: right.outputs}
        found = self._links(join.args.get("on"), _Block(both, sources), outer)
        links = tuple(each for each in found if {each.left.read, each.right.read} <= set(both.reads))
        derivation = both.with_inner(links) if kind not in sides else _with_outer(both, links, left, right, kind)
        return _Block(derivation, block.sources if kind in {"SEMI", "ANTI"} else sources)

    def _filtered(self, block: _Block, tree: exp.Select, outer: _Outer) -> _Block:
        where = tree.args.get("where")
        links = tuple(self._links(where and where.this, block, outer))
        own = tuple(each for each in links if {each.left.read, each.right.read} <= set(block.derivation.reads))
        derivation = block.derivation.with_inner(own)
        for link in (each for each in links if each not in own):
            # To a row of the query around this one: it is there, for what it is compared with is not null.
            inside = link.left if link.left.read in derivation.reads else link.right
            present = derivation.present | derivation.optional[inside.read]
            derivation = evolve(derivation, links=(*derivation.links, link), present=present)
        return evolve(block, derivation=derivation)

    def _links(self, condition: exp.Expr | None, block: _Block, outer: _Outer) -> Iterator[Link]:
        """Those that the equalities of a condition make, all of which hold where it does."""
        for each in _conjuncts(condition):
            if isinstance(each, exp.EQ):
                left, right = (self._origin(side, block, outer) for side in (each.left, each.right))
                yield from block.derivation.linked(left, right)

    # ---- values ----------------------------------------------------------------------------------------------------

    def _origin(self, tree: exp.Expr, block: _Block, outer: _Outer) -> Origin:
        """What the value of an expression is."""
        while isinstance(tree, (exp.Paren, exp.Alias)):
            tree = tree.this
        if isinstance(tree, exp.Column):
            return block.known(outer).get(tree.table.lower(), {}).get(tree.name.lower(), _OPAQUE)
        if isinstance(tree, exp.Coalesce):
            merged = self._merged([tree.this, *tree.expressions], block, outer)
            if merged:
                return merged
        return self._computed(tree, block, outer)

    def _merged(self, parts: Sequence[exp.Expr], block: _Block, outer: _Outer) -> Origin:
        """What a column that a join merges (``USING``) is: the side that is there, as they are equal where both are."""
        derivation, origins = block.derivation, [self._origin(each, block, outer) for each in parts]
        pairs = {frozenset({each.left, each.right}) for each in derivation.links}
        so_far = set(origins[0])
        for each in origins[1:]:
            if not any(frozenset({one, other}) in pairs for one in each for other in so_far):
                return _OPAQUE
            so_far |= each
        missing = {
            term: derivation.missing(term.read) if term.read in derivation.reads else frozenset() for term in so_far
        }
        return frozenset(term for term in so_far if not any(missing[other] < missing[term] for other in so_far))

    def _computed(self, tree: exp.Expr, block: _Block, outer: _Outer) -> Origin:
        """What an expression over one read's columns is, where that read is never missing."""
        columns = list(tree.find_all(exp.Column))
        sql = written(tree)
        if not columns or tree.find(exp.Query, exp.Window) or calls(sql, _OF_MANY):
            return _OPAQUE
        origins = [self._origin(each, block, outer) for each in columns]
        common = frozenset.intersection(*(frozenset(term.read for term in origin) for origin in origins))
        here = [each for each in common if each in block.derivation.reads and not block.derivation.missing(each)]
        return frozenset(Term(read, _rewritten(tree, dict(zip(map(written, columns), origins)), read)) for read in here)  # noqa: B905

    # ---- the end of a SELECT ---------------------------------------------------------------------------------------

    def _ended(
        self, block: _Block, tree: exp.Select, named: Mapping[str, exp.Expr], outer: _Outer
    ) -> Iterator[Derivation]:
        outputs = {each.alias_or_name.lower(): self._origin(each, block, outer) for each in tree.selects}
        for kept in self._kept(block, tree, outer):
            outputs = {name: origin if origin & kept else _OPAQUE for name, origin in outputs.items()}
        for each in self._with_subqueries(block, tree, named, outer):
            yield evolve(each, outputs=outputs)

    def _kept(self, block: _Block, tree: exp.Select, outer: _Outer) -> Iterator[Origin]:
        """Values of which at least one equal value is what rows must share to meet in a grouping or a window."""
        group = tree.args.get("group")
        if group is not None and group.args.get("all"):
            plain = [each for each in tree.selects if not calls(written(each), AGGREGATES)]
            yield self._any_of(plain, block, outer)
        elif group is not None:
            yield self._any_of(group.expressions, block, outer)
        elif _aggregates(tree):
            yield _OPAQUE
        for window in _own(tree, exp.Window):
            yield self._any_of(self._partition(window, tree), block, outer)

    def _partition(self, window: exp.Expr, tree: exp.Select) -> Sequence[exp.Expr]:
        if window.args.get("partition_by"):
            return list(window.args["partition_by"])
        name = window.alias.lower()
        for each in tree.args.get("windows") or ():
            if name and each.name.lower() == name:
                return self._partition(each, tree)
        return ()

    def _any_of(self, trees: Sequence[exp.Expr], block: _Block, outer: _Outer) -> Origin:
        return frozenset(term for each in trees for term in self._origin(each, block, outer))

    def _with_subqueries(
        self, block: _Block, tree: exp.Select, named: Mapping[str, exp.Expr], outer: _Outer
    ) -> list[Derivation]:
        """The block's derivation beside those of the queries inside its expressions, every combination."""
        around = _Outer(block.known(outer), block.derivation)
        inner = [
            [self._inside(each, asked, block, outer) for each in self.query(asked, named, around)]
            for asked in _own(tree, exp.Query)
        ]
        found = []
        for combination in product(*inner):
            joined = block.derivation
            for each in combination:
                touched = [end.read for link in each.links for end in (link.left, link.right)]
                parts = (joined.optional[read] for read in touched if read in joined.reads)
                part = frozenset({next(self._numbers)}).union(*parts)
                joined = joined.beside(each).in_part(each.reads, part)
            found.append(joined)
        return found

    def _inside(self, each: Derivation, asked: exp.Expr, block: _Block, outer: _Outer) -> Derivation:
        """A subquery's derivation, linked with what its first column is compared with by IN."""
        compared = asked.parent
        if not (isinstance(compared, exp.In) and _is_plain_condition(compared)):
            return each
        first = next(iter(each.outputs.values()))
        links = each.linked(first, self._origin(compared.this, block, outer))
        return evolve(each, links=(*each.links, *links))


_REFUSED = {
    "limit": "keeps only some of its rows; rank them, and take the first in a view of all",
    "offset": "keeps only some of its rows",
    "fetch": "keeps only some of its rows",
    "sample": "takes rows by chance",
    "pivots": "pivots; write the sums out",
    "match": "matches patterns over rows",
}


def _with_outer(
    both: Derivation, links: tuple[Link, ...], left: Derivation, right: Derivation, kind: str
) -> Derivation:
    """Both sides of a join that is no inner one, with the links that hold where its optional side takes part."""
    kept = []
    for link in links:
        ends = {link.left.read, link.right.read}
        sides = tuple(not ends.isdisjoint(side.reads) for side in (left, right))
        wanted = {"RIGHT": sides[0], "FULL": all(sides)}.get(kind, sides[1])
        if wanted:
            kept.append(link)
    both = evolve(both, links=(*both.links, *kept))
    if kind == "FULL":
        return both
    inside, outside = (left, right) if kind == "RIGHT" else (right, left)
    # What the optional side is compared with is there where it takes part.
    touched = [end.read for link in kept for end in (link.left, link.right) if end.read in outside.reads]
    return both.in_part(inside.reads, frozenset().union(*(both.optional[read] for read in touched)))


def _generated(lateral: exp.Expr) -> dict[str, dict[str, Origin]]:
    alias = lateral.args["alias"]
    return {alias.name.lower(): {each.name.lower(): _OPAQUE for each in alias.args.get("columns") or ()}}


def _conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.Paren):
        yield from _conjuncts(condition.this)
    elif isinstance(condition, exp.And):
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    elif condition is not None:
        yield condition


def _rewritten(tree: exp.Expr, origins: Mapping[str, Origin], read: int) -> str:
    """An expression over the input's own columns."""

    def swapped(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        (sql,) = (term.sql for term in origins[written(node)] if term.read == read)
        return sqlglot.parse_one(sql, dialect=DIALECT)

    return written(tree.transform(swapped))


def _own(tree: exp.Select, *kinds: type[exp.Expr]) -> Iterator[exp.Expr]:
    """Nodes of these kinds in the expressions of a SELECT itself."""
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


def _aggregates(tree: exp.Select) -> bool:
    """Whether a SELECT without groups is an aggregate over all of its rows."""
    calls_ = _own(tree, exp.AggFunc, exp.Anonymous)
    return any(calls(written(each), AGGREGATES) and not _is_windowed(each) for each in calls_)


def _is_windowed(node: exp.Expr) -> bool:
    while isinstance(node.parent, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        node = node.parent
    return isinstance(node.parent, exp.Window)


def _is_plain_condition(node: exp.Expr) -> bool:
    """Whether a condition filters rows as it stands: whether it is false or unknown then does not matter."""
    while isinstance(node.parent, (exp.And, exp.Or, exp.Paren)):
        node = node.parent
    return isinstance(node.parent, exp.Where)
