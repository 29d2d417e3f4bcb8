"""Expires versions of a table and deletes the data files and log files that are no longer needed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise, takewhile
from urllib.parse import unquote

from attrs import frozen

from ...domain.errors import StoreUnavailable
from ...domain.ports import Expiry, Version
from ..shared.leases import LeaseFiles
from .followed_log import FollowedLog
from .stored_file import StoredFile


@frozen
class SweepPolicy:
    """How long unreferenced data files and unneeded log files are kept.

    Args:
        orphan_age: data files without a commit are deleted from this age on; younger ones may belong to a writer that
            has not committed yet.
        log_age: commits and checkpoints that no kept version needs are deleted from this age on; another process may
            have listed younger ones and be about to read them.
    """

    orphan_age: timedelta = timedelta(days=7)
    log_age: timedelta = timedelta(hours=1)


@frozen(eq=False)
class Sweep:
    """One expiry of one table.

    Args:
        table: its name.
        log, lease_files: the log and the lease files of the table.
        policy: how long unneeded files are kept.
        now: the present time (UTC).
    """

    table: str
    log: FollowedLog
    lease_files: LeaseFiles
    policy: SweepPolicy
    now: datetime

    def expire(self, keep: Collection[Version], *, dry_run: bool) -> Expiry:
        """Expire versions and delete their files; a dry run only reports them."""
        log_files, before = self.log.folder().log_files(), self.lease_files.expired()
        numbers = [file.version for file in log_files if file.is_commit]
        expired = self.lease_files.record_expiry(list(map(str, numbers)), keep, self.now, dry_run=dry_run)
        kept = [number for number in numbers if str(number) not in expired]
        files = self._unneeded(numbers, kept)
        if not dry_run:
            self.log.folder().delete(files)
            self._clean_log(log_files, min(kept[0], self._newest_mark(numbers)))
        versions = (Version(str(number)) for number in numbers if str(number) in expired - before)
        return Expiry(self.table, tuple(versions), len(files), sum(file.size for file in files))

    def _newest_mark(self, numbers: Sequence[int]) -> int:
        """The newest version with a mark, which fences the next commit; compactions may have come after it."""
        marked = (number for number in reversed(numbers) if self.log.summary(number).user_metadata is not None)
        return next(marked, numbers[-1])

    def _unneeded(self, numbers: Sequence[int], kept: Sequence[int]) -> list[StoredFile]:
        """The data files that no kept version uses: files of expired versions, and old files without a commit."""
        needed, there = self._names_in(kept), self.log.folder().data_files()
        self._check_complete(numbers[-1], there)
        unneeded = [file for file in there if file.name not in needed]
        # By a clock that is ahead, the file of a commit under way would be old as soon as it is written.
        newest = max((file.modified for file in there), default=self.now)
        old = min(self.now, newest) - self.policy.orphan_age
        unnamed = self._never_removed({file.name for file in unneeded if file.modified >= old}, numbers)
        return [file for file in unneeded if file.name not in unnamed]

    def _never_removed(self, files: set[str], numbers: Sequence[int]) -> set[str]:
        """The files that no commit has removed. The newest commits are read first, as most removals are recent."""
        for number in reversed(numbers):
            if not files:
                break
            files = files.difference(map(unquote, self.log.summary(number).removed))
        return files

    def _names_in(self, versions: Sequence[int]) -> set[str]:
        """The files of all these versions, oldest first. After the first one only the commits are looked at."""
        paths = set(self.log.files(versions[0]))
        for before, version in pairwise(versions):
            new: set[str] = set()
            for number in range(before + 1, version + 1):
                commit = self.log.summary(number)
                new = new.difference(commit.removed).union(commit.added)
            paths |= new
        return set(map(unquote, paths))

    def _check_complete(self, newest: int, there: Iterable[StoredFile]) -> None:
        """Raise `StoreUnavailable` if files of the newest version are missing; nothing is deleted then."""
        missing = set(map(unquote, self.log.files(newest))).difference(file.name for file in there)
        if missing:
            raise StoreUnavailable(
                f"table {self.table}: {len(missing)} files of its newest version {newest} are not found below"
                f" {self.log.path}, for example {min(missing)!r}; nothing was deleted. If no other upkeep is running,"
                " the table is damaged"
            )

    def _clean_log(self, log_files: Iterable[StoredFile], oldest: int) -> None:
        """Delete the log files before the checkpoint from which the oldest kept version is read."""
        folder = self.log.folder()
        if (checkpoint := folder.checkpoint_at_or_before(oldest)) is None:
            return
        old = self.now - self.policy.log_age
        before = (file for file in log_files if file.version < checkpoint)
        # Oldest first: if this is interrupted, the remaining log has no gap.
        folder.delete(takewhile(lambda file: file.modified < old, before))
