"""Reads the rows of one version of a table, only from files that may hold matching rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from attrs import define, evolve

from ....domain.table.apply import select_matching
from ....domain.table.change import Between, Matching
from ...memory_limit import hold_files
from ...polars.schema import collect, lazy, polars_schema
from ...shared.match import parted
from ..prune import prune
from ..stored import APPENDED, DELETED, OPERATION, has_log, stored_schema
from ..version import DeltaVersion
from .data_files import DataFiles, is_scanned
from .log import LocalLog
from .mapping import physical_names
from .rows import fold_parts, fold_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import narwhals as nw

    from ....domain.table.schema import Schema
    from ..actions import DataFile
    from .data_files import FileCache

_IN_MEMORY = 4
"""About this many bytes of memory are needed for each byte of a data file, which is compressed."""
_FEW = 64
"""Up to this number of different values, files are pruned by each value; else by the range that they span."""
_WITHOUT_BOUNDS = frozenset({"boolean", "binary", "float", "double"})


@define(eq=False)
class LocalVersion(DeltaVersion[LocalLog, pl.LazyFrame]):
    """One version of a table, as Polars frames.

    Args:
        cache: the rows of recent files.
    """

    cache: FileCache

    @property
    def data(self) -> DataFiles:
        """The data files, to be read and written."""
        state = self.log.state(self.version)
        names = physical_names(state.table) if state.metadata else {}
        return DataFiles(self.log.path, self.spec.partition_by, names, self.cache)

    def nothing(self) -> pl.LazyFrame:
        return pl.LazyFrame(schema=polars_schema(self.spec.schema))

    def keys_in(self, files: Iterable[DataFile]) -> nw.LazyFrame[Any]:
        return lazy(self.stored(files).select(self.spec.key).unique().collect())

    def changed_keys(self, before: LocalVersion | None) -> pl.LazyFrame:
        """The keys of all rows that changed since an earlier version (None: no rows), and perhaps of others."""
        key = self.spec.key
        if before is not None and has_log(self.spec) and (appended := self.appended_since(before)) is not None:
            self.log.check_present(self.version, appended)
            return self.stored(appended).select(key).unique()
        old, new = self.sides(before)
        return pl.concat([old.select(key), new.select(key)]).unique()

    def content_of(self, files: Iterable[DataFile], matching: Matching | None = None) -> pl.LazyFrame:
        schema, wanted = self.spec.schema, with_distinct_keys(matching or Matching())
        early, late = parted(wanted, self.spec.key) if has_log(self.spec) else (wanted, Matching())
        within = bounds_of(wanted, schema)
        if has_log(self.spec):  # other columns may change when rows are folded
            within = {name: values for name, values in within.items() if name in self.spec.key}
        held = prune(files, within, schema)
        if not held:
            return self.nothing()
        self.log.check_present(self.version, held)
        if any(map(is_scanned, held)):  # the literals also skip parts of a file
            early = evolve(early, within=within)
        return _only(self.folded(held, early), late, schema).select(schema.names)

    def stored(self, files: Iterable[DataFile]) -> pl.LazyFrame:
        """The stored rows of files.

        Raises:
            EngineLimit: they do not fit into the memory that this work may use.
        """
        files = list(files)
        hold_files((f"{self.log.path}/{file.path}", file.size * _IN_MEMORY) for file in files)
        return self.data.read(files, stored_schema(self.spec), self.log.folder().path_of)

    def folded(self, files: Collection[DataFile], wanted: Matching) -> pl.LazyFrame:
        """As `content_of`, for conditions that apply before folding; with `_sequence` if the table has a log."""
        spec = self.spec
        log = [file for file in files if file.highest.get(OPERATION, DELETED) > APPENDED]
        if not has_log(spec) or not log:
            return _only(self.stored(files), wanted, spec.schema)
        deletes = any(file.highest.get(OPERATION, DELETED) == DELETED for file in log)
        if wanted.keys is not None:
            return fold_rows(_only(self.stored(files), wanted, spec.schema), spec, deletes=deletes)
        base = [file for file in files if file.lowest.get(OPERATION, APPENDED) == APPENDED]
        return fold_parts(
            _only(self.stored(base), wanted, spec.schema).filter(pl.col(OPERATION) == APPENDED),
            _only(self.stored(log), wanted, spec.schema).filter(pl.col(OPERATION) > APPENDED),
            spec,
            deletes=deletes,
        )


def with_distinct_keys(matching: Matching) -> Matching:
    """The same conditions, with computed and distinct keys."""
    return matching if matching.keys is None else evolve(matching, keys=lazy(collect(matching.keys).unique()))


def bounds_of(matching: Matching, schema: Schema) -> dict[str, tuple[object, ...] | Between]:
    """Literals that all matching rows satisfy: those of the conditions, and those of its computed keys."""
    within = dict(matching.within)
    if matching.keys is not None:
        keys = collect(matching.keys)
        for name in keys.columns:
            if name not in within and schema[name].name not in _WITHOUT_BOUNDS:
                within[name] = _span(keys[name].drop_nulls())
    return within


def _span(values: pl.Series) -> tuple[object, ...] | Between:
    few = values.unique()
    return tuple(few.to_list()) if few.len() <= _FEW else Between(values.min(), values.max())


def _only(rows: pl.LazyFrame, wanted: Matching, schema: Schema) -> pl.LazyFrame:
    if wanted.keys is None and not wanted.within:
        return rows
    frame: nw.LazyFrame[pl.LazyFrame] = select_matching(_narwhal(rows), wanted, schema)
    return frame.to_native()


def _narwhal(rows: pl.LazyFrame) -> nw.LazyFrame[pl.LazyFrame]:
    import narwhals as nw

    return nw.from_native(rows)
