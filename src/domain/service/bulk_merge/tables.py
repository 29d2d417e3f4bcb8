"""The tables that a bulk merge keeps."""

from __future__ import annotations

from attrs import field, frozen

from ...epoch.batch import BATCH_COLUMNS
from ...source import dead_letter
from ...source.bulk import CHUNK, SEARCH_TS, reach_of
from ...source.transactions import AT, TRANSACTION, TRANSACTION_COLUMNS
from ...table.change import POSITION
from ...table.merge import Latest
from ...table.schema import Column, Schema, column
from ...table.spec import TableSpec
from ..segments import SEGMENT
from .settings import BulkMergeSettings

ADDS, EPOCH = "_adds", "_epoch"
"""Columns of a change: whether its image is added, else removed (boolean), and its epoch (bigint)."""
DELETED, READ = "_deleted", "_read"
"""Columns of the newest image: whether the row is deleted (boolean); 1 if it was read in bulk, 0 if it is a change."""
LOW, HIGH, ROWS, SETTLED, EXACT_FROM = "low", "high", "rows", "settled", "exact_from"
"""Columns of a chunk: the range of its first key column, its row count, whether it is exact, and since when (UTC)."""
NAME, NEWEST, READ_ALL, DONE, DELETES_FROM = "name", "newest", "read_all", "done", "deletes_from"
"""Columns of the load: its name, the newest event time (UTC), whether all chunks were read, whether all settled, and
the event time (UTC) after which deletes are known (null: any)."""


def order_of(at: int) -> str:
    """The name of an order column: a column of the position or, without position, the epoch. Counted from 0."""
    return f"_order_{at}"


@frozen
class BulkMergeTables:
    """The tables of one bulk merge.

    Args:
        dead_letters: see `dead_letter.spec`.
        pending: changelog rows whose transactions are not complete, and rows that have to be applied after them.
        applied: the names of transactions that were applied, partitioned by segment of commit time.
        waiting: bulk rows with which the changelog has not caught up yet, partitioned by chunk.
        chunks: one row per chunk that was read.
        load: one row: the position and event time that the changelog has reached, and whether the load is done.
        tombstones: keys that were deleted while an unsettled chunk may contain them.
        recent: the undo log: the images that recent changes removed and added, partitioned by segment of event time.
        current: the newest image of each key.
        order: the columns that decide which of two images is newer.
    """

    dead_letters: TableSpec
    pending: TableSpec
    applied: TableSpec
    waiting: TableSpec
    chunks: TableSpec
    load: TableSpec
    tombstones: TableSpec
    recent: TableSpec
    current: TableSpec
    order: tuple[str, ...] = field(converter=tuple[str, ...])

    @classmethod
    def of(cls, settings: BulkMergeSettings) -> BulkMergeTables:
        name, rows, key = settings.pipeline, settings.rows, settings.key
        kinds = [settings.schema[each] for each in settings.position] or [column(EPOCH, "bigint").type]
        order = [Column(order_of(at), kind) for at, kind in enumerate(kinds)]
        placed = [Column(reach_of(at), settings.schema[each]) for at, each in enumerate(settings.position)]
        first = settings.key_columns[0].type
        change = (column(AT, "timestamp"), column(ADDS, "boolean"), column(EPOCH, "bigint"), column(POSITION, "bigint"))
        image = (*order, column(READ, "bigint"), column(DELETED, "boolean"))
        by = (*(each.name for each in order), READ)
        return cls(
            dead_letters=dead_letter.spec(name),
            pending=TableSpec(
                f"{name}.pending",
                rows.plus(
                    *order,
                    column(ADDS, "boolean"),
                    column(EPOCH, "bigint"),
                    *(column(each, ddl) for each, ddl in {**BATCH_COLUMNS, **TRANSACTION_COLUMNS}.items()),
                ),
            ),
            applied=TableSpec(
                f"{name}.applied",
                Schema((column(SEGMENT, "bigint"), column(TRANSACTION, "string"), column(AT, "timestamp"))),
                key=(SEGMENT, TRANSACTION, AT),
                partition_by=(SEGMENT,),
            ),
            waiting=TableSpec(
                f"{name}.waiting",
                rows.plus(column(CHUNK, "bigint"), *order),
                key=(CHUNK, *key),
                partition_by=(CHUNK,),
            ),
            chunks=TableSpec(
                f"{name}.chunks",
                Schema(
                    (
                        column(CHUNK, "bigint"),
                        Column(LOW, first),
                        Column(HIGH, first),
                        column(ROWS, "bigint"),
                        column(SEARCH_TS, "timestamp"),
                        *placed,
                        column(SETTLED, "boolean"),
                        column(EXACT_FROM, "timestamp"),
                    )
                ),
                key=(CHUNK,),
            ),
            load=TableSpec(
                f"{name}.load",
                Schema(
                    (
                        column(NAME, "string"),
                        column(NEWEST, "timestamp"),
                        *placed,
                        column(READ_ALL, "boolean"),
                        column(DONE, "boolean"),
                        column(EXACT_FROM, "timestamp"),
                        column(DELETES_FROM, "timestamp"),
                    )
                ),
                key=(NAME,),
            ),
            tombstones=TableSpec(f"{name}.tombstones", Schema(settings.key_columns), key=key),
            recent=TableSpec(
                f"{name}.recent",
                rows.plus(column(SEGMENT, "bigint"), *order, *change),
                key=(SEGMENT, *key, EPOCH, POSITION, ADDS),
                partition_by=(SEGMENT,),
            ),
            current=TableSpec(
                f"{name}.current",
                rows.plus(*image),
                key=key,
                groups=(Latest(by, (*settings.values, DELETED)),),
            ),
            order=tuple(each.name for each in order),
        )

    def in_order(self, settings: BulkMergeSettings) -> tuple[TableSpec, ...]:
        """All tables that these settings need, in the order of their commits.

        `waiting` comes before `chunks` and `load`. After a crash between the two, a chunk is read again; it then waits
        longer than it has to, but never too short.
        """
        pending = [self.pending] if settings.transactional else []
        applied = [self.applied] if settings.counted else []
        waiting = [self.waiting] if settings.waits else []
        recent = [self.recent] if settings.timed else []
        before = (self.dead_letters, *pending, *applied, *waiting)
        return (*before, self.chunks, self.load, self.tombstones, *recent, self.current)
