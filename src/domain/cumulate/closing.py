"""Up to where ticks have been made, and up to where an epoch makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..change import Between, Matching
from .lateness import ROUND
from .panes import PANE, WINDOW
from .tables import SO_FAR

if TYPE_CHECKING:
    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from ..table import TableSpec
    from .panes import Panes

BEGINNING = SO_FAR + 1
"""Before any pane."""


@frozen(eq=False)
class Closing:
    """The panes that an epoch closes.

    Args:
        snapshot: the newest publication before it.
        panes: how time is cut.
        before: panes that end at or before this instant have had their ticks.
        after: those that end at or before this one have them after the epoch; not less than `before`.
        late: whether the epoch brings late rows that count.
    """

    snapshot: Snapshot
    panes: Panes
    before: int
    after: int
    late: bool = False

    @property
    def moves(self) -> bool:
        """Whether there may be ticks to make."""
        return self.late or self.after > self.before

    @property
    def windows(self) -> Between:
        """The windows that panes to be closed are in."""
        first = BEGINNING if self.before == BEGINNING else self.panes.window_of(self.before)
        return Between(first, self.after)

    def waiting(self, table: TableSpec) -> nw.LazyFrame[Any]:
        """The rows of panes that are closed now and lay open before."""
        within = {WINDOW: self.windows, PANE: Between(self.before + 1, self.after)}
        return self.snapshot.read(table.name, Matching(within=within))

    def so_far(self, table: TableSpec, keys: nw.LazyFrame[Any] | None = None) -> nw.LazyFrame[Any]:
        """What the panes closed before add up to in windows that may go on; of some keys, or of all."""
        return self.snapshot.read(table.name, Matching(keys, {PANE: (SO_FAR,), WINDOW: self.windows}))

    def history(self, table: TableSpec, keys: nw.LazyFrame[Any], until: int) -> nw.LazyFrame[Any]:
        """The panes that end at or before an instant."""
        return self.snapshot.read(table.name, Matching(keys, {PANE: Between(BEGINNING, until)}))

    def closed(self, posted: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """What a batch brings in time to panes that are closed."""
        return posted.filter(nw.col(PANE) <= self.after)

    def arrived(self, late: nw.LazyFrame[Any], engine: FrameEngine) -> nw.LazyFrame[Any]:
        """What a batch brings late, in the pane in which the watermark stood: ticks made from then on count it.

        What no tick counts any more is left out, as its window was over.
        """
        return self.panes.within(late.with_columns(nw.col(ROUND).alias(PANE)), PANE, engine)
