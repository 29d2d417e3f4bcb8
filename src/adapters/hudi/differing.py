"""Net changes of a keyed table between two versions, from the partitions that were written to in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...domain.changelog.net import net_changes
from ..spark.schema import lazy

if TYPE_CHECKING:
    import narwhals as nw

    from .reading import Reading
    from .timeline import Timeline


def differences(before: Reading, after: Reading, timeline: Timeline) -> nw.LazyFrame[Any]:
    """The changes that lead from one version to another, whichever is the later."""
    earlier, later = sorted((before.version or "", after.version or ""))
    folders = timeline.touched(earlier, later)
    old, new = (lazy(reading.content(folders=folders)) for reading in (before, after))
    return net_changes(old, new, after.spec.key)
