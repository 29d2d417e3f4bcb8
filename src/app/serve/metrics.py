"""The metrics of a deployment, as Prometheus reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.metrics_core import Metric

    from ..read.status import PipelineStatus

_LABELS = ("pipeline",)


def metrics_text(status: Iterable[PipelineStatus]) -> bytes:
    """The metrics of pipelines, in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Pipelines(tuple(status)))
    return generate_latest(registry)


class _Pipelines(Collector):
    """One value of each metric for each pipeline that has it."""

    def __init__(self, status: tuple[PipelineStatus, ...]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        for name, about, value in _GAUGES:
            yield self._family(GaugeMetricFamily(f"headwater_{name}", about, labels=_LABELS), value)
        for name, about, value in _COUNTERS:
            yield self._family(CounterMetricFamily(f"headwater_{name}", about, labels=_LABELS), value)

    def _family(
        self, family: GaugeMetricFamily | CounterMetricFamily, value: Callable[[PipelineStatus], float | None]
    ) -> Metric:
        for each in self._status:
            if (found := value(each)) is not None:
                family.add_metric([each.pipeline], found)
        return family


def _epoch(found: PipelineStatus) -> float | None:
    return found.publication.epoch.number if found.publication else None


def _published(found: PipelineStatus) -> float | None:
    return found.publication.published_at.timestamp() if found.publication else None


def _watermark(found: PipelineStatus) -> float | None:
    mark = found.publication.watermark if found.publication else None
    return mark.timestamp() if mark else None


def _latency(found: PipelineStatus) -> float | None:
    measured = found.latency.measured
    return measured.most.total_seconds() if measured else None


def _rows(found: PipelineStatus) -> float | None:
    tally = found.publication.tally if found.publication else None
    return tally.rows if tally else None


_GAUGES = (
    ("epoch", "Number of the newest published epoch.", _epoch),
    ("published_timestamp_seconds", "Time of the newest publication.", _published),
    ("watermark_timestamp_seconds", "Event time up to which the input is considered complete.", _watermark),
    ("latency_seconds", "The longest time from the start of an epoch to its publication, of the last ones.", _latency),
    ("dead_letters", "Records that could not be used and are kept.", lambda found: found.dead_letters),
    ("alarms", "Problems that need an operator.", lambda found: len(found.alarms)),
)
_COUNTERS = (
    ("rows", "Rows read since the first epoch.", _rows),
    ("repeats", "Rows skipped because they had been read before.", lambda found: found.repeats),
)
