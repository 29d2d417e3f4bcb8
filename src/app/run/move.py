"""Moves a pipeline: copies its tables as of one publication to another store, which resumes from its offsets."""

from __future__ import annotations

from ...domain.epoch.epoch import Publication
from ...domain.errors import NotSupported
from ...domain.table.change import Change
from .runner import Runner


def move(source: Runner, target: Runner) -> Publication | None:
    """Copy a pipeline as of its newest publication, and return the copy; None if nothing is published yet.

    The source is only read, and may keep running. A copy that was interrupted is resumed. Older versions are not
    copied.

    Raises:
        ConfigError: the target already has publications of the pipeline.
        NotSupported: the target's engine cannot read the frames of the source's engine.
    """
    with source.engine.working():
        return _move(source, target)


def _move(source: Runner, target: Runner) -> Publication | None:
    published = source.ledger.latest
    if published is None:
        return None
    if type(source.engine) is not type(target.engine):
        raise NotSupported("moving", "a store on another engine", "run the pipeline there from the beginning instead")
    snapshot = source.ledger.snapshot(published)
    # A view that was materialized only now has no version yet: the target's first epoch fills its table.
    ledger = target.open_ledger([spec for spec in target.tables if snapshot.version(spec.name) is not None])
    ledger.adopt(published)
    *others, anchor = ledger.tables
    for table in others:
        ledger.commit(table, Change(overwrite=snapshot.read(table)))
    whole = Change(overwrite=snapshot.read(anchor))
    return ledger.publish(whole, published.watermark, published.watermarks, published.tally)
