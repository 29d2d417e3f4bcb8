"""Expires versions of a table and deletes the files that are no longer needed.

Hudi's own cleaner keeps the last n commits or hours, and savepoints, each a file that lists all other files. Here the
kept versions have gaps between them, because of leases and publications. So the needed files are computed from the same
file-system view that a read is planned with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from attrs import frozen

from ...domain.ports import Expiry, Version
from ..shared.leases import LeaseFiles
from ..spark.hadoop_files import delete_files
from .file_groups import DataFile, file_groups
from .path import Folder
from .timeline import Timeline

if TYPE_CHECKING:
    from .archive import Archiver


@frozen(eq=False)
class Sweep:
    """One expiry of one table.

    Args:
        table: its name.
        folder, timeline, lease_files: those of the table.
        archiving: of its instants.
        now: the present time (UTC).
    """

    table: str
    folder: Folder
    timeline: Timeline
    lease_files: LeaseFiles
    archiving: Archiver
    now: datetime

    def expire(self, keep: Collection[Version], *, dry_run: bool) -> Expiry:
        """Expire versions and delete their files; a dry run only reports them.

        Only archiving takes a lock. Files of commits that complete from now on are not looked at, and those commits and
        compactions build on the newest version, which stays.
        """
        completed, before = self.timeline.completion_times(), self.lease_files.expired()
        expired = self.lease_files.record_expiry(list(completed), keep, self.now, dry_run=dry_run)
        kept = [version for version in completed if version not in expired]
        files = self._unneeded(completed, kept)
        if kept and not dry_run:
            delete_files(self.folder.session, (file.path for file in files))
            self.archiving.archive(kept[0], self.now)
        versions = tuple(Version(version) for version in completed if version in expired - before)
        return Expiry(self.table, versions, len(files), sum(file.size for file in files))

    def _unneeded(self, completed: Mapping[str, str], kept: Sequence[str]) -> list[DataFile]:
        """The files that no kept version reads, newest first: a log file goes before its base file."""
        groups = file_groups(self.folder, self.timeline, completed) if completed else []
        unneeded = [file for group in groups for file in group.unneeded(kept)]
        return sorted(unneeded, key=lambda file: file.instant, reverse=True)
