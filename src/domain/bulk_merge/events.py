"""What a changelog's rows say of the keys of a table: images that come and go, in the order of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..bulk import BULK, CHANGELOG, CHUNK, SEARCH_TS, reach_of
from ..changelog.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from ..dead_letter import or_else
from ..epoch import BATCH_COLUMNS, ERROR, POSITION, ROW_KIND
from ..natural_order import with_natural
from ..topic_group import TOPIC
from ..transactions import AT, TRANSACTION_COLUMNS, is_mark
from .tables import ADDS, DELETED, EPOCH, READ, order_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..epoch import Batch
    from .settings import BulkMergeSettings
    from .tables import BulkMergeTables

AGAIN, NEVER = -1, -2
"""What stands for the epoch of a dead letter that is read again, before all epochs, and of a bulk row, before these."""

_KINDS = [INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE]


@frozen(eq=False)
class Events:
    """Reads the rows of a batch.

    Args:
        settings: of the pipeline.
        tables: of the pipeline.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables

    def changes(self, batch: Batch) -> nw.LazyFrame[Any] | None:
        """The changelog's rows; None if there are none.

        They have the columns of `rows`, those of the order, `ADDS`, `EPOCH` and `BATCH_COLUMNS`; `AT`, or, where the
        changelog tells of transactions, `TRANSACTION_COLUMNS`. ``_error`` has the reason where a row cannot be used.
        """
        rows = _member(batch, CHANGELOG)
        if rows is None:
            return None
        kind, whole = nw.col(ROW_KIND), self.settings.whole
        rows = rows.select(
            *self.settings.columns,
            *(each.alias(name) for each, name in zip(self._order(batch), self.tables.order, strict=True)),
            kind.is_in([INSERT, UPDATE_AFTER]).alias(ADDS),
            nw.lit(batch.epoch.number).cast(nw.Int64).alias(EPOCH),
            *(TRANSACTION_COLUMNS if whole else [self._time.alias(AT)]),
            *BATCH_COLUMNS,
        )
        unknown = ~kind.is_in(_KINDS).fill_null(value=False)
        unknown = unknown & ~is_mark() if whole else unknown
        reason = or_else(nw.col(ERROR), unknown, "its row kind is none of +I -U +U -D")
        reason = self._checked(reason, ~kind.is_null())
        if self.settings.timed and not whole:
            text = f"event time {self.settings.event_time} is null: nothing tells when it was made"
            reason = or_else(reason, nw.col(AT).is_null(), text)
        return rows.with_columns(reason.alias(ERROR))

    def bulk(self, batch: Batch) -> nw.LazyFrame[Any] | None:
        """The rows read in bulk; None if there are none.

        They have the columns of `rows`, those of the order, `CHUNK`, `SEARCH_TS`, those of the reach and
        `BATCH_COLUMNS`.
        """
        rows = _member(batch, BULK)
        if rows is None:
            return None
        placed = [nw.col(name) for name in self.settings.position] or [nw.lit(NEVER).cast(nw.Int64)]
        rows = rows.select(
            *self.settings.columns,
            *(each.alias(name) for each, name in zip(placed, self.tables.order, strict=True)),
            CHUNK,
            SEARCH_TS,
            *(reach_of(at) for at, _ in enumerate(self.settings.position)),
            *BATCH_COLUMNS,
        )
        reason = self._checked(nw.col(ERROR), ~nw.col(ROW_KIND).is_null())
        if self.settings.waits and not self.settings.position:
            reason = or_else(reason, nw.col(SEARCH_TS).is_null(), "search_ts is null: nothing tells when it was read")
        return rows.with_columns(reason.alias(ERROR))

    def newest(self, changes: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The newest image of each key among changes, as `current` keeps it, and its ``_position``."""
        changes, order = with_natural(changes, self.in_order)
        last = changes.unique(subset=list(self.settings.key), keep="last", order_by=order)
        gone = ~nw.col(ADDS)
        return last.select(
            *self.settings.key,
            *(nw.when(~gone).then(nw.col(name)).alias(name) for name in self.settings.values),
            *self.tables.order,
            nw.lit(0).cast(nw.Int64).alias(READ),
            gone.alias(DELETED),
            POSITION,
        )

    def read(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Bulk rows as `current` keeps them."""
        return rows.select(
            *self.settings.columns,
            *self.tables.order,
            nw.lit(1).cast(nw.Int64).alias(READ),
            nw.lit(value=False).alias(DELETED),
            nw.lit(NEVER).cast(nw.Int64).alias(POSITION),
        )

    def told(self, changes: nw.LazyFrame[Any], stored: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        """What each change took and brought: the columns of `recent` but its segment.

        Args:
            changes: those that can be used.
            stored: rows of `current` of their keys, where changes do not bring the images that they replace.
        """
        if stored is None:
            return changes.select(*self._told)
        before = [f"_before_{name}" for name in self.settings.values]
        there = stored.filter(~nw.col(DELETED)).select(
            *self.settings.columns,
            *self.tables.order,
            nw.lit(None).cast(nw.Datetime("us", "UTC")).alias(AT),
            nw.lit(value=True).alias(ADDS),
            nw.lit(NEVER).cast(nw.Int64).alias(EPOCH),
            nw.lit(NEVER).cast(nw.Int64).alias(POSITION),
        )
        both, order = with_natural(nw.concat([there, changes.select(*self._told)]), self.in_order)
        previous = [
            nw.col(name).shift(1).over(*self.settings.key, order_by=order) for name in (ADDS, *self.settings.values)
        ]
        named = [f"_before{ADDS}", *before]
        both = both.with_columns(each.alias(name) for each, name in zip(previous, named, strict=True))
        new = both.filter(nw.col(EPOCH) != NEVER)
        taken = new.filter(nw.col(named[0]).fill_null(value=False)).with_columns(
            *(nw.col(each).alias(name) for each, name in zip(before, self.settings.values, strict=True)),
            nw.lit(value=False).alias(ADDS),
        )
        return nw.concat([taken.select(*self._told), new.filter(nw.col(ADDS)).select(*self._told)])

    @property
    def in_order(self) -> tuple[str, ...]:
        """Columns that order the changes of a key: by position, those of one position as they came."""
        return (*(self.tables.order if self.settings.position else ()), EPOCH, POSITION)

    @property
    def _told(self) -> tuple[str, ...]:
        return (*self.settings.columns, *self.tables.order, AT, ADDS, EPOCH, POSITION)

    def _order(self, batch: Batch) -> Sequence[nw.Expr]:
        placed = [nw.col(name) for name in self.settings.position]
        return placed or [nw.lit(AGAIN if batch.again else batch.epoch.number).cast(nw.Int64)]

    @property
    def _time(self) -> nw.Expr:
        time = self.settings.event_time
        return nw.col(time) if time else nw.lit(None).cast(nw.Datetime("us", "UTC"))

    def _checked(self, reason: nw.Expr, brings: nw.Expr) -> nw.Expr:
        """The reason so far, or what lacks of rows that bring an image."""
        for name in self.settings.key:
            reason = or_else(reason, brings & nw.col(name).is_null(), f"key column {name} is null")
        for at, name in enumerate(self.settings.position):
            reason = or_else(reason, brings & nw.col(order_of(at)).is_null(), f"position {name} is null")
        return reason


def _member(batch: Batch, name: str) -> nw.LazyFrame[Any] | None:
    """The rows of one member of a batch; of dead letters read again there are no members, but their rows tell."""
    if batch.again:
        return batch.rows.filter(nw.col(TOPIC) == name) if name == CHANGELOG else None
    return batch.topics.get(name)
