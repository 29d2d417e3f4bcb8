"""The watermarks of a pipeline after an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from ...domain.epoch.epoch import Publication
from ...domain.epoch.watermark import advance, advance_group, advance_topics
from ...domain.service.base import Step


def watermarks_after(
    step: Step, before: Publication | None, delay: timedelta
) -> tuple[datetime | None, Mapping[str, datetime] | None]:
    """The watermark after a step, and those of its topics if it has several.

    Args:
        step: of the epoch.
        before: the publication before the epoch.
        delay: how late rows may be.
    """
    so_far = before.watermark if before else None
    if step.watermarks is None:
        newest, delay = (step.watermark, timedelta()) if step.watermark else (step.newest, delay)
        return advance(so_far, newest, delay), None
    reached = advance_topics(before.watermarks if before else {}, step.watermarks)
    return advance_group(so_far, step.watermarks, reached), reached
