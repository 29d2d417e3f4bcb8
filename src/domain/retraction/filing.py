"""Under which day a change is filed, and which changes cannot be filed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..changelog.row_kind import DELETE, UPDATE_AFTER, UPDATE_BEFORE
from ..dead_letter import or_else
from ..epoch import ERROR, ORIGIN, POSITION, ROW_KIND
from .repeats import REPEAT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..epoch import Batch
    from ..ledger import Snapshot
    from .repeats import Jump, Repeats
    from .settings import RetractionSettings

FILED = "_filed"
"""When the change was made, of the type of `updated_at`."""

_NEXT_KIND, _NEXT_TIME = "_next_kind", "_next_time"


@frozen(eq=False)
class Filing:
    """Files the changes of one retraction."""

    settings: RetractionSettings
    repeats: Repeats

    def file(self, batch: Batch, snapshot: Snapshot, jumps: Sequence[Jump] = ()) -> nw.LazyFrame[Any]:
        """A batch's rows with `FILED` and `REPEAT`, and a reason in `_error` where one cannot be filed.

        Args:
            batch: the rows.
            snapshot: the newest publication.
            jumps: where a log begins again; see `Repeats.mark`.
        """
        if not self.settings.placed_by:
            return self._checked(self._timed(batch.rows)).with_columns(nw.lit(value=False).alias(REPEAT))
        return self.repeats.mark(self._checked(self.repeats.numbered(self._timed(batch.rows))), batch, snapshot, jumps)

    def _timed(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add when each change was made; an old image bears the time of the new one, which comes right behind it."""
        kind, updated = nw.col(ROW_KIND), nw.col(self.settings.updated_at)
        deleted = nw.col(self.settings.deleted_at or self.settings.updated_at)
        time = nw.when(kind == DELETE).then(deleted).otherwise(updated)
        if self.settings.same_time:
            return rows.with_columns(time.alias(FILED))
        following = {_NEXT_KIND: kind, _NEXT_TIME: updated}
        rows = rows.with_columns(
            each.shift(-1).over(ORIGIN, order_by=POSITION).alias(name) for name, each in following.items()
        )
        paired = ((kind == UPDATE_BEFORE) & (nw.col(_NEXT_KIND) == UPDATE_AFTER)).fill_null(value=False)
        return rows.with_columns(nw.when(paired).then(nw.col(_NEXT_TIME)).otherwise(time).alias(FILED)).drop(*following)

    def _checked(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Give every row that cannot be filed its reason."""
        reason, kind = nw.col(ERROR), nw.col(ROW_KIND)
        by_deletion = self.settings.deleted_at or self.settings.updated_at
        undated = nw.col(FILED).is_null()
        reason = or_else(reason, undated & (kind == DELETE), f"column {by_deletion} is null, so it has no day")
        reason = or_else(reason, undated, f"column {self.settings.updated_at} is null, so it has no day")
        for name in self.settings.columns_of_identity:  # what has no place by `auto` counts
            number = self.repeats.numbers[name]
            lost = nw.col(name).is_null() | ~nw.col(number).str.contains(r"^\d{1,20}$")
            reason = or_else(reason, lost, f"identity column {name} is null or has no number at its end")
        return rows.with_columns(reason.alias(ERROR))
