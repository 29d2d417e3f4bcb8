"""Traces and metrics of OpenTelemetry: made by the providers of a program, or received from a run over HTTP."""

from __future__ import annotations

import gzip
import logging
import subprocess
import sys
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from opentelemetry import metrics, trace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from headwater import EpochReport, Headwater, TelemetrySettings
from headwater.app.read.metrics import METRICS
from headwater.app.run.telemetry import Telemetry
from headwater.app.serve.metrics import metrics_text
from headwater.domain.errors import BadInput, ConfigError, EngineLimit, HeadwaterError, NotInstalled, with_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

ORDER = '{"id": %d, "at": "2024-03-01T09:0%d:00Z"}\n'


class Program:
    """A program with providers of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spans, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracing = TracerProvider()
        self.tracing.add_span_processor(SimpleSpanProcessor(self.spans))
        measuring = MeterProvider([self.reader])
        # The API lets a program set its providers only once.
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: self.tracing)
        monkeypatch.setattr(metrics, "get_meter_provider", lambda: measuring)

    def take(self) -> list[ReadableSpan]:
        """The spans that have ended since the last call, by their beginnings."""
        found = sorted(
            self.spans.get_finished_spans(), key=lambda span: (span.start_time or 0, span.parent is not None)
        )
        self.spans.clear()
        return found

    def values(self) -> dict[tuple[str, str], float]:
        """The metrics, by name and pipeline."""
        data: Any = self.reader.get_metrics_data()
        assert data.resource_metrics[0].scope_metrics[0].scope.name == "headwater"
        return {
            (metric.name, point.attributes["pipeline"]): point.value
            for metric in data.resource_metrics[0].scope_metrics[0].metrics
            for point in metric.data.data_points
        }


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(monkeypatch)


def orders(headwater: Headwater, folder: Path) -> Headwater:
    headwater.files("orders", folder, schema="id bigint, at timestamp", event_time="at")
    headwater.cumulate("curve", source="orders", step="1m", measures={"n": "count(*)"})
    return headwater


def about(span: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("headwater."): value for name, value in (span.attributes or {}).items()}


class TestProvidersOfTheProgram:
    def test_an_epoch_is_a_span_and_its_phases_are_below_it(self, program: Program, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text(ORDER % (1, 0) + '{"id": "x"}\n')
        reports: list[EpochReport] = []
        with (
            orders(Headwater(run={"dead_letter_stop": 0}, report=reports.append), tmp_path) as headwater,
            program.tracing.get_tracer("program").start_as_current_span("job"),
        ):
            headwater.run(until_idle=True)
        (report,) = reports
        job, epoch, *phases = program.take()
        assert (job.name, epoch.name, epoch.parent) == ("job", "epoch", job.context)
        assert about(epoch) == {
            "pipeline": "curve",
            "engine": "memory",
            "epoch": 0,
            "rows": 2,
            "dead_letters": 1,
            "repeats": 0,
            "written": report.written,
        }
        assert [phase.name for phase in phases[:3]] == ["read", "read", "step"]
        assert {phase.name for phase in phases} == set(report.seconds)
        assert all(phase.parent == epoch.context for phase in phases)
        assert all(epoch.start_time <= phase.start_time <= phase.end_time <= epoch.end_time for phase in phases)  # type: ignore[operator]
        assert epoch.status.is_unset

    def test_an_epoch_that_fails_has_its_exception_and_an_idle_poll_makes_no_span(
        self, program: Program, tmp_path: Path
    ) -> None:
        with orders(Headwater(run={"dead_letter_stop": 1}), tmp_path) as headwater:
            headwater.run(until_idle=True)
            assert program.take() == []
            (tmp_path / "a.json").write_text('{"id": "x"}\n')
            with pytest.raises(BadInput):
                headwater.run(until_idle=True)
        epoch, *phases = program.take()
        assert (about(epoch), [phase.name for phase in phases]) == (
            {"pipeline": "curve", "engine": "memory", "epoch": 0},
            ["read", "read", "step"],
        )
        assert not epoch.status.is_ok
        assert (epoch.status.description or "").startswith("BadInput: pipeline 'curve': the first 1 rows")
        (event,) = epoch.events
        assert (event.attributes or {})["exception.type"] == "headwater.domain.errors.BadInput"

    def test_a_source_that_cannot_be_planned_fails_without_a_number(self, program: Program, tmp_path: Path) -> None:
        (tmp_path / "b.json").write_text(ORDER % (1, 0))
        with orders(Headwater(), tmp_path) as headwater:
            headwater.run(until_idle=True)
            program.take()
            (tmp_path / "a.json").write_text(ORDER % (2, 0))
            with pytest.raises(HeadwaterError, match=r"a\.json"):
                headwater.run(until_idle=True)
        epoch, read = program.take()
        assert (about(epoch), read.name) == ({"pipeline": "curve", "engine": "memory"}, "read")

    def test_an_epoch_that_another_engine_does_has_not_failed(self, program: Program) -> None:
        telemetry = Telemetry(TelemetrySettings(), "auto", lambda _: ())
        with pytest.raises(EngineLimit), telemetry.watch("curve", "local"):
            raise EngineLimit("it needs more memory")
        (epoch,) = program.take()
        assert about(epoch) == {"pipeline": "curve", "engine": "local", "handed_over": "it needs more memory"}
        assert epoch.status.is_unset

    def test_pushes_and_replays_are_epochs(self, program: Program, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text(ORDER % (1, 0) + '{"id": "x"}\n')
        with orders(Headwater(run={"dead_letter_stop": 0}), tmp_path) as headwater:
            headwater.stream("pushed", schema="id bigint, at timestamp")
            headwater.ranking("ranks", source="pushed", group=["id"], id=["id"], order_by="at")
            headwater.run(["curve"], until_idle=True)
            headwater.replay("curve")
            headwater.push("pushed", pl.DataFrame({"id": [1, 2], "at": [datetime(2024, 3, 1, tzinfo=UTC)] * 2}))
        _, replayed, pushed = (about(span) for span in program.take() if span.name == "epoch")
        assert (replayed["pipeline"], replayed["epoch"], replayed["task"]) == ("curve", 1, "replay")
        assert (pushed["pipeline"], pushed["epoch"], pushed["rows"], "task" in pushed) == ("ranks", 0, 2, False)

    def test_metrics_are_those_of_prometheus(self, program: Program, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text(ORDER % (1, 0) + ORDER % (2, 5))
        with orders(Headwater(), tmp_path) as headwater:
            headwater.run(until_idle=True)
            (tmp_path / "b.json").write_text(ORDER % (3, 6))
            headwater.run(until_idle=True)
            expected = {
                (family.name, sample.labels["pipeline"]): sample.value
                for family in text_string_to_metric_families(metrics_text(headwater.status()).decode())
                for sample in family.samples
            }
        assert program.values() == expected
        assert program.values()["headwater_rows", "curve"] == 3
        assert {name for name, _ in expected} <= {metric.name for metric in METRICS}

    def test_a_counter_goes_on_in_a_second_deployment_of_the_program(self, program: Program, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_text(ORDER % (1, 0))
        for _ in range(2):  # both read the file: tables in memory end with their deployment
            with orders(Headwater(), tmp_path) as headwater:
                headwater.run(until_idle=True)
        assert program.values()["headwater_rows", "curve"] == 1

    def test_metrics_that_cannot_be_read_do_not_end_a_run(
        self, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def status(*_: object, **__: object) -> None:
            raise ConfigError("no table")

        monkeypatch.setattr("headwater.app.api.pipeline.Pipeline.status", status)
        (tmp_path / "a.json").write_text(ORDER % (1, 0))
        with orders(Headwater(), tmp_path) as headwater:
            headwater.run(until_idle=True)
        assert "the metrics cannot be read: no table" in caplog.text
        assert program.reader.get_metrics_data() is None


def test_a_program_that_has_set_no_provider_pays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.app.api.pipeline.Pipeline.status", lambda *_, **__: pytest.fail("a status was read"))
    (tmp_path / "a.json").write_text(ORDER % (1, 0))
    with orders(Headwater(), tmp_path) as headwater:
        headwater.run(until_idle=True)


class Collector:
    """An OpenTelemetry collector: a web server that keeps what it receives."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Mapping[str, str], bytes]] = []
        self.status = 200
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                body = gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body
                collector.requests.append((self.path, dict(self.headers), body))
                self.send_response(collector.status)
                self.send_header("Location", "http://127.0.0.1:9/")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/s3cret"

    def received(self, path: str, parse: Callable[[bytes], Any]) -> Any:
        """What was sent to a path, in one request."""
        (body,) = (body for to, _, body in self.requests if to == f"/s3cret{path}")
        return parse(body)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")  # so that all is sent at the end
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "600000")
    found = Collector()
    Thread(target=found.server.serve_forever, args=(0.05,), daemon=True).start()
    yield found
    found.server.shutdown()
    found.server.server_close()


class TestCollector:
    def test_it_receives_spans_and_metrics(
        self, collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=t0ken")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        (tmp_path / "a.json").write_text(ORDER % (1, 0))
        with orders(Headwater(telemetry={"endpoint": collector.address}), tmp_path) as headwater:
            headwater.run(until_idle=True)
            assert "s3cret" not in repr(headwater.deployment)
        assert {headers["x-api-key"] for _, headers, _ in collector.requests} == {"t0ken"}
        (traced,) = collector.received("/v1/traces", ExportTraceServiceRequest.FromString).resource_spans
        resource = {each.key: each.value.string_value for each in traced.resource.attributes}
        assert (resource["service.name"], resource["deployment.environment"]) == ("shop", "test")
        names = [span.name for span in traced.scope_spans[0].spans]
        assert {"epoch", "read", "step", "dead_letters"} <= set(names)
        (measured,) = collector.received("/v1/metrics", ExportMetricsServiceRequest.FromString).resource_metrics
        found = {metric.name: metric for metric in measured.scope_metrics[0].metrics}
        assert found["headwater_rows"].sum.data_points[0].as_int == 1
        assert found["headwater_latency_seconds"].unit == "s"

    @pytest.mark.parametrize("status", [503, 302, None], ids=["busy", "elsewhere", "dead"])
    def test_one_that_takes_nothing_is_told_once_and_does_not_hold_a_run_up(
        self, collector: Collector, tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int | None
    ) -> None:
        caplog.set_level(logging.INFO)
        collector.status = status or 200
        address = collector.address if status else "http://127.0.0.1:9/s3cret"
        (tmp_path / "a.json").write_text(ORDER % (1, 0))
        with orders(Headwater(telemetry={"endpoint": address, "service_name": "shop"}), tmp_path) as headwater:
            headwater.run(until_idle=True)
        assert len(collector.requests) == (2 if status else 0)  # at the end nothing is tried again
        reason = f"HTTP status {status}" if status else "ConnectionError"
        warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert warnings == [f"the collector at 127.0.0.1 takes no traces and metrics: {reason}; they are lost"]
        assert "s3cret" not in caplog.text

    def test_an_address_that_is_not_one_is_refused_without_it(self) -> None:
        with pytest.raises(ConfigError, match=r"telemetry\.endpoint: is not an address such as") as refused:
            Headwater(telemetry={"endpoint": "s3cret:4317"})
        assert "s3cret" not in str(refused.value)

    def test_a_missing_package_is_told_before_anything_is_read(
        self, collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in [*sys.modules]:
            if name.startswith(("opentelemetry.exporter", "headwater.adapters.otel.collector")):
                monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
        headwater = orders(Headwater(telemetry={"endpoint": collector.address}), tmp_path)
        with pytest.raises(NotInstalled, match=r"pip install 'headwater\[otel\]'") as missing:
            headwater.run(until_idle=True)
        assert with_place(missing.value).startswith("telemetry.endpoint: opentelemetry.exporter")


def test_nothing_is_imported_if_it_is_off(tmp_path: Path) -> None:
    program = f"""
import sys
from headwater import Headwater
with Headwater() as headwater:
    headwater.files("orders", {str(tmp_path)!r}, schema="id bigint, at timestamp", event_time="at")
    headwater.cumulate("curve", source="orders", step="1m", measures={{"n": "count(*)"}})
    headwater.run(until_idle=True)
assert not [name for name in sys.modules if name.startswith("opentelemetry") or "adapters.otel" in name]
"""
    (tmp_path / "a.json").write_text(ORDER % (1, 0))
    subprocess.run([sys.executable, "-c", program], check=True)
