"""Reports the epochs of a process, and the metrics of its pipelines, to OpenTelemetry."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic, time_ns
from typing import TYPE_CHECKING

from attrs import define, field

from ...domain.errors import EngineLimit, HeadwaterError, add_place
from ..deployment.deployment import TelemetrySettings
from ..read.metrics import LABEL, METRICS
from ..read.status import PipelineStatus
from ..registry.packages import not_installed
from .report import Phases

if TYPE_CHECKING:
    from ...adapters.otel.instruments import OpenTelemetry, Operation

_log = logging.getLogger(__name__)


@define(eq=False)
class Telemetry:
    """Makes a span of each epoch, and looks at the metrics now and then; it is off, and imports nothing, if neither the
    settings nor the program use OpenTelemetry.

    Args:
        settings: where spans and metrics go.
        engine: the engine of the deployment, for epochs for which none is chosen.
        status: reads the status of pipelines.
    """

    settings: TelemetrySettings
    engine: str
    status: Callable[[Collection[str]], Iterable[PipelineStatus]]
    _sender: OpenTelemetry | None = field(init=False, default=None)
    _pipelines: dict[str, None] = field(init=False, factory=dict)
    _looked: float | None = field(init=False, default=None)

    @contextmanager
    def watch(self, pipeline: str, engine: str | None, task: str | None = None) -> Iterator[Phases]:
        """See `EpochWatch`; a span is made when the epoch has ended, so that polls of an idle source make none.

        Raises:
            NotInstalled: the settings need packages that are not installed.
        """
        sender, phases = self._open(), Phases()
        self._pipelines[pipeline] = None
        about = {"headwater.pipeline": pipeline, "headwater.engine": engine or self.engine, "headwater.task": task}
        try:
            yield phases
        except Exception as error:
            if sender:
                sender.record(_operation(phases, about, error))
            raise
        if sender and phases.report:
            sender.record(_operation(phases, about))

    def look(self, *, now: bool = False) -> None:
        """Look at the metrics of the pipelines that have been run, if it is time to, or now."""
        sender, every = self._open(), self.settings.metrics_every.total_seconds()
        due = now or self._looked is None or monotonic() - self._looked >= every
        if sender is None or not due or not sender.takes_metrics:
            return
        try:
            found = tuple(self.status(self._pipelines))
        except HeadwaterError as error:
            _log.warning("the metrics cannot be read: %s", error)
            found = ()
        self._looked = monotonic()
        for metric in METRICS:
            set_value = sender.set_counter if metric.counter else sender.set_gauge
            for status in found:
                if (value := metric.value(status)) is not None:
                    set_value(metric.name, metric.about, value, {LABEL: status.pipeline})

    def close(self) -> None:
        """Send what waits, if it is sent from here."""
        if self._sender:
            self._sender.close()
            self._sender = None

    def _open(self) -> OpenTelemetry | None:
        if self._sender is None and self.settings.endpoint:
            try:
                from ...adapters.otel.collector import Collector
            except ModuleNotFoundError as error:
                with add_place("telemetry.endpoint"):
                    raise not_installed(error.name or "opentelemetry", "otel") from error
            self._sender = Collector(self.settings.endpoint, self.settings.service_name)
        elif self._sender is None and "opentelemetry.trace" in sys.modules:
            from ...adapters.otel.instruments import OpenTelemetry

            self._sender = OpenTelemetry()
        return self._sender


def _operation(phases: Phases, about: dict[str, str | None], error: Exception | None = None) -> Operation:
    from ...adapters.otel.instruments import Operation

    attributes: dict[str, str | int | None] = {**about, "headwater.epoch": phases.epoch}
    if report := phases.report:
        attributes |= {
            "headwater.rows": report.rows,
            "headwater.dead_letters": report.dead_letters,
            "headwater.repeats": report.repeats,
            "headwater.written": report.written,
        }
        attributes["headwater.task"] = report.task or about["headwater.task"]
    if isinstance(error, EngineLimit):  # the other engine does it
        attributes["headwater.handed_over"], error = str(error), None
    known = {name: value for name, value in attributes.items() if value is not None}
    inner = [Operation(name, began, ended) for name, began, ended in phases.times]
    return Operation("epoch", phases.began, max([time_ns(), *(each.ended for each in inner)]), known, inner, error)
