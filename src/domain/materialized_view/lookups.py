"""Rows of a view's inputs: what has changed of them, and those that are found by values at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field, frozen

from ..change import Change, Matching
from ..changelog.row_kind import removes
from ..epoch import ROW_KIND
from .tables import by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..input import KeyedInput
    from ..ledger import Snapshot
    from ..ports import FrameEngine, QueryEngine
    from .lineage import Term
    from .routes import Route
    from .tables import Index, ViewTables

_ROWS = "rows"


@frozen(eq=False)
class Terms:
    """Values of rows, by the engine's own SQL where they are no columns."""

    queries: QueryEngine

    def of(self, rows: nw.LazyFrame[Any], named: Mapping[str, Term]) -> nw.LazyFrame[Any]:
        """The rows with these values as more columns."""
        plain = {name: term for name, term in named.items() if term.column}
        computed = {name: term for name, term in named.items() if not term.column}
        if computed:
            listed = ", ".join(f"{term.sql} AS `{name}`" for name, term in computed.items())
            rows = self.queries.query(f"SELECT *, {listed} FROM {_ROWS}", {_ROWS: rows})  # noqa: S608 - parsed, and quoted
        return rows.with_columns(nw.col(str(term.column)).alias(name) for name, term in plain.items())


@define(eq=False)
class Lookups:
    """What an epoch reads of its inputs, at its cost rather than that of all their rows.

    Args:
        tables: of the view.
        snapshot: the newest publication of the view: its indexes are of the rows before the changes.
        inputs: by name.
        changes: of each input that has changed the images of its changed rows, with ``_row_kind``; persisted.
        terms: values of rows.
        engine: of the frames.
    """

    tables: ViewTables
    snapshot: Snapshot
    inputs: Mapping[str, KeyedInput]
    changes: Mapping[str, nw.LazyFrame[Any]]
    terms: Terms
    engine: FrameEngine
    _entries: dict[str, tuple[nw.LazyFrame[Any], nw.LazyFrame[Any]]] = field(init=False, factory=dict)

    def follow(self, route: Route, start: nw.LazyFrame[Any], *, both: bool) -> nw.LazyFrame[Any]:
        """What a route leads to, from frames of the values that it starts from.

        Args:
            route: which.
            start: columns named by `column_of` the values.
            both: look at rows as they were too, where they have changed; else only at those that are there now.

        Returns:
            The values at the end: columns ``_by0``, ``_by1`` … in the order of the route's ends, no null among them.
        """
        at_hand, values = start, set(route.start)
        for number, hop in enumerate(route.hops):
            wanted = at_hand.select(column_of(value).alias(by(at)) for at, (value, _) in enumerate(hop.by))
            terms = tuple(term for _, term in hop.by)
            found = self.matching(hop.input, terms, wanted, both=both)
            after = route.needed(number + 1)
            named = {name_of(term): term for term in after if term.read == hop.read and term not in values}
            keys = {by(at): term for at, term in enumerate(terms)}
            found = self.terms.of(found, {**named, **keys}).select(*named, *keys)
            kept = [name_of(value) for value in after if value in values]
            values = {value for value in after if value in values or value.read == hop.read}
            here = at_hand.with_columns(column_of(value).alias(by(at)) for at, (value, _) in enumerate(hop.by))
            joined = here.select(*kept, *keys).join(found, on=list(keys), how="inner")
            at_hand = joined.select(*kept, *named).unique()
        ends = at_hand.select(column_of(value).alias(by(at)) for at, (value, _) in enumerate(route.ends))
        return ends.drop_nulls().unique()

    def matching(self, name: str, terms: Sequence[Term], wanted: nw.LazyFrame[Any], *, both: bool) -> nw.LazyFrame[Any]:
        """The rows of an input that have such values.

        Args:
            name: of the input.
            terms: the values.
            wanted: what they are, ``_by0``, ``_by1`` …
            both: also the images of changed rows as they were.
        """
        named = {by(at): term for at, term in enumerate(terms)}
        wanted = self.engine.persist(wanted.drop_nulls().unique())
        index = self.tables.index(name, terms)
        rows = self._by_key(name, named, wanted) if index is None else self._by_index(index, wanted)
        columns = rows.collect_schema().names()
        if both and name in self.changes:
            old = self.changes[name].filter(removes(nw.col(ROW_KIND))).select(*columns)
            rows = nw.concat([rows, old])
        exact = self.terms.of(rows, named).join(wanted, on=list(named), how="semi")
        return exact.select(*columns)

    def _by_key(self, name: str, named: Mapping[str, Term], wanted: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        columns = {term.column: each for each, term in named.items() if term.column in self._key(name)}
        keys = wanted.select(nw.col(each).alias(str(column)) for column, each in columns.items())
        return self.inputs[name].lookup(keys.unique())

    def _key(self, name: str) -> Sequence[str]:
        return self.tables.keys[name]

    def _by_index(self, index: Index, wanted: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows whose index entries say so, or did before the changes, or whose changed images do."""
        found = [self.snapshot.read(index.table.name, Matching(wanted))]
        if index.input in self.changes:
            found.append(self.entries(index)[1].join(wanted, on=list(index.by), how="semi"))
        keys = nw.concat([each.select(*index.key) for each in found]).unique()
        return self.inputs[index.input].lookup(keys)

    def entries(self, index: Index) -> tuple[nw.LazyFrame[Any], nw.LazyFrame[Any]]:
        """The index entries of an input's changed rows: as they were, and as they are now."""
        if index.table.name not in self._entries:
            images = self._indexed(index, self.changes[index.input], ROW_KIND)
            old, columns = removes(nw.col(ROW_KIND)), index.table.schema.names
            images = self.engine.persist(images)
            before, now = (images.filter(side).select(*columns).unique() for side in (old, ~old))
            self._entries[index.table.name] = before, now
        return self._entries[index.table.name]

    def kept(self, index: Index) -> Change:
        """What the changes do to an index."""
        before, now = self.entries(index)
        columns = list(index.table.schema.names)
        return Change(append=now.join(before, on=columns, how="anti"), delete=before.join(now, on=columns, how="anti"))

    def built(self, index: Index) -> Change:
        """An index of all rows."""
        return Change(overwrite=self._indexed(index, self.inputs[index.input].rows()))

    def _indexed(self, index: Index, rows: nw.LazyFrame[Any], *more: str) -> nw.LazyFrame[Any]:
        named = {by(at): term for at, term in enumerate(index.terms)}
        return self.terms.of(rows, named).select(*index.table.schema.names, *more).drop_nulls(subset=list(named))


def name_of(value: Term) -> str:
    """The column that a value at hand stands in."""
    return f"_{value.read}_{value.sql}".replace("`", "").replace(".", "_")


def column_of(value: Term) -> nw.Expr:
    """A value at hand."""
    return nw.col(name_of(value))
