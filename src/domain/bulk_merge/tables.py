"""The tables that a bulk merge keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen

from .. import dead_letter
from ..bulk import CHUNK, SEARCH_TS, reach_of
from ..epoch import BATCH_COLUMNS, POSITION
from ..merge import Latest
from ..schema import Column, Schema, column
from ..segments import SEGMENT
from ..table import TableSpec
from ..transactions import AT, TRANSACTION_COLUMNS

if TYPE_CHECKING:
    from .settings import BulkMergeSettings

ADDS, EPOCH = "_adds", "_epoch"
"""Of a change's row: whether its image comes or goes (boolean), and the epoch that brought it (bigint)."""
DELETED, READ = "_deleted", "_read"
"""Of the newest image: whether the row is gone (boolean); 1 where it was read in bulk, 0 where a change brought it."""
LOW, HIGH, ROWS, SETTLED, EXACT_FROM = "low", "high", "rows", "settled", "exact_from"
"""Of a chunk: the range of its first key column, its number of rows, whether they are exact, and from when on (UTC)."""
NAME, NEWEST, READ_ALL, DONE = "name", "newest", "read_all", "done"
"""Of the load: its name, the newest event time seen (UTC), whether all chunks have been read, and have settled."""


def order_of(at: int) -> str:
    """The column that holds one column of an image's position, or what stands for it; counted from 0."""
    return f"_order_{at}"


@frozen
class BulkMergeTables:
    """The tables of one bulk merge.

    Args:
        letters: see `dead_letter.spec`.
        pending: rows of the changelog whose transactions have not been seen whole.
        waiting: bulk rows that the changelog has not come up to yet, filed by chunk.
        chunks: a row a chunk that was read.
        load: one row: how far the changelog has come while the load goes on, and whether that has ended.
        tombstones: keys that were deleted while a chunk that may hold them had yet to settle.
        recent: an undo log: what each change of late brought and took, filed by the segment of its event time.
        current: the newest image of each key.
        order: the columns by which of two images the newer one is told.
    """

    letters: TableSpec
    pending: TableSpec
    waiting: TableSpec
    chunks: TableSpec
    load: TableSpec
    tombstones: TableSpec
    recent: TableSpec
    current: TableSpec
    order: tuple[str, ...] = field(converter=tuple[str, ...])

    @classmethod
    def of(cls, settings: BulkMergeSettings) -> BulkMergeTables:
        """The tables for these settings."""
        name, rows, key = settings.pipeline, settings.rows, settings.key
        kinds = [settings.schema[each] for each in settings.position] or [column(EPOCH, "bigint").type]
        order = [Column(order_of(at), kind) for at, kind in enumerate(kinds)]
        placed = [Column(reach_of(at), settings.schema[each]) for at, each in enumerate(settings.position)]
        first = settings.key_columns[0].type
        change = (column(AT, "timestamp"), column(ADDS, "boolean"), column(EPOCH, "bigint"), column(POSITION, "bigint"))
        image = (*order, column(READ, "bigint"), column(DELETED, "boolean"))
        by = (*(each.name for each in order), READ)
        return cls(
            letters=dead_letter.spec(name),
            pending=TableSpec(
                f"{name}.pending",
                rows.plus(
                    *order,
                    column(ADDS, "boolean"),
                    column(EPOCH, "bigint"),
                    *(column(each, ddl) for each, ddl in {**BATCH_COLUMNS, **TRANSACTION_COLUMNS}.items()),
                ),
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

        Rows that wait come before what says since when: a chunk that is read again after a crash can then only wait
        for longer than it has to.
        """
        pending = [self.pending] if settings.whole else []
        waiting = [self.waiting] if settings.waits else []
        recent = [self.recent] if settings.timed else []
        return (self.letters, *pending, *waiting, self.chunks, self.load, self.tombstones, *recent, self.current)
