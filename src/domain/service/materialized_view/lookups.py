"""Reads rows of a view's inputs: the changed rows, and the rows that match known values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
from attrs import define, field

from ...epoch.batch import KeyedInput
from ...ledger.ledger import Snapshot
from ...ports import FrameCache, QueryEngine
from ...table.change import Change, Matching
from ...table.row_kind import ROW_KIND, removes
from .derivation import SourceExpr
from .names import name_of
from .routes import Route
from .tables import Index, ViewTables, by

_ROWS = "rows"


@define(eq=False)
class Lookups:
    """Reads the input rows that an epoch needs, without reading all rows of the inputs.

    Args:
        tables: of the view.
        snapshot: the newest publication of the view. Its indexes describe the input rows before the changes.
        inputs: the inputs by name.
        changes: for each changed input the images of its changed rows, with ``_row_kind``; persisted.
        queries: computes expressions over rows that are not plain columns.
        engine: of the frames.
    """

    tables: ViewTables
    snapshot: Snapshot
    inputs: Mapping[str, KeyedInput]
    changes: Mapping[str, nw.LazyFrame[Any]]
    queries: QueryEngine
    engine: FrameCache
    _entries: dict[str, tuple[nw.LazyFrame[Any], nw.LazyFrame[Any]]] = field(init=False, factory=dict)

    def follow(self, route: Route, start: nw.LazyFrame[Any], *, both: bool) -> nw.LazyFrame[Any]:
        """Follow a route from its start values to its end values.

        Args:
            route: the route.
            start: the start values; each column has the name that `name_of` returns for its value.
            both: whether changed rows are also looked up as they were before; else only current rows are.

        Returns:
            The end values: columns ``_by0``, ``_by1`` … in the order of the route's ends, distinct and without null.
        """
        known, values = start, set(route.start)
        for number, hop in enumerate(route.hops):
            wanted = known.select(column_of(value).alias(by(at)) for at, (value, _) in enumerate(hop.by))
            exprs = tuple(expr for _, expr in hop.by)
            found = self.read_matching(hop.input, exprs, wanted, both=both)
            after = route.needed(number + 1)
            named = {name_of(expr): expr for expr in after if expr.read == hop.read and expr not in values}
            keys = {by(at): expr for at, expr in enumerate(exprs)}
            found = self.add_columns(found, {**named, **keys}).select(*named, *keys)
            carried = [name_of(value) for value in after if value in values]
            values = {value for value in after if value in values or value.read == hop.read}
            here = known.with_columns(column_of(value).alias(by(at)) for at, (value, _) in enumerate(hop.by))
            joined = here.select(*carried, *keys).join(found, on=list(keys), how="inner")
            known = joined.select(*carried, *named).unique()
        ends = known.select(column_of(value).alias(by(at)) for at, (value, _) in enumerate(route.ends))
        return ends.drop_nulls().unique()

    def read_matching(
        self, name: str, exprs: Sequence[SourceExpr], wanted: nw.LazyFrame[Any], *, both: bool
    ) -> nw.LazyFrame[Any]:
        """The rows of an input whose expressions have the wanted values.

        Args:
            name: the input's name.
            exprs: the expressions.
            wanted: the values, in columns ``_by0``, ``_by1`` …
            both: whether the images of changed rows before the change are included.
        """
        named = {by(at): expr for at, expr in enumerate(exprs)}
        wanted = self.engine.persist(wanted.drop_nulls().unique())
        index = self.tables.index(name, exprs)
        rows = self._by_key(name, named, wanted) if index is None else self._by_index(index, wanted)
        columns = rows.collect_schema().names()
        if both and name in self.changes:
            old = self.changes[name].filter(removes(nw.col(ROW_KIND))).select(*columns)
            rows = nw.concat([rows, old])
        exact = self.add_columns(rows, named).join(wanted, on=list(named), how="semi")
        return exact.select(*columns)

    def add_columns(
        self, rows: nw.LazyFrame[Any], named: Mapping[str, SourceExpr], *, lenient: bool = False
    ) -> nw.LazyFrame[Any]:
        """The rows with the values of these expressions as additional columns.

        Args:
            rows: the rows.
            named: the expressions, by the names of their columns.
            lenient: whether values that cannot be computed are null.

        Raises:
            BadInput: a value cannot be computed, if the engine computes immediately.
        """
        plain = {name: expr for name, expr in named.items() if expr.column}
        computed = {name: expr for name, expr in named.items() if not expr.column}
        if computed:
            listed = ", ".join(f"{expr.sql} AS `{name}`" for name, expr in computed.items())
            sql = f"SELECT *, {listed} FROM {_ROWS}"  # noqa: S608 - parsed, and quoted
            rows = self.queries.query(sql, {_ROWS: rows}, lenient=lenient)
        return rows.with_columns(nw.col(str(expr.column)).alias(name) for name, expr in plain.items())

    def _by_key(self, name: str, named: Mapping[str, SourceExpr], wanted: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        columns = {expr.column: each for each, expr in named.items() if expr.column in self.tables.keys[name]}
        keys = wanted.select(nw.col(each).alias(str(column)) for column, each in columns.items())
        return self.inputs[name].lookup(keys.unique())

    def _by_index(self, index: Index, wanted: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows that the index finds, by its entries before the changes or by those of the changed rows.

        All rows that it cannot have, because their key has a null, are among them.
        """
        found = [self.snapshot.read(index.table.name, Matching(wanted))]
        if index.input in self.changes:
            found.append(self.entries(index)[1].join(wanted, on=list(index.by), how="semi"))
        keys = nw.concat([each.select(*index.key) for each in found]).unique()
        rows = self.inputs[index.input].lookup(keys)
        if not index.null_keys:
            return rows
        has_null = nw.any_horizontal(*(nw.col(name).is_null() for name in index.key), ignore_nulls=False)
        return nw.concat([rows, self.inputs[index.input].rows().filter(has_null)])

    def entries(self, index: Index) -> tuple[nw.LazyFrame[Any], nw.LazyFrame[Any]]:
        """The index entries of an input's changed rows: before the change, and after it."""
        if index.table.name not in self._entries:
            images = self._index_rows(index, self.changes[index.input], ROW_KIND)
            old, columns = removes(nw.col(ROW_KIND)), index.table.schema.names
            images = self.engine.persist(images)
            before, now = (images.filter(side).select(*columns).unique() for side in (old, ~old))
            self._entries[index.table.name] = before, now
        return self._entries[index.table.name]

    def update_index(self, index: Index) -> Change:
        """The change of an index by the changed rows of its input."""
        before, now = self.entries(index)
        columns = list(index.table.schema.names)
        return Change(append=now.join(before, on=columns, how="anti"), delete=before.join(now, on=columns, how="anti"))

    def build_index(self, index: Index) -> Change:
        """The change that writes an index of all rows of its input.

        A row with a value that cannot be computed has no entry: the whole query has been run, so it does not use it.
        """
        return Change(overwrite=self._index_rows(index, self.inputs[index.input].rows(), lenient=True))

    def _index_rows(
        self, index: Index, rows: nw.LazyFrame[Any], *more: str, lenient: bool = False
    ) -> nw.LazyFrame[Any]:
        named = {by(at): expr for at, expr in enumerate(index.exprs)}
        return (
            self.add_columns(rows, named, lenient=lenient)
            .select(*index.table.schema.names, *more)
            .drop_nulls(subset=list(index.table.schema.names))
        )


def column_of(value: SourceExpr) -> nw.Expr:
    """The column with a known value."""
    return nw.col(name_of(value))
