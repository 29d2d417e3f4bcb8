"""Assigns each change to its day, finds duplicates, and gives each row that cannot be used its reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw

from ...epoch.batch import ERROR, Batch
from ...ledger.ledger import Snapshot
from ...ports import FrameOrder
from ...source.dead_letter import or_else
from ...table.row_kind import DELETE, ROW_KIND
from ..image_times import add_change_time
from .jumps import Jump
from .repeats import REPEAT, Repeats
from .settings import RetractionSettings

CHANGED_AT = "_changed_at"
"""The time of the change, of the type of `updated_at`."""


def assign_day(rows: nw.LazyFrame[Any], settings: RetractionSettings, engine: FrameOrder) -> nw.LazyFrame[Any]:
    """Add `CHANGED_AT`, whose day is the day of the change; a row in which it is null gets a reason in `_error`.

    The old image of an update has the time of the new image, which directly follows it.
    """
    rows = _add_time(rows, settings, engine)
    reason, no_time = nw.col(ERROR), nw.col(CHANGED_AT).is_null()
    of_delete = settings.deleted_at or settings.updated_at
    is_delete = nw.col(ROW_KIND) == DELETE
    reason = or_else(reason, no_time & is_delete, f"column {of_delete} is null, so it has no day")
    reason = or_else(reason, no_time, f"column {settings.updated_at} is null, so it has no day")
    return rows.with_columns(reason.alias(ERROR))


def _add_time(rows: nw.LazyFrame[Any], settings: RetractionSettings, engine: FrameOrder) -> nw.LazyFrame[Any]:
    kind, updated = nw.col(ROW_KIND), nw.col(settings.updated_at)
    deleted = nw.col(settings.deleted_at or settings.updated_at)
    time = nw.when(kind == DELETE).then(deleted).otherwise(updated)
    if settings.same_time:
        return rows.with_columns(time.alias(CHANGED_AT))
    return add_change_time(rows, settings.updated_at, time, engine, into=CHANGED_AT)


def deduplicate(
    rows: nw.LazyFrame[Any], repeats: Repeats, batch: Batch, snapshot: Snapshot, jumps: Sequence[Jump] = ()
) -> nw.LazyFrame[Any]:
    """Add `REPEAT`; a row without a valid value in an identity column gets a reason in `_error`.

    Args:
        rows: the batch's rows, after `assign_day`.
        repeats: finds the repeats.
        batch: the batch.
        snapshot: the latest publication.
        jumps: the rows at which a new log begins; see `Repeats.mark`.
    """
    if not repeats.settings.place_columns:
        return rows.with_columns(nw.lit(value=False).alias(REPEAT))
    numbered = repeats.add_numbers(rows)
    reason = nw.col(ERROR)
    for name in repeats.settings.identity_columns:  # with `auto`, a row without a position counts
        why = f"identity column {name} is null or has no number at its end"
        reason = or_else(reason, ~repeats.has_number(name), why)
    return repeats.mark(numbered.with_columns(reason.alias(ERROR)), batch, snapshot, jumps)
