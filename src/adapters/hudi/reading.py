"""Rows of one version of a table, for no more partitions than may hold wanted ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define

from ...domain.change import Between, Matching
from ...domain.schema import column
from ..spark.matching import literal, only_matching, parted
from ..spark.merging import folded
from ..spark.schema import empty_frame, quoted
from .names import KEY, SEQUENCE
from .rows import in_folders, told
from .texts import folder_values

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import DataFrame

    from ...domain.schema import DataType
    from ...domain.table import TableSpec
    from .place import Folder

# There is no table about the table (`writing.py`): folders are listed, and Hudi has no statistics to skip files by.
_LISTED = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
# So that files which go before a frame is computed are missed then; listed then, Hudi would answer with what is left.
# What reads a few partitions only is a step's, of the newest version, which never goes.
_LISTED_AT_ONCE = {"hoodie.datasource.read.file.index.listing.mode": "eager"}


@define(eq=False)
class Reading:
    """One version of a table; None is the one before the first.

    Args:
        spec: of the table.
        folder: where it is.
        version: which.
        by_key: the settings by which the file of a key is found; none where it is not to be looked for.
        folded: whether rows of a key are folded when they are read.
    """

    spec: TableSpec
    folder: Folder
    version: str | None
    by_key: Mapping[str, str] | None = None
    folded: bool = False

    def content(self, wanted: Matching | None = None, folders: Collection[str] | None = None) -> DataFrame:
        """The rows that match, in the spec's columns; of some partitions only, where `folders` names them."""
        if self.version is None:
            return self.nothing()
        wanted = wanted or Matching()
        chosen = self._chosen(wanted, folders)
        if self.spec.partition_by and not chosen:
            return self.nothing()
        if self.folded:
            return self._folded(wanted)
        at_once = _LISTED_AT_ONCE if folders is None and not wanted.within else {}
        rows = self._loaded({"as.of.instant": self.version, **at_once})
        if self.spec.partition_by:
            rows = in_folders(rows, chosen)
        found = only_matching(told(rows, self.spec), wanted, self.spec.schema)
        return found.selectExpr(*map(quoted, self.spec.schema.names))

    def arrived(self, wanted: Matching | None = None) -> DataFrame:
        """The rows that match as they came, of a table that folds them: with `SEQUENCE`, and several a key."""
        if self.version is None:
            return empty_frame(self.folder.session, self.spec.schema.plus(column(SEQUENCE, "bigint")))
        rows = self._loaded({"as.of.instant": self.version, **_LISTED_AT_ONCE})
        return only_matching(told(rows, self.spec, SEQUENCE), wanted or Matching(), self.spec.schema)

    def fold(self, arrived: DataFrame, arrivals: str | None = None) -> DataFrame:
        """One row a key, with the `SEQUENCE` of its newest, and as `arrivals` those of all of them."""
        rules, groups = self.spec.column_rules, self.spec.groups
        return folded(arrived, key=self.spec.key, rules=rules, groups=groups, arrival=SEQUENCE, arrivals=arrivals)

    def _folded(self, wanted: Matching) -> DataFrame:
        early, late = parted(wanted, self.spec.key)
        found = only_matching(self.fold(self.arrived(early)), late, self.spec.schema)
        return found.selectExpr(*map(quoted, self.spec.schema.names))

    def of_keys(self, keys: Collection[str], folders: Collection[str] | None) -> DataFrame:
        """The rows of a few record keys, in the spec's columns, from no more files than may hold them."""
        if self.version is None or not keys:
            return empty_frame(self.folder.session, self.spec.schema)
        rows = self._loaded({"as.of.instant": self.version, **(self.by_key or {})})
        if folders is not None:
            rows = in_folders(rows, list(folders))
        listed = ", ".join(f"'{key}'" for key in keys)  # letters, digits, `_`, `-` and `~` (`texts.py`)
        return told(rows.filter(f"{KEY} IN ({listed})"), self.spec)

    def nothing(self) -> DataFrame:
        """No rows, in the spec's columns."""
        return empty_frame(self.folder.session, self.spec.schema)

    def base(self) -> DataFrame:
        """The rows of the newest base files, whatever their versions, in the spec's columns; none before the first.

        They are one a key: what is folded when it is read goes into base files right after it was folded.
        """
        if self.version is None:
            return self.nothing()
        return told(self._loaded({"hoodie.datasource.query.type": "read_optimized"}), self.spec)

    def _loaded(self, options: Mapping[str, str]) -> DataFrame:
        return self.folder.session.read.format("hudi").options(**{**_LISTED, **options}).load(self.folder.path)

    def _chosen(self, wanted: Matching, folders: Collection[str] | None) -> list[str]:
        """The partitions to look into."""
        there = self.folder.folders() if folders is None else folders
        return [each for each in there if _may_hold(each, wanted.within, self.spec)]


def _may_hold(folder: str, within: Mapping[str, tuple[Any, ...] | Between], spec: TableSpec) -> bool:
    """Whether a partition cannot be proven to hold no row within the literals."""
    asked = within.keys() & set(spec.partition_by)
    values = folder_values(folder, spec.schema, spec.partition_by) if asked else {}
    return all(_fits(value, within[name], spec.schema[name]) for name, value in values.items() if name in asked)


def _fits(value: Any, wanted: tuple[Any, ...] | Between, data_type: DataType) -> bool:
    if value is None:
        return False
    try:
        if isinstance(wanted, Between):
            return bool(literal(wanted.low, data_type) <= value <= literal(wanted.high, data_type))
        # Not `==`, which takes a literal of another kind for another value.
        return any(value <= literal(each, data_type) <= value for each in wanted if each is not None)
    except TypeError:  # a literal of another kind than the column: Spark casts, here is only proven
        return True
