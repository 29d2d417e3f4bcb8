"""The status page, the API and the metrics of a deployment on the local engine."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import polars as pl
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from headwater import Headwater
from headwater.adapters.files.source import FileSource
from headwater.app.cli.main import main
from headwater.app.cli.serve import _read_token
from headwater.app.run.runner import Runner
from headwater.app.serve.observer import Observer
from headwater.app.serve.web import web_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

CONFIG = """
[backend]
name = "delta"
path = "lake"
engine = "local"
[run]
poll = "50ms"
[sources.visits]
kind = "files"
path = "in"
schema = "page string, visit bigint, at timestamp"
event_time = "at"
[pipelines.ranks]
service = "ranking"
source = "visits"
group = ["page"]
id = ["visit"]
order_by = "at"
[pipelines.curve]
service = "cumulate"
source = "visits"
step = "1m"
measures = { visits = "count(*)" }
[pipelines.sizes]
service = "materialized_view"
inputs = { ranks = "ranks" }
key = ["page"]
sql = "SELECT page, count(*) AS n FROM ranks GROUP BY page"
"""
LATER = '{"page": "<b>b</b>", "visit": 3, "at": "2024-03-01T09:02:00Z"}\n{"page": "a"\n'


def feed(folder: Path, name: str, text: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text(text)


def write(folder: Path) -> Path:
    """A deployment, and its input."""
    (folder / "deploy.toml").write_text(CONFIG)
    feed(folder, "a.json", '{"page": "a", "visit": 1, "at": "2024-03-01T09:00:00Z"}\n')
    feed(folder, "b.json", LATER)
    return folder / "deploy.toml"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write(tmp_path)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment that has run; tests only read it."""
    config = write(tmp_path_factory.mktemp("ran"))
    with Headwater.from_config(config) as headwater:
        headwater.run(until_idle=True)
    return config


def client_of(config: Path, token: str | None = None) -> TestClient:
    app = web_app(Observer(Headwater.from_config(config), fresh=0), token=token, hosts=["testserver"])
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client(ran: Path) -> Iterator[TestClient]:
    with client_of(ran) as found:
        yield found


def get(client: TestClient, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


class TestApi:
    def test_status_has_the_columns_of_the_command(
        self, client: TestClient, ran: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["status", str(ran), "--format", "jsonl"]) == 0
        printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        found = get(client, "/api/status")
        assert found["backend"] == "delta"
        services = ["ranking", "cumulate", "materialized_view"]
        assert found["pipelines"] == [
            {**each, "service": service} for each, service in zip(printed, services, strict=True)
        ]

    def test_the_graph_goes_from_sources_to_pipelines_that_read_pipelines(self, client: TestClient) -> None:
        found = get(client, "/api/graph")
        assert [(each["id"], each["label"]) for each in found["nodes"]] == [
            ("source:visits", "visits"),
            ("pipeline:ranks", "ranks"),
            ("pipeline:curve", "curve"),
            ("pipeline:sizes", "sizes"),
        ]
        assert found["edges"] == [
            {"from": "source:visits", "to": "pipeline:ranks"},
            {"from": "source:visits", "to": "pipeline:curve"},
            {"from": "pipeline:ranks", "to": "pipeline:sizes"},
        ]

    def test_epochs_have_their_rows_and_seconds(self, client: TestClient) -> None:
        first, second = get(client, "/api/pipelines/ranks/epochs")
        assert [(each["epoch"], each["rows"], each["dead_letters"]) for each in (first, second)] == [
            (0, 1, 0),
            (1, 2, 1),
        ]
        assert first["watermark"] == "2024-03-01T09:00:00Z"
        assert 0 < second["seconds"] < 60
        assert get(client, "/api/pipelines/ranks/epochs?count=1") == [second]

    def test_dead_letters_have_reasons_and_records(self, client: TestClient) -> None:
        found = get(client, "/api/pipelines/ranks/dead-letters")
        (reason,) = found["reasons"]
        assert reason["count"] == 1
        assert "not JSON" in reason["reason"]
        (row,) = found["rows"]
        assert dict(zip(found["columns"], row, strict=True))["raw"] == '{"page": "a"'
        assert get(client, "/api/pipelines/sizes/dead-letters")["rows"] == []

    def test_a_view_is_read_at_a_version_and_as_of_a_time(self, client: TestClient) -> None:
        found = get(client, "/api/views/ranks.ranks")
        assert found["columns"] == ["page", "visit", "at", "rank"]
        assert found["rows"] == [["<b>b</b>", 3, "2024-03-01T09:02:00Z", 1], ["a", 1, "2024-03-01T09:00:00Z", 1]]
        assert get(client, "/api/views/ranks?limit=1")["rows"] == found["rows"][:1]
        assert get(client, "/api/views/ranks?at=0")["rows"] == found["rows"][1:]
        assert get(client, "/api/views/ranks?as_of=2024-03-01T09:01:00Z")["rows"] == found["rows"][1:]

    def test_versions_name_what_holds_them(self, client: TestClient, ran: Path) -> None:
        with Headwater.from_config(ran) as headwater, headwater.pin("ranks", at=0, hold="1h", holder="a test") as pin:
            newest, oldest = get(client, "/api/pipelines/ranks/versions")
            assert (newest["epoch"], newest["superseded"], newest["readable"]) == (1, None, True)
            assert oldest["superseded"] == newest["published"]
            assert pin.lease in oldest["leases"][0]

    def test_a_table_without_a_version_has_no_columns(self, config: Path) -> None:
        config.write_text(
            CONFIG
            + """
[pipelines.shown]
service = "snapshots"
inputs = { ranks = "ranks" }
every = "1h"
tables = { pages = "SELECT page FROM ranks" }
"""
        )
        with client_of(config) as client:
            assert get(client, "/api/views/shown.pages") == {"columns": [], "rows": []}

    def test_a_curve_has_a_value_each_step(self, client: TestClient) -> None:
        found = get(client, "/api/curves/curve")
        assert (found["measure"], found["zone"]) == ("visits", "UTC")
        assert len(found["steps"]) == len(found["lines"]["all"])
        assert [value for value in found["lines"]["all"] if value is not None] == [1]

    @pytest.mark.parametrize(
        ("path", "told"),
        [
            ("/api/pipelines/rank/epochs", "there is no pipeline 'rank'; there are: ranks, curve, sizes"),
            ("/api/pipelines/rank/dead-letters", "there is no pipeline 'rank'"),
            ("/api/views/ranks.rnks", "has no view 'rnks'"),
            ("/api/views/ranks?at=7", "no epoch 7"),
            ("/api/curves/ranks", "has no curves"),
        ],
    )
    def test_what_does_not_exist_is_told(self, client: TestClient, path: str, told: str) -> None:
        answer = client.get(path)
        assert answer.status_code == 404
        assert told in answer.json()["error"]

    @pytest.mark.parametrize(
        ("path", "told"),
        [
            ("/api/views/ranks?limit=2000", "limit='2000' is not a whole number between 1 and 1,000"),
            ("/api/views/ranks?limit=0", "limit='0' is not a whole number between 1 and 1,000"),
            ("/api/views/ranks?at=nope", "'nope' is not an ISO-8601 time"),
            ("/api/views/ranks?as_of=nope", "'nope' is not an ISO-8601 time"),
            ("/api/views/ranks.ranked?as_of=2024-03-01T09:01:00Z", "leave the event time"),
            ("/api/pipelines/ranks/versions?count=-1", "count='-1' is not a whole number"),
            ("/api/curves/curve?measure=x", "x is not a measure that can be drawn; there are: visits"),
        ],
    )
    def test_wrong_parameters_are_told(self, client: TestClient, path: str, told: str) -> None:
        answer = client.get(path)
        assert answer.status_code == 400
        assert told in answer.json()["error"]

    def test_it_only_reads(self, client: TestClient) -> None:
        for path in ("/api/status", "/api/views/ranks", "/"):
            assert client.post(path).status_code == 405
            assert client.delete(path).status_code == 405

    def test_every_path_is_described(self, client: TestClient) -> None:
        described = get(client, "/openapi.json")
        routes = {route.path for route in client.app.routes}  # type: ignore[attr-defined]
        assert set(described["paths"]) == routes - {"/", "/page.js", "/page.css", "/page.svg", "/openapi.json"}
        for path, operation in described["paths"].items():
            named = {each["name"] for each in operation["get"]["parameters"] if each["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))


class TestHealth:
    def test_readiness_names_what_is_missing(self, config: Path) -> None:
        with client_of(config) as client:
            assert client.get("/healthz").json() == {"status": "ok"}
            answer = client.get("/readyz")
            assert answer.status_code == 503
            assert answer.json()["problems"]["ranks"] == ["nothing is published yet"]
            with Headwater.from_config(config) as headwater:
                headwater.run(until_idle=True)
            assert client.get("/readyz").json() == {"status": "ok", "problems": {}}

    def test_a_run_that_has_ended_is_told(self, ran: Path) -> None:
        observer = Observer(Headwater.from_config(ran))
        with TestClient(web_app(observer, token="s3cret", hosts=None)) as client:
            observer.run_error = "the run has ended: no topic"
            alive = client.get("/healthz")
            assert (alive.status_code, alive.json()) == (503, {"status": "unavailable"})
            ready = client.get("/readyz", auth=("", "s3cret"))
            assert (ready.status_code, ready.json()["problems"]) == (503, {"": ["the run has ended: no topic"]})

    def test_metrics_are_what_prometheus_reads(self, client: TestClient) -> None:
        families = text_string_to_metric_families(client.get("/metrics").text)
        found = {each.name: {one.labels["pipeline"]: one.value for one in each.samples} for each in families}
        assert found["headwater_epoch"] == {"ranks": 1, "curve": 1, "sizes": 1}
        assert found["headwater_rows"]["ranks"] == 3
        assert found["headwater_dead_letters"] == {"ranks": 1, "curve": 1, "sizes": 0}
        assert found["headwater_watermark_timestamp_seconds"]["ranks"] == 1709283720
        assert found["headwater_alarms"]["ranks"] == 0

    def test_metrics_and_readiness_do_not_ask_sources(self, ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A broker that is down would take its time for an answer that they do not show."""
        asked = list[FileSource]()
        monkeypatch.setattr(FileSource, "lag", lambda source, _after: asked.append(source))
        with client_of(ran) as client:
            assert client.get("/metrics").status_code == client.get("/readyz").status_code == 200
            assert asked == []
            get(client, "/api/status")
            assert len(asked) == 2


def test_a_damaged_pipeline_does_not_hide_the_others(
    tmp_path: Path, ran: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Path(shutil.copytree(ran.parent, tmp_path / "copy")) / ran.name
    shutil.rmtree(config.parent / "lake" / "ranks" / "cells")
    lost = "pipeline 'ranks' has published version 0 of its table 'ranks.cells', which is not there"
    assert main(["status", str(config), "--format", "jsonl"]) == 1
    told = capsys.readouterr()
    assert told.err.startswith(f"headwater: {lost}")
    damaged, whole, reader = (json.loads(line) for line in told.out.splitlines())
    assert {name for name, value in damaged.items() if value is not None} == {"pipeline", "alarms"}
    assert damaged["alarms"].startswith(lost)
    assert (whole["epoch"], whole["dead_letters"], whole["alarms"]) == (1, 1, None)
    assert reader["epoch"] == 1
    with client_of(config) as client:
        assert len(get(client, "/api/status")["pipelines"]) == 3
        ready = client.get("/readyz")
        assert ready.status_code == 503
        (problem,) = ready.json()["problems"]["ranks"]
        assert problem.startswith(lost)
        assert "curve" not in ready.json()["problems"]
        samples = {
            (each.name, each.labels["pipeline"]): each.value
            for family in text_string_to_metric_families(client.get("/metrics").text)
            for each in family.samples
        }
    assert samples["headwater_alarms", "ranks"] == 1
    assert samples["headwater_epoch", "curve"] == 1
    assert ("headwater_dead_letters", "ranks") not in samples


class TestAccess:
    def test_a_token_is_asked_for(self, ran: Path) -> None:
        with client_of(ran, token="s3cret") as client:
            refused = client.get("/api/status")
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Basic realm="headwater"')
            assert client.get("/api/status", headers={"Authorization": "Bearer wrong"}).status_code == 401
            assert client.get("/api/status", headers={"Authorization": "Basic !"}).status_code == 401
            assert client.get("/api/status", headers={"Authorization": "Bearer s3cret"}).status_code == 200
            assert client.get("/", auth=("anyone", "s3cret")).status_code == 200
            assert client.get("/healthz").status_code == 200

    def test_a_token_may_have_any_letters(self, ran: Path) -> None:
        with client_of(ran, token="pässwörd") as client:
            for given in ("Bearer pässwörd", f"Basic {base64.b64encode(':pässwörd'.encode()).decode()}"):
                assert client.get("/api/status", headers={"Authorization": given.encode()}).status_code == 200
            assert client.get("/api/status", headers={"Authorization": b"Bearer p\xff"}).status_code == 401

    def test_pages_of_others_are_kept_out(self, client: TestClient) -> None:
        assert client.get("/api/status", headers={"Host": "evil.example"}).status_code == 400
        page = client.get("/")
        assert "default-src 'self'" in page.headers["content-security-policy"]
        assert page.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in page.headers

    def test_the_page_has_no_inline_scripts_or_styles_and_sets_no_html(self, client: TestClient) -> None:
        page, script = client.get("/").text, client.get("/page.js").text
        assert re.findall(r"<script(?![^>]*src=)|style=|\son\w+=", page) == []
        assert "innerHTML" not in script
        assert client.get("/page.css").headers["content-type"].startswith("text/css")

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["--host", "0.0.0.0"], "requests need a token: set HEADWATER_TOKEN, or --token-file"),
            (["--token-file", "missing"], "--token-file missing cannot be read"),
            (["--token-file", "binary"], "--token-file binary is not in UTF-8"),
            (["--token-file", "empty"], "--token-file empty is empty"),
        ],
        ids=["open", "no_file", "no_text", "empty"],
    )
    def test_what_the_command_refuses(
        self,
        config: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        arguments: list[str],
        told: str,
    ) -> None:
        monkeypatch.chdir(config.parent)
        Path("binary").write_bytes(b"\xff")
        Path("empty").write_bytes(b"\n")
        assert main(["serve", str(config), *arguments]) == 2
        assert told in capsys.readouterr().err


@pytest.mark.parametrize(("given", "token"), [("abc\n", "abc"), ("", None)])
def test_a_line_break_is_no_part_of_the_token(monkeypatch: pytest.MonkeyPatch, given: str, token: str | None) -> None:
    monkeypatch.setenv("HEADWATER_TOKEN", given)
    assert _read_token(None) == token


def wait_for_line(server: subprocess.Popen[str]) -> str:
    assert server.stderr is not None
    found = re.search(r"http://[\d.]+:\d+", server.stderr.readline())
    assert found
    return found[0]


@pytest.mark.parametrize(("option", "run"), [("--run", [0, 1]), ("--read-only", [])])
def test_the_command_serves_until_it_is_stopped(config: Path, option: str, run: list[int]) -> None:
    command = [sys.executable, "-m", "headwater", "serve", str(config), "--port", "0", option, "--quiet"]
    environ = {name: value for name, value in os.environ.items() if name != "HEADWATER_TOKEN"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as server:
        try:
            address = wait_for_line(server)
            epochs: list[dict[str, Any]] = []
            for _ in range(200):
                with urlopen(f"{address}/api/pipelines/ranks/epochs") as answer:
                    epochs = json.load(answer)
                done = [each["epoch"] for each in epochs if "step" in each["phases"]]  # reported after it is published
                if done == run:
                    break
                time.sleep(0.1)
            assert done == run == [each["epoch"] for each in epochs]
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("a fault"), "RuntimeError: a fault"),
        (pl.exceptions.PanicException("a panic"), "PanicException: a panic"),
        (MemoryError(), "MemoryError: "),
    ],
)
def test_any_error_of_the_run_ends_the_command(
    config: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    told: str,
) -> None:
    """As it ends `headwater run`."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.delenv("HEADWATER_TOKEN", raising=False)
    monkeypatch.setattr(Runner, "_run_epoch", fail)
    with pytest.raises(type(error)) as raised:
        main(["serve", str(config), "--port", "0", "--run"])
    assert raised.value is error
    assert f"headwater: the run has ended: {told}\n" in capsys.readouterr().err


def test_an_error_on_purpose_is_told_with_its_place(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(CONFIG.replace('path = "in"', 'path = "nowhere"'))
    assert main(["serve", str(config), "--port", "0", "--run"]) == 2
    told = f"deploy.toml:8: sources.visits (pipeline ranks): {config.parent / 'nowhere'} is not a directory"
    assert [told in line for line in capsys.readouterr().err.splitlines()] == [False, True, True]
