"""The old and the new rows of the keys that changed between two versions, from the files that came and went."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ....domain.table.change import Matching
from ...polars.schema import lazy, polars_schema
from ..stored import has_log

if TYPE_CHECKING:
    from ..actions import DataFile
    from .read import LocalVersion


def diff_versions(before: LocalVersion | None, after: LocalVersion) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """The old and the new rows of at least all keys that changed from one version (None: no rows) to a later one."""
    nothing = pl.LazyFrame(schema=polars_schema(after.spec.schema))
    if before is None:
        return nothing, after.content(Matching())
    if not has_log(after.spec):
        return before.content_of(before.files_not_in(after)), after.content_of(after.files_not_in(before))
    commits = [after.log.commit(number) for number in range(before.version + 1, after.version + 1)]
    if any(commit.rewrites for commit in commits):
        files = [*before.files_not_in(after), *after.files_not_in(before)]
        return _both(before, after, Matching(), files)
    appended = [file for commit in commits if commit.user_metadata is not None for file in commit.added]
    if not appended:
        return nothing, nothing
    after.log.check_present(after.version, appended)
    keys = lazy(after.stored(appended).select(after.spec.key).unique().collect())
    return _both(before, after, Matching(keys), appended)


def _both(
    before: LocalVersion, after: LocalVersion, wanted: Matching, files: list[DataFile]
) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """The matching rows of both versions, only from the partitions of these files."""
    places = {file.place for file in files}
    return before.content(wanted, places), after.content(wanted, places)
