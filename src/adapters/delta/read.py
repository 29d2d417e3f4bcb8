"""Reads the rows of one version of a table, only from files that may hold matching rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import narwhals as nw
from attrs import define
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...domain.table.change import Matching
from ..shared.match import parted
from ..spark.match import only_matching
from ..spark.schema import empty_frame, lazy, named, quoted, typed
from .actions import DataFile, total_bytes
from .log import TableLog
from .prune import prune
from .rows import fold_parts, fold_rows
from .stored import APPENDED, OPERATION, has_log, stored_schema
from .version import DeltaVersion

_SMALL = 1024 * 1024
"""So many bytes are read and folded in one task, with no shuffle, and in one pass: base rows are not kept apart."""


@define(eq=False)
class TableVersion(DeltaVersion[TableLog, DataFrame]):
    """One version of a table, as Spark frames."""

    def nothing(self) -> DataFrame:
        return empty_frame(self.log.session, self.spec.schema)

    def keys_in(self, files: Iterable[DataFile]) -> nw.LazyFrame[Any]:
        return lazy(self.stored(files).select(*map(named, self.spec.key)).distinct())

    def content_of(self, files: Iterable[DataFile], matching: Matching | None = None) -> DataFrame:
        wanted = matching or Matching()
        early, late = parted(wanted, self.spec.key) if has_log(self.spec) else (wanted, Matching())
        held = prune(files, early.within, self.spec.schema)
        if not held:
            return self.nothing()
        self.log.check_present(self.version, held)
        rows = only_matching(self.folded(held, early), late, self.spec.schema)
        return rows.selectExpr(*map(quoted, self.spec.schema.names))

    def stored(self, files: Iterable[DataFile]) -> DataFrame:
        """The stored rows of files; the columns may come in any order."""
        rows, schema = self.log.frame(self.version, files), stored_schema(self.spec)
        return rows if set(schema.names).issubset(rows.columns) else typed(rows, schema)

    def folded(self, files: Collection[DataFile], wanted: Matching) -> DataFrame:
        """As `content_of`, for conditions that apply before folding; with `_sequence` if the table has a log."""
        log = [file for file in files if file.may_change]
        if not has_log(self.spec) or not log:
            return only_matching(self.stored(files), wanted, self.spec.schema)
        deletes = any(file.may_delete for file in log)
        base = [file for file in files if file.may_append]
        small = wanted.keys is None and total_bytes(files) <= _SMALL
        # Few rows would be left out of the fold, or none.
        if small or wanted.keys is not None or total_bytes(base) <= total_bytes(log):
            rows = only_matching(self.stored(files), wanted, self.spec.schema)
            return fold_rows(rows.coalesce(1) if small else rows, self.spec, deletes=deletes)
        return fold_parts(
            only_matching(self.stored(base), wanted, self.spec.schema).filter(F.col(OPERATION) == APPENDED),
            only_matching(self.stored(log), wanted, self.spec.schema).filter(F.col(OPERATION) > APPENDED),
            self.spec,
            deletes=deletes,
        )
