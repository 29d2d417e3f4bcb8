"""Turns the rows of a batch into images of keys: added or removed, in the order of the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
from attrs import frozen

from ...epoch.batch import BATCH_COLUMNS, ERROR, Batch
from ...ports import FrameOrder
from ...source.bulk import BULK, CHANGELOG, CHUNK, SEARCH_TS, reach_of
from ...source.dead_letter import or_else
from ...source.topic_group import TOPIC
from ...source.transactions import AT, TRANSACTION_COLUMNS, is_mark
from ...table.change import POSITION
from ...table.natural_order import with_natural
from ...table.row_kind import DELETE, INSERT, ROW_KIND, UPDATE_AFTER, UPDATE_BEFORE
from ..image_times import add_change_time
from .settings import BulkMergeSettings
from .tables import ADDS, DELETED, EPOCH, READ, BulkMergeTables, order_of

BULK_EPOCH, OLDER_EPOCH = -2, -3
"""Epoch numbers of bulk rows and of replayed changes that are older than others; see `ReplayOrder`.

Earlier versions stored replayed changes with the number -1.
"""

_KINDS = [INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE]


@frozen(eq=False)
class Events:
    """Reads the rows of a batch."""

    settings: BulkMergeSettings
    tables: BulkMergeTables
    engine: FrameOrder

    def changes(self, batch: Batch) -> nw.LazyFrame[Any] | None:
        """The changelog's rows; None if the batch has none.

        They have the columns of `rows`, the order columns, `ADDS`, `EPOCH` and `BATCH_COLUMNS`. They also have
        `TRANSACTION_COLUMNS` if the changelog marks transactions, else `AT`. ``_error`` says why a row cannot be used.
        """
        rows = _member(batch, CHANGELOG)
        if rows is None:
            return None
        kind, transactional = nw.col(ROW_KIND), self.settings.transactional
        rows = (rows if transactional else self._with_time(rows)).select(
            *self.settings.columns,
            *(each.alias(name) for each, name in zip(self._order(batch), self.tables.order, strict=True)),
            kind.is_in([INSERT, UPDATE_AFTER]).alias(ADDS),
            nw.lit(batch.epoch.number).cast(nw.Int64).alias(EPOCH),
            *(TRANSACTION_COLUMNS if transactional else [AT]),
            *BATCH_COLUMNS,
        )
        unknown = ~kind.is_in(_KINDS).fill_null(value=False)
        unknown = unknown & ~is_mark() if transactional else unknown
        reason = or_else(nw.col(ERROR), unknown, "its row kind is none of +I -U +U -D")
        reason = self._check(reason, ~kind.is_null())
        if self.settings.timed and not transactional:
            text = f"event time {self.settings.event_time} is null: it is unknown when it was made"
            reason = or_else(reason, nw.col(AT).is_null(), text)
        return rows.with_columns(reason.alias(ERROR))

    def bulk(self, batch: Batch) -> nw.LazyFrame[Any] | None:
        """The rows read in bulk; None if the batch has none.

        They have the columns of `rows`, the order columns, `CHUNK`, `SEARCH_TS`, the reach columns and
        `BATCH_COLUMNS`.
        """
        rows = _member(batch, BULK)
        if rows is None:
            return None
        position = [nw.col(name) for name in self.settings.position] or [nw.lit(BULK_EPOCH).cast(nw.Int64)]
        rows = rows.select(
            *self.settings.columns,
            *(each.alias(name) for each, name in zip(position, self.tables.order, strict=True)),
            CHUNK,
            SEARCH_TS,
            *(reach_of(at) for at, _ in enumerate(self.settings.position)),
            *BATCH_COLUMNS,
        )
        reason = self._check(nw.col(ERROR), ~nw.col(ROW_KIND).is_null())
        if self.settings.waits and not self.settings.position:
            reason = or_else(reason, nw.col(SEARCH_TS).is_null(), "search_ts is null: it is unknown when it was read")
        return rows.with_columns(reason.alias(ERROR))

    def newest_images(self, changes: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The newest image of each key among the changes, in the columns of `current`, with its ``_position``.

        Replayed changes that are older than others of their keys are left out.
        """
        changes, order = with_natural(changes.filter(nw.col(EPOCH) != OLDER_EPOCH), self.order_columns)
        last = changes.unique(subset=list(self.settings.key), keep="last", order_by=order)
        deleted = ~nw.col(ADDS)
        return last.select(
            *self.settings.key,
            *(nw.when(~deleted).then(nw.col(name)).alias(name) for name in self.settings.values),
            *self.tables.order,
            nw.lit(0).cast(nw.Int64).alias(READ),
            deleted.alias(DELETED),
            POSITION,
        )

    def bulk_images(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Bulk rows in the columns of `current`, with ``_position``."""
        return rows.select(
            *self.settings.columns,
            *self.tables.order,
            nw.lit(1).cast(nw.Int64).alias(READ),
            nw.lit(value=False).alias(DELETED),
            nw.lit(BULK_EPOCH).cast(nw.Int64).alias(POSITION),
        )

    @property
    def order_columns(self) -> tuple[str, ...]:
        """Columns that order the changes of a key: first by position, then by arrival."""
        return (*(self.tables.order if self.settings.position else ()), EPOCH, POSITION)

    def older_than(self, stored: nw.LazyFrame[Any], rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows whose position is before that of the stored row of their key; other rows are left out."""
        key, order = list(self.settings.key), self.tables.order
        newest = stored.select(*key, *(nw.col(each).alias(before(each)) for each in order))
        both, compared = with_natural(rows.join(newest, on=key, how="inner"), [*order, *map(before, order)])
        is_older = nw.lit(value=False)
        for here, there in reversed(list(zip(compared[: len(order)], compared[len(order) :], strict=True))):
            is_older = (nw.col(here) < nw.col(there)) | ((nw.col(here) == nw.col(there)) & is_older)
        return both.filter(is_older)

    def _order(self, batch: Batch) -> Sequence[nw.Expr]:
        position = [nw.col(name) for name in self.settings.position]
        return position or [nw.lit(batch.epoch.number).cast(nw.Int64)]

    def _with_time(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add `AT`."""
        name = self.settings.event_time
        if not name:
            return rows.with_columns(nw.lit(None).cast(nw.Datetime("us", "UTC")).alias(AT))
        if self.settings.same_time or not self.settings.timed:
            return rows.with_columns(nw.col(name).alias(AT))
        return add_change_time(rows, name, nw.col(name), self.engine, into=AT)

    def _check(self, reason: nw.Expr, has_image: nw.Expr) -> nw.Expr:
        """The reason so far, or the first column that is null in a row with an image."""
        for name in self.settings.key:
            reason = or_else(reason, has_image & nw.col(name).is_null(), f"key column {name} is null")
        for at, name in enumerate(self.settings.position):
            reason = or_else(reason, has_image & nw.col(order_of(at)).is_null(), f"position {name} is null")
        return reason


def before(name: str) -> str:
    """The column for what a column was before a change."""
    return f"_before_{name}"


def _member(batch: Batch, name: str) -> nw.LazyFrame[Any] | None:
    """The rows of one member of a batch. A batch of replayed dead letters has no members, so its rows are filtered."""
    if batch.replay:
        return batch.rows.filter(nw.col(TOPIC) == name) if name == CHANGELOG else None
    return batch.topics.get(name)
