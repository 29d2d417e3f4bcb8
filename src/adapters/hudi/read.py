"""Reads the rows of a version, only from partitions that may hold matching rows; and what changed between two."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define

from ...domain.table.change import Between, Matching
from ...domain.table.net_changes import net_changes
from ...domain.table.schema import DataType, column
from ...domain.table.spec import TableSpec
from ..shared.match import literal, parted
from ..spark.match import only_matching
from ..spark.merge import fold_by_key
from ..spark.schema import empty_frame, lazy, quoted
from .key_encoding import folder_values
from .names import KEY, SEQUENCE
from .path import Folder
from .rows import from_stored, in_folders
from .timeline import Timeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# There is no metadata table (`commit.py`): folders are listed, and Hudi has no statistics to skip files by.
_LISTED = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
# List files when the frame is made: a file deleted before the frame is computed is then an error. With a later listing
# Hudi would return the remaining rows. This lists all partitions; `_list_now` lists a few.
_LISTED_AT_ONCE = {"hoodie.datasource.read.file.index.listing.mode": "eager"}


@define(eq=False)
class TableVersion:
    """One version of a table; version None is the one before the first commit.

    Args:
        spec: the table's spec.
        folder: the table's folder.
        version: its name.
        by_key: the settings with which the file of a key is found; None if files cannot be found by key.
        folded: whether the rows of a key are folded on read.
        check: called when the files of a read are listed; raises `VersionExpired` if some may have been deleted before.
    """

    spec: TableSpec
    folder: Folder
    version: str | None
    by_key: Mapping[str, str] | None = None
    folded: bool = False
    check: Callable[[], None] = lambda: None

    def content(self, wanted: Matching | None = None, folders: Collection[str] | None = None) -> DataFrame:
        """The matching rows, in the spec's columns; None as `folders` reads all partitions."""
        if self.version is None:
            return self.nothing()
        found = self._content(self.version, wanted or Matching(), folders)
        self.check()
        return found

    def _content(self, version: str, wanted: Matching, folders: Collection[str] | None) -> DataFrame:
        chosen = self._chosen(wanted, folders)
        if self.spec.partition_by and not chosen:
            return self.nothing()
        if self.folded:
            return self._folded(wanted)
        few = self.spec.partition_by and (wanted.within or folders is not None)
        rows = self._loaded({"as.of.instant": version, **({} if few else _LISTED_AT_ONCE)})
        if self.spec.partition_by:
            rows = in_folders(rows, chosen)
        if few:
            _list_now(rows)
        found = only_matching(from_stored(rows, self.spec), wanted, self.spec.schema)
        return found.selectExpr(*map(quoted, self.spec.schema.names))

    def arrived(self, wanted: Matching | None = None) -> DataFrame:
        """The matching rows as they arrived, for a table that is folded on read: several per key, with `SEQUENCE`."""
        if self.version is None:
            return empty_frame(self.folder.session, self.spec.schema.plus(column(SEQUENCE, "bigint")))
        rows = self._loaded({"as.of.instant": self.version, **_LISTED_AT_ONCE})
        self.check()
        return only_matching(from_stored(rows, self.spec, SEQUENCE), wanted or Matching(), self.spec.schema)

    def fold(self, arrived: DataFrame, arrivals: str | None = None) -> DataFrame:
        """One row per key, with the `SEQUENCE` of its newest row; column `arrivals`, if set, lists all of them."""
        rules, groups = self.spec.column_rules, self.spec.groups
        return fold_by_key(arrived, key=self.spec.key, rules=rules, groups=groups, arrival=SEQUENCE, arrivals=arrivals)

    def _folded(self, wanted: Matching) -> DataFrame:
        early, late = parted(wanted, self.spec.key)
        found = only_matching(self.fold(self.arrived(early)), late, self.spec.schema)
        return found.selectExpr(*map(quoted, self.spec.schema.names))

    def of_keys(self, keys: Collection[str], folders: Collection[str] | None) -> DataFrame:
        """The rows of a few record keys, in the spec's columns, only from files that may hold them."""
        if self.version is None or not keys:
            return self.nothing()
        rows = self._loaded({"as.of.instant": self.version, **(self.by_key or {})})
        if folders is not None:
            rows = in_folders(rows, list(folders))
        listed = ", ".join(f"'{key}'" for key in keys)  # letters, digits, `_`, `-` and `~` (`key_encoding.py`)
        return from_stored(rows.filter(f"{KEY} IN ({listed})"), self.spec)

    def nothing(self) -> DataFrame:
        """No rows, in the spec's columns."""
        return empty_frame(self.folder.session, self.spec.schema)

    def base(self) -> DataFrame:
        """The rows of the newest base files of any version, in the spec's columns; no rows before the first commit.

        They have one row per key: a table that is folded on read is refolded right before its base files are written.
        """
        if self.version is None:
            return self.nothing()
        return from_stored(self._loaded({"hoodie.datasource.query.type": "read_optimized"}), self.spec)

    def _loaded(self, options: Mapping[str, str]) -> DataFrame:
        return self.folder.session.read.format("hudi").options(**{**_LISTED, **options}).load(self.folder.path)

    def _chosen(self, wanted: Matching, folders: Collection[str] | None) -> list[str]:
        """The partitions that may hold matching rows."""
        there = self.folder.folders() if folders is None else folders
        return [each for each in there if may_hold(each, wanted.within, self.spec)]


def _list_now(rows: DataFrame) -> None:
    """List the files of a read of a few partitions. Hudi does so when it optimizes the plan, and keeps the list."""
    rows._jdf.queryExecution().optimizedPlan()


def may_hold(folder: str, within: Mapping[str, tuple[Any, ...] | Between], spec: TableSpec) -> bool:
    """Whether a partition may hold a row within the literals."""
    asked = within.keys() & set(spec.partition_by)
    values = folder_values(folder, spec.schema, spec.partition_by) if asked else {}
    return all(_fits(value, within[name], spec.schema[name]) for name, value in values.items() if name in asked)


def _fits(value: Any, wanted: tuple[Any, ...] | Between, data_type: DataType) -> bool:
    if value is None:
        return False
    try:
        if isinstance(wanted, Between):
            return bool(literal(wanted.low, data_type) <= value <= literal(wanted.high, data_type))
        # `<=` raises if the types differ, where `==` would only be false.
        return any(value <= literal(each, data_type) <= value for each in wanted if each is not None)
    except TypeError:  # the types of literal and column differ: Spark casts, so the partition may match
        return True


def diff_versions(before: TableVersion, after: TableVersion, timeline: Timeline) -> nw.LazyFrame[Any]:
    """The net changes from one version to another, which may be earlier; from the partitions written in between."""
    folders = timeline.touched_folders(before.version, after.version)
    old, new = (lazy(reading.content(folders=folders)) for reading in (before, after))
    return net_changes(old, new, after.spec.key)
