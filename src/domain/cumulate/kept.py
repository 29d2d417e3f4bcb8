"""What a measure keeps by pane, under a name within its group, beside the sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..change import Change
from ..merge import Max
from .panes import PANE
from .tables import SO_FAR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..measures import Measure
    from ..ports import FrameEngine
    from ..table import TableSpec
    from .closing import Closing

OLD, NEW = "_old", "_new"
"""What a name had come to by the end of a pane: before the epoch, and with it."""

_EARLIER = "_earlier"


@frozen(eq=False)
class Kept:
    """What one measure keeps in all groups.

    Args:
        measure: which.
        table: its key is the group, a name within it and the pane; one more column adds up or is the greatest, as the
            table's merge rule says.
        engine: of the frames.
    """

    measure: Measure
    table: TableSpec
    engine: FrameEngine

    @property
    def group(self) -> tuple[str, ...]:
        """The columns that name a group."""
        return self.table.key[:-2]

    @property
    def amount(self) -> str:
        """The column that is kept."""
        return self.table.schema.names[-1]

    @property
    def adds_up(self) -> bool:
        """Whether what is kept of several panes is their sum; else their greatest."""
        return not isinstance(self.table.rules[self.amount], Max)

    def folded(self, rows: nw.LazyFrame[Any], *by: str) -> nw.LazyFrame[Any]:
        """What rows of the table come to together."""
        amount = nw.col(self.amount)
        return rows.group_by(*by).agg(amount.sum() if self.adds_up else amount.max())

    def moved(self, posted: nw.LazyFrame[Any], closing: Closing) -> nw.LazyFrame[Any]:
        """What is kept of the panes that are closed now, and what comes late to others."""
        parts = [closing.waiting(self.table), closing.closed(posted)]
        together = nw.concat([part.select(*self.table.key, self.amount) for part in parts])
        return self.engine.persist(self.folded(together, *self.table.key))

    def change(self, posted: nw.LazyFrame[Any], moved: nw.LazyFrame[Any]) -> Change:
        """What the epoch does to the table."""
        *named, _pane = self.table.key
        closed = self.folded(moved, *named).with_columns(nw.lit(SO_FAR).cast(nw.Int64).alias(PANE))
        return Change(merge=nw.concat([part.select(*self.table.key, self.amount) for part in (posted, closed)]))

    def running(self, moved: nw.LazyFrame[Any], closing: Closing) -> nw.LazyFrame[Any]:
        """What each name has come to by the end of each pane that counts: the key, `OLD` and `NEW`."""
        *named, _pane = self.table.key
        none, amount = nw.lit(0).cast(nw.Int64), nw.col(self.amount)
        known = self._known(moved, closing).select(*self.table.key, amount.alias(OLD), none.alias(NEW))
        new = moved.select(*self.table.key, none.alias(OLD), amount.alias(NEW))
        both, sides = nw.concat([known, new]), (OLD, NEW)
        if self.adds_up:
            both = both.group_by(*self.table.key).agg(nw.col(each).sum() for each in sides)
            both = both.with_columns((nw.col(OLD) + nw.col(NEW)).alias(NEW))
            return both.with_columns(nw.col(each).cum_sum().over(*named, order_by=PANE) for each in sides)
        both = both.group_by(*self.table.key).agg(nw.col(each).max() for each in sides)
        both = both.with_columns(nw.max_horizontal(nw.col(OLD), nw.col(NEW)).alias(NEW))
        return both.with_columns(nw.col(each).cum_max().over(*named, order_by=PANE) for each in sides)

    def _known(self, moved: nw.LazyFrame[Any], closing: Closing) -> nw.LazyFrame[Any]:
        """What was known of the names before: of those with late rows by pane, of all others in one."""
        *named, _pane = self.table.key
        keys = moved.select(*named).unique()
        if not closing.late:
            return closing.so_far(self.table, keys)
        late = self.engine.persist(moved.filter(nw.col(PANE) <= closing.before).select(*named).unique())
        others = keys.join(late, on=named, how="anti")
        parts = [closing.history(self.table, late, closing.before), closing.so_far(self.table, others)]
        return nw.concat([part.select(*self.table.key, self.amount) for part in parts])


def effects(
    running: nw.LazyFrame[Any], of: Mapping[str, Callable[[str], nw.Expr]], named: Sequence[str]
) -> nw.LazyFrame[Any]:
    """Add by how much the epoch changes something about a name, from each pane on.

    Args:
        running: as `Kept.running` gives it.
        of: by the column that takes the change, what is made of `OLD` and of `NEW`.
        named: the columns that name.
    """
    for into, made in of.items():
        running = running.with_columns((made(NEW) - made(OLD)).alias(into))
        running = running.with_columns(nw.col(into).shift(1).over(*named, order_by=PANE).alias(_EARLIER))
        running = running.with_columns((nw.col(into) - nw.col(_EARLIER).fill_null(0)).alias(into)).drop(_EARLIER)
    return running
