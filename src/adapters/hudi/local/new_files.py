"""The files that a commit writes: logs and first base files, or base files that replace others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from uuid import uuid4

import polars as pl
import pyarrow.parquet as pq
from attrs import frozen

from ....domain.table.schema import Schema
from ...polars.calendar import CALENDAR
from ..names import PARTITION
from .log_blocks import deletes_block, rows_block
from .slices import Slice, instant_of
from .stored_rows import BUCKET, RECORD_KEY, as_read
from .table_files import FIRST, NewFile, TableFiles

_TASK = "0-0-0"
"""What names a task of Spark in the names of its files, which tells the files of one commit apart."""
_DIGITS = 8
"""The id of a file group with a bucket begins with as many digits: its number."""


@frozen(eq=False)
class Changes:
    """What a commit writes.

    Args:
        table: the table.
        schema: the columns as they are read.
        rows: the changed rows, as `to_stored` makes them.
        gone: the keys to delete, as `to_gone` makes them.
    """

    table: TableFiles
    schema: Schema
    rows: pl.DataFrame
    gone: pl.DataFrame

    def log_files(self, instant: str) -> Iterator[NewFile]:
        """A log for each file group, or its first base file; the rows and keys have `BUCKET`."""
        groups = {(each.folder, int(each.group[:_DIGITS])): each for each in self.table.groups}
        rows, gone = (each.partition_by(PARTITION, BUCKET, as_dict=True) for each in (self.rows, self.gone))
        for place in sorted(rows.keys() | gone.keys()):
            folder, bucket = str(place[0]), int(place[1])
            changed, deleted = rows.get(place, self.rows.clear()), gone.get(place, self.gone.clear())
            if there := groups.get((folder, bucket)):
                yield self._log_file(there, changed, deleted, instant)
            elif changed.height:  # a bucket without a file has nothing to delete
                group = f"{bucket:0{_DIGITS}d}{str(uuid4())[_DIGITS:]}-0"
                yield self._first_file(folder, group, changed, instant)

    def base_files(self, instant: str, record_keys: Callable[[Slice], pl.DataFrame] | None) -> Iterator[NewFile]:
        """Base files that replace those with keys of the rows, and one for new rows where none is replaced.

        Args:
            instant: the commit's.
            record_keys: finds the keys of a file group, as `RECORD_KEY`; None if all rows are new.
        """
        rows, gone = (each.partition_by(PARTITION, as_dict=True) for each in (self.rows, self.gone))
        for place in sorted(rows.keys() | gone.keys()):
            new, deleted = rows.get(place, self.rows.clear()), gone.get(place, self.gone.clear())
            touched: list[tuple[Slice, pl.DataFrame, pl.DataFrame]] = []
            if record_keys is not None:
                for there in (each for each in self.table.groups if each.folder == place[0]):
                    keys = record_keys(there)
                    changed, removed = (each.join(keys, on=RECORD_KEY, how="semi") for each in (new, deleted))
                    if changed.height or removed.height:
                        touched.append((there, changed, removed))
                        new = new.join(keys, on=RECORD_KEY, how="anti")
            for there, changed, removed in touched:
                yield self._replaced(there, changed, removed, new, instant)
                new = new.clear()
            if new.height:
                yield self._first_file(str(place[0]), f"{uuid4()}-0", new, instant)

    def _replaced(
        self, there: Slice, changed: pl.DataFrame, removed: pl.DataFrame, new: pl.DataFrame, instant: str
    ) -> NewFile:
        """The base file of a file group with other rows."""
        assert there.base is not None
        written = self._full(there.folder, there.group, pl.concat([changed, new]), instant)
        stored = pl.read_parquet(there.base, hive_partitioning=False, glob=False)
        same = stored.join(pl.concat([each.select(RECORD_KEY) for each in (changed, removed)]), RECORD_KEY, how="anti")
        rows = pl.concat([written, same.select(_as_columns(same, written.schema))])
        return NewFile(
            there.folder,
            there.group,
            f"{there.group}_{_TASK}_{instant}.parquet",
            _parquet(rows),
            previous=instant_of(there.base),
            rows=rows.height,
            inserts=new.height,
            updates=changed.height,
            deletes=removed.height,
            kept=as_read(rows, self.gone.clear(), self.schema),
        )

    def _log_file(self, there: Slice, rows: pl.DataFrame, gone: pl.DataFrame, instant: str) -> NewFile:
        blocks, schema = [], self.table.full_schema
        if rows.height:
            blocks.append(rows_block(_parquet(self._full(there.folder, there.group, rows, instant)), schema, instant))
        if gone.height:
            blocks.append(deletes_block(gone[RECORD_KEY], there.folder, schema, instant))
        return NewFile(
            there.folder,
            there.group,
            f".{there.group}_{instant}.log.1_{_TASK}",
            b"".join(blocks),
            previous=instant,
            rows=rows.height,
            inserts=0,
            updates=rows.height,
            deletes=gone.height,
            kept=as_read(rows, gone, self.schema),
        )

    def _first_file(self, folder: str, group: str, rows: pl.DataFrame, instant: str) -> NewFile:
        return NewFile(
            folder,
            group,
            f"{group}_{_TASK}_{instant}.parquet",
            _parquet(self._full(folder, group, rows, instant)),
            previous=FIRST,
            rows=rows.height,
            inserts=rows.height,
            updates=0,
            deletes=0,
            kept=as_read(rows, self.gone.clear(), self.schema),
        )

    def _full(self, folder: str, group: str, rows: pl.DataFrame, instant: str) -> pl.DataFrame:
        """Stored rows with Hudi's own columns, in the order of the table's schema."""
        sequence = pl.format(f"{instant}_0_{{}}", pl.int_range(pl.len()).cast(pl.String()))
        own = {
            "_hoodie_commit_time": pl.lit(instant),
            "_hoodie_commit_seqno": sequence,
            RECORD_KEY: pl.col(RECORD_KEY).fill_null(sequence),
            "_hoodie_partition_path": pl.lit(folder),
            "_hoodie_file_name": pl.lit(group),
        }
        return rows.with_columns(**own).select(self.table.names)


def _as_columns(rows: pl.DataFrame, schema: pl.Schema) -> Iterator[pl.Expr]:
    """Stored rows in the columns of a schema; those that were added later are null."""
    for name, dtype in schema.items():
        yield (pl.col(name) if name in rows.columns else pl.lit(None)).cast(dtype).alias(name)


def _parquet(rows: pl.DataFrame) -> bytes:
    """Rows as the bytes of a Parquet file.

    Decimals are arrays of bytes, as PyArrow writes them. Polars writes short ones as integers, and Hudi, which merges
    records as Avro, would take these for the values.
    """
    file, table = BytesIO(), rows.to_arrow(compat_level=pl.CompatLevel.oldest())
    pq.write_table(table.replace_schema_metadata(CALENDAR), file, compression="snappy", store_schema=False)
    return file.getvalue()
