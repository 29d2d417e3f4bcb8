"""What a wide table answers."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..changelog.net import net_changes
from ..changelog.row_kind import removes
from ..epoch import ROW_KIND
from ..service import ViewSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from .settings import WideTableSettings
    from .tables import Kept, WideTables

ROWS, COMPLETENESS = "rows", "completeness"


def view_specs(settings: WideTableSettings) -> tuple[ViewSpec, ...]:
    """The views of a wide table, the default one first."""
    key = settings.key
    about = "for each key which topics have reported, and how far"
    return (
        ViewSpec(ROWS, settings.rows, key, key, "the newest of each topic's columns, a row a key"),
        ViewSpec(COMPLETENESS, settings.completeness, key, key, about),
    )


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
        gone = self._gone
        if spec.name == ROWS:
            there = stored if gone is None else stored.filter(~gone)
            return there.select(*spec.schema.names)
        present = nw.lit(value=True) if gone is None else ~gone
        answers = (present, *(each for kept in self.tables.kept for each in _answers(kept)))
        named = zip(answers, self.settings.told, strict=True)
        return stored.select(*self.settings.key, *(answer.alias(each.name) for answer, each in named))

    @property
    def _gone(self) -> nw.Expr | None:
        """Whether a row is gone: its owner's newest record is a delete. None where none can be."""
        owner = next((kept for kept in self.tables.kept if kept.topic.owner), None)
        return None if owner is None else nw.col(owner.deleted).fill_null(value=False)


def _answers(kept: Kept) -> Iterator[nw.Expr]:
    """What view completeness tells of a topic (`TopicSettings.told`)."""
    reported = reduce(lambda either, each: either | each, (~nw.col(name).is_null() for name in kept.sequence))
    deleted = nw.col(kept.deleted).fill_null(value=False)
    yield from (reported, deleted, *(nw.col(name) for name in kept.sequence), nw.col(kept.epoch))
