"""Rows of one version of a table, for no more files than may hold wanted ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define
from pyspark.sql import functions as F

from ...domain.change import Between, Matching
from ..spark.schema import empty_frame, named, quoted, spark_type
from ..spark.size import fits_one_task
from .pruning import literal, prune
from .rows import APPENDED, DELETED, OPERATION, content, content_of_parts, logged, stored_schema, typed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyspark.sql import Column, DataFrame

    from ...domain.schema import DataType
    from ...domain.table import TableSpec
    from .actions import DataFile, Place
    from .log import TableLog


@define(eq=False)
class Reading:
    """One version of a table."""

    spec: TableSpec
    log: TableLog
    version: int

    @property
    def files(self) -> Collection[DataFile]:
        """All data files."""
        return self.log.files(self.version).values()

    def files_not_in(self, other: Reading) -> list[DataFile]:
        """The data files that another version does not have."""
        elsewhere = self.log.files(other.version)
        return [file for file in self.files if file.path not in elsewhere]

    def content(self, matching: Matching, places: Collection[Place] | None = None) -> DataFrame:
        """The rows that match, in the spec's columns; of some partitions only, where `places` names them."""
        files = [file for file in self.files if places is None or file.place in places]
        return self.content_of(files, matching)

    def content_of(self, files: Iterable[DataFile], matching: Matching | None = None) -> DataFrame:
        """The rows that match in files that hold all rows of their keys."""
        early, late = self._split(matching or Matching())
        held = prune(files, early.within, self.spec.schema)
        if not held:
            return empty_frame(self.log.session, self.spec.schema)
        self.log.check_present(self.version, held)
        rows = self.matching(self.folded(held, early), late)
        return rows.selectExpr(*map(quoted, self.spec.schema.names))

    def stored(self, files: Iterable[DataFile]) -> DataFrame:
        """The rows of files as they are stored, in any order of the columns."""
        rows, schema = self.log.frame(self.version, files), stored_schema(self.spec)
        return rows if set(schema.names).issubset(rows.columns) else typed(rows, schema)

    def matching(self, rows: DataFrame, wanted: Matching) -> DataFrame:
        """Those rows that match."""
        for name, values in wanted.within.items():
            rows = rows.filter(_within(name, values, self.spec.schema[name]))
        if wanted.keys is None:
            return rows
        keys = wanted.keys.to_native()
        if fits_one_task(rows, keys):
            rows, keys = rows.coalesce(1), F.broadcast(keys)
        return rows.join(keys, list(keys.columns), "left_semi")

    def _split(self, matching: Matching) -> tuple[Matching, Matching]:
        """What can be asked of stored rows, and what only of folded ones: other columns may change by folding."""
        if not logged(self.spec):
            return matching, Matching()
        key = set(self.spec.key)
        early = {name: values for name, values in matching.within.items() if name in key}
        late = {name: values for name, values in matching.within.items() if name not in key}
        if matching.keys is None or key.issuperset(matching.keys.collect_schema().names()):
            return Matching(matching.keys, early), Matching(None, late)
        return Matching(None, early), Matching(matching.keys, late)

    def folded(self, files: Collection[DataFile], wanted: Matching) -> DataFrame:
        """As `content_of`, for what can be asked of stored rows, and with `_sequence` where the table is logged."""
        log = [file for file in files if file.highest.get(OPERATION, DELETED) > APPENDED]
        if not logged(self.spec) or not log:
            return self.matching(self.stored(files), wanted)
        if wanted.keys is not None:
            return content(self.matching(self.stored(files), wanted), self.spec)
        base = [file for file in files if file.lowest.get(OPERATION, APPENDED) == APPENDED]
        return content_of_parts(
            self.matching(self.stored(base), wanted).filter(F.col(OPERATION) == APPENDED),
            self.matching(self.stored(log), wanted).filter(F.col(OPERATION) > APPENDED),
            self.spec,
        )


def _within(name: str, values: tuple[Any, ...] | Between, data_type: DataType) -> Column:
    if isinstance(values, Between):
        return named(name).between(_constant(values.low, data_type), _constant(values.high, data_type))
    return named(name).isin(*(_constant(value, data_type) for value in values)) if values else F.lit(False)


def _constant(value: Any, data_type: DataType) -> Column:
    plain = literal(value, data_type)
    # PySpark reads times without a zone in the machine's own: as text they mean the session's.
    written = plain.isoformat(sep=" ") if data_type.name in {"timestamp", "timestamp_ntz"} else plain
    return F.lit(written).cast(spark_type(data_type))
