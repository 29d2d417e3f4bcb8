"""The lineage of a query: where it reads its inputs, and which values of these reads are equal.

A query is split into derivations without unions, one per combination of union branches. A derivation is a graph. Its
nodes are *reads*: the places where the query names an input. Its edges are join equalities: a value of one read equals
a value of another read in every result row to which both reads contribute. Along the edges, predicates on result
columns are pushed down to the inputs, and changes of the inputs are traced up to the result. Both are correct where
any optimizer could push down a filter on these columns:

* through joins by their equalities: into the nullable side of an outer join, or up from it, but never through it;
* through a grouping by its grouping columns, and through windows by the columns in every PARTITION BY;
* into both sides of a union, an intersection or a difference, by column position;
* into a subquery of a condition by its correlation equalities.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count, islice, product
from typing import TypeAlias, TypeVar

import sqlglot
from attrs import evolve, frozen
from sqlglot import exp
from sqlglot.errors import OptimizeError, SchemaError

from ...errors import ConfigError
from ...sql import parse_statement
from ...sql.parsing import DIALECT, quote
from ...sql.qualified import explain_unresolved, qualified, sqlglot_schema
from ...table.schema import Schema
from .block import Block, Columns
from .derivation import UNKNOWN, Derivation, JoinEquality, Origin, SourceExpr, equate
from .nulls import never_null
from .syntax import is_plain_condition, own_nodes

_T = TypeVar("_T", Block, Derivation)
_MAX_DERIVATIONS = 32
"""The maximum number of derivations of a query: unions multiply their number."""
_UNSUPPORTED = {
    "limit": "keeps only some of its rows; keep all rows in the view, and select the first ones when you read it",
    "offset": "keeps only some of its rows",
    "fetch": "keeps only some of its rows",
    "sample": "takes a random sample of its rows",
    "pivots": "pivots; write one aggregate per column",
    "match": "matches patterns over rows",
}


def derivations(sql: str, inputs: Mapping[str, Schema]) -> tuple[Derivation, ...]:
    """The derivations of a query.

    Args:
        sql: see `sql.parse_statement`.
        inputs: the columns of its inputs, by the input's name.

    Raises:
        ConfigError: the query names an unknown column, or its rows cannot be recomputed in parts.
    """
    statement = parse_statement(sql)
    statement.check_tables(inputs)
    statement.check_repeatable()
    names = {name.lower(): name for name in inputs}
    schema = sqlglot_schema(
        {name: {each.name: each.type for each in columns.columns} for name, columns in inputs.items()}
    )
    try:
        tree = qualified(sqlglot.parse_one(statement.sql, dialect=DIALECT), schema, quotes=False)
    except (OptimizeError, SchemaError) as error:
        columns = {name: each.names for name, each in inputs.items()}
        raise ConfigError(f"{quote(sql)}: {explain_unresolved(error, columns)}") from error
    assert isinstance(tree, exp.Query)
    traced = _Tracer(sql, names, inputs).query(tree, {}, {})
    traced_inputs = {name for each in traced for name in each.reads.values()}
    if untraced := [name for name in statement.tables if names[name.lower()] not in traced_inputs]:
        raise ConfigError(
            f"{quote(sql)}: the rows of {untraced[0]!r} cannot be traced to the result; remove it from the query"
        )
    return tuple(traced)


@frozen(eq=False)
class _Cte:
    """A query of `WITH`.

    Args:
        tree: the query.
        known: the queries that it can see: those before it, and those of the enclosing queries.
    """

    tree: exp.Expr
    known: Ctes


Ctes: TypeAlias = Mapping[str, _Cte]
"""Queries of `WITH`, by name in lower case."""


class _Tracer:
    """Traces one query.

    Args:
        sql: the query, for messages.
        names: the names of the inputs, by the name in lower case.
        inputs: the columns of the inputs.
    """

    def __init__(self, sql: str, names: Mapping[str, str], inputs: Mapping[str, Schema]) -> None:
        self._sql = sql
        self._names = names
        self._inputs = inputs
        self._numbers = count()

    def query(self, tree: exp.Expr, ctes: Ctes, outer: Columns) -> list[Derivation]:
        """The derivations of a query.

        Args:
            tree: the query.
            ctes: the queries of `WITH` that it can see.
            outer: the columns of the enclosing queries, which a subquery may name.
        """
        self._check_shape(tree)
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, self._with_ctes(tree, ctes), outer)
        ctes = self._with_ctes(tree, ctes)
        if isinstance(tree, exp.SetOperation):
            left, right = (self.query(side, ctes, outer) for side in (tree.left, tree.right))
            names, columns = tuple(left[0].outputs), len(right[0].outputs)
            if len(names) != columns:
                raise self._refusal(tree, f"has {len(names)} columns on one side, and {columns} on the other")
            renamed = (evolve(each, outputs=dict(zip(names, each.outputs.values(), strict=True))) for each in right)
            return self._limited([*left, *renamed])
        if isinstance(tree, exp.Select):
            return self._limited(
                derivation
                for block in self._join_sources(tree, ctes, outer)
                for derivation in self._finish(block, tree, ctes)
            )
        raise self._refusal(tree, "is not a plain query")

    def _limited(self, found: Iterable[_T]) -> list[_T]:
        """These ways of deriving rows, of which no more are made than a query may have: joins multiply their number.

        Raises:
            ConfigError: there are more.
        """
        limited = list(islice(found, _MAX_DERIVATIONS + 1))
        if len(limited) > _MAX_DERIVATIONS:
            raise ConfigError(
                f"{quote(self._sql)} combines branches of unions in more than {_MAX_DERIVATIONS} ways, the most that"
                " are supported; make a view of a union, and read that view here"
            )
        return limited

    def _with_ctes(self, tree: exp.Expr, ctes: Ctes) -> Ctes:
        with_ = tree.args.get("with_") or tree.args.get("with")
        if with_ is None:
            return ctes
        if with_.args.get("recursive"):
            raise self._refusal(tree, "is recursive")
        for each in with_.expressions:
            ctes = {**ctes, each.alias.lower(): _Cte(each.this, ctes)}
        return ctes

    def _check_shape(self, tree: exp.Expr) -> None:
        for name, what in _UNSUPPORTED.items():
            if tree.args.get(name):
                raise self._refusal(tree, what)
        group = tree.args.get("group")
        if group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
            raise self._refusal(tree, "groups in several ways at once; make one view for each grouping")

    def _refusal(self, tree: exp.Expr, why: str) -> ConfigError:
        part = tree.sql(dialect=DIALECT)
        return ConfigError(f"a view cannot be maintained by its key: {quote(part)} {why}")

    # ---- sources and joins -----------------------------------------------------------------------------------------

    def _join_sources(self, tree: exp.Select, ctes: Ctes, outer: Columns) -> Iterator[Block]:
        from_ = tree.args.get("from_") or tree.args.get("from")
        blocks = [Block(outer=outer)]
        if from_ is not None:
            blocks = [Block(each, {alias: each.outputs}, outer) for alias, each in self._source(from_.this, ctes)]
        for join in tree.args.get("joins") or ():
            blocks = self._limited(
                self._join(block, join, alias, right)
                for block in blocks
                for alias, right in self._source(join.this, ctes)
            )
        for lateral in tree.args.get("laterals") or ():
            if lateral.find(exp.Query):
                raise self._refusal(lateral, "is a lateral subquery; write a join")
            blocks = [evolve(block, sources={**block.sources, **_lateral_columns(lateral)}) for block in blocks]
        for block in blocks:
            yield self._apply_where(block, tree)

    def _source(self, tree: exp.Expr, ctes: Ctes) -> Iterator[tuple[str, Derivation]]:
        if tree.args.get("joins") or tree.args.get("pivots") or tree.args.get("sample"):
            raise self._refusal(tree, "has joins inside parentheses, a pivot or a sample; write it as a separate query")
        alias = tree.alias_or_name.lower()
        if isinstance(tree, exp.Table):
            yield from ((alias, each) for each in self._table(tree, ctes))
        elif isinstance(tree, exp.Subquery):
            yield from ((alias, each) for each in self.query(tree, ctes, {}))
        elif isinstance(tree, exp.UDTF) and not tree.find(exp.Query):
            yield alias, Derivation(outputs={name.lower(): UNKNOWN for name in tree.alias_column_names})
        else:
            raise self._refusal(tree, "is neither a table nor a query")

    def _table(self, tree: exp.Table, ctes: Ctes) -> list[Derivation]:
        name = tree.name.lower()
        if name in ctes:
            found = self.query(ctes[name].tree, ctes[name].known, {})
            columns = tree.alias_column_names
            if not columns:
                return found
            return [evolve(each, outputs=dict(zip(columns, each.outputs.values(), strict=True))) for each in found]
        read, input_name = next(self._numbers), self._names[name]
        outputs = {
            each.lower(): frozenset({SourceExpr(read, f"`{each}`", each)}) for each in self._inputs[input_name].names
        }
        return [Derivation({read: input_name}, {read: frozenset()}, outputs=outputs)]

    def _join(self, block: Block, join: exp.Join, alias: str, right: Derivation) -> Block:
        if join.method:
            raise self._refusal(join, f"is a {join.method} join; write JOIN … USING or ON")
        left = block.derivation
        kind = join.kind if join.kind in {"SEMI", "ANTI"} else join.side
        both, sides = (
            left.combine(right),
            {"LEFT": (0, 1), "SEMI": (0, 1), "ANTI": (0, 1), "RIGHT": (1, 0), "FULL": (1, 1)},
        )
        for is_nullable, reads in zip(sides.get(kind, (0, 0)), (left.reads, right.reads), strict=True):
            if is_nullable:
                both = both.add_nullable_sides(reads, frozenset({next(self._numbers)}))
        joined = evolve(block, derivation=both, sources={**block.sources, alias: right.outputs})
        found = joined.find_equalities(join.args.get("on"))
        equalities = tuple(each for each in found if {each.left.read, each.right.read} <= set(both.reads))
        is_outer = kind in sides
        derivation = _with_outer(both, equalities, left, right, kind) if is_outer else both.with_equalities(equalities)
        return evolve(block if kind in {"SEMI", "ANTI"} else joined, derivation=derivation)

    def _apply_where(self, block: Block, tree: exp.Select) -> Block:
        where = tree.args.get("where")
        equalities = tuple(block.find_equalities(where and where.this))
        inner = tuple(each for each in equalities if {each.left.read, each.right.read} <= set(block.derivation.reads))
        derivation = block.derivation.with_equalities(inner)
        for equality in (each for each in equalities if each not in inner):
            # A correlation with the enclosing query. The read inside is compared with a value, so it is non-null. An
            # equality of two values of the enclosing query says nothing of its rows: the subquery may be negated.
            inside = list(_origins_within(derivation, [equality]))
            if not inside:
                continue
            non_null = derivation.non_null.union(*map(derivation.sides_of, inside))
            derivation = evolve(derivation, equalities=(*derivation.equalities, equality), non_null=non_null)
        return evolve(block, derivation=derivation)

    # ---- the end of a SELECT ---------------------------------------------------------------------------------------

    def _finish(self, block: Block, tree: exp.Select, ctes: Ctes) -> Iterator[Derivation]:
        outputs: dict[str, Origin] = {}
        for column in tree.selects:
            name = column.alias_or_name.lower()
            # The columns of a union count by position, so each needs a name, of two with the same name too.
            outputs[f"{name}\0{len(outputs)}" if name in outputs else name] = block.origin(column)
        for group in block.group_origins(tree):
            outputs = {
                name: origin if block.derivation.is_within(origin, group) else UNKNOWN
                for name, origin in outputs.items()
            }
        for each in self._with_subqueries(block, tree, ctes):
            yield evolve(each, outputs=outputs, never_null=tuple(map(never_null, tree.selects)))

    def _with_subqueries(self, block: Block, tree: exp.Select, ctes: Ctes) -> Iterator[Derivation]:
        """The block's derivation combined with those of the subqueries in its expressions, in every combination."""
        inner = [
            [_join_subquery(each, subquery, block) for each in self.query(subquery, ctes, block.known)]
            for subquery in own_nodes(tree, exp.Query)
        ]
        for combination in product(*inner):
            joined = block.derivation
            for each in combination:
                parts = (joined.sides_of(origin) for origin in _origins_within(joined, each.equalities))
                part = frozenset({next(self._numbers)}).union(*parts)
                joined = joined.combine(each).add_nullable_sides(each.reads, part)
            yield joined


def _with_outer(
    both: Derivation, equalities: tuple[JoinEquality, ...], left: Derivation, right: Derivation, kind: str
) -> Derivation:
    """Both sides of an outer join, with the equalities that hold where its nullable side contributes."""
    found = []
    for equality in equalities:
        ends = {equality.left.read, equality.right.read}
        sides = tuple(not ends.isdisjoint(side.reads) for side in (left, right))
        holds = {"RIGHT": sides[0], "FULL": all(sides)}.get(kind, sides[1])
        if holds:
            found.append(equality)
    both = evolve(both, equalities=(*both.equalities, *found))
    if kind == "FULL":
        return both
    inside, outside = (left, right) if kind == "RIGHT" else (right, left)
    # Where the nullable side contributes, the reads that it is compared with contribute too.
    touched = _origins_within(outside, found)
    return both.add_nullable_sides(inside.reads, frozenset().union(*map(both.sides_of, touched)))


def _origins_within(derivation: Derivation, equalities: Iterable[JoinEquality]) -> Iterator[Origin]:
    """The origins of the ends of equalities that are reads of a derivation."""
    for equality in equalities:
        yield from (origin for end, origin in equality.ends if end.read in derivation.reads)


def _join_subquery(each: Derivation, subquery: exp.Expr, block: Block) -> Derivation:
    """A subquery's derivation. For IN, its first column is linked with the value that is compared with it."""
    compared = subquery.parent
    if not (isinstance(compared, exp.In) and is_plain_condition(compared)):
        return each
    first = next(iter(each.outputs.values()))
    equalities = equate(first, block.origin(compared.this))
    return evolve(each, equalities=(*each.equalities, *equalities))


def _lateral_columns(lateral: exp.Expr) -> dict[str, dict[str, Origin]]:
    alias = lateral.args["alias"]
    return {alias.name.lower(): {each.name.lower(): UNKNOWN for each in alias.args.get("columns") or ()}}
