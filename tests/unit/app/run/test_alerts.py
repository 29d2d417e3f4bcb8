"""Alerts of a run, received by a web server on this machine."""

from __future__ import annotations

import json
import logging
import socket
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Headwater
from headwater.adapters import webhook
from headwater.adapters.webhook import Webhook
from headwater.app.run.alerts import Alerts, send_alerts
from headwater.domain.errors import BadInput, ConfigError
from headwater.domain.ports import Alarm
from headwater.testing.clock import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORDER = '{"id": %d, "at": "2024-03-01T09:00:00Z"}\n'


class Receiver:
    """A web server that keeps the events that it receives; the first answers have the codes of `refusing`."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.refusing: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.refusing:
                    self.send_response(receiver.refusing.pop(0))
                    self.send_header("Location", "http://127.0.0.1:9/")
                else:
                    assert self.headers["Content-Type"] == "application/json"
                    receiver.events.append(json.loads(body))
                    self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/T0P/s3cret"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_WAIT_SECONDS", 0.05)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    Thread(target=found.server.serve_forever, args=(0.05,), daemon=True).start()
    yield found
    found.server.shutdown()
    found.server.server_close()


def headwater_for(receiver: Receiver, folder: Path) -> Headwater:
    headwater = Headwater(alerts={"webhook": receiver.address, "timeout": "2s"}, run={"dead_letter_stop": 0})
    headwater.files("orders", folder, schema="id bigint, at timestamp", event_time="at")
    headwater.cumulate("curve", source="orders", step="1m", measures={"n": "count(*)"})
    return headwater


def test_warnings_of_a_run_are_sent(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(ORDER % 1 + '{"id": "x"}\n')
    headwater_for(receiver, tmp_path).run(until_idle=True)
    event, summary = receiver.events
    assert (event["kind"], event["pipeline"]) == ("warning", "curve")
    assert "curve epoch 0: 1 of 2 rows (50 %) became dead letters" in event["message"]
    assert event["text"] == f"headwater warning: {event['message']}"
    assert event["time"].endswith("Z")
    assert "in this run 1 of 2 rows" in summary["message"]


def test_the_end_of_a_run_by_an_error_is_sent(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    headwater = Headwater(alerts={"webhook": receiver.address})
    headwater.files("orders", tmp_path, schema="id bigint, at timestamp", event_time="at", format="csv")
    headwater.cumulate("curve", source="orders", step="1m", measures={"n": "count(*)"})
    with pytest.raises(BadInput):
        headwater.run(until_idle=True)
    (event,) = receiver.events
    assert event["kind"] == "stopped"
    assert "column 'at' is missing from the header" in event["message"]


def test_the_end_of_a_run_by_an_error_names_its_place(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    text = f"""
backend.name = "memory"
alerts.webhook = "{receiver.address}"
[sources.orders]
kind = "files"
path = "{tmp_path}"
format = "csv"
schema = "id bigint, at timestamp"
event_time = "at"
[pipelines.curve]
service = "cumulate"
source = "orders"
step = "1m"
measures = {{ n = "count(*)" }}
"""
    with pytest.raises(BadInput):
        Headwater.from_text(text).run(until_idle=True)
    (event,) = receiver.events
    assert event["message"].startswith("the run has ended: <text>:4: sources.orders (pipeline curve): ")


class Panic(BaseException):
    """As Polars raises one."""


@pytest.mark.parametrize("error", [RuntimeError("no such luck"), Panic("no such luck")])
def test_the_end_of_a_run_by_an_unexpected_error_is_sent(
    receiver: Receiver, tmp_path: Path, error: BaseException
) -> None:
    headwater = headwater_for(receiver, tmp_path)
    with pytest.raises(type(error)), send_alerts(headwater.deployment.alerts, headwater.start()):
        raise error
    (event,) = receiver.events
    assert (event["kind"], event["message"]) == (
        "stopped",
        f"the run has ended: {type(error).__name__}: no such luck",
    )


def test_an_operator_who_interrupts_a_run_is_not_told(receiver: Receiver, tmp_path: Path) -> None:
    headwater = headwater_for(receiver, tmp_path)
    with pytest.raises(KeyboardInterrupt), send_alerts(headwater.deployment.alerts, headwater.start()):
        raise KeyboardInterrupt
    assert receiver.events == []


def test_a_name_that_is_not_utf_8_is_sent(receiver: Receiver) -> None:
    sending = Webhook(receiver.address, timedelta(seconds=5))
    sending.post({"message": "file né\udcff.txt skipped"})
    sending.close()
    assert receiver.events == [{"message": "file né?.txt skipped"}]


def test_nothing_is_sent_of_a_run_without_problems(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(ORDER % 1)
    headwater_for(receiver, tmp_path).run(until_idle=True)
    assert receiver.events == []


def test_an_alarm_is_sent_when_it_begins_and_when_it_ends(receiver: Receiver, tmp_path: Path) -> None:
    headwater = headwater_for(receiver, tmp_path)
    (runner,) = headwater.start()
    told: list[tuple[str, str, str | None]] = []
    now = [timedelta()]
    alarms: list[Alarm] = []
    runner.clock = type("Clock", (), {"now": lambda _: NOW.time, "elapsed": lambda _: now[0]})()  # type: ignore[assignment]
    runner.source.alarms = lambda after, moment: alarms  # type: ignore[method-assign] # noqa: ARG005
    alerts = Alerts(
        [runner], timedelta(seconds=30), lambda event: told.append((event["kind"], event["message"], event["pipeline"]))
    )
    alerts.check()
    alarms.append(Alarm("the disk is full"))
    alerts.check()  # too early to look again
    assert told == []
    for hours in (1, 2, 3):
        alarms[1:] = [Alarm(f"an input is {hours}h late", "an input is late")]
        now[0] += timedelta(seconds=30)
        alerts.check()
    assert told == [("alarm", "an input is 1h late", "curve"), ("alarm", "the disk is full", "curve")]
    alarms.clear()
    now[0] += timedelta(seconds=30)
    alerts.check()
    assert told[2:] == [("resolved", "an input is 3h late", "curve"), ("resolved", "the disk is full", "curve")]


def test_an_alarm_at_the_end_of_a_run_is_logged_and_sent_once(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.json").write_text(ORDER % 1)
    headwater = headwater_for(receiver, tmp_path)
    (runner,) = headwater.start()
    runner.source.alarms = lambda after, now: [Alarm("an input is late")]  # type: ignore[method-assign] # noqa: ARG005
    headwater.run(until_idle=True)
    headwater.run(until_idle=True)
    assert [(event["kind"], event["message"]) for event in receiver.events] == [("alarm", "an input is late")] * 2
    assert [each.getMessage() for each in caplog.records] == ["curve: an input is late"]


def test_trouble_of_a_source_is_sent_as_an_alarm_only(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    headwater = headwater_for(receiver, tmp_path)
    (runner,) = headwater.start()
    runner.source.alarms = lambda after, now: [Alarm("a table is gone")]  # type: ignore[method-assign] # noqa: ARG005
    with send_alerts(headwater.deployment.alerts, [runner]) as look:
        runner.warnings.log_trouble("curve", ["a table is gone"])
        runner.warnings.log("curve", ["the disk is slow"])
        look()
    assert sorted((event["kind"], event["message"]) for event in receiver.events) == [
        ("alarm", "a table is gone"),
        ("warning", "curve: the disk is slow"),
    ]
    for texts in (["a table is gone"], [], ["a table is gone"], ["it may not be read"]):
        runner.warnings.log_trouble("curve", texts)
    told = ["a table is gone", "the disk is slow", "a table is gone", "it may not be read"]
    assert [each.getMessage() for each in caplog.records] == [f"curve: {text}" for text in told]


def test_a_webhook_that_fails_for_a_moment_is_tried_again(receiver: Receiver) -> None:
    receiver.refusing = [503, 500]
    sending = Webhook(receiver.address, timedelta(seconds=5))
    sending.post({"message": "first"})
    sending.post({"message": "second"})
    for _ in range(100):
        if len(receiver.events) == 2:
            break
        sending._thread.join(0.1)
    sending.close()
    assert [event["message"] for event in receiver.events] == ["first", "second"]


@pytest.mark.parametrize(("code", "told"), [(404, "HTTP status 404"), (302, "HTTP status 302")])
def test_what_cannot_be_sent_is_told_without_the_address(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, code: int, told: str
) -> None:
    receiver.refusing = [code] * 3
    sending = Webhook(receiver.address, timedelta(seconds=2))
    sending.post({"message": "the disk is full"})
    with caplog.at_level(logging.WARNING):
        sending.close()
    assert f"the webhook at 127.0.0.1 took no alert: {told}; it is lost: the disk is full" in caplog.text
    assert "s3cret" not in caplog.text
    assert "s3cret" not in repr(sending)


def test_an_answer_that_is_not_http_is_told_and_later_alerts_are_sent(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread goes on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)  # a thread that has died does not try again
        sending = Webhook(f"http://127.0.0.1:{server.getsockname()[1]}/s3cret", timedelta(seconds=2))
        sending.post({"message": "first"})
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                connection, _ = server.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"SSH-2.0-OpenSSH\r\n")
            sending.address = receiver.address
            sending.post({"message": "second"})
            sending.close()
    assert "took no alert: BadStatusLine; it is lost: first" in caplog.text
    assert [event["message"] for event in receiver.events] == ["second"]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ftp://host/s3cret", "is not an address such as"),
        ("https://host:s3cret/path", "is not an address such as"),
        ("https://host:99999/s3cret", "is not an address such as"),
        ("https://user:s3cret@host/path", "must not contain a user or a password"),
        ("https://s3cret@host", "must not contain a user or a password"),
        ("https://host/the s3cret", "has a space or a control character"),
        ("https://host/s3cret\\n", "has a space or a control character"),
        ("https://host/s3cret/ü", "has letters outside of ASCII behind its host"),
    ],
)
def test_an_address_is_checked_and_never_shown(address: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Headwater.from_text(f'backend.name = "memory"\n[alerts]\nwebhook = "{address}"\n')
    assert f":3: alerts.webhook: {message}" in str(refused.value)
    assert "s3cret" not in str(refused.value)
