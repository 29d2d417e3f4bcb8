"""The range of event time for which an epoch makes ticks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
from attrs import frozen

from ...ledger.ledger import Snapshot
from ...ports import FrameEngine
from ...table.change import Between, Matching
from ...table.spec import TableSpec
from .lateness import ROUND
from .panes import PANE, WINDOW, Panes
from .tables import SO_FAR

BEGINNING = SO_FAR + 1
"""An instant before every pane."""


@frozen(eq=False)
class TickRange:
    """The panes that an epoch closes: those that end after `before`, up to and including `after`.

    Args:
        snapshot: the newest publication before the epoch.
        panes: the panes of the windows.
        before: panes that end at or before this instant have their ticks already.
        after: panes that end at or before this instant have their ticks after the epoch; at least `before`.
        late: whether the epoch has late rows that count (``late = "revise"``).
    """

    snapshot: Snapshot
    panes: Panes
    before: int
    after: int
    late: bool = False

    @property
    def may_tick(self) -> bool:
        """Whether the epoch may have to make ticks."""
        return self.late or self.after > self.before

    @property
    def windows(self) -> Between:
        """The windows that contain panes to be closed, as a range of `WINDOW`."""
        first = BEGINNING if self.before == BEGINNING else self.panes.find_window(self.before)
        return Between(first, self.after)

    def read_closing(self, table: TableSpec) -> nw.LazyFrame[Any]:
        """Read the stored rows of the panes that the epoch closes."""
        within = {WINDOW: self.windows, PANE: Between(self.before + 1, self.after)}
        return self.snapshot.read(table.name, Matching(within=within))

    def read_so_far(self, table: TableSpec, keys: nw.LazyFrame[Any] | None = None) -> nw.LazyFrame[Any]:
        """Read the sums of the panes closed before, in windows that may still be open; of `keys`, or of all."""
        return self.snapshot.read(table.name, self._match_so_far(keys))

    def look_up_so_far(
        self, table: TableSpec, asked: nw.LazyFrame[Any], keys: nw.LazyFrame[Any], columns: Mapping[str, str]
    ) -> nw.LazyFrame[Any]:
        """Add columns of these sums to rows that ask for their keys; see `TableReader.look_up`."""
        return self.snapshot.look_up(table.name, asked, self._match_so_far(keys), columns)

    def _match_so_far(self, keys: nw.LazyFrame[Any] | None) -> Matching:
        return Matching(keys, {PANE: (SO_FAR,), WINDOW: self.windows})

    def read_history(self, table: TableSpec, keys: nw.LazyFrame[Any], until: int) -> nw.LazyFrame[Any]:
        """Read the panes of `keys` that end at or before an instant, those closed long ago included."""
        return self.snapshot.read(table.name, Matching(keys, {PANE: Between(BEGINNING, until)}))

    def select_closed(self, on_time: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Select the on-time rows whose panes are closed by the epoch."""
        return on_time.filter(nw.col(PANE) <= self.after)

    def place_late(self, late: nw.LazyFrame[Any], engine: FrameEngine) -> nw.LazyFrame[Any]:
        """Move late rows to the pane that the watermark was in when they arrived: later ticks count them there.

        Rows whose window had already ended are left out, because no later tick counts them.
        """
        return self.panes.filter_open(late.with_columns(nw.col(ROUND).alias(PANE)), PANE, engine)
