"""The metrics of a deployment, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from ..read.metrics import LABEL, METRICS
from ..read.status import PipelineStatus

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


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
        for each in METRICS:
            family = (CounterMetricFamily if each.counter else GaugeMetricFamily)(
                each.name, each.about, labels=(LABEL,)
            )
            for status in self._status:
                if (found := each.value(status)) is not None:
                    family.add_metric([status.pipeline], found)
            yield family
