"""Keeps the timeline short: moves instants that no remaining version needs into Hudi's archive, in a few files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import takewhile

from attrs import frozen

from .client import upkeep_client
from .clock import moment
from .lock import UPKEEP, Busy, locked
from .path import Folder
from .spec import Definition
from .timeline import Timeline


@frozen
class ArchivePolicy:
    """When instants are archived.

    Args:
        min_instants: fewer instants wait for a later expiry, because each archiving writes new files.
        age: younger instants stay, because another process may have listed them and be about to read them.
    """

    min_instants: int = 32
    age: timedelta = timedelta(hours=1)


@frozen(eq=False)
class Archiver:
    """The archiving of one table's instants."""

    folder: Folder
    timeline: Timeline
    definition: Definition
    policy: ArchivePolicy

    def archive(self, oldest: str, now: datetime) -> None:
        """Archive the instants before the oldest kept version; files that only those needed must be deleted already.

        Hudi counts how many instants stay, so no new one may come meanwhile: commits wait. If other upkeep is running,
        nothing is archived; the next expiry tries again.
        """
        if len(self._past(oldest, now)) < self.policy.min_instants:
            return
        with suppress(Busy), locked(self.folder, UPKEEP), locked(self.folder):
            past = self._past(oldest, now)
            settings = _settings(len(self.timeline.completion_times()) - len(past))
            with upkeep_client(self.folder, self.timeline, self.definition, settings) as client:
                if self.timeline.replaced_in(past):
                    # Hudi archives a replacecommit only when a clean says that the replaced files are deleted.
                    client.clean()
                client.archive()

    def _past(self, oldest: str, now: datetime) -> list[str]:
        """The instants that may be archived, oldest first: completed before the oldest version, and old enough.

        The newest marked commit always stays, because it fences the next commit.
        """
        marked = next((instant.name for instant in self.timeline.newest_first() if instant.mark), "")
        completed, first = self.timeline.completion_times(), min(oldest, marked)
        return list(takewhile(lambda name: _ended(name, completed, first, now - self.policy.age), completed))


def _ended(name: str, completed: Mapping[str, str], first: str, before: datetime) -> bool:
    return name < first and completed[name] < first and moment(completed[name]) < before


def _settings(staying: int) -> dict[str, str]:
    """Settings that keep `staying` instants, and one more: Hudi wants one before the oldest that it has not cleaned."""
    return {
        "hoodie.clean.commits.retained": str(staying),
        "hoodie.keep.min.commits": str(staying + 1),
        "hoodie.keep.max.commits": str(staying + 2),
        # The clean finds nothing to delete, but must be recorded all the same; Hudi does that once an hour at most.
        "hoodie.write.empty.clean.interval.hours": "1",
        "hoodie.clean.incremental.enabled": "true",
        # Compaction is chosen by files (`compact.py`), not by commits, so the commits need not stay.
        "hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED",
    }
