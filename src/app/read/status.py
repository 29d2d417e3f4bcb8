"""The status of a pipeline, as programs and commands see it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from attrs import field, frozen

from ...domain.epoch.epoch import Publication
from ...domain.errors import HeadwaterError
from ...domain.service.base import PendingRows
from .latency import Latency


@frozen
class PipelineStatus:
    """The status of a pipeline.

    Args:
        pipeline: its name.
        publication: the newest one; None if nothing is published yet, or it cannot be read.
        lag: the unread input of the source, as text, or why it is unknown; None if the status cannot be read, and of a
            source that a program feeds.
        dead_letters: their number; None if the status cannot be read.
        latency: expected and measured time until a record can be read.
        bookkeeping: rows that are stored only for a time (`Service.bookkeeping`).
        alarms: problems, each with its reason.
        repeats: rows that were skipped because they had been read before; None if the service never skips rows.
        engine: the engine that ran the newest epoch, if the deployment chooses one for each epoch.
        complete_to: the event time (UTC) up to which the input of the newest publication was complete; None if it has
            no watermark.
        error: why the status cannot be read, which is its only alarm then; None if it can.
    """

    pipeline: str
    publication: Publication | None
    lag: str | None
    dead_letters: int | None
    latency: Latency
    bookkeeping: Mapping[str, PendingRows] = field(factory=dict)
    alarms: tuple[str, ...] = ()
    repeats: int | None = None
    engine: str | None = None
    complete_to: datetime | None = None
    error: HeadwaterError | None = None
