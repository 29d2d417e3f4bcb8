"""Upkeep: compacts logs into base files (merge-on-read) and clusters small files (tables without a log)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from attrs import frozen

from ..spark.jvm import java_class
from .client import rollback_unfinished, upkeep_client
from .clock import name_instants_in_utc
from .lock import UPKEEP, locked
from .path import Folder
from .spec import Definition, TableType
from .timeline import Timeline

_MEBIBYTE = 1024 * 1024
_CLUSTER = "hoodie.clustering.plan.strategy"
_COMPACT = "org.apache.hudi.table.action.compact.strategy"


@frozen
class CompactionPolicy:
    """Which files a compaction rewrites.

    Args:
        min_files: a file group with fewer log files is not compacted; neither is a table without a log that has had
            fewer commits since its last compaction.
        target_bytes: the size of new files, in bytes; files smaller than half of it are small.
        max_bytes: the most bytes that one compaction rewrites; the rest waits for the next compaction.
    """

    min_files: int = 8
    target_bytes: int = 128 * _MEBIBYTE
    max_bytes: int = 4096 * _MEBIBYTE

    @property
    def settings(self) -> dict[str, str]:
        """The policy as Hudi's settings."""
        return {
            "hoodie.compact.inline.max.delta.commits": "1",
            "hoodie.compaction.strategy": f"{_COMPACT}.LogFileNumBasedCompactionStrategy",
            "hoodie.compaction.logfile.num.threshold": str(self.min_files),
            "hoodie.compaction.target.io": str(self.max_bytes // _MEBIBYTE),
            "hoodie.parquet.max.file.size": str(self.target_bytes),
            "hoodie.clustering.inline.max.commits": str(self.min_files),
            "hoodie.clustering.async.max.commits": str(self.min_files),
            f"{_CLUSTER}.target.file.max.bytes": str(self.target_bytes),
            f"{_CLUSTER}.small.file.limit": str(self.target_bytes // 2),
            f"{_CLUSTER}.max.bytes.per.group": str(self.max_bytes),
            # Rewriting a single file gains nothing.
            f"{_CLUSTER}.single.group.clustering.enabled": "false",
        }


def compact(
    folder: Folder, timeline: Timeline, definition: Definition, policy: CompactionPolicy, refold: Callable[[], None]
) -> bool:
    """Do the upkeep that is worth its cost now; returns whether there was any.

    Args:
        folder: the table's folder.
        timeline: the table's timeline.
        definition: the table's definition.
        policy: which files are worth compacting.
        refold: leaves one row per key in a table that is folded on read. Base files are written only from its
            result, so that they can be read alone.
    """
    with locked(folder, UPKEEP), upkeep_client(folder, timeline, definition, policy.settings) as client:
        planning = partial(_planning, folder, timeline, definition)
        folding = partial(_refold_if_due, timeline, policy, refold) if definition.folded else lambda: True
        logged = definition.table_type is TableType.MERGE_ON_READ
        folded = logged and _compact_logs(planning(), timeline, client, folding)
        if logged and not definition.resized:
            return folded
        # A commit to files that are being clustered would fail, so it waits for this lock.
        with planning():
            if (
                definition.folded and timeline.commits_since_refold()
            ):  # new commits came in between: wait for the next time
                return folded
            return _cluster_files(timeline, client) or folded


@contextmanager
def _planning(folder: Folder, timeline: Timeline, definition: Definition) -> Iterator[None]:
    """Hold the lock of commits, without unfinished commits: Hudi's writer rolls back none that is older than a plan."""
    with locked(folder):
        rollback_unfinished(folder, timeline, definition)
        yield


def _refold_if_due(timeline: Timeline, policy: CompactionPolicy, refold: Callable[[], None]) -> bool:
    """Refold if there were enough commits since the last time; returns whether the table has one row per key now."""
    if (unfolded := timeline.commits_since_refold()) >= policy.min_files:
        refold()
        return True
    return unfolded == 0


def _compact_logs(
    planning: AbstractContextManager[None], timeline: Timeline, client: Any, ready: Callable[[], bool]
) -> bool:
    """Compact logs into base files, while commits continue."""
    with planning:
        instant = timeline.pending("filterPendingCompactionTimeline")
        if instant is None and ready():
            instant = _schedule(timeline, client.scheduleCompaction)
    if instant is not None:
        client.compact(instant, True)
    return instant is not None


def _cluster_files(timeline: Timeline, client: Any) -> bool:
    instant = timeline.pending("filterPendingClusteringTimeline") or _schedule(timeline, client.scheduleClustering)
    if instant is not None:
        client.cluster(instant, True)
    return instant is not None


def _schedule(timeline: Timeline, schedule: Any) -> str | None:
    """The instant of a new plan; None if there is nothing to plan."""
    session = timeline.folder.session
    name_instants_in_utc(session)  # while logs were compacted, another table may have been written
    timeline.wait_for_clock()
    planned = schedule(java_class(session, "org.apache.hudi.common.util.Option").empty())
    return str(planned.get()) if planned.isPresent() else None
