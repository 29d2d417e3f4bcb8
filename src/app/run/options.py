"""How a pipeline is run."""

from __future__ import annotations

from datetime import timedelta

from attrs import field, frozen

from ...domain.ledger.retention import Retention
from ...domain.source import dead_letter
from .backoff import Backoff


@frozen
class RunOptions:
    """How a pipeline is run.

    Args:
        materialize: views that are also stored as plain tables.
        watermark_delay: how late rows may be.
        idle_after: after this much silence the watermark advances with the clock, staying
            `idle_after + watermark_delay` behind it; None for never.
        compact_every: number of epochs between compaction checks; 0 for never.
        retention: which old versions are kept.
        expire_every: number of epochs between expiries; 0 for never.
        poll: the wait before an idle source is read again.
        retries: the number of retries after a transient fault.
        backoff: the waits before retries.
        place: file and line of the pipeline's settings, for messages.
        source_place: file and line of its source's settings, for messages; empty if it has several sources.
        dead_letter_limit: the run warns of an epoch in which more rows than this are dead letters.
        dead_letter_stop: the run stops if the pipeline's first rows, at least this many, are all dead letters; 0 for
            never.
        beside: whether a run does upkeep and publishes beside its epochs, if the backend can; else between them.
    """

    materialize: tuple[str, ...] = ()
    watermark_delay: timedelta = timedelta()
    idle_after: timedelta | None = None
    compact_every: int = 16
    retention: Retention = field(factory=Retention)
    expire_every: int = 0
    poll: timedelta = timedelta(seconds=1)
    retries: int = 5
    backoff: Backoff = field(factory=Backoff)
    place: str = ""
    source_place: str = ""
    dead_letter_limit: dead_letter.Limit = dead_letter.USUAL_LIMIT
    dead_letter_stop: int = 1000
    beside: bool = True
