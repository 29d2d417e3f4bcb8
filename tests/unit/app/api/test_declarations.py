"""What a program declares is what a configuration file holds."""

from __future__ import annotations

import inspect
import pickle
from copy import copy, deepcopy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_type_hints

import polars as pl
import pytest

from headwater import Headwater, Label
from headwater.app.api import options
from headwater.app.api.declarations import Declarations
from headwater.app.config.keys import ALERTS, BACKEND, RUN, TELEMETRY, source_keys
from headwater.app.registry.sources import load_bulk_kind, load_source_kind, source_kinds
from headwater.app.services import kind as services
from headwater.app.services.keys import PLAIN_TABLE, PUBLISH, RETAIN
from headwater.domain.errors import ConfigError, HeadwaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from headwater.app.document.value_types import Key

TOML = """
[backend]
name = "memory"
retain = { duration = "2d" }
[run]
retry_wait = "2s"
[sources.orders]
kind = "kafka"
servers = "127.0.0.1:9092"
topics = ["shop.orders"]
format = "maxwell-json"
tables = ["shop.orders"]
schema = "id bigint, state string, day date, `of` decimal(12,2), at timestamp"
event_time = "at"
watermark_delay = "5s"
idle_after = "1m"
[sources.clicks]
kind = "files"
path = "clicks"
schema = "user bigint, at timestamp"
event_time = "at"
[sources.handed]
kind = "stream"
schema = "id bigint, state string, at timestamp"
[pipelines.ranks]
service = "ranking"
source = "orders"
group = ["state"]
id = ["id"]
order_by = "-at"
top = 3
materialize = ["ranks"]
[pipelines.states]
service = "retraction"
source = "orders"
group = ["state"]
measures = { orders = "count(*)", paid = { measure = "count(*)", where = "state = 'paid'" } }
updated_at = "at"
retain = { versions = 4 }
[pipelines.states.publish]
servers = "127.0.0.1:9092"
topic = "states"
[pipelines.curve]
service = "cumulate"
source = "clicks"
step = "1m"
dimensions = [["user"], []]
measures = { users = "count(distinct user)" }
[pipelines.wide]
service = "wide_table"
key = ["id"]
[pipelines.wide.topics.orders]
source = "orders"
columns = ["state"]
sequence = ["at"]
[pipelines.daily]
service = "snapshots"
inputs = { ranks = "ranks.ranks" }
every = "15m"
tables = { counts = "SELECT state, count(*) AS n FROM ranks GROUP BY state" }
[pipelines.merged]
service = "bulk_merge"
changelog = "orders"
key = ["id"]
delay = "5s"
bulk = { path = "history", search_ts = "2024-01-01T00:00:00Z" }
[pipelines.by_state]
service = "materialized_view"
inputs = { ranks = "ranks" }
key = ["state"]
sql = "SELECT state, count(*) AS n FROM ranks GROUP BY state"
"""


def declared() -> Headwater:
    """The same deployment, declared."""
    headwater = Headwater(backend="memory", retain={"duration": timedelta(days=2)}, run={"retry_wait": "2s"})
    orders = headwater.kafka(
        "orders",
        servers="127.0.0.1:9092",
        topics=("shop.orders",),
        format="maxwell-json",
        tables=["shop.orders"],
        schema={"id": "bigint", "state": "string", "day": "date", "of": "decimal(12,2)", "at": "timestamp"},
        event_time="at",
        watermark_delay=timedelta(seconds=5),
        idle_after="1m",
    )
    clicks = headwater.files("clicks", "clicks", schema="user bigint, at timestamp", event_time="at")
    headwater.stream("handed", schema="id bigint, state string, at timestamp")
    headwater.ranking("ranks", source=orders, group=["state"], id=["id"], order_by="-at", top=3, materialize=["ranks"])
    headwater.retraction(
        "states",
        source=orders,
        group=["state"],
        measures={"orders": "count(*)", "paid": {"measure": "count(*)", "where": "state = 'paid'"}},
        updated_at="at",
        retain={"versions": 4},
        publish={"servers": "127.0.0.1:9092", "topic": "states"},
    )
    headwater.cumulate(
        "curve",
        source=clicks,
        step=timedelta(minutes=1),
        dimensions=[["user"], []],
        measures={"users": "count(distinct user)"},
    )
    headwater.wide_table(
        "wide", key=["id"], topics={"orders": {"source": orders, "columns": ["state"], "sequence": ["at"]}}
    )
    counts = "SELECT state, count(*) AS n FROM ranks GROUP BY state"
    headwater.snapshots("daily", inputs={"ranks": "ranks.ranks"}, every="15m", tables={"counts": counts})
    headwater.bulk_merge(
        "merged",
        changelog=orders,
        key=["id"],
        delay="5s",
        bulk={"path": "history", "search_ts": "2024-01-01T00:00:00Z"},
    )
    headwater.materialized_view("by_state", inputs={"ranks": "ranks"}, key=["state"], sql=counts)
    return headwater


def test_a_text_a_file_and_a_program_are_one_deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deploy.toml").write_text(TOML)
    from_file = Headwater.from_config("deploy.toml").deployment
    assert Headwater.from_text(TOML).deployment == from_file
    assert Headwater.from_text("\ufeff" + TOML).deployment == from_file
    assert declared().deployment == from_file


def test_a_dict_is_a_deployment(tmp_path: Path) -> None:
    source = {"kind": "files", "path": tmp_path, "schema": "id bigint, at timestamp"}
    curve = {"service": "cumulate", "source": "clicks", "step": timedelta(minutes=1), "measures": {"n": "count(*)"}}
    tables = {"backend": {"name": "memory"}, "sources": {"clicks": {**source, "event_time": "at"}}}
    headwater = Headwater.from_dict({**tables, "pipelines": {"curve": curve}}, environ={})
    assert headwater.deployment.pipelines["curve"].service.step == timedelta(minutes=1)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"^this program: pipelines\.curve\.stepp: unknown key"):
        Headwater.from_dict({**tables, "pipelines": {"curve": {**curve, "stepp": "1m"}}}, environ={})


def test_the_environment_overrides_a_program_too() -> None:
    headwater = Headwater(environ={"HEADWATER_RUN__RETRIES": "9", "NAME": "id"})
    headwater.stream("handed", schema="${NAME} bigint")
    assert headwater.deployment.run.retries == 9
    assert headwater.deployment.sources["handed"].records.schema.names == ("id",)


def test_a_program_may_read_variables_of_any_name(tmp_path: Path) -> None:
    environ = {"HEADWATER_BACKEND_PATH": str(tmp_path)}
    assert Headwater(backend="delta", path=tmp_path, environ=environ).deployment.backend.path == str(tmp_path)
    tables = {"backend": {"name": "delta", "path": tmp_path}}
    assert Headwater.from_dict(tables, environ=environ).deployment.backend.path == str(tmp_path)
    text = f'[backend]\nname = "delta"\npath = "{tmp_path.as_posix()}"\n'
    with pytest.raises(ConfigError, match="HEADWATER_BACKEND_PATH: has no effect"):
        Headwater.from_text(text, environ=environ)


def test_a_text_that_is_no_toml_names_the_line() -> None:
    with pytest.raises(ConfigError, match=r"^<text>:2: is not valid TOML"):
        Headwater.from_text("[backend]\nname = \n")


def test_a_path_without_a_backend_is_refused(tmp_path: Path) -> None:
    message = r"^this program: backend\.name: is missing; it is one of delta, .*memory"
    with pytest.raises(ConfigError, match=message):
        Headwater(path=tmp_path / "lake", environ={})
    named = Headwater(path=tmp_path / "lake", environ={"HEADWATER_BACKEND__NAME": "delta"})
    assert named.deployment.backend.name == "delta"
    assert Headwater(environ={}).deployment.backend.name == "memory"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda _: Headwater("deploy.toml"), r"'deploy\.toml' is not a Deployment; from_config reads a file"),
        (lambda _: Headwater.from_config(None), "None is not the path of a TOML file"),
        (lambda _: Headwater.from_text(b"[backend]"), r"b'\[backend\]' is not the text of a deployment file"),
        (lambda _: Headwater.from_dict([1]), r"\[1\] is not a dict of the tables of a deployment file"),
        (lambda _: Headwater.from_dict("[backend]"), "is not a dict of the tables of a deployment file"),
        (lambda hw: hw.move("lake"), "'lake' is not a Headwater"),
        (lambda hw: hw.bootstrap("ranks", ["a"]), r"\['a'\] is not a dict"),
        (lambda hw: hw.unpin(None), "there is no lease None"),
        (lambda hw: hw.view(None), "there is no pipeline 'None'"),
        (lambda hw: hw.view(["ranks"]), "there is no pipeline"),
        (lambda hw: hw.pipeline(["ranks"]), r"there is no pipeline \['ranks'\]; there are: ranks"),
        (lambda hw: hw.push(["handed"], None), r"there is no source \['handed'\]; there are: "),
        (lambda hw: hw.view("ranks", label=1), "1 is not a label; give a datetime"),
        (lambda _: Label("x"), "'x' is not a label; give a datetime"),
        (lambda hw: hw.pin("ranks", hold=timedelta(days=999_999)), "is too long: a duration is at most 365000d"),
        (lambda hw: hw.roll("states", "2024-03-01"), "'2024-03-01' is not a day; give a date"),
        (lambda hw: hw.roll("states", 5), "5 is not a day; give a date"),
        (lambda hw: hw.roll("states", datetime(2024, 3, 1)), r"datetime\(.*\) is not a day; give a date"),
    ],
)
def test_a_value_of_another_type_is_refused(ask: Any, message: str, tmp_path: Path) -> None:
    headwater = Headwater(environ={})
    handed = headwater.stream("handed", schema="id bigint, state string, at timestamp")
    headwater.ranking("ranks", source=handed, group=["state"], id=["id"], order_by="at")
    headwater.retraction("states", source=handed, group=["state"], measures={"n": "count(*)"}, updated_at="at")
    headwater.push(handed, pl.DataFrame({"id": [1], "state": ["paid"], "at": [datetime(2024, 3, 1, tzinfo=UTC)]}))
    with pytest.raises(HeadwaterError, match=message):
        ask(headwater)


def ranked() -> Headwater:
    headwater = Headwater(environ={})
    handed = headwater.stream("handed", schema="id bigint, state string")
    headwater.ranking("ranks", source=handed, group=["state"], id=["id"], order_by="id", segment="10")
    return headwater


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Headwater(environ={"HEADWATER_RUN__POLL": 3}), "^environ is not a dict of texts, such as"),
        (lambda: Headwater(environ={None: "s3cret"}), "^environ is not a dict of texts, such as"),
        (lambda: Headwater.from_text("", environ=["HEADWATER_RUN__POLL"]), "^environ is not a dict of texts, such as"),
        (lambda: Headwater(report=None, environ={}), "^None is not a function that takes a report"),
        (lambda: Headwater(backend="", environ={}), r"backend\.name: '' is unknown; allowed: delta"),
        (lambda: Headwater.from_config("a\0b"), r"^'a\\x00b' is not a path: embedded null"),
        (lambda: ranked().pin("ranks", hold="1h", holder=3), "^3 is not the text of a holder"),
    ],
    ids=["number", "no_name", "list", "no_report", "no_backend", "null_character", "holder"],
)
def test_values_of_the_wrong_type_are_refused_before_anything_is_done(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make()
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda hw: hw.stream("handed", schema="id int"), r"sources\.handed is declared already, with other settings"),
        (
            lambda hw: hw.ranking("x", source="none", group=["id"], id=["id"], order_by="at"),
            r"this program: pipelines\.x\.source: 'none' is unknown; allowed: .*handed",
        ),
        (
            lambda hw: hw.ranking("x", source="handed", group=["idd"], id=["id"], order_by="at"),
            r"this program: pipelines\.x\.group: no such column: .*did you mean 'id'",
        ),
        (
            lambda hw: hw.cumulate("x", source="clicks", step=timedelta(microseconds=5), measures={"n": "count(*)"}),
            r"this program: pipelines\.x\.step: .*microseconds=5\) has a part of a millisecond",
        ),
        (lambda hw: hw.source("x", "carrier_pigeon", schema="id int"), r"sources\.x\.kind: .* is unknown"),
        (lambda hw: hw.source(3, "stream", schema="id int"), r"3 is not the text of a name in sources"),
        (lambda hw: hw.source("", "stream", schema="id int"), r"sources\..*: a source's name must not be empty"),
        (lambda hw: hw.source("x", "stream", schema=""), r"sources\.x\.schema: the text is empty; write one"),
    ],
    ids=["again", "no_source", "no_column", "too_fine", "no_kind", "name_of_no_text", "no_name", "no_schema"],
)
def test_a_mistake_is_refused_at_once_and_changes_nothing(declare: Any, message: str) -> None:
    headwater = declared()
    before = headwater.deployment
    with pytest.raises(ConfigError, match=message):
        declare(headwater)
    assert headwater.deployment is before
    headwater.stream("handed", schema="id bigint, state string, at timestamp")  # the same once more
    assert headwater.deployment == before


def test_what_was_read_from_a_file_is_declared_there() -> None:
    with pytest.raises(ConfigError, match="was read from a file, so declare it there"):
        Headwater.from_text(TOML).stream("more", schema="id bigint")
    given: list[dict[str, Any]] = [{"path": "lake"}, {"backend": "memory"}, {"environ": {}}, {"run": {"retries": 1}}]
    for beside in given:
        with pytest.raises(ConfigError, match="give no others beside it"):
            Headwater(declared().deployment, **beside)


def parameters(method: str) -> set[str]:
    """The settings that a method takes, those of its options among them."""
    found = inspect.signature(getattr(Declarations, method)).parameters
    more = vars(options)[found["more"].annotation.removeprefix("Unpack[").removesuffix("]")]
    return {*found, *keys_of(more)} - {"self", "name", "more"}


def keys_of(typed: type) -> set[str]:
    return set(get_type_hints(typed, vars(options)))


def inside(service: str, *path: str) -> Mapping[str, Key]:
    """The keys of a table inside a pipeline."""
    keys = services.load_service(service).keys
    for name in path:
        kind = keys[name].kind
        assert kind.inside is not None
        keys = kind.inside({"name": {}})
    return keys


@pytest.mark.parametrize("service", sorted({*services.available()} - {"worst"}))
def test_every_key_of_a_service_is_a_parameter(service: str) -> None:
    kind = services.load_service(service)
    if type(kind).__module__.startswith("headwater."):
        assert parameters(service) == {*kind.keys} - {"service"}


@pytest.mark.parametrize("source", source_kinds())
def test_every_key_of_a_source_is_a_parameter(source: str) -> None:
    kind = load_source_kind(source)
    if type(kind).__module__.startswith("headwater."):
        unused = set() if kind.formats else {*keys_of(options.RecordOptions)} - {*keys_of(options.SourceOptions)}
        assert parameters(source) == {*source_keys(kind)} - {"kind"} - unused


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        (options.RunOptions, RUN),
        (options.AlertOptions, ALERTS),
        (options.TelemetryOptions, TELEMETRY),
        (options.BackendOptions, {name: key for name, key in BACKEND.items() if name not in {"name", "path"}}),
        (options.RetainOptions, RETAIN),
        (options.PublishOptions, PUBLISH),
        (options.PlainTable, PLAIN_TABLE),
        (options.TopicOptions, inside("wide_table", "topics", "name")),
        (options.PastOptions, inside("retraction", "past")),
        (options.MeasureOptions, inside("retraction", "measures", "name")),
        (options.BulkOptions, {**load_bulk_kind("files").keys, **load_bulk_kind("jdbc").keys}),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_every_key_of_a_table_is_typed(typed: type, keys: Mapping[str, object]) -> None:
    assert keys_of(typed) == set(keys)


def test_a_notebook_shows_what_is_declared_and_how_it_stands() -> None:
    headwater = Headwater()
    headwater.stream("<visits>", schema="page string, visit bigint, at timestamp")
    headwater.ranking("rank", source="<visits>", group=["page"], id=["visit"], order_by="at")
    page = headwater._repr_html_()
    assert "<caption>Headwater on memory</caption>" in page
    assert "<td>rank</td><td>ranking</td><td>source &lt;visits&gt;</td><td>ranks, top" in page
    status = headwater.status()
    assert [each.pipeline for each in status] == ["rank"]
    assert (len(status), status[0].lag, status[:1]) == (1, None, (status[0],))
    assert "<td>rank</td><td></td>" in status._repr_html_()
    assert [line.split()[0] for line in str(status).splitlines()] == ["pipeline", "--------", "rank"]
    assert "engine" not in status.columns.names


@pytest.mark.parametrize("take", [pickle.dumps, copy, deepcopy])
def test_a_deployment_belongs_to_its_process(take: Callable[[object], object]) -> None:
    with Headwater() as headwater:
        headwater.stream("visits", schema="page string, visit bigint, at timestamp")
        headwater.ranking("rank", source="visits", group=["page"], id=["visit"], order_by="at")
        for each in (headwater, headwater.pipeline("rank")):
            with pytest.raises(
                TypeError, match=f"a {type(each).__name__} cannot be pickled or copied, .*: open another"
            ):
                take(each)
