"""Refuses names without a table that Spark does not take for what sqlglot takes them for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp
from sqlglot.errors import OptimizeError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.optimizer.resolver import Resolver
from sqlglot.optimizer.scope import traverse_scope, walk_in_scope
from sqlglot.schema import MappingSchema

from .parsing import DIALECT

USING = "headwater_using"
"""The columns of a join's `USING`, which sqlglot replaces by `ON`."""
_BARE, _FOLDED, _NATURAL = "headwater_bare", "headwater_folded", "headwater_natural"
_FOLDS = (exp.AggFunc, exp.Filter, exp.Window)


def normalized(name: str) -> str:
    """A name in the form to which sqlglot brings those of a query."""
    return normalize_identifiers(exp.to_identifier(name, quoted=True), dialect=DIALECT).name


def note_bare_names(tree: exp.Expr) -> None:
    """Note the names without a table in each `SELECT`, and those of `USING`, before sqlglot gives them tables.

    `ORDER BY` and `HAVING` may use a name that `SELECT` gives, whatever the columns are.
    """
    for join in tree.find_all(exp.Join):
        if using := join.args.get("using"):
            join.meta[USING] = tuple(each.name for each in using)
        join.meta[_NATURAL] = join.method == "NATURAL"
    for select in tree.find_all(exp.Select):
        clauses = [*select.expressions, *filter(None, (select.args.get("where"), select.args.get("group")))]
        folds = [node for each in select.expressions for node in walk_in_scope(each) if isinstance(node, _FOLDS)]
        select.meta[_BARE] = tuple(_bare_names(clauses))
        select.meta[_FOLDED] = tuple(_bare_names(folds))


def check_bare_names(tree: exp.Expr, schema: MappingSchema) -> None:
    """Check the names that `note_bare_names` has noted, in the query to which sqlglot has given tables.

    Raises:
        OptimizeError: several tables have a column of such a name, or none has and a window or an aggregate uses it.
    """
    for scope in traverse_scope(tree):
        select = scope.expression
        if isinstance(select, exp.Select):
            resolver = Resolver(scope, schema)
            columns = {name: resolver.get_source_columns(name) for name in scope.selected_sources}
            _check_select(select, columns)


def _check_select(select: exp.Select, columns: Mapping[str, Sequence[str]]) -> None:
    from_ = select.args.get("from_") or select.args.get("from")
    there = Counter(columns.get(from_.this.alias_or_name, ()) if from_ else ())
    for join in select.args.get("joins") or ():
        joined = columns.get(join.this.alias_or_name, ())
        merged = [normalized(name) for name in join.meta.get(USING, ())]
        if join.meta.get(_NATURAL):
            merged = [name for name in joined if there[name]]
        _check_one(merged, there)
        there.update(name for name in joined if name not in merged)
    _check_one(select.meta.get(_BARE, ()), there)
    given = {each.alias for each in select.expressions if isinstance(each, exp.Alias)}
    for name in select.meta.get(_FOLDED, ()):
        if name in given and not there[name]:
            raise OptimizeError(
                f"no table has column {name!r}, and a window or an aggregate cannot use a name that SELECT gives"
            )


def _check_one(names: Sequence[str], there: Counter[str]) -> None:
    for name in names:
        if there[name] > 1:
            raise OptimizeError(f"Column '{name}' is ambiguous: several tables have it; write the table before it")


def _bare_names(nodes: Sequence[exp.Expr]) -> Iterator[str]:
    for each in nodes:
        for node in walk_in_scope(each):
            if isinstance(node, exp.Column) and not node.table and not isinstance(node.this, exp.Star):
                yield normalized(node.name)
