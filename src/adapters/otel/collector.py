"""Sends spans and metrics to a collector that speaks OTLP over HTTP."""

from __future__ import annotations

import atexit
import logging
from threading import get_ident
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import requests
from attrs import define, field
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from .instruments import SCOPE, OpenTelemetry

_log = logging.getLogger(__name__)
_CLOSE_SECONDS, _LEAST_SECONDS = 5.0, 0.001
_EXPORTERS = (OTLPSpanExporter, OTLPMetricExporter)
_ABOUT_OUTAGES = ("Transient error", "Failed to export", "Shutdown in progress")
"""How the exporters' own messages about a collector begin; see `_Session`."""


@define(eq=False)
class Collector(OpenTelemetry):
    """Sends spans and metrics to a collector, in threads of the SDK; what the collector does not take is lost.

    The SDK reads its own environment variables (``OTEL_…``), headers among them.

    Args:
        endpoint: the address of a collector that speaks OTLP over HTTP; it may contain a secret, so no message has more
            of it than its host.
        service_name: None for the one in the environment, or headwater.
    """

    endpoint: str = field(repr=False)
    service_name: str | None
    _session: _Session = field(init=False)
    _providers: tuple[Any, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        resource = Resource.create({SERVICE_NAME: self.service_name or SCOPE})
        if self.service_name is None:
            resource = resource.merge(OTELResourceDetector().detect())
        self._session = session = _Session(urlsplit(self.endpoint).hostname)
        base = self.endpoint.rstrip("/")
        spans = OTLPSpanExporter(f"{base}/v1/traces", session=session)
        values = OTLPMetricExporter(f"{base}/v1/metrics", session=session)
        tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracing.add_span_processor(BatchSpanProcessor(spans))
        reader = PeriodicExportingMetricReader(values)
        measuring = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self._tracer, self._meter = tracing.get_tracer(SCOPE), measuring.get_meter(SCOPE)
        self._providers = (tracing, measuring)
        for each in _EXPORTERS:
            logging.getLogger(each.__module__).addFilter(session.is_news)
        atexit.register(self.close)

    @property
    def takes_metrics(self) -> bool:
        return True

    def close(self) -> None:
        """Send what waits; a collector that does not answer is waited for as long as a request may take, and 5 s."""
        atexit.unregister(self.close)
        self._session.ends = monotonic() + _CLOSE_SECONDS
        for each in self._providers:
            each.shutdown()
        for exporter in _EXPORTERS:
            logging.getLogger(exporter.__module__).removeFilter(self._session.is_news)


class _Session(requests.Session):
    """Sends to a collector, and warns once when it takes nothing; the exporters would at each try, with its address.

    Args:
        host: of the collector.
    """

    def __init__(self, host: str | None) -> None:
        super().__init__()
        self.ends: float | None = None
        self._host, self._failing, self._threads = host, False, set[int]()

    def request(self, *args: Any, **more: Any) -> requests.Response:
        """See `requests.Session`. If there is an end, what fails is not tried again: its error is none of requests'."""
        self._threads.add(get_ident())
        if self.ends is not None:
            more["timeout"] = max(min(more["timeout"], self.ends - monotonic()), _LEAST_SECONDS)
        try:
            answer = super().request(*args, **more)
        except requests.RequestException as error:
            reason = type(error).__name__
            self._note(reason)
            raise (ConnectionError if self.ends else requests.ConnectionError)(reason) from None
        failed = None if str(answer.status_code).startswith("2") else f"HTTP status {answer.status_code}"
        self._note(failed)
        if failed and self.ends:
            raise ConnectionError(failed)
        return answer

    def is_news(self, record: logging.LogRecord) -> bool:
        """Whether an exporter's message is about something that is not reported here."""
        return record.thread not in self._threads or not str(record.msg).startswith(_ABOUT_OUTAGES)

    def _note(self, failed: str | None) -> None:
        if failed and not self._failing:
            _log.warning("the collector at %s takes no traces and metrics: %s; they are lost", self._host, failed)
        elif self._failing and not failed:
            _log.info("the collector at %s takes traces and metrics again", self._host)
        self._failing = failed is not None
