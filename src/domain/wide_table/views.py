"""What a wide table answers."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..changelog.net import net_changes
from ..changelog.row_kind import removes
from ..epoch import ROW_KIND
from ..schema import Column, Schema, column
from ..service import ViewSpec
from .settings import PRESENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from .settings import TopicSettings, WideTableSettings
    from .tables import Kept, WideTables

ROWS, COMPLETENESS = "rows", "completeness"


def view_specs(settings: WideTableSettings) -> tuple[ViewSpec, ...]:
    """The views of a wide table, the default one first."""
    key = settings.key
    told = (each for topic in settings.topics for each in _told(topic))
    complete = Schema((*settings.key_columns, column(PRESENT, "boolean"), *told))
    about = "for each key which topics have reported, and how far"
    return (
        ViewSpec(ROWS, settings.rows, key, key, "the newest of each topic's columns, a row a key"),
        ViewSpec(COMPLETENESS, complete, key, key, about),
    )


def _told(topic: TopicSettings) -> Iterator[Column]:
    """What `completeness` tells of a topic."""
    yield column(f"{topic.name}_reported", "boolean")
    yield column(f"{topic.name}_deleted", "boolean")
    yield from (Column(f"{topic.name}_{each.name}", each.type) for each in topic.sequence)
    yield column(f"{topic.name}_epoch", "bigint")


@frozen(eq=False)
class WideTableViews:
    """The views of one wide table, each row of which is made of one row of the table alone."""

    settings: WideTableSettings
    tables: WideTables
    engine: FrameEngine

    def view(self, spec: ViewSpec, snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """A view's rows."""
        return self._shown(spec, snapshot.read(self.tables.wide.name))

    def changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Net row kinds of a view between two snapshots, out of the table's own changes alone."""
        table = self.tables.wide.name
        changed = after.changes_since(before, table)
        if changed is None:
            none = self._shown(spec, after.read(table).head(0))
            return net_changes(none, none, spec.key)
        changed, old = self.engine.persist(changed), removes(nw.col(ROW_KIND))
        return net_changes(self._shown(spec, changed.filter(old)), self._shown(spec, changed.filter(~old)), spec.key)

    def _shown(self, spec: ViewSpec, stored: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows of a view for rows of the table."""
        if spec.name == ROWS:
            return stored.filter(self._present).select(*spec.schema.names)
        told = (each for kept in self.tables.kept for each in _answers(kept))
        return stored.select(*self.settings.key, self._present.alias(PRESENT), *told)

    @property
    def _present(self) -> nw.Expr:
        """Whether a row is there: its owner's newest record is no delete."""
        owner = next((kept for kept in self.tables.kept if kept.topic.owner), None)
        return nw.lit(value=True) if owner is None else ~nw.col(owner.deleted).fill_null(value=False)


def _answers(kept: Kept) -> Iterator[nw.Expr]:
    topic = kept.topic
    reported = reduce(lambda either, each: either | each, (~nw.col(name).is_null() for name in kept.sequence))
    yield reported.alias(f"{topic.name}_reported")
    yield nw.col(kept.deleted).fill_null(value=False).alias(f"{topic.name}_deleted")
    for name, each in zip(kept.sequence, topic.sequence, strict=True):
        yield nw.col(name).alias(f"{topic.name}_{each.name}")
    yield nw.col(kept.epoch).alias(f"{topic.name}_epoch")
