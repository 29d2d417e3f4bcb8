"""Gives up versions of a table: which go, which files nothing needs any more, and how much of the log may go."""

from __future__ import annotations

from datetime import timedelta
from itertools import takewhile
from typing import TYPE_CHECKING
from urllib.parse import unquote

from attrs import frozen

from ...domain.errors import StoreUnavailable
from ...domain.ports import Expiry, Version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from ...domain.holds import Holds
    from .folder import StoredFile
    from .log import TableLog


@frozen
class SweepPolicy:
    """How long files stay that no version names, or that only the log's own readers may be at.

    Args:
        orphan_age: of data files that no commit has named: a crashed writer's, or one's that has not committed yet.
        log_age: of commits and checkpoints that no kept version needs: another process may have listed them a moment
            ago, and be about to read them.
    """

    orphan_age: timedelta = timedelta(days=7)
    log_age: timedelta = timedelta(hours=1)


@frozen(eq=False)
class Sweep:
    """One look at a table, for what may go.

    Args:
        table: its name.
        log, holds: of the table.
        policy: what is left alone for a while.
        now: the present moment (UTC).
    """

    table: str
    log: TableLog
    holds: Holds
    policy: SweepPolicy
    now: datetime

    def expire(self, keep: Collection[Version], *, dry_run: bool) -> Expiry:
        """What has gone, or, as a dry run, would go."""
        log_files, before = self.log.folder().log_files(), self.holds.expired()
        told = [file.version for file in log_files if file.commits]
        gone = self.holds.give_up(list(map(str, told)), keep, self.now, dry_run=dry_run)
        kept = [number for number in told if str(number) not in gone]
        files = self._unneeded(told, kept)
        if not dry_run:
            self.log.folder().delete(files)
            self._clean_log(log_files, min(kept[0], self._newest_marked(told)))
            self.holds.forget_ended(self.now)
        versions = (Version(str(number)) for number in told if str(number) in gone - before)
        return Expiry(self.table, tuple(versions), len(files), sum(file.size for file in files))

    def _newest_marked(self, told: Sequence[int]) -> int:
        """The version whose mark the next commit is fenced by, though upkeep may have come after it."""
        marked = (number for number in reversed(told) if self.log.commit(number).user_metadata is not None)
        return next(marked, told[-1])

    def _unneeded(self, told: Sequence[int], kept: Sequence[int]) -> list[StoredFile]:
        """The data files that no kept version has: those that one had before, and old ones that none ever had."""
        needed, there = self._names_in(dict.fromkeys(kept)), self.log.folder().data_files()
        self._check_whole(told[-1], there)
        unneeded = [file for file in there if file.name not in needed]
        old = self.now - self.policy.orphan_age
        unnamed = self._never_removed({file.name for file in unneeded if file.modified >= old}, told)
        return [file for file in unneeded if file.name not in unnamed]

    def _never_removed(self, files: set[str], told: Sequence[int]) -> set[str]:
        """Those files that no commit has taken out; most went lately, so the newest commits are asked first."""
        for number in reversed(told):
            if not files:
                break
            files = files.difference(map(unquote, self.log.commit(number).removed))
        return files

    def _names_in(self, versions: Collection[int]) -> set[str]:
        """The files of any of some versions; of one that follows another, only what it adds needs to be looked at."""
        paths: set[str] = set()
        for number in versions:
            if number - 1 in versions:
                paths.update(file.path for file in self.log.commit(number).added)
            else:
                paths.update(self.log.files(number))
        return set(map(unquote, paths))

    def _check_whole(self, newest: int, there: Iterable[StoredFile]) -> None:
        """Delete nothing where files that are surely needed do not lie where the log says."""
        missing = set(map(unquote, self.log.files(newest))).difference(file.name for file in there)
        if missing:
            raise StoreUnavailable(
                f"table {self.table}: {len(missing)} files of its newest version {newest} are not found below"
                f" {self.log.path}, {min(missing)!r} for one; nothing was deleted. If no other upkeep is at work, the"
                " table is damaged"
            )

    def _clean_log(self, log_files: Iterable[StoredFile], oldest: int) -> None:
        """Remove what stands in the log before the checkpoint that the oldest kept version is told from."""
        folder = self.log.folder()
        if (checkpoint := folder.checkpoint_at_or_before(oldest)) is None:
            return
        old = self.now - self.policy.log_age
        before = (file for file in log_files if file.version < checkpoint)
        # Oldest first: wherever this stops, what is left has no hole.
        folder.delete(takewhile(lambda file: file.modified < old, before))
