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

from itertools import count, product
from typing import TYPE_CHECKING, TypeAlias

import sqlglot
from attrs import evolve, field, frozen
from sqlglot import exp
from sqlglot.errors import OptimizeError, SchemaError
from sqlglot.optimizer.qualify import qualify

from ...errors import ConfigError
from ...sql import parse_statement
from ...sql.calls import AGGREGATES, GENERATORS, WINDOWS, calls
from ...sql.parsing import DIALECT, quote, to_sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...table.schema import Schema

_MAX_DERIVATIONS = 32
"""The maximum number of derivations of a query: unions multiply their number."""
_MULTI_ROW_FUNCTIONS = AGGREGATES | GENERATORS | WINDOWS
"""Functions whose value does not depend on a single row only."""


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
_UNKNOWN: Origin = frozenset()


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

    def equate(self, left: Origin, right: Origin) -> tuple[JoinEquality, ...]:
        """The join equalities that follow if two origins are equal."""
        return tuple(JoinEquality(one, other) for one in left for other in right if one.read != other.read)

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
    schema: dict[str, object] = {
        name: {each.name: each.type.ddl for each in columns.columns} for name, columns in inputs.items()
    }
    try:
        tree = qualify(
            sqlglot.parse_one(statement.sql, dialect=DIALECT), schema=schema, dialect=DIALECT, quote_identifiers=False
        )
    except (OptimizeError, SchemaError) as error:
        raise ConfigError(f"{quote(sql)}: {str(error).splitlines()[0]}; look at its columns and tables") from error
    assert isinstance(tree, exp.Query)
    traced = _Tracer(sql, names, inputs).query(tree, {}, _Outer())
    traced_inputs = {name for each in traced for name in each.reads.values()}
    if untraced := [name for name in statement.tables if names[name.lower()] not in traced_inputs]:
        raise ConfigError(
            f"{quote(sql)}: the rows of {untraced[0]!r} cannot be traced to the result; remove it from the query"
        )
    if len(traced) > _MAX_DERIVATIONS:
        raise ConfigError(
            f"{quote(sql)} combines {len(traced)} branches of unions; at most {_MAX_DERIVATIONS} are supported"
        )
    return tuple(traced)


@frozen
class _Outer:
    """The enclosing query of a subquery, whose columns the subquery may name."""

    outputs: Mapping[str, Mapping[str, Origin]] = field(factory=dict)
    derivation: Derivation = field(factory=Derivation)


@frozen
class _Block:
    """A SELECT that is being traced: the sources joined so far, and the columns of each source by its alias."""

    derivation: Derivation
    sources: Mapping[str, Mapping[str, Origin]]

    def known(self, outer: _Outer) -> Mapping[str, Mapping[str, Origin]]:
        return {**outer.outputs, **self.sources}


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

    def query(self, tree: exp.Expr, ctes: Mapping[str, exp.Expr], outer: _Outer) -> list[Derivation]:
        """The derivations of a query.

        Args:
            tree: the query.
            ctes: the queries of `WITH` that it can see, by name in lower case.
            outer: the enclosing query.
        """
        self._check_shape(tree)
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, self._with_ctes(tree, ctes), outer)
        ctes = self._with_ctes(tree, ctes)
        if isinstance(tree, exp.SetOperation):
            left, right = (self.query(side, ctes, outer) for side in (tree.left, tree.right))
            names = tuple(left[0].outputs)
            return [*left, *(evolve(each, outputs=dict(zip(names, each.outputs.values()))) for each in right)]  # noqa: B905 - engines check the count
        if isinstance(tree, exp.Select):
            return [
                derivation
                for block in self._join_sources(tree, ctes, outer)
                for derivation in self._finish(block, tree, ctes, outer)
            ]
        raise self._refusal(tree, "is not a plain query")

    def _with_ctes(self, tree: exp.Expr, ctes: Mapping[str, exp.Expr]) -> Mapping[str, exp.Expr]:
        with_ = tree.args.get("with_") or tree.args.get("with")
        if with_ is None:
            return ctes
        if with_.args.get("recursive"):
            raise self._refusal(tree, "is recursive")
        return {**ctes, **{each.alias.lower(): each.this for each in with_.expressions}}

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

    def _join_sources(self, tree: exp.Select, ctes: Mapping[str, exp.Expr], outer: _Outer) -> Iterator[_Block]:
        from_ = tree.args.get("from_") or tree.args.get("from")
        blocks = [_Block(Derivation(), {})]
        if from_ is not None:
            blocks = [_Block(each, {alias: each.outputs}) for alias, each in self._source(from_.this, ctes)]
        for join in tree.args.get("joins") or ():
            blocks = [
                self._join(block, join, alias, right, outer)
                for block in blocks
                for alias, right in self._source(join.this, ctes)
            ]
        for lateral in tree.args.get("laterals") or ():
            if lateral.find(exp.Query):
                raise self._refusal(lateral, "is a lateral subquery; write a join")
            blocks = [evolve(block, sources={**block.sources, **_lateral_columns(lateral)}) for block in blocks]
        for block in blocks:
            yield self._apply_where(block, tree, outer)

    def _source(self, tree: exp.Expr, ctes: Mapping[str, exp.Expr]) -> Iterator[tuple[str, Derivation]]:
        if tree.args.get("joins") or tree.args.get("pivots") or tree.args.get("sample"):
            raise self._refusal(tree, "has joins inside parentheses, a pivot or a sample; write it as a separate query")
        alias = tree.alias_or_name.lower()
        if isinstance(tree, exp.Table):
            yield from ((alias, each) for each in self._table(tree, ctes))
        elif isinstance(tree, exp.Subquery):
            yield from ((alias, each) for each in self.query(tree, ctes, _Outer()))
        elif isinstance(tree, exp.UDTF) and not tree.find(exp.Query):
            yield alias, Derivation(outputs={name.lower(): _UNKNOWN for name in tree.alias_column_names})
        else:
            raise self._refusal(tree, "is neither a table nor a query")

    def _table(self, tree: exp.Table, ctes: Mapping[str, exp.Expr]) -> list[Derivation]:
        name = tree.name.lower()
        if name in ctes:
            # A query of WITH sees the ones before it, and those of the enclosing queries.
            others = {each: query for each, query in ctes.items() if each != name}
            found = self.query(ctes[name], others, _Outer())
            columns = tree.alias_column_names
            if not columns:
                return found
            return [evolve(each, outputs=dict(zip(columns, each.outputs.values(), strict=True))) for each in found]
        read, input_name = next(self._numbers), self._names[name]
        outputs = {
            each.lower(): frozenset({SourceExpr(read, f"`{each}`", each)}) for each in self._inputs[input_name].names
        }
        return [Derivation({read: input_name}, {read: frozenset()}, outputs=outputs)]

    def _join(self, block: _Block, join: exp.Join, alias: str, right: Derivation, outer: _Outer) -> _Block:
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
        sources = {**block.sources, alias: right.outputs}
        found = self._find_equalities(join.args.get("on"), _Block(both, sources), outer)
        equalities = tuple(each for each in found if {each.left.read, each.right.read} <= set(both.reads))
        is_outer = kind in sides
        derivation = _with_outer(both, equalities, left, right, kind) if is_outer else both.with_equalities(equalities)
        return _Block(derivation, block.sources if kind in {"SEMI", "ANTI"} else sources)

    def _apply_where(self, block: _Block, tree: exp.Select, outer: _Outer) -> _Block:
        where = tree.args.get("where")
        equalities = tuple(self._find_equalities(where and where.this, block, outer))
        inner = tuple(each for each in equalities if {each.left.read, each.right.read} <= set(block.derivation.reads))
        derivation = block.derivation.with_equalities(inner)
        for equality in (each for each in equalities if each not in inner):
            # A correlation with the enclosing query. The read inside is compared with a value, so it is non-null.
            inner_end = equality.left if equality.left.read in derivation.reads else equality.right
            non_null = derivation.non_null | derivation.nullable_sides[inner_end.read]
            derivation = evolve(derivation, equalities=(*derivation.equalities, equality), non_null=non_null)
        return evolve(block, derivation=derivation)

    def _find_equalities(self, condition: exp.Expr | None, block: _Block, outer: _Outer) -> Iterator[JoinEquality]:
        """The join equalities in a condition, which all hold where the condition holds."""
        for each in _conjuncts(condition):
            if isinstance(each, exp.EQ):
                left, right = (self._origin(side, block, outer) for side in (each.left, each.right))
                yield from block.derivation.equate(left, right)

    # ---- values ----------------------------------------------------------------------------------------------------

    def _origin(self, tree: exp.Expr, block: _Block, outer: _Outer) -> Origin:
        """The origin of an expression's value."""
        while isinstance(tree, (exp.Paren, exp.Alias)):
            tree = tree.this
        if isinstance(tree, exp.Column):
            return block.known(outer).get(tree.table.lower(), {}).get(tree.name.lower(), _UNKNOWN)
        if isinstance(tree, exp.Coalesce):
            merged = self._merged_origin([tree.this, *tree.expressions], block, outer)
            if merged:
                return merged
        return self._expression_origin(tree, block, outer)

    def _merged_origin(self, parts: Sequence[exp.Expr], block: _Block, outer: _Outer) -> Origin:
        """The origin of a column that a join merges (``USING``): of the sides, those that are missing least often."""
        derivation, origins = block.derivation, [self._origin(each, block, outer) for each in parts]
        pairs = {frozenset({each.left, each.right}) for each in derivation.equalities}
        so_far = set(origins[0])
        for each in origins[1:]:
            if not any(frozenset({one, other}) in pairs for one in each for other in so_far):
                return _UNKNOWN
            so_far |= each
        missing = {
            expr: derivation.possibly_null_sides(expr.read) if expr.read in derivation.reads else frozenset()
            for expr in so_far
        }
        return frozenset(expr for expr in so_far if not any(missing[other] < missing[expr] for other in so_far))

    def _expression_origin(self, tree: exp.Expr, block: _Block, outer: _Outer) -> Origin:
        """The origin of an expression over one read's columns, if that read contributes to every row; else unknown."""
        columns = list(tree.find_all(exp.Column))
        sql = to_sql(tree)
        if not columns or tree.find(exp.Query, exp.Window) or calls(sql, _MULTI_ROW_FUNCTIONS):
            return _UNKNOWN
        origins = [self._origin(each, block, outer) for each in columns]
        common = frozenset.intersection(*(frozenset(expr.read for expr in origin) for origin in origins))
        here = [
            each for each in common if each in block.derivation.reads and not block.derivation.possibly_null_sides(each)
        ]
        by_sql = dict(zip(map(to_sql, columns), origins, strict=True))
        return frozenset(SourceExpr(read, _rewrite(tree, by_sql, read)) for read in here)

    # ---- the end of a SELECT ---------------------------------------------------------------------------------------

    def _finish(
        self, block: _Block, tree: exp.Select, ctes: Mapping[str, exp.Expr], outer: _Outer
    ) -> Iterator[Derivation]:
        outputs = {each.alias_or_name.lower(): self._origin(each, block, outer) for each in tree.selects}
        for group in self._group_origins(block, tree, outer):
            outputs = {name: origin if origin & group else _UNKNOWN for name, origin in outputs.items()}
        for each in self._with_subqueries(block, tree, ctes, outer):
            yield evolve(each, outputs=outputs)

    def _group_origins(self, block: _Block, tree: exp.Select, outer: _Outer) -> Iterator[Origin]:
        """For the grouping and each window: the origins of its columns. Rows with the same values form one group."""
        group = tree.args.get("group")
        if group is not None and group.args.get("all"):
            plain = [each for each in tree.selects if not calls(to_sql(each), AGGREGATES)]
            yield self._union_origins(plain, block, outer)
        elif group is not None:
            yield self._union_origins(group.expressions, block, outer)
        elif _is_global_aggregate(tree):
            yield _UNKNOWN
        for window in _own_nodes(tree, exp.Window):
            yield self._union_origins(self._partition(window, tree), block, outer)

    def _partition(self, window: exp.Expr, tree: exp.Select) -> Sequence[exp.Expr]:
        if window.args.get("partition_by"):
            return list(window.args["partition_by"])
        name = window.alias.lower()
        for each in tree.args.get("windows") or ():
            if name and each.name.lower() == name:
                return self._partition(each, tree)
        return ()

    def _union_origins(self, trees: Sequence[exp.Expr], block: _Block, outer: _Outer) -> Origin:
        return frozenset(expr for each in trees for expr in self._origin(each, block, outer))

    def _with_subqueries(
        self, block: _Block, tree: exp.Select, ctes: Mapping[str, exp.Expr], outer: _Outer
    ) -> list[Derivation]:
        """The block's derivation combined with those of the subqueries in its expressions, in every combination."""
        around = _Outer(block.known(outer), block.derivation)
        inner = [
            [self._join_subquery(each, subquery, block, outer) for each in self.query(subquery, ctes, around)]
            for subquery in _own_nodes(tree, exp.Query)
        ]
        found = []
        for combination in product(*inner):
            joined = block.derivation
            for each in combination:
                touched = [end.read for equality in each.equalities for end in (equality.left, equality.right)]
                parts = (joined.nullable_sides[read] for read in touched if read in joined.reads)
                part = frozenset({next(self._numbers)}).union(*parts)
                joined = joined.combine(each).add_nullable_sides(each.reads, part)
            found.append(joined)
        return found

    def _join_subquery(self, each: Derivation, subquery: exp.Expr, block: _Block, outer: _Outer) -> Derivation:
        """A subquery's derivation. For IN, its first column is linked with the value that is compared with it."""
        compared = subquery.parent
        if not (isinstance(compared, exp.In) and _is_plain_condition(compared)):
            return each
        first = next(iter(each.outputs.values()))
        equalities = each.equate(first, self._origin(compared.this, block, outer))
        return evolve(each, equalities=(*each.equalities, *equalities))


_UNSUPPORTED = {
    "limit": "keeps only some of its rows; keep all rows in the view, and select the first ones when you read it",
    "offset": "keeps only some of its rows",
    "fetch": "keeps only some of its rows",
    "sample": "takes a random sample of its rows",
    "pivots": "pivots; write one aggregate per column",
    "match": "matches patterns over rows",
}


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
    touched = [end.read for equality in found for end in (equality.left, equality.right) if end.read in outside.reads]
    return both.add_nullable_sides(inside.reads, frozenset().union(*(both.nullable_sides[read] for read in touched)))


def _lateral_columns(lateral: exp.Expr) -> dict[str, dict[str, Origin]]:
    alias = lateral.args["alias"]
    return {alias.name.lower(): {each.name.lower(): _UNKNOWN for each in alias.args.get("columns") or ()}}


def _conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.Paren):
        yield from _conjuncts(condition.this)
    elif isinstance(condition, exp.And):
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    elif condition is not None:
        yield condition


def _rewrite(tree: exp.Expr, origins: Mapping[str, Origin], read: int) -> str:
    """The SQL of an expression, rewritten to the columns of the input."""

    def replace(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        (sql,) = (expr.sql for expr in origins[to_sql(node)] if expr.read == read)
        return sqlglot.parse_one(sql, dialect=DIALECT)

    return to_sql(tree.transform(replace))


def _own_nodes(tree: exp.Select, *kinds: type[exp.Expr]) -> Iterator[exp.Expr]:
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


def _is_global_aggregate(tree: exp.Select) -> bool:
    """Whether a SELECT without GROUP BY aggregates all of its rows."""
    calls_ = _own_nodes(tree, exp.AggFunc, exp.Anonymous)
    return any(calls(to_sql(each), AGGREGATES) and not _is_windowed(each) for each in calls_)


def _is_windowed(node: exp.Expr) -> bool:
    while isinstance(node.parent, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        node = node.parent
    return isinstance(node.parent, exp.Window)


def _is_plain_condition(node: exp.Expr) -> bool:
    """Whether a condition filters rows directly, so that false and unknown have the same effect."""
    while isinstance(node.parent, (exp.And, exp.Or, exp.Paren)):
        node = node.parent
    return isinstance(node.parent, exp.Where)
