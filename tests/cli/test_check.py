"""``headwater check`` refuses what a run would: SQL, plain tables and packages, and starts nothing."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from headwater.app.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

SUMS = "SELECT shop, sum(amount) AS amount FROM sales JOIN tags USING (shop) GROUP BY shop"
DEAR = "SELECT shop FROM sums WHERE amount > 10"
CHANGED = "SELECT a.id FROM a JOIN b ON a.pieces < b.pieces"
DEPLOYMENT = f"""
[backend]
name = "memory"
path = "lake"

[sources.sales]
kind = "files"
path = "in"
schema = "kind string, id bigint, shop string, amount decimal(18,2), pieces int, at timestamp"
event_time = "at"
row_kind = "kind"

[sources.topic]
kind = "files"
path = "topic"
schema = "id bigint, word string, at timestamp"

[pipelines.ranked]
service = "ranking"
source = "sales"
group = ["shop"]
id = ["id"]
order_by = "at"

[pipelines.published]
service = "snapshots"
inputs = {{ sales = "ranked.ranks", tags = {{ path = "tags.csv", format = "csv" }} }}
every = "15m"
keys = {{ sums = ["shop"] }}

[pipelines.published.tables]
sums = "{SUMS}"

[pipelines.again]
service = "snapshots"
inputs = {{ sums = "published.sums" }}
every = "15m"

[pipelines.again.tables]
dear = "{DEAR}"

[pipelines.counted]
service = "retraction"
source = "sales"
group = ["shop"]
updated_at = "at"
measures = {{ words = "count(distinct cast(upper(shop) AS string))", orders = "count(*)" }}
past = {{ sql = "SELECT tag, shop FROM tags WHERE :cut > '2024-01-01'", tables = {{ tags = {{ path = "past.csv", format = "csv" }} }}, holds = "rows" }}

[pipelines.curve]
service = "cumulate"
source = "sales"
step = "1m"
measures = {{ few = {{ measure = "count(*)", where = "pieces < 3" }} }}

[pipelines.wide]
service = "wide_table"
key = ["id"]

[pipelines.wide.topics.sold]
source = "topic"
select = {{ size = "length(word)" }}
sequence = ["at"]

[pipelines.view]
service = "materialized_view"
inputs = {{ a = "ranked.ranks", b = "ranked.ranks" }}
key = ["id"]
sql = "SELECT a.id, a.shop FROM a JOIN b ON a.pieces < b.pieces"
changes = {{ b = "{CHANGED}" }}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    for name in ("tags.csv", "past.csv"):
        (tmp_path / name).write_text("shop,tag\nnorth,red\n")
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    return tmp_path / "deploy.toml"


def change(config: Path, old: str, new: str) -> None:
    """Change the configuration in one place."""
    assert config.read_text().count(old) == 1, old
    config.write_text(config.read_text().replace(old, new))


def refused(config: Path, capsys: pytest.CaptureFixture[str], code: int = 2) -> str:
    """What the one line of a refusal says."""
    assert main(["check", str(config)]) == code
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    return told.err


def passed(config: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said beside the tables and views of a good configuration."""
    assert main(["check", str(config)]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("The configuration is good: 7 pipelines")
    return told.err


@pytest.mark.parametrize("backend", ["memory", "delta", "hudi-mor"])
def test_what_runs_passes_and_nothing_is_made(config: Path, capsys: pytest.CaptureFixture[str], backend: str) -> None:
    change(config, '"memory"', f'"{backend}"')
    assert passed(config, capsys) == ""
    assert sorted(each.name for each in config.parent.iterdir()) == ["deploy.toml", "past.csv", "tags.csv"]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT shop, nowhere AS amount FROM sales", "nowhere"),
        ("SELECT tags.shop, tags.colour AS amount FROM tags", "colour"),
        ("SELECT shop, soundex(shop) AS amount FROM sales", "SOUNDEX.* is not known without Spark"),
        ("SELECT shop, regexp_replace(shop, 'a', 'b') AS amount FROM sales", "REGEXP_REPLACE.* is not known"),
        ("SELECT shop, avg(amount) AS amount FROM sales GROUP BY shop", "divides decimals"),
        ("SELECT amount FROM sales", "no column 'shop'; it has: amount"),
        ("SELECT shop, amount FROM sales WHERE amount", "a condition is wanted"),
        ("SELECT shop, cast(shop AS int) AS amount, shop + 1 AS more FROM sales", "counts with string"),
    ],
)
def test_a_query_that_memory_would_refuse(
    config: Path, capsys: pytest.CaptureFixture[str], sql: str, told: str
) -> None:
    change(config, SUMS, sql)
    message = refused(config, capsys)
    assert re.match(rf"headwater: {re.escape(str(config))}:\d+: pipelines.published: tables.sums: ", message)
    assert re.search(told, message)


@pytest.mark.parametrize(
    "case",
    [
        (DEAR, "SELECT price FROM sums", "pipelines.again: tables.dear", "price"),
        (DEAR, "SELECT shop FROM sums WHERE shop > 10", "pipelines.again: tables.dear", "string meets int"),
        ("upper(shop)", "soundex(shop)", "pipelines.counted: measures.words", "SOUNDEX"),
        ("SELECT tag, shop FROM tags", "SELECT colour FROM tags", "pipelines.counted: past.sql", "colour"),
        ("pieces < 3", "pieces < 'few'", "pipelines.curve: measures.few", "int meets string"),
        ("length(word)", "cast(soundex(word) AS string)", "pipelines.wide: topics.sold.size", "SOUNDEX"),
        (CHANGED, "SELECT soundex(a.id) AS id FROM a", "pipelines.view: changes.b", "SOUNDEX"),
        (CHANGED, "SELECT a.pieces FROM a", "pipelines.view: changes.b", "no column 'id'; it has: pieces"),
    ],
)
def test_every_text_is_compiled(config: Path, capsys: pytest.CaptureFixture[str], case: tuple[str, ...]) -> None:
    old, new, place, told = case
    change(config, old, new)
    message = refused(config, capsys)
    assert f": {place}: " in message
    assert told in message


@pytest.mark.parametrize("backend", ["memory", "delta"])
def test_a_plain_table_that_is_not_there(config: Path, capsys: pytest.CaptureFixture[str], backend: str) -> None:
    change(config, '"memory"', f'"{backend}"')
    (config.parent / "tags.csv").unlink()
    message = refused(config, capsys)
    assert f"pipelines.published: inputs.tags: there is nothing at {config.parent}/tags.csv; put a csv" in message


def test_a_plain_table_that_cannot_be_read(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (config.parent / "tags.csv").write_text("")
    assert f"inputs.tags: {config.parent}/tags.csv has no header; write the names" in refused(config, capsys)


def test_a_view_whose_name_is_that_of_a_table(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(config, 'service = "materialized_view"', 'service = "materialized_view"\nmaterialize = ["rows"]')
    assert "pipelines.view.materialize: 'rows' is stored as table view.rows already; leave it out" in refused(
        config, capsys
    )


def test_on_spark_names_are_checked_and_functions_are_not(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(config, '"memory"', '"delta"')
    change(config, SUMS, "SELECT shop, soundex(tag) AS amount FROM tags")
    assert passed(config, capsys) == (
        "headwater: not checked: again: tables.dear: the columns of sums are known only when it runs\n"
    )
    change(config, "soundex(tag)", "soundex(colour)")
    assert "pipelines.published: tables.sums: " in (message := refused(config, capsys))
    assert "no column 'colour'; there are: " in message


def test_what_spark_alone_reads(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(config, '"memory"', '"delta"')
    change(
        config,
        'tags = { path = "tags.csv", format = "csv" } }\nevery',
        'tags = { path = "s3a://b/t", format = "delta" } }\nevery',
    )
    assert passed(config, capsys).splitlines() == [
        "headwater: not checked: published: tables.sums: the columns of tags are known only when it runs",
        "headwater: not checked: again: tables.dear: the columns of sums are known only when it runs",
    ]


@pytest.mark.parametrize(
    "case", [("delta", "pyspark", "delta"), ("delta", "delta", "delta"), ("hudi-cow", "pyspark", "hudi")]
)
def test_a_package_that_is_not_installed(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, case: tuple[str, str, str]
) -> None:
    backend, package, extra = case
    change(config, '"memory"', f'"{backend}"\nengine = "spark"' if backend == "delta" else f'"{backend}"')
    monkeypatch.setitem(sys.modules, package, None)
    assert refused(config, capsys, code=1) == (
        f"headwater: {package} is not installed: run pip install 'headwater[{extra}]'\n"
    )


def test_what_kafka_needs(config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    change(config, 'kind = "files"\npath = "topic"', 'kind = "kafka"\nservers = "127.0.0.1:1"\ntopics = ["words"]')
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert "run pip install 'headwater[kafka]'" in refused(config, capsys, code=1)


@pytest.mark.parametrize(
    ("old", "kafka", "place"),
    [
        ('kind = "files"\npath = "topic"', 'kind = "kafka"\ntopics = ["words"]', "sources.topic"),
        ('order_by = "at"', 'order_by = "at"\n[pipelines.ranked.publish]\ntopic = "ranks"', "pipelines.ranked.publish"),
    ],
)
def test_options_that_kafkas_client_refuses(
    config: Path, capsys: pytest.CaptureFixture[str], old: str, kafka: str, place: str
) -> None:
    pytest.importorskip("confluent_kafka", reason="the extra kafka is not installed")
    change(config, old, f'{kafka}\nservers = "127.0.0.1:1"\noptions = {{ "sasl.user" = "me" }}')
    message = refused(config, capsys)
    assert f": {place}: " in message
    assert message.endswith('Kafka\'s client refuses the options: No such configuration property: "sasl.user"\n')


@pytest.mark.parametrize("case", [("avro", "fastavro"), ("protobuf", "google.protobuf"), ("protobuf", "google.type")])
def test_what_a_schema_registry_needs(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, case: tuple[str, str]
) -> None:
    form, package = case
    kafka = f'kind = "kafka"\nservers = "127.0.0.1:1"\ntopics = ["words"]\nformat = "{form}"\nregistry = "http://127.0.0.1:1"'
    change(config, 'kind = "files"\npath = "topic"', kafka)
    monkeypatch.setitem(sys.modules, package, None)
    assert refused(config, capsys, code=1) == (
        f"headwater: {package} is not installed: run pip install 'headwater[{form}]'\n"
    )


@pytest.mark.parametrize("command", [["check"], ["run"], ["run", "--until-idle"]])
def test_a_deployment_without_pipelines(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    (tmp_path / "deploy.toml").write_text('[backend]\nname = "memory"\n')
    assert main([*command, str(tmp_path / "deploy.toml")]) == 2
    assert "headwater: there is no pipeline to run: add a table [pipelines.NAME]" in capsys.readouterr().err


MERGE = """
[sources.accounts]
kind = "files"
path = "in"
format = "debezium-json"
schema = "id bigint, owner string, at timestamp"
key = ["id"]
metadata = {{ at = "commit_time" }}
event_time = "at"

[pipelines.merge]
service = "bulk_merge"
key = ["id"]
columns = ["owner"]
changelog = "accounts"
bulk = {bulk}
"""
BULKS = [
    '{ path = "delta", format = "delta", search_ts = "2024-01-01T00:00:00Z" }',
    '{ jdbc = "jdbc:postgresql://host/base", table = "public.accounts" }',
]


@pytest.mark.parametrize("bulk", BULKS)
@pytest.mark.parametrize("backend", ['"memory"', '"delta"\nengine = "local"'])
def test_a_bulk_load_that_only_spark_reads_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], backend: str, bulk: str
) -> None:
    config = tmp_path / "deploy.toml"
    config.write_text(f'[backend]\nname = {backend}\npath = "lake"\n{MERGE.format(bulk=bulk)}')
    place = f"{config}:{config.read_text().splitlines().index('[pipelines.merge]') + 1}: pipelines.merge.bulk: "
    said = refused(config, capsys)
    assert said.startswith(f"headwater: {place}")
    assert 'with Spark, such as delta, and backend.engine = "auto"' in said
    assert main(["run", str(config), "--until-idle"]) == 1
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("bulk", BULKS)
def test_with_two_engines_it_is_read_by_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str], bulk: str) -> None:
    config = tmp_path / "deploy.toml"
    config.write_text(f'[backend]\nname = "delta"\nengine = "auto"\npath = "lake"\n{MERGE.format(bulk=bulk)}')
    assert main(["check", str(config)]) == 0
    assert (
        'spark, because local does not run it: delta with engine = "local" does not support bulk'
        in capsys.readouterr().out
    )
