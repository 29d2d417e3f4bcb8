"""Net changes of a keyed table between two versions, computed from the partitions that were written in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...domain.table.net_changes import net_changes
from ..spark.schema import lazy

if TYPE_CHECKING:
    import narwhals as nw

    from .read import TableVersion
    from .timeline import Timeline


def diff_versions(before: TableVersion, after: TableVersion, timeline: Timeline) -> nw.LazyFrame[Any]:
    """The net changes from one version to another, which may be the earlier one."""
    earlier, later = sorted((before.version or "", after.version or ""))
    folders = timeline.touched_folders(earlier, later)
    old, new = (lazy(reading.content(folders=folders)) for reading in (before, after))
    return net_changes(old, new, after.spec.key)
