"""Upkeep: the log folded into base files on merge-on-read, small files put together where there is no log."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from ..spark.jvm import java_class
from .client import upkeep_client
from .definition import TableType
from .lock import UPKEEP, locked

if TYPE_CHECKING:
    from collections.abc import Callable

    from .definition import Definition
    from .place import Folder
    from .timeline import Timeline

_MEBIBYTE = 1024 * 1024
_CLUSTER = "hoodie.clustering.plan.strategy"
_COMPACT = "org.apache.hudi.table.action.compact.strategy"


@frozen
class CompactionPolicy:
    """Which files a compaction takes up.

    Args:
        min_files: a file group with fewer log files is left alone; without a log, so is a table with fewer commits
            since its last compaction.
        target_bytes: how large files are made; files of half that are not small.
        max_bytes: of one compaction; what is left over waits for the next.
    """

    min_files: int = 8
    target_bytes: int = 128 * _MEBIBYTE
    max_bytes: int = 4096 * _MEBIBYTE

    @property
    def settings(self) -> dict[str, str]:
        """The policy in Hudi's words."""
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
            # One file is no smaller for being written again.
            f"{_CLUSTER}.single.group.clustering.enabled": "false",
        }


def compact(
    folder: Folder, timeline: Timeline, definition: Definition, policy: CompactionPolicy, refold: Callable[[], None]
) -> bool:
    """Do what upkeep pays now: whether there was anything to do.

    Args:
        folder: of the table.
        timeline: of the table.
        definition: of the table.
        policy: what pays.
        refold: leaves one row a key, in a table that is folded when it is read. Base files are only made of what it
            left, so that they can be read alone.
    """
    with locked(folder, UPKEEP), upkeep_client(folder, timeline, definition, policy.settings) as client:
        folding = partial(_refolded, timeline, policy, refold) if definition.folded else _always
        folded = definition.table_type is TableType.MERGE_ON_READ and _folded(folder, timeline, client, folding)
        if definition.table_type is TableType.MERGE_ON_READ and not definition.resized:
            return folded
        # A commit to files that are being put together would fail: here it waits.
        with locked(folder):
            if definition.folded and timeline.unfolded():  # commits have come in between: the next time
                return folded
            return _put_together(folder, timeline, client) or folded


def _refolded(timeline: Timeline, policy: CompactionPolicy, refold: Callable[[], None]) -> bool:
    """Leave one row a key, where there are commits enough since that was done: whether it is so now."""
    if (unfolded := timeline.unfolded()) >= policy.min_files:
        refold()
        return True
    return unfolded == 0


def _always() -> bool:
    return True


def _folded(folder: Folder, timeline: Timeline, client: Any, ready: Callable[[], bool]) -> bool:
    """Fold logs into base files, while commits go on beside it."""
    with locked(folder):
        instant = timeline.pending("filterPendingCompactionTimeline")
        if instant is None and ready():
            instant = _scheduled(folder, client.scheduleCompaction)
    if instant is not None:
        client.compact(instant, True)
    return instant is not None


def _put_together(folder: Folder, timeline: Timeline, client: Any) -> bool:
    instant = timeline.pending("filterPendingClusteringTimeline") or _scheduled(folder, client.scheduleClustering)
    if instant is not None:
        client.cluster(instant, True)
    return instant is not None


def _scheduled(folder: Folder, schedule: Any) -> str | None:
    """The instant of a plan, if there is anything to plan."""
    planned = schedule(java_class(folder.session, "org.apache.hudi.common.util.Option").empty())
    return str(planned.get()) if planned.isPresent() else None
