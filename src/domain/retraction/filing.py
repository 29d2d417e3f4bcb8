"""Under which day a change is filed, which changes are repeats, and which cannot be filed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..changelog.row_kind import DELETE, UPDATE_AFTER, UPDATE_BEFORE
from ..dead_letter import or_else
from ..epoch import ERROR, ORIGIN, POSITION, ROW_KIND
from ..schema import INTEGERS
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
        rows = self._checked(self._numbered(self._timed(batch.rows)))
        if not self.settings.identity:
            return rows.with_columns(nw.lit(value=False).alias(REPEAT))
        return self._repeats(self._placed(rows).drop(*self._numbers.values()), batch, snapshot)

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
        for name, number in self._numbers.items():
            lost = nw.col(name).is_null() | ~nw.col(number).str.contains(r"^\d{1,20}$")
            reason = or_else(reason, lost, f"identity column {name} is null or has no number at its end")
        return rows.with_columns(reason.alias(ERROR))

    @property
    def _numbers(self) -> dict[str, str]:
        """By identity column, the column of its number."""
        return {name: f"_number_{at}" for at, name in enumerate(self.settings.identity)}

    def _numbered(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add the number at the end of each identity column, as text."""
        return rows.with_columns(self._number(name).alias(number) for name, number in self._numbers.items())

    def _number(self, name: str) -> nw.Expr:
        text = nw.col(name).cast(nw.String)
        return text if self._is_whole(name) else text.str.replace_all(r"^.*\D", "")

    def _is_whole(self, name: str) -> bool:
        return self.settings.schema[name].name in INTEGERS

    def _placed(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add partition and place of each row that can be filed.

        One thing a step: an engine that puts one expression in the place of each mention of it would make thousands.
        """
        origin, good = nw.col(ORIGIN), nw.col(ERROR).is_null()
        of_topic = nw.when(origin.str.contains(_KAFKA)).then(origin.str.replace_all(r"@\d+$", ""))
        padded = rows.with_columns(
            of_topic.otherwise(nw.lit("")).alias(PARTITION),
            *(
                nw.concat_str([nw.lit(_ZEROS), nw.col(each)], ignore_nulls=True).alias(each)
                for each in self._numbers.values()
            ),
        )
        place = nw.concat_str(
            [nw.col(each).str.tail(_DIGITS) for each in self._numbers.values()], separator=" ", ignore_nulls=True
        )
        return padded.with_columns(nw.when(good).then(place).alias(PLACE))

    def _repeats(self, rows: nw.LazyFrame[Any], batch: Batch, snapshot: Snapshot) -> nw.LazyFrame[Any]:
        """Mark rows not beyond the newest place read of their partition, and all but the first of a place in a batch.

        Rows are taken by kind, as both images of an update have the same place.
        """
        position = nw.col(POSITION)
        # The whole numbers say nothing that the place does not say, but are sorted much faster.
        first = position.min().over(*filter(self._is_whole, self.settings.identity), PARTITION, PLACE, ROW_KIND)
        again = ~nw.col(PLACE).is_null() & (position > first)
        if batch.again:
            return rows.with_columns(again.alias(REPEAT))
        newest = snapshot.read(self.tables.places.name).select(PARTITION, nw.col(PLACE).alias(_NEWEST))
        known = rows.join(newest, on=PARTITION, how="left")
        old = (nw.col(PLACE) <= nw.col(_NEWEST)).fill_null(value=False)
        return known.with_columns((again | old).alias(REPEAT)).drop(_NEWEST)
