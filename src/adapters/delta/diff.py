"""Net changes of a keyed table between two versions, computed from the files that were added and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...domain.table.change import Matching
from ...domain.table.net_changes import net_changes
from ..spark.schema import empty_frame, lazy, named
from .stored import has_log

if TYPE_CHECKING:
    import narwhals as nw
    from pyspark.sql import DataFrame

    from .actions import DataFile
    from .read import TableVersion


def diff_versions(before: TableVersion | None, after: TableVersion) -> nw.LazyFrame[Any]:
    """The net changes from one version (None: no rows) to a later one; see `TableStore.changes`."""
    old, new = _sides(before, after)
    return net_changes(lazy(old), lazy(new), after.spec.key)


def _sides(before: TableVersion | None, after: TableVersion) -> tuple[DataFrame, DataFrame]:
    """The old and the new rows of at least all keys that changed."""
    if before is None:
        return empty_frame(after.log.session, after.spec.schema), after.content(Matching())
    if not has_log(after.spec):
        return before.content_of(before.files_not_in(after)), after.content_of(after.files_not_in(before))
    commits = [after.log.commit(number) for number in range(before.version + 1, after.version + 1)]
    if any(commit.rewrites for commit in commits):
        files = [*before.files_not_in(after), *after.files_not_in(before)]
        return _both(before, after, Matching(), files)
    appended = [file for commit in commits if commit.user_metadata is not None for file in commit.added]
    return _both(before, after, Matching(_keys(after, appended)), appended)


def _keys(reading: TableVersion, files: list[DataFile]) -> nw.LazyFrame[Any]:
    if not files:
        return lazy(empty_frame(reading.log.session, reading.spec.schema.select(reading.spec.key)))
    reading.log.check_present(reading.version, files)
    return lazy(reading.stored(files).select(*map(named, reading.spec.key)).distinct())


def _both(
    before: TableVersion, after: TableVersion, wanted: Matching, files: list[DataFile]
) -> tuple[DataFrame, DataFrame]:
    """The matching rows of both versions, only from the partitions of these files."""
    places = {file.place for file in files}
    return before.content(wanted, places), after.content(wanted, places)
