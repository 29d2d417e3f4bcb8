"""The tables that a view keeps."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from attrs import frozen

from ..schema import Column, Schema
from ..table import TableSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .lineage import Term
    from .routes import Routes
    from .settings import Shapes, ViewSettings

ROWS, RECOMPUTED = "rows", "recomputed"
EPOCH, AS_OF, WHOLE, CHANGED, KEYS, READ, NET = "epoch", "as_of", "whole", "changed", "keys", "read", "net"
RECOMPUTED_COLUMNS = Schema.parse(
    f"{EPOCH} bigint, {AS_OF} timestamp, {WHOLE} boolean, {CHANGED} bigint, {KEYS} bigint, {READ} bigint, {NET} bigint"
)
"""Of an epoch: its number; the event time that it shows (UTC); whether the view was computed as a whole; how many rows
of inputs had changed (an update has two images); how many keys these concern, as far as the view is computed by them;
how many rows of inputs they were computed from; and how many images of rows of the view changed. The last three are
null where it was computed as a whole."""


def by(at: int) -> str:
    """The column of an index that holds its first, second … value."""
    return f"_by{at}"


@frozen
class Index:
    """Where rows of an input are found by values that are no key of theirs.

    Args:
        input: which.
        terms: the values.
        table: the values, and the key of the row; null values are not in it.
    """

    input: str
    terms: tuple[Term, ...]
    table: TableSpec

    @property
    def by(self) -> tuple[str, ...]:
        """Its columns that hold the values."""
        return tuple(by(at) for at in range(len(self.terms)))

    @property
    def key(self) -> tuple[str, ...]:
        """Its columns that name the row."""
        return self.table.key[len(self.terms) :]


@frozen
class ViewTables:
    """The tables of one view.

    Args:
        rows: the view.
        indexes: by input and the text of the values that rows are found by.
        keys: of each input.
        recomputed: what each epoch computed anew.
    """

    rows: TableSpec
    indexes: Mapping[tuple[str, ...], Index]
    keys: Mapping[str, tuple[str, ...]]
    recomputed: TableSpec

    @classmethod
    def of(cls, settings: ViewSettings, shapes: Shapes, routes: Routes) -> ViewTables:
        """The tables for these settings; what is looked up by no key of its own has an index."""
        indexes = {}
        keys = {name: each.key for name, each in shapes.inputs.items()}
        for name, terms in routes.lookups:
            if not any(term.column in keys[name] for term in terms):
                values = [Column(by(at), shapes.types(name, term)) for at, term in enumerate(terms)]
                kept = Schema((*values, *shapes.inputs[name].schema.select(keys[name]).columns))
                table = TableSpec(f"{settings.pipeline}.{_named(name, terms)}", kept, key=kept.names)
                indexes[_identity(name, terms)] = Index(name, terms, table)
        rows = TableSpec(f"{settings.pipeline}.{ROWS}", shapes.schema, key=settings.key)
        return cls(rows, indexes, keys, TableSpec(f"{settings.pipeline}.{RECOMPUTED}", RECOMPUTED_COLUMNS))

    def index(self, name: str, terms: Sequence[Term]) -> Index | None:
        """The index by which rows of an input are found by values; None where they are by its key."""
        return self.indexes.get(_identity(name, terms))

    @property
    def in_order(self) -> tuple[TableSpec, ...]:
        """All tables in the order of their commits."""
        return (*(each.table for each in self.indexes.values()), self.rows, self.recomputed)


def _identity(input_: str, terms: Sequence[Term]) -> tuple[str, ...]:
    """What an index goes by: two reads of one input may share it."""
    return (input_, *(term.sql for term in terms))


def _named(input_: str, terms: tuple[Term, ...]) -> str:
    columns = [term.column for term in terms]
    plain = "__".join(name for name in columns if name)
    if None in columns or not plain.isidentifier():
        plain = hashlib.sha256(repr(_identity(input_, terms)).encode()).hexdigest()[:8]
    return f"{input_}_by_{plain}"
