"""Moving a pipeline: its tables at one publication, copied to another store, which goes on from its offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..domain.change import Change
from ..domain.errors import NotSupported

if TYPE_CHECKING:
    from ..domain.epoch import Publication
    from .runner import Runner


def move(source: Runner, target: Runner) -> Publication | None:
    """Copy a pipeline as of its newest publication; None if it has none, and there is nothing to copy.

    The source is only read, and may go on. What was copied by a try that was cut off is recognised. Versions from
    before stay behind.

    Raises:
        ConfigError: the target holds publications of the pipeline already.
        NotSupported: the target's engine cannot take the frames of the source's.
    """
    published = source.ledger.latest
    if published is None:
        return None
    if type(source.engine) is not type(target.engine):
        raise NotSupported("moving", "a store on another engine", "run the pipeline there from the beginning instead")
    snapshot = source.ledger.snapshot(published)
    # A view that is to be kept from now on has no version yet: the target's own first epoch fills it.
    ledger = target.open_ledger([spec for spec in target.tables if snapshot.version(spec.name) is not None])
    ledger.adopt(published)
    *others, anchor = ledger.tables
    for table in others:
        ledger.commit(table, Change(overwrite=snapshot.read(table)))
    whole = Change(overwrite=snapshot.read(anchor))
    return ledger.publish(whole, published.watermark, published.watermarks, published.tally)
