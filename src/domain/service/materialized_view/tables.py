"""The tables that a view keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from ...table.schema import Column, Schema
from ...table.spec import TableSpec
from .derivation import SourceExpr
from .names import Identity, identify, index_names
from .routes import Routes
from .settings import Shapes, ViewSettings

ROWS, RECOMPUTED = "rows", "recomputed"
EPOCH, AS_OF, WHOLE, CHANGED, KEYS, READ, NET = "epoch", "as_of", "whole", "changed", "keys", "read", "net"
RECOMPUTED_COLUMNS = Schema.parse(
    f"{EPOCH} bigint, {AS_OF} timestamp, {WHOLE} boolean, {CHANGED} bigint, {KEYS} bigint, {READ} bigint, {NET} bigint"
)
"""Columns of `recomputed`, one row per epoch:

* ``epoch``: its number;
* ``as_of``: the event time that the view shows (UTC);
* ``whole``: whether the whole view was recomputed;
* ``changed``: the number of changed images of input rows (an update has two);
* ``keys``: the number of affected values of the scope; null if the whole view was recomputed;
* ``read``: the number of input rows that were read for them; null if the whole view was recomputed;
* ``net``: the number of changed images of the view's rows; null if the whole view was recomputed.
"""


def by(at: int) -> str:
    """The name of the column with one of an index's values, counted from 0."""
    return f"_by{at}"


@frozen
class Index:
    """An index of an input's rows by expressions that are not in the input's key.

    Args:
        input: the input's name.
        exprs: the indexed expressions.
        table: has the values and the key of each row. Rows with a null value, or with null in their key, are left out.
        null_keys: whether there may be rows with null in their key.
    """

    input: str
    exprs: tuple[SourceExpr, ...]
    table: TableSpec
    null_keys: bool

    @property
    def by(self) -> tuple[str, ...]:
        """Its columns with the values."""
        return tuple(by(at) for at in range(len(self.exprs)))

    @property
    def key(self) -> tuple[str, ...]:
        """Its columns with the key of the row."""
        return self.table.key[len(self.exprs) :]


@frozen
class ViewTables:
    """The tables of one view.

    Args:
        rows: the view.
        indexes: the indexes, by their identity.
        keys: the key of each input.
        recomputed: how much each epoch recomputed.
    """

    rows: TableSpec
    indexes: Mapping[Identity, Index]
    keys: Mapping[str, tuple[str, ...]]
    recomputed: TableSpec

    @classmethod
    def of(cls, settings: ViewSettings, shapes: Shapes, routes: Routes) -> ViewTables:
        """The tables for these settings. Lookups by expressions outside of the input's key get an index."""
        indexes = {}
        keys = {name: each.key for name, each in shapes.inputs.items()}
        lookups = [each for each in routes.lookups if not any(expr.column in keys[each[0]] for expr in each[1])]
        names = index_names(lookups)
        for name, exprs in lookups:
            values = [Column(by(at), shapes.types(name, expr)) for at, expr in enumerate(exprs)]
            columns = Schema((*values, *shapes.inputs[name].schema.select(keys[name]).columns))
            identity = identify((name, exprs))
            table = TableSpec(f"{settings.pipeline}.{names[identity]}", columns, key=columns.names)
            indexes[identity] = Index(name, exprs, table, shapes.inputs[name].null_keys)
        rows = TableSpec(f"{settings.pipeline}.{ROWS}", shapes.schema, key=settings.key)
        return cls(rows, indexes, keys, TableSpec(f"{settings.pipeline}.{RECOMPUTED}", RECOMPUTED_COLUMNS))

    def index(self, name: str, exprs: Sequence[SourceExpr]) -> Index | None:
        """The index for lookups by these expressions; None if they are looked up by the input's key."""
        return self.indexes.get(identify((name, tuple(exprs))))

    @property
    def in_order(self) -> tuple[TableSpec, ...]:
        """All tables in the order of their commits."""
        return (*(each.table for each in self.indexes.values()), self.rows, self.recomputed)
