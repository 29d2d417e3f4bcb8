"""Reads the rows of one version of a table, only from files that may hold matching rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import narwhals as nw
import polars as pl
from attrs import define, evolve

from ....domain.table.change import Between, Matching
from ....domain.table.spec import TableSpec
from ...memory_limit import hold_files
from ...polars.file_cache import IN_MEMORY, FileCache
from ...polars.match import bounds_of, only_matching, with_distinct_keys
from ...polars.schema import collect, lazy, polars_schema
from ...shared.match import parted
from ..actions import DataFile, by_partition, total_bytes
from ..prune import prune
from ..stored import APPENDED, OPERATION, has_log, key_inside, stored_schema
from ..version import DeltaVersion
from .data_files import DataFiles, is_scanned
from .log import LocalLog
from .mapping import physical_names
from .rows import fold_parts, fold_rows, select_newest

_LARGE = 2**20
"""Bytes of a partition; for a smaller one, a plan of its own costs more than it saves."""


@define(eq=False)
class LocalVersion(DeltaVersion[LocalLog, pl.LazyFrame]):
    """One version of a table, as Polars frames."""

    cache: FileCache

    @property
    def data(self) -> DataFiles:
        """The data files, to be read and written."""
        state = self.log.state(self.version)
        names = physical_names(state.table) if state.metadata else {}
        return DataFiles(self.log.path, self.log.storage, self.spec.partition_by, names, self.cache)

    def nothing(self) -> pl.LazyFrame:
        return pl.LazyFrame(schema=polars_schema(self.spec.schema))

    def keys_in(self, files: Iterable[DataFile]) -> nw.LazyFrame[Any]:
        return lazy(self.stored(files).select(self.spec.key).unique().collect())

    def changed_keys(self, before: LocalVersion | None) -> pl.LazyFrame:
        """The keys of all rows that changed since an earlier version (None: no rows), and perhaps of others."""
        key = self.spec.key
        if before is not None and has_log(self.spec) and (appended := self.appended_since(before)) is not None:
            return self.stored(appended).select(key).unique()
        old, new = self.sides(before)
        return pl.concat([old.select(key), new.select(key)]).unique()

    def content_of(self, files: Iterable[DataFile], matching: Matching | None = None) -> pl.LazyFrame:
        schema, wanted = self.spec.schema, matching or Matching()
        within = self._fixed(wanted.within)
        held = prune(files, within, schema)
        if held and wanted.keys is not None:  # new ids often leave no file: then the keys need not be computed
            wanted = with_distinct_keys(wanted)
            within = self._fixed(bounds_of(wanted, schema))
            held = prune(held, within, schema)
        if not held:
            return self.nothing()
        early, late = parted(wanted, self.spec.key) if has_log(self.spec) else (wanted, Matching())
        self.log.check_present(self.version, held)
        if any(map(is_scanned, held)):  # the literals also skip parts of a file
            early = evolve(early, within=within)
        return pl.concat(self._find(held, early, late))

    def _fixed(self, within: Mapping[str, tuple[object, ...] | Between]) -> dict[str, tuple[object, ...] | Between]:
        """The literals of columns that do not change when rows are folded."""
        return {name: values for name, values in within.items() if not has_log(self.spec) or name in self.spec.key}

    def stored(self, files: Iterable[DataFile], *, once: bool = False) -> pl.LazyFrame:
        """The stored rows of files; `once`: not to be cached, because nobody will read these files again.

        Raises:
            EngineLimit: they do not fit into the memory that this work may use.
        """
        files = list(files)
        hold_files((f"{self.log.path}/{file.path}", file.size * IN_MEMORY) for file in files)
        return self.data.read(files, stored_schema(self.spec), self.log.folder().path_of, once=once)

    def scan(self, files: Iterable[DataFile]) -> pl.LazyFrame:
        """The stored rows of files, to be read in parts: neither cached nor counted as held.

        Raises:
            TableDamaged: a file cannot be read.
        """
        return self.data.read(files, stored_schema(self.spec), self.log.folder().path_of, whole=False)

    def _find(self, files: Collection[DataFile], early: Matching, late: Matching) -> Iterator[pl.LazyFrame]:
        """The rows of files that match conditions to apply before folding, and after it, in parts."""
        for part in self._parts(files):
            found = self._find_together(part, self._inside(early, part), self._inside(late, part))
            yield found.select(self.spec.schema.names)

    def _find_together(self, files: Collection[DataFile], early: Matching, late: Matching) -> pl.LazyFrame:
        spec = self.spec
        matching = only_matching(self.stored(files), early, spec.schema)
        log = [file for file in files if file.may_change]
        if not has_log(spec) or not log:
            return only_matching(matching, late, spec.schema)
        key, logged = _key_of(spec, files), pl.col(OPERATION) > APPENDED
        deletes = any(file.may_delete for file in log)
        if early.keys is not None:
            return only_matching(fold_rows(matching, spec, key, deletes=deletes), late, spec.schema)
        log_rows = only_matching(self.stored(log), early, spec.schema).filter(logged)
        if late.keys is not None and spec.newest_counts:
            return select_newest(only_matching(matching, late, spec.schema), log_rows, spec, key)
        base = [file for file in files if file.may_append]
        base_rows = only_matching(self.stored(base), early, spec.schema).filter(~logged)
        return only_matching(fold_parts(base_rows, log_rows, spec, key, deletes=deletes), late, spec.schema)

    def _parts(self, files: Collection[DataFile]) -> list[Collection[DataFile]]:
        """Files in parts that share no key: each large partition, and all others together."""
        if not (has_log(self.spec) and key_inside(self.spec)):
            return [files]
        large, rest = list[Collection[DataFile]](), list[DataFile]()
        for part in by_partition(files).values():
            if total_bytes(part) > _LARGE:
                large.append(part)
            else:
                rest += part
        return [*large, rest] if rest else large

    def _inside(self, matching: Matching, files: Collection[DataFile]) -> Matching:
        """The same conditions for files; in one partition, only the keys in it, without the partition's columns.

        Keys of one column are found three times as fast.
        """
        if matching.keys is None or len(by_partition(files)) > 1:
            return matching
        keys, constants = collect(matching.keys), self.data.constants(next(iter(files)), self.spec.schema)
        known = {name: value for name, value in constants.items() if name in keys.columns}
        if len(known) in {0, keys.width}:
            return matching
        here = keys.filter(pl.col(name) == value for name, value in known.items())
        return evolve(matching, keys=lazy(here.drop(known)))


def _key_of(spec: TableSpec, files: Iterable[DataFile]) -> list[str]:
    """The key columns that tell the rows of files apart: fewer of them in one partition."""
    inside = key_inside(spec) if len({file.place for file in files}) == 1 else []
    return inside or list(spec.key)
