"""Under which day a change is filed, which changes are repeats, and which cannot be filed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..changelog.row_kind import DELETE, UPDATE_AFTER, UPDATE_BEFORE
from ..dead_letter import or_else
from ..epoch import ERROR, ORIGIN, POSITION, ROW_KIND
from .tables import PARTITION, PLACE

if TYPE_CHECKING:
    from ..epoch import Batch
    from ..ledger import Snapshot
    from .settings import RetractionSettings
    from .tables import RetractionTables

FILED = "_filed"
"""When the change was made, of the type of `updated_at`."""
REPEAT = "_repeat"
"""boolean: whether the change was read before."""

_NEXT_KIND, _NEXT_TIME, _NEWEST = "_next_kind", "_next_time", "_newest_place"
_DIGITS = 20
_ZEROS = "0" * _DIGITS
_KAFKA = r"/\d+@\d+$"


@frozen(eq=False)
class Filing:
    """Files the changes of one retraction."""

    settings: RetractionSettings
    tables: RetractionTables

    def file(self, batch: Batch, snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """A batch's rows with `FILED` and `REPEAT`, and a reason in `_error` where one cannot be filed."""
        rows = self._checked(self._timed(batch.rows))
        if not self.settings.identity:
            return rows.with_columns(nw.lit(value=False).alias(REPEAT))
        return self._repeats(self._placed(rows), batch, snapshot)

    def places(self, fresh: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The newest place of each partition."""
        return fresh.group_by(PARTITION).agg(nw.col(PLACE).max())

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
        for name in self.settings.identity:
            lost = nw.col(name).is_null() | ~self._number(name).str.contains(r"^\d{1,20}$")
            reason = or_else(reason, lost, f"identity column {name} is null or has no number at its end")
        return rows.with_columns(reason.alias(ERROR))

    def _number(self, name: str) -> nw.Expr:
        """The number at the end of an identity column, as text."""
        return nw.col(name).cast(nw.String).str.replace_all(r"^.*\D", "")

    def _placed(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add partition and place of each row that can be filed."""
        origin, good = nw.col(ORIGIN), nw.col(ERROR).is_null()
        of_topic = nw.when(origin.str.contains(_KAFKA)).then(origin.str.replace_all(r"@\d+$", ""))
        partition = of_topic.otherwise(nw.lit(""))
        numbers = [
            nw.concat_str([nw.lit(_ZEROS), self._number(name)]).str.tail(_DIGITS) for name in self.settings.identity
        ]
        place = nw.concat_str(numbers, separator=" ")
        return rows.with_columns(partition.alias(PARTITION), nw.when(good).then(place).alias(PLACE))

    def _repeats(self, rows: nw.LazyFrame[Any], batch: Batch, snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Mark rows not beyond the newest place read of their partition, and all but the first of a place in a batch.

        Rows are taken by kind, as both images of an update have the same place.
        """
        position = nw.col(POSITION)
        first = position.min().over(PARTITION, PLACE, ROW_KIND)
        again = ~nw.col(PLACE).is_null() & (position > first)
        if batch.again:
            return rows.with_columns(again.alias(REPEAT))
        newest = snapshot.read(self.tables.places.name).select(PARTITION, nw.col(PLACE).alias(_NEWEST))
        known = rows.join(newest, on=PARTITION, how="left")
        old = (nw.col(PLACE) <= nw.col(_NEWEST)).fill_null(value=False)
        return known.with_columns((again | old).alias(REPEAT)).drop(_NEWEST)
