"""Keeps the timeline short: instants that no version left needs go into Hudi's archive, a few files for all of them."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

from attrs import frozen

from .client import upkeep_client
from .lock import UPKEEP, Busy, locked
from .timeline import moment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from .definition import Definition
    from .place import Folder
    from .timeline import Timeline


@frozen
class ArchivePolicy:
    """When instants are archived.

    Args:
        min_instants: fewer wait for a later expiry, since every archiving writes files of its own.
        age: younger ones stay: another process may have listed them a moment ago, and be about to read them.
    """

    min_instants: int = 32
    age: timedelta = timedelta(hours=1)


@frozen(eq=False)
class Archiving:
    """The archiving of one table's instants.

    Args:
        folder, timeline, definition: of the table.
        policy: when it is done.
    """

    folder: Folder
    timeline: Timeline
    definition: Definition
    policy: ArchivePolicy

    def archive(self, oldest: str, now: datetime) -> None:
        """Archive what is older than the oldest version that is kept; the files that only those needed must be gone.

        Hudi reckons by how many instants stay, so none may come meanwhile: commits wait. While upkeep is at work
        elsewhere nothing is archived; there will be another expiry.
        """
        if len(self._past(oldest, now)) < self.policy.min_instants:
            return
        with suppress(Busy), locked(self.folder, UPKEEP), locked(self.folder):
            past = self._past(oldest, now)
            settings = _settings(len(self.timeline.told()) - len(past))
            with upkeep_client(self.folder, self.timeline, self.definition, settings) as client:
                if self.timeline.replaced_in(past):
                    # Hudi archives a replacing commit only when a cleaning says that what it replaced is deleted.
                    client.clean()
                client.archive()

    def _past(self, oldest: str, now: datetime) -> list[str]:
        """The instants that may go, oldest first: those complete before the oldest version, and not of late.

        The newest mark stays in any case: the next commit is fenced by it.
        """
        marked = next((instant.name for instant in self.timeline.newest_first() if instant.mark), "")
        told, first = self.timeline.told(), min(oldest, marked)
        return list(takewhile(lambda name: _ended(name, told, first, now - self.policy.age), told))


def _ended(name: str, told: Mapping[str, str], first: str, before: datetime) -> bool:
    return name < first and told[name] < first and moment(told[name]) < before


def _settings(staying: int) -> dict[str, str]:
    """What keeps so many of the newest instants, and one more: Hudi wants it before the oldest it has not cleaned."""
    return {
        "hoodie.clean.commits.retained": str(staying),
        "hoodie.keep.min.commits": str(staying + 1),
        "hoodie.keep.max.commits": str(staying + 2),
        # Cleaning finds nothing to delete, and is to say so all the same: Hudi does once an hour at most.
        "hoodie.write.empty.clean.interval.hours": "1",
        "hoodie.clean.incremental.enabled": "true",
        # What is to be compacted is reckoned by files (`compaction.py`), not by commits, which so need not stay.
        "hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED",
    }
