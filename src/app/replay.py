"""Dead letters read once more, after what was wrong with them has been put right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw
from attrs import evolve, frozen

from ..domain import dead_letter
from ..domain.change import Change
from ..domain.collect import collect_small
from ..domain.epoch import Batch, OffsetRange

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..domain.epoch import Epoch
    from ..domain.ledger import Snapshot
    from ..domain.ports import StreamSource
    from ..domain.service import Service, Step


@frozen
class Replayed:
    """What became of a pipeline's dead letters.

    Args:
        read: how many were read once more.
        rows: rows of theirs that were used.
        left: how many there are now.
        unreadable: those of them that this source cannot read again, which were left as they are.
    """

    read: int
    rows: int
    left: int
    unreadable: int


@frozen(eq=False)
class Replay:
    """The work of an epoch that reads dead letters instead of its source."""

    service: Service
    source: StreamSource
    table: str

    def count(self, snapshot: Snapshot) -> Replayed:
        """The letters as they lie there, nothing done yet."""
        by_format = snapshot.read(self.table).group_by("format").agg(nw.len().alias("letters"))
        counts = {line["format"]: line["letters"] for line in collect_small(by_format)}
        unreadable = sum(letters for name, letters in counts.items() if name not in self.source.rereads)
        return Replayed(sum(counts.values()) - unreadable, 0, sum(counts.values()), unreadable)

    def step(self, epoch: Epoch, snapshot: Snapshot) -> Step:
        """What reading the letters again does to the tables: those that fail again are all that is left of them."""
        assert snapshot.publication is not None
        letters, stand = snapshot.read(self.table), snapshot.publication.offsets
        readable = _is_one_of(self.source.rereads)
        rows = self.source.again(letters.filter(readable))
        batch = Batch(epoch, rows, OffsetRange(stand, stand), self.source.format, again=True)
        step = self.service.step(batch, snapshot)
        failed = step.changes.get(self.table, Change()).append
        kept = letters.filter(~readable)
        left = kept if failed is None else nw.concat([kept, failed.select(*dead_letter.SCHEMA.names)])
        return evolve(step, changes={**step.changes, self.table: Change(overwrite=left)})


def _is_one_of(formats: Collection[str]) -> nw.Expr:
    """Letters of these formats; one of none, from before formats were kept, is of none of them."""
    known: nw.Expr = nw.col("format").is_in(list(formats)) & ~nw.col("format").is_null()
    return known
