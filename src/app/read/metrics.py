"""The metrics of a pipeline: Prometheus and OpenTelemetry show the same ones."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from .status import PipelineStatus

LABEL = "pipeline"
"""The label of each value."""


@frozen
class Metric:
    """One metric of each pipeline.

    Args:
        name: begins with ``headwater_``; a unit is its last word.
        about: what it says, for display.
        value: reads it from a status; None if a pipeline has none.
        counter: whether it only grows; Prometheus adds ``_total`` to the name of a counter.
    """

    name: str
    about: str
    value: Callable[[PipelineStatus], float | None]
    counter: bool = False


def _epoch(found: PipelineStatus) -> float | None:
    return found.publication.epoch.number if found.publication else None


def _published(found: PipelineStatus) -> float | None:
    return found.publication.published_at.timestamp() if found.publication else None


def _watermark(found: PipelineStatus) -> float | None:
    return found.complete_to.timestamp() if found.complete_to else None


def _latency(found: PipelineStatus) -> float | None:
    measured = found.latency.measured
    return measured.most.total_seconds() if measured else None


def _rows(found: PipelineStatus) -> float | None:
    tally = found.publication.tally if found.publication else None
    return tally.rows if tally else None


METRICS = (
    Metric("headwater_epoch", "Number of the newest published epoch.", _epoch),
    Metric("headwater_published_timestamp_seconds", "Time of the newest publication.", _published),
    Metric(
        "headwater_watermark_timestamp_seconds", "Event time up to which the input is considered complete.", _watermark
    ),
    Metric(
        "headwater_latency_seconds",
        "The longest time from the start of an epoch to its publication, of the last ones.",
        _latency,
    ),
    Metric("headwater_dead_letters", "Records that could not be used and are kept.", lambda found: found.dead_letters),
    Metric("headwater_alarms", "Problems that need an operator.", lambda found: len(found.alarms)),
    Metric("headwater_rows", "Rows read since the first epoch.", _rows, counter=True),
    Metric(
        "headwater_repeats",
        "Rows skipped because they had been read before.",
        lambda found: found.repeats,
        counter=True,
    ),
)
