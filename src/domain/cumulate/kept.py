"""What a measure keeps by pane, under a name within its group, beside the sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..change import Change
from ..merge import Max
from .closing import BEGINNING
from .lateness import ROUND
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

_EARLIER, _KNOWN_IN = "_earlier", "_known_in"


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

    @property
    def of(self) -> dict[str, Callable[[str], nw.Expr]]:
        """What is made of the amount of each name and adds up by group, by column of `CumulateTables.added`."""
        return {}

    @property
    def sums(self) -> tuple[str, ...]:
        """These columns."""
        return tuple(self.of)

    def folded(self, rows: nw.LazyFrame[Any], *by: str) -> nw.LazyFrame[Any]:
        """What rows of the table come to together."""
        amount = nw.col(self.amount)
        return rows.group_by(*by).agg(amount.sum() if self.adds_up else amount.max())

    def moved(self, posted: nw.LazyFrame[Any], late: nw.LazyFrame[Any] | None, closing: Closing) -> nw.LazyFrame[Any]:
        """What is kept of the panes that are closed now; what comes late counts where the watermark stood."""
        parts = [closing.waiting(self.table), closing.closed(posted)]
        if late is not None:
            parts.append(closing.arrived(late, self.engine))
        together = nw.concat([part.select(*self.table.key, self.amount) for part in parts])
        return self.engine.persist(self.folded(together, *self.table.key))

    def change(self, posted: nw.LazyFrame[Any], late: nw.LazyFrame[Any] | None, moved: nw.LazyFrame[Any]) -> Change:
        """What the epoch does to the table."""
        *named, _pane = self.table.key
        closed = self.folded(moved, *named).with_columns(nw.lit(SO_FAR).cast(nw.Int64).alias(PANE))
        parts = [each for each in (posted, late, closed) if each is not None]
        return Change(merge=nw.concat([part.select(*self.table.key, self.amount) for part in parts]))

    def running(self, moved: nw.LazyFrame[Any], closing: Closing) -> nw.LazyFrame[Any]:
        """What each name has come to by the end of each pane that counts: the key, `OLD` and `NEW`."""
        *named, _pane = self.table.key
        none, amount = nw.lit(0).cast(nw.Int64), nw.col(self.amount)
        known = closing.so_far(self.table, moved.select(*named).unique())
        known = known.select(*self.table.key, amount.alias(OLD), none.alias(NEW))
        new = moved.select(*self.table.key, none.alias(OLD), amount.alias(NEW))
        both, sides = nw.concat([known, new]), (OLD, NEW)
        if self.adds_up:
            both = both.group_by(*self.table.key).agg(nw.col(each).sum() for each in sides)
            both = both.with_columns((nw.col(OLD) + nw.col(NEW)).alias(NEW))
            return both.with_columns(nw.col(each).cum_sum().over(*named, order_by=PANE) for each in sides)
        both = both.group_by(*self.table.key).agg(nw.col(each).max() for each in sides)
        both = both.with_columns(nw.max_horizontal(nw.col(OLD), nw.col(NEW)).alias(NEW))
        return both.with_columns(nw.col(each).cum_max().over(*named, order_by=PANE) for each in sides)

    def rounds(
        self, names: nw.LazyFrame[Any], posted: nw.LazyFrame[Any], late: nw.LazyFrame[Any] | None, closing: Closing
    ) -> nw.LazyFrame[Any]:
        """What some names have come to by the end of each of their panes, as known in each round.

        Args:
            names: columns of `table.key` that name, or those of groups.
            posted: what the batch brings in time.
            late: what it brings late, with `ROUND`.
            closing: the panes that are closed.

        Returns:
            The key, `ROUND` and what is kept. Each round in which a name came late has all its panes; what came in
            time, or in epochs before, is known in round `BEGINNING`.
        """
        *named, _pane = self.table.key
        on, amount = names.collect_schema().names(), nw.col(self.amount)
        stored = closing.history(self.table, names, closing.after)
        parts = [stored, closing.closed(posted).join(names, on=on, how="semi")]
        first = nw.lit(BEGINNING).cast(nw.Int64).alias(ROUND)
        cells = nw.concat([part.select(*self.table.key, first, self.amount) for part in parts])
        if late is not None:
            later = late.join(names, on=on, how="semi")
            cells = nw.concat([cells, later.select(*self.table.key, ROUND, self.amount)])
            known = cells.select(*named, nw.col(ROUND).alias(_KNOWN_IN))
            known = nw.concat([known, known.with_columns(first.alias(_KNOWN_IN))]).unique()
            cells = cells.join(known, on=named, how="inner")
            counts = nw.when(nw.col(ROUND) <= nw.col(_KNOWN_IN)).then(amount).otherwise(0)
            cells = cells.select(*self.table.key, nw.col(_KNOWN_IN).alias(ROUND), counts.alias(self.amount))
        cells = self.folded(cells, *self.table.key, ROUND)
        running = amount.cum_sum() if self.adds_up else amount.cum_max()
        return cells.with_columns(running.over(*named, ROUND, order_by=PANE).alias(self.amount))

    def late(self, posted: nw.LazyFrame[Any], late: nw.LazyFrame[Any], closing: Closing) -> nw.LazyFrame[Any]:
        """By how much late rows change the `sums` of groups in each round, from each pane on.

        Args:
            posted: what the batch brings in time.
            late: what it brings late.
            closing: the panes that are closed.

        Returns:
            The group, `PANE`, `ROUND` and `sums`.
        """
        *named, _pane = self.table.key
        amount = nw.col(self.amount)
        known = self.rounds(late.select(*named).unique(), posted, late, closing)
        before = amount.shift(1).over(*named, PANE, order_by=ROUND)
        known = known.with_columns(amount.alias(NEW), before.alias(OLD)).filter(nw.col(ROUND) > BEGINNING)
        changed = effects(known, self.of, [*named, ROUND])
        changed = changed.filter(nw.any_horizontal(*(nw.col(into) != 0 for into in self.of), ignore_nulls=False))
        return changed.group_by(*self.group, PANE, ROUND).agg(nw.col(into).sum() for into in self.of)


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
