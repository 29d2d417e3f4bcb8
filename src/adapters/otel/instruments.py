"""Makes spans of operations, and metrics of values, by the API of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from attrs import define, field, frozen
from opentelemetry import metrics, trace

SCOPE = "headwater"
_counted: WeakKeyDictionary[metrics.Counter, dict[tuple[str, ...], float]] = WeakKeyDictionary()
"""The value of each counter, by its labels: all who ask a meter for a counter get the same one."""


@frozen(eq=False)
class Operation:
    """What was done from one time to another, in nanoseconds since 1970 (UTC).

    Args:
        name, began, ended: of the operation.
        attributes: what else is known of it.
        inner: operations that were parts of it.
        error: what it failed with, if it failed.
    """

    name: str
    began: int
    ended: int
    attributes: Mapping[str, str | int] = field(factory=dict)
    inner: Sequence[Operation] = ()
    error: Exception | None = None


@define(eq=False)
class OpenTelemetry:
    """Makes spans and metrics by the providers of the program, which also sends them."""

    _tracer: trace.Tracer = field(init=False)
    _meter: metrics.Meter = field(init=False)
    _instruments: dict[str, Any] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._tracer = trace.get_tracer_provider().get_tracer(SCOPE)
        self._meter = metrics.get_meter_provider().get_meter(SCOPE)

    @property
    def takes_metrics(self) -> bool:
        """Whether metrics go anywhere: those of the API itself do not, as long as the program has set no provider."""
        return not type(metrics.get_meter_provider()).__module__.startswith("opentelemetry.metrics")

    def record(self, operation: Operation) -> None:
        """Make a span of an operation that has ended, and of each of its parts, below the current span."""
        self._record(operation, None)

    def _record(self, operation: Operation, parent: Any) -> None:
        attributes = dict(operation.attributes)
        span = self._tracer.start_span(operation.name, parent, start_time=operation.began, attributes=attributes)
        inside = trace.set_span_in_context(span)
        for each in operation.inner:
            self._record(each, inside)
        if operation.error is not None:
            span.record_exception(operation.error, timestamp=operation.ended)
            span.set_status(trace.StatusCode.ERROR, f"{type(operation.error).__name__}: {operation.error}")
        span.end(operation.ended)

    def set_gauge(self, name: str, about: str, value: float, labels: Mapping[str, str]) -> None:
        """Set a value that may grow and shrink."""
        self._made(self._meter.create_gauge, name, about).set(value, labels)

    def set_counter(self, name: str, about: str, value: float, labels: Mapping[str, str]) -> None:
        """Set a value that only grows."""
        counter = self._made(self._meter.create_counter, name, about)
        counted, key = _counted.setdefault(counter, {}), tuple(labels.values())
        if (more := value - counted.get(key, 0)) > 0:
            counter.add(more, labels)
            counted[key] = value

    def _made(self, make: Callable[..., Any], name: str, about: str) -> Any:
        """An instrument; each is made once."""
        if name not in self._instruments:
            self._instruments[name] = make(name, "s" if name.endswith("_seconds") else "", about)
        return self._instruments[name]

    def close(self) -> None:
        """End; the providers belong to the program."""
