"""Gives up versions of a table: which go, and which files nothing needs any more.

Hudi's own cleaner keeps the last so many commits or hours, and savepoints beside them, each a file that lists all
others. What is kept here has holes wherever a lease or a publication stands, so the files are reckoned from the same
view of them that a read is planned by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from ...domain.ports import Expiry, Version
from ..spark.hadoop_files import delete_files
from .groups import file_groups

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from ...domain.holds import Holds
    from .archiving import Archiving
    from .groups import DataFile
    from .place import Folder
    from .timeline import Timeline


@frozen(eq=False)
class Sweep:
    """One look at a table, for what may go.

    Args:
        table: its name.
        folder, timeline, holds: of the table.
        archiving: of its instants.
        now: the present moment (UTC).
    """

    table: str
    folder: Folder
    timeline: Timeline
    holds: Holds
    archiving: Archiving
    now: datetime

    def expire(self, keep: Collection[Version], *, dry_run: bool) -> Expiry:
        """What has gone, or, as a dry run, would go.

        No lock is held, but to archive: of commits that complete from now on no file is looked at, and what they, and
        compactions, build on is the newest version, which stays.
        """
        told, before = self.timeline.told(), self.holds.expired()
        gone = self.holds.give_up(list(told), keep, self.now, dry_run=dry_run)
        kept = [version for version in told if version not in gone]
        files = self._unneeded(told, kept)
        if kept and not dry_run:
            delete_files(self.folder.session, (file.path for file in files))
            self.archiving.archive(kept[0], self.now)
            self.holds.forget_ended(self.now)
        versions = tuple(Version(version) for version in told if version in gone - before)
        return Expiry(self.table, versions, len(files), sum(file.size for file in files))

    def _unneeded(self, told: Mapping[str, str], kept: Sequence[str]) -> list[DataFile]:
        """The files that no kept version is read from; logs before what they are about, wherever a deletion stops."""
        groups = file_groups(self.folder, self.timeline, told) if told else []
        unneeded = [file for group in groups for file in group.unneeded(kept)]
        return sorted(unneeded, key=lambda file: file.instant, reverse=True)
