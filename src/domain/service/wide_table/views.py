"""The views of a wide-table pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import narwhals as nw
from attrs import frozen

from ...ledger.ledger import Snapshot
from ...ports import FrameEngine
from ...table.change import Matching
from ...table.view_spec import ViewSpec
from ..row_changes import read_row_changes
from .settings import WideTableSettings
from .tables import TopicColumns, WideTables

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
    """The views of one wide table. Each row of a view is computed from one row of the table."""

    settings: WideTableSettings
    tables: WideTables
    engine: FrameEngine

    def view(self, spec: ViewSpec, snapshot: Snapshot, matching: Matching) -> nw.LazyFrame[Any]:
        return self._select(spec, snapshot.read(self.tables.wide.name, matching))

    def changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Return the net changes of a view between two snapshots, computed from the changes of the table."""
        select = partial(self._select, spec)
        return read_row_changes(self.tables.wide.name, before, after, select, spec.key, engine=self.engine)

    def _select(self, spec: ViewSpec, stored: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return the rows of a view for rows of the table."""
        deleted = self._is_deleted
        if spec.name == ROWS:
            rows = stored if deleted is None else stored.filter(~deleted)
            return rows.select(*spec.schema.names)
        present = nw.lit(value=True) if deleted is None else ~deleted
        values = (present, *(each for topic in self.tables.topics for each in _topic_state(topic)))
        columns = zip(values, self.settings.state_columns, strict=True)
        return stored.select(*self.settings.key, *(value.alias(each.name) for value, each in columns))

    @property
    def _is_deleted(self) -> nw.Expr | None:
        """Whether a row is deleted: the owner's newest record is a delete. None if no topic is the owner."""
        owner = next((each for each in self.tables.topics if each.topic.owner), None)
        return None if owner is None else nw.col(owner.deleted).fill_null(value=False)


def _topic_state(columns: TopicColumns) -> Iterator[nw.Expr]:
    """Yield the values of the topic's columns in the view `completeness`; see `TopicSettings.state_columns`."""
    reported = nw.any_horizontal(*(~nw.col(name).is_null() for name in columns.sequence), ignore_nulls=False)
    deleted = nw.col(columns.deleted).fill_null(value=False)
    yield from (reported, deleted, *(nw.col(name) for name in columns.sequence), nw.col(columns.epoch))
