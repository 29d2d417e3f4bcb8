"""Reads the rows of a version from its files, only from partitions that may hold matching rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from attrs import define

from ....domain.table.change import Matching
from ....domain.table.merge import fold
from ....domain.table.schema import Schema, column
from ....domain.table.spec import TableSpec
from ...memory_limit import hold_files
from ...polars.calendar import read_footer
from ...polars.file_cache import IN_MEMORY, READ_WHOLE, FileCache
from ...polars.file_errors import explain_read_errors
from ...polars.match import bounds_of, only_matching, with_distinct_keys
from ...polars.schema import lazy, polars_schema, polars_type
from ...polars.sums import add_up
from ...shared.match import parted
from ..names import GONE, SEQUENCE, stored_name
from ..read import may_hold
from ..timeline import Timeline
from .log_file import read_log
from .slices import Slice, slices
from .stored_rows import RECORD_KEY


@define(eq=False)
class LocalVersion:
    """One version of a table in a folder of this machine, as Polars frames; version None is before the first commit.

    Args:
        spec: the table's spec.
        root: the table's folder.
        timeline: the table's timeline.
        version: its name.
        folded: whether the rows of a key are folded on read.
        cache: the rows of recent files.
        check: as of `TableVersion`.
    """

    spec: TableSpec
    root: Path
    timeline: Timeline
    version: str | None
    folded: bool
    cache: FileCache
    check: Callable[[], None]

    def content(self, wanted: Matching | None = None, folders: Collection[str] | None = None) -> pl.LazyFrame:
        """The matching rows, in the spec's columns; None as `folders` reads all partitions."""
        schema, wanted = self.spec.schema, with_distinct_keys(wanted or Matching())
        if not self.folded:
            return only_matching(self._stored(wanted, folders).select(schema.names), wanted, schema)
        early, late = parted(wanted, self.spec.key)
        arrived = only_matching(self._stored(early, folders), early, schema.plus(column(SEQUENCE, "bigint")))
        how: dict[str, Any] = {"rules": self.spec.column_rules, "groups": self.spec.groups, "add_up": add_up}
        rows: pl.LazyFrame = fold(lazy(arrived.collect()), key=self.spec.key, arrival=SEQUENCE, **how).to_native()
        return only_matching(rows.select(schema.names), late, schema)

    def groups(self, folders: Collection[str]) -> list[Slice]:
        """The files of the file groups in these partitions, of which some may not exist yet."""
        return list(self._slices(Matching(), [each for each in folders if _is_folder(self.root / each)]))

    def record_keys(self, found: Slice) -> pl.DataFrame:
        """The record keys in the base file of a file group, as `RECORD_KEY`."""
        assert found.base is not None
        return self._base(found.base).select(RECORD_KEY).collect()

    def _stored(self, wanted: Matching, folders: Collection[str] | None) -> pl.LazyFrame:
        """The rows of the partitions that may hold matching rows, with `SEQUENCE`."""
        schema = self.spec.schema.plus(column(SEQUENCE, "bigint"))
        found = list(self._slices(wanted, folders))
        self.check()
        with explain_read_errors(self.root):
            hold_files((str(path), path.stat().st_size * IN_MEMORY) for each in found for path in _files(each))
        parts = [self._rows(each) for each in found]
        return pl.concat(parts) if parts else pl.LazyFrame(schema=polars_schema(schema))

    def _slices(self, wanted: Matching, folders: Collection[str] | None) -> Iterator[Slice]:
        if self.version is None:
            return
        chosen: Collection[str] = [""]
        if self.spec.partition_by:
            within = bounds_of(wanted, self.spec.schema)
            there = _folders(self.root) if folders is None else folders
            chosen = [each for each in there if may_hold(each, within, self.spec)]
        with explain_read_errors(self.root):
            yield from slices(self.root, chosen, self.version, self.timeline.replaced)

    def _rows(self, found: Slice) -> pl.LazyFrame:
        """The rows of one file group: those of the base file whose keys no log has, and the newest of each key."""
        names = [*self.spec.schema.names, SEQUENCE]
        base = None if found.base is None else self._base(found.base)
        if not found.logs:
            assert base is not None
            return base.select(names)
        logs = [self._cached(path, partial(read_log, path, self.spec.schema)) for path in found.logs]
        newest = pl.concat(logs).unique(RECORD_KEY, keep="last", maintain_order=True)
        rows = newest.filter(~pl.col(GONE)).select(names).lazy()
        if base is None:
            return rows
        return pl.concat([base.join(newest.lazy().select(RECORD_KEY), on=RECORD_KEY, how="anti").select(names), rows])

    def _base(self, path: Path) -> pl.LazyFrame:
        """The rows of a base file, in the spec's columns, with `RECORD_KEY` and `SEQUENCE`."""
        with explain_read_errors(path):
            if path.stat().st_size > READ_WHOLE:
                read_footer(path)  # refuses files of another calendar
                rows = pl.scan_parquet(path, hive_partitioning=False, glob=False)
                return rows.select(_columns(rows.collect_schema(), self.spec.schema))
            return self._cached(path, partial(_read_base, path, self.spec.schema)).lazy()

    def _cached(self, path: Path, read: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        key = cache_key(path, self.spec.schema)
        rows = self.cache.get(key)
        if rows is None:
            with explain_read_errors(path):
                rows = read()
            self.cache.put(key, rows)
        return rows


def cache_key(path: Path, schema: Schema) -> str:
    """The name of a file's rows in the cache, in the columns of a schema: a table gets more columns."""
    return f"{path} {schema.ddl}"


def is_large(found: Slice) -> bool:
    """Whether the base file of a file group is read in parts."""
    return found.base is not None and found.base.stat().st_size > READ_WHOLE


def _files(found: Slice) -> Iterator[Path]:
    yield from found.logs
    if found.base is not None:
        yield found.base


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # its name is too long
        return False


def _folders(root: Path) -> list[str]:
    return [each.name for each in root.iterdir() if each.is_dir() and not each.name.startswith(".")]


def _read_base(path: Path, schema: Schema) -> pl.DataFrame:
    read_footer(path)  # refuses files of another calendar
    rows = pl.read_parquet(path, hive_partitioning=False, glob=False)
    return rows.select(_columns(rows.schema, schema))


def _columns(there: pl.Schema, schema: Schema) -> list[pl.Expr]:
    """The columns of a base file; those that were added later are null."""
    wanted = {RECORD_KEY: (RECORD_KEY, pl.String()), SEQUENCE: (SEQUENCE, pl.Int64())}
    wanted |= {each.name: (stored_name(each.name), polars_type(each.type)) for each in schema.columns}
    return [
        (pl.col(name).cast(dtype) if name in there else pl.lit(None, dtype)).alias(into)
        for into, (name, dtype) in wanted.items()
    ]
