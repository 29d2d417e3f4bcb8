"""The leases of a move: what is to be copied stays readable until its turn has come, whatever a run expires."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta

from attrs import define, evolve, field, frozen

from ...domain.epoch.epoch import Publication
from ...domain.errors import StoreUnavailable, VersionExpired, first_line
from ...domain.ledger.ledger import Snapshot
from ...domain.ledger.upkeep import Pin, Upkeep
from .inputs import HOLD
from .runner import Runner

_log = logging.getLogger(__name__)
_LEFT = HOLD - timedelta(hours=1)
"""What is left of a lease at least when the copy of a table begins; longer than that takes."""
_TRIES = 5


@frozen(eq=False)
class _Held:
    """What keeps a publication that is to be copied; `pin` is None if its store cannot be written."""

    upkeep: Upkeep
    pin: Pin | None


@define(eq=False)
class MoveLeases:
    """The leases of a move on the publications that it copies, until `close`.

    Args:
        holder: identifies the move; another try of the same move has the same.
    """

    holder: str
    _held: dict[str, _Held] = field(init=False, factory=dict)

    def pin_newest(self, source: Runner) -> Snapshot:
        """Lease the newest publication of a pipeline, which has one, and return its tables.

        If the store cannot be written, they are returned without a lease, with a warning.

        Raises:
            VersionExpired: a run publishes and expires faster than a lease is written.
        """
        for _ in range(_TRIES - 1):
            with suppress(VersionExpired):  # a run has published a newer one
                return self._pin_newest(source)
        return self._pin_newest(source)

    def _pin_newest(self, source: Runner) -> Snapshot:
        with source.engine.working():
            ledger = source.current_ledger()
            snapshot = ledger.snapshot()
            assert snapshot.publication is not None
            upkeep = Upkeep(ledger, source.keeper, source.options.retention)
            pin = self._pin(upkeep, snapshot.publication)
        self._held[source.pipeline] = _Held(upkeep, pin)
        return snapshot

    def _pin(self, upkeep: Upkeep, publication: Publication) -> Pin | None:
        try:
            return upkeep.pin(publication, self.holder, HOLD)
        except StoreUnavailable as error:
            _log.warning(
                "%s: no lease keeps epoch %d while it is copied, because the tables cannot be written: %s. If a run of"
                " this pipeline goes on with `retain`, the epoch may expire before it is copied; then stop that run,"
                " and move again",
                publication.epoch.pipeline,
                publication.epoch.number,
                first_line(error),
            )
            return None

    def renew(self) -> None:
        """Replace the leases that may end before the next table is copied."""
        for pipeline, held in self._held.items():
            if held.pin and held.pin.left(held.upkeep.ledger.clock.now()) < _LEFT:
                with suppress(StoreUnavailable):  # the lease still holds, and the next table renews it
                    new = held.upkeep.pin(held.pin.publication, self.holder, HOLD)
                    self._held[pipeline] = evolve(held, pin=new)
                    held.pin.release()

    def release(self, pipeline: str) -> None:
        """Release the leases on a pipeline that is copied, also those that earlier tries have left."""
        held = self._held.pop(pipeline)
        with suppress(StoreUnavailable):  # they end by themselves
            held.upkeep.release(self.holder, keep=())

    def close(self) -> None:
        """Release all leases of this try."""
        while self._held:
            _, held = self._held.popitem()
            if held.pin:
                with suppress(StoreUnavailable):  # they end by themselves
                    held.pin.release()
