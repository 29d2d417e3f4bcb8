"""Configuration: what is read, what is refused, and what the message says about it."""

from datetime import timedelta
from pathlib import Path

import pytest

from headwater.app.config import BackendSettings, FilesInput, KafkaInput, KafkaOutput, load
from headwater.app.document.lines import key_lines
from headwater.app.wiring.blueprints import blueprints
from headwater.domain.errors import ConfigError
from headwater.domain.ledger.retention import Retention
from headwater.domain.source.changelog.settings import ChangeSpec

GOOD = """\
[backend]
name = "delta"
path = "lake"
[backend.spark]
"spark.driver.memory" = "2g"
spark.sql.shuffle.partitions = 4

[sources.contracts]
kind = "files"
path = "in/contracts"
files_per_epoch = 1
format = "json"
schema = "project_id bigint, contract_id bigint, sign_time timestamp, amount decimal(18,2)"
event_time = "sign_time"
watermark_delay = "5m"

[pipelines.contract_rank]
service = "ranking"
source = "contracts"
group = ["project_id"]
id = ["contract_id"]
order_by = "-sign_time"
method = "dense_rank"
segment = "1d"
materialize = ["ranks"]
"""
SCHEMA = "project_id bigint, contract_id bigint, sign_time timestamp"
CHANGELOG = """
[sources.orders]
kind = "kafka"
servers = "127.0.0.1:9092"
topics = ["shop.orders"]
format = "maxwell-json"
tables = ["shop.orders"]
schema = "order_id bigint, user_id bigint, state string, amount decimal(18,2), mtime timestamp, seen timestamp"
key = ["order_id"]
metadata = { seen = "commit_time" }
"""
KAFKA = """
[sources.orders]
kind = "kafka"
servers = "127.0.0.1:9092"
topics = ["shop.orders"]
schema = "order_id bigint, state string"
max_rows_per_epoch = 500
options = { "sasl.password" = "${BROKER_PASSWORD}", security.protocol = "SASL_SSL" }
"""
PUBLISH = """
[pipelines.contract_rank.publish]
view = "top"
servers = "127.0.0.1:9092"
topic = "contracts.top"
format = "debezium-json"
tombstones = false
rename = { rank = "place" }
options = { "sasl.password" = "${BROKER_PASSWORD}" }
"""


def changed(old, new, text=GOOD):
    assert old in text
    return text.replace(old, new)


class TestReading:
    def test_every_key_of_the_sample_is_understood(self, deploy, tmp_path):
        deployment = deploy(GOOD)
        source, pipeline = deployment.sources["contracts"], deployment.pipelines["contract_rank"]
        assert deployment.backend == BackendSettings(
            "delta", str(tmp_path / "lake"), 16, {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "4"}
        )
        assert source.input == FilesInput(str(tmp_path / "in/contracts"), 1)
        assert source.watermark_delay == timedelta(minutes=5)
        assert (pipeline.service.order_by, pipeline.service.descending) == ("sign_time", True)
        assert (pipeline.service.event_time, pipeline.service.top) == ("sign_time", 10)
        assert pipeline.materialize == ("ranks",)

    def test_everything_is_retained_unless_said_otherwise(self, deploy):
        assert deploy(GOOD).backend.retain.endless
        given = changed('path = "lake"', 'path = "lake"\nexpire_every = 8\nretain = { versions = 5, duration = "2d" }')
        backend = deploy(given, HEADWATER_BACKEND__RETAIN__VERSIONS="6").backend
        assert (backend.retain, backend.expire_every) == (Retention(6, timedelta(days=2)), 8)

    @pytest.mark.parametrize(
        ("backend", "pipeline"),
        [("retain = { versions = 5 }", "expire_every = 8"), ("", "retain = { versions = 5 }\nexpire_every = 8")],
    )
    def test_a_pipeline_expires_by_its_own_retention_or_that_of_the_backend(self, deploy, backend, pipeline):
        text = changed('path = "lake"', f'path = "lake"\n{backend}', f"{GOOD}{pipeline}\n")
        assert deploy(text).pipelines["contract_rank"].expire_every == 8

    def test_a_kafka_source(self, deploy):
        source = deploy(GOOD + KAFKA, BROKER_PASSWORD="s3cret").sources["orders"]
        options = {"sasl.password": "s3cret", "security.protocol": "SASL_SSL"}
        assert source.input == KafkaInput("127.0.0.1:9092", ("shop.orders",), 500, options)
        assert "s3cret" not in repr(source)

    def test_a_kafka_source_with_a_schema_registry(self, deploy, refusal, tmp_path):
        avro = GOOD + changed("topics", 'registry = "http://127.0.0.1:8081"\ntopics', KAFKA).split("options")[0]
        given = avro + 'format = "avro"\nregistry_auth = "${REGISTRY}"\n'
        source = deploy(given, REGISTRY="me:s3cret").sources["orders"]
        assert (source.records.format, source.records.encoding) == ("json", "avro")
        assert (source.input.registry, source.input.registry_auth) == ("http://127.0.0.1:8081", "me:s3cret")
        assert "s3cret" not in repr(source)
        (tmp_path / "secret").write_text("me:other\n")
        changes = avro + 'format = "debezium-avro"\ntables = ["shop.orders"]\nregistry_auth_file = "secret"\n'
        source = deploy(changes).sources["orders"]
        assert (source.records.format, source.records.encoding) == ("debezium-json", "avro")
        assert (source.records.changes.tables, source.input.registry_auth) == (("shop.orders",), "me:other")
        for form, plain in (("protobuf", "json"), ("debezium-protobuf", "debezium-json")):
            records = deploy(avro + f'format = "{form}"\n').sources["orders"].records
            assert (records.format, records.encoding) == (plain, "protobuf")
        for text, told in (
            (avro, "sources.orders.registry: has no effect unless format is one of avro, debezium-avro, protobuf,"),
            (given.replace("registry = ", "# "), "sources.orders.registry: is missing; avro needs the address of a"),
            (given.replace("${REGISTRY}", "me:s3cret"), "sources.orders.registry_auth: must not be in the file: write"),
            (given.replace("http://", "http://me:s3cret@"), "sources.orders.registry: must not contain a password"),
        ):
            assert told in refusal(text, REGISTRY="me:s3cret")
            assert "s3cret" not in refusal(text, REGISTRY="me:s3cret")

    def test_the_secret_of_a_schema_registry_can_be_sent(self, deploy, refusal, tmp_path):
        """A message or a stack trace of the request would show it."""
        avro = GOOD + changed("topics", 'registry = "http://127.0.0.1:8081"\ntopics', KAFKA).split("options")[0]
        given = avro + 'format = "avro"\nregistry_auth = "${REGISTRY}"\n'
        for auth in ("hunter2", "me:hunter2", "me:hünter€"):
            assert deploy(given, REGISTRY=f"{auth}\r\n").sources["orders"].input.registry_auth == auth
        for secret, told in (
            ("hunter2\nhunter3", "the secret has a line break or another control character inside"),
            ("me:hunter2\0", "the secret has a line break or another control character inside"),
            ("hunter2€", "the token has a character that no HTTP header can have"),
            ("\n", "is empty: write the secret into its variable"),
        ):
            (tmp_path / "secret").write_text(secret)
            filed = given.replace('registry_auth = "${REGISTRY}"', 'registry_auth_file = "secret"')
            messages = [refusal(given, REGISTRY=secret), refusal(filed)]
            assert told in messages[0]
            assert told.split(":")[0] in messages[1]
            for name, message in zip(("registry_auth", "registry_auth_file"), messages, strict=True):
                assert message.startswith(f"deploy.toml:35: sources.orders.{name}: ")
                assert "hunter" not in message
        (tmp_path / "secret").write_bytes(b"\xffhunter2")
        assert "sources.orders.registry_auth_file: secret is not in UTF-8; write the secret into it" in refusal(filed)

    def test_a_view_to_publish(self, deploy):
        publish = deploy(GOOD + PUBLISH, BROKER_PASSWORD="s3cret").pipelines["contract_rank"].publish
        assert publish == KafkaOutput(
            servers="127.0.0.1:9092",
            topic="contracts.top",
            view="top",
            format="debezium-json",
            tombstones=False,
            rename={"rank": "place"},
            options={"sasl.password": "s3cret"},
        )
        assert "s3cret" not in repr(publish)

    def test_what_is_published_has_defaults(self, deploy):
        keys = 'publish = { servers = "127.0.0.1:9092", topic = "ranks" }'
        publish = deploy(changed('segment = "1d"', keys)).pipelines["contract_rank"].publish
        assert publish == KafkaOutput("127.0.0.1:9092", "ranks", None, "json", "row_kind", True, {}, {})
        assert deploy(GOOD).pipelines["contract_rank"].publish is None

    def test_run_settings_have_defaults(self, deploy):
        run = deploy(changed("[backend]", '[run]\npoll = "250ms"\n[backend]')).run
        assert (run.poll, run.retries, run.retry_wait) == (timedelta(milliseconds=250), 5, timedelta(seconds=1))
        assert run.retry_max_wait == timedelta(minutes=1)

    def test_addresses_and_absolute_paths_stay(self, deploy):
        assert deploy(changed('"lake"', '"s3a://bucket/lake"')).backend.path == "s3a://bucket/lake"
        assert deploy(changed('"lake"', '"/data/lake"')).backend.path == "/data/lake"

    def test_a_number_segment_is_for_number_orders(self, deploy):
        text = changed('"-sign_time"', '"contract_id"', changed('segment = "1d"', "segment = 1000"))
        assert deploy(text).pipelines["contract_rank"].service.segment == "1000"

    def test_the_row_kind_is_no_column_of_the_rows(self, deploy):
        text = changed(
            "amount decimal(18,2)", "kind string", changed("event_time =", 'row_kind = "kind"\nevent_time =')
        )
        schema = deploy(text).pipelines["contract_rank"].service.schema
        assert schema.names == ("project_id", "contract_id", "sign_time")

    def test_memory_needs_no_path(self, deploy):
        text = changed('name = "delta"\npath = "lake"', 'name = "memory"')
        assert deploy(text).backend.path is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[backend]", "[backnd]", "deploy.toml:1: backnd: unknown table; allowed: alerts, backend, pipelines, run, sources, telemetry; "
         "did you mean 'backend'?"),
        ('name = "delta"', 'nam = "delta"', "deploy.toml:2: backend.nam: unknown key; allowed: compact_every, engine, "
         "expire_every, file_mb, local_mb, name, path, retain, spark; did you mean 'name'?"),
        ('path = "lake"', 'path = "lake"\nretain = { version = 5 }', "deploy.toml:4: backend.retain.version: unknown key; "
         "allowed: duration, versions; did you mean 'versions'?"),
        ('path = "lake"', 'path = "lake"\nretain = { versions = 0 }', "deploy.toml:4: backend.retain.versions: 0 is not a "
         "whole number of at least 1"),
        ('path = "lake"', 'path = "lake"\nretain = {}', "deploy.toml:4: backend.retain: sets no retention; write retain = "
         '{ versions = 5 }, { duration = "2d" } or both'),
        ('path = "lake"', 'path = "lake"\nretain = 5', "deploy.toml:4: backend.retain: 5 is not a table of keys"),
        ('path = "lake"', 'path = "lake"\nexpire_every = 8', "deploy.toml:4: backend.expire_every: needs a "
         'retention: add retain = { versions = 5 }, { duration = "2d" } or both'),
        ('segment = "1d"', 'segment = "1d"\nexpire_every = 8', "deploy.toml:25: pipelines.contract_rank.expire_every: needs a "
         'retention: add retain = { versions = 5 }, { duration = "2d" } or both'),
        ('["contract_id"]', '["contract_id", "contract_id"]', "deploy.toml:21: pipelines.contract_rank.id: 'contract_id' is "
         "given twice; name it once"),
        ('segment = "1d"', 'segment = "1d"\ntie_break = ["amount", "amount"]', "deploy.toml:25: pipelines.contract_rank.tie_break: "
         "'amount' is given twice; name it once"),
        ('"delta"', '"iceberg"', "deploy.toml:2: backend.name: 'iceberg' is unknown; allowed: delta, hudi-cow, hudi-mor, memory"),
        ('"delta"', '"detla"', "deploy.toml:2: backend.name: 'detla' is unknown; allowed: delta, hudi-cow, hudi-mor, memory; did you mean "
         "'delta'?"),
        ('path = "lake"\n', "", "deploy.toml:1: backend.path: is missing; backend delta needs a folder for its tables"),
        ('"spark.driver.memory" = "2g"', '"spark.driver.memory" = ["2g"]', "deploy.toml:4: backend.spark: "
         "spark.driver.memory = ['2g'] is not a text, a number, true or false"),
        ("spark.sql.shuffle.partitions = 4", '"spark.sql.session.timeZone" = "America/New_York"', "deploy.toml:4: backend.spark: "
         "\"spark.sql.session.timeZone\" = 'America/New_York' could change answers. Headwater always works with 'UTC', in a "
         "session of its own, and leaves that of your program as it is: take the line out. Settings that change nothing but speed, "
         'such as "spark.sql.shuffle.partitions", are allowed'),
        ("spark.sql.shuffle.partitions = 4", '"spark.sql.legacy.setCommandRejectsSparkCoreConfs" = false', "deploy.toml:4: backend.spark: "
         "\"spark.sql.legacy.setCommandRejectsSparkCoreConfs\" = 'false' could change answers. Headwater always works with Spark's "
         "default, in a session of its own, and leaves that of your program as it is: take the line out. Settings that change "
         'nothing but speed, such as "spark.sql.shuffle.partitions", are allowed'),
        ('"files"', '"file"', "deploy.toml:9: sources.contracts.kind: 'file' is unknown; allowed: files, kafka, stream; did you "
         "mean 'files'?"),
        ('path = "in/contracts"\n', "", "deploy.toml:8: sources.contracts.path: is missing; it is a local path"),
        ("files_per_epoch = 1", 'files_per_epoch = "many"', "deploy.toml:11: sources.contracts.files_per_epoch: 'many' is "
         "not a whole number of at least 1"),
        ("files_per_epoch = 1", "files_per_epoch = true", "deploy.toml:11: sources.contracts.files_per_epoch: True is not a "
         "whole number of at least 1"),
        ('"json"', '"maxwel-json"', "deploy.toml:12: sources.contracts.format: 'maxwel-json' is unknown; allowed: json, "
         "csv, parquet, maxwell-json, debezium-json, canal-json; did you mean 'maxwell-json'?"),
        ("amount decimal(18,2)", "amount money", "deploy.toml:13: sources.contracts.schema: unknown column type 'money'; "
         "known: bigint, binary, boolean, date, double, float, int, smallint, string, timestamp, timestamp_ntz, tinyint, "
         "decimal(p,s), array<type>, struct<name:type,...>, map<type,type>"),
        ('format = "json"\nschema = "', 'format = "csv"\nschema = "tags array<int>, ', "deploy.toml:13: sources.contracts.schema: "
         "column 'tags' is array<int>, and csv has no nested values: declare it as string, or read JSON or Parquet"),
        ('event_time = "sign_time"', 'event_time = "signtime"', "deploy.toml:14: sources.contracts.event_time: no such "
         "column: 'signtime' is unknown; allowed: project_id, contract_id, sign_time, amount; did you mean 'sign_time'?"),
        ('event_time = "sign_time"', 'event_time = "amount"', "deploy.toml:14: sources.contracts.event_time: column "
         "'amount' must be a timestamp or date"),
        ('"5m"', '"5 minutes"', "deploy.toml:15: sources.contracts.watermark_delay: '5 minutes' is not a duration; write a "
         "number and one of ms, s, m, h, d, w, such as '5m' or '1h30m'"),
        ('"5m"', '"99999999999999d"', "deploy.toml:15: sources.contracts.watermark_delay: '99999999999999d' is too long: a "
         "duration is at most 365000d"),
        ('"5m"', '"-5m"', "deploy.toml:15: sources.contracts.watermark_delay: '-5m' is negative"),
        ("[backend]", '[run]\npoll = "0s"\n[backend]', "deploy.toml:2: run.poll: '0s' is not a duration longer than 0, such as "
         "'5m'"),
        ("[backend]", '[alerts]\ntimeout = "0s"\n[backend]', "deploy.toml:2: alerts.timeout: '0s' is not a duration longer "
         "than 0, such as '5m'"),
        ("[backend]", '[alerts]\ncheck = "0m"\n[backend]', "deploy.toml:2: alerts.check: '0m' is not a duration longer than 0, "
         "such as '5m'"),
        ("[backend]", '[telemetry]\nmetrics_every = "0s"\n[backend]', "deploy.toml:2: telemetry.metrics_every: '0s' is not a "
         "duration longer than 0, such as '5m'"),
        ('"ranking"', '"rankin"', "deploy.toml:18: pipelines.contract_rank.service: 'rankin' is unknown; allowed: "
         "ranking, retraction, cumulate, wide_table, snapshots, bulk_merge, materialized_view; did you mean 'ranking'?"),
        ('"ranking"', '"bulk"', "deploy.toml:18: pipelines.contract_rank.service: 'bulk' is unknown; allowed: "
         "ranking, retraction, cumulate, wide_table, snapshots, bulk_merge, materialized_view"),
        ('source = "contracts"', 'source = "contract"', "deploy.toml:19: pipelines.contract_rank.source: 'contract' is "
         "unknown; allowed: contracts; did you mean 'contracts'?"),
        ('["project_id"]', '"project_id"', "deploy.toml:20: pipelines.contract_rank.group: 'project_id' is not a list of "
         'texts such as ["a", "b"]'),
        ('["project_id"]', "[]", 'deploy.toml:20: pipelines.contract_rank.group: the list is empty; it needs at least one '
         'text, such as ["a"]; to rank all rows together, name a column that has the same value in all of them'),
        ('["contract_id"]', '["contractid"]', "deploy.toml:21: pipelines.contract_rank.id: no such column: 'contractid' is "
         "unknown; allowed: project_id, contract_id, sign_time, amount; did you mean 'contract_id'?"),
        ('"dense_rank"', '"row_number"', "deploy.toml:23: pipelines.contract_rank.method: method row_number needs tie_break: "
         "without it, equal order values have no certain order"),
        ('segment = "1d"', 'segment = "1d"\ntime_zone = "Mars/Olympus"', "deploy.toml:25: "
         "pipelines.contract_rank.time_zone: 'Mars/Olympus' is not an IANA time zone such as 'Asia/Shanghai' or 'UTC'"),
        ('segment = "1d"', 'segment = "1d"\ntime_zone = "utc"', "deploy.toml:25: "
         "pipelines.contract_rank.time_zone: 'utc' is not an IANA time zone such as 'Asia/Shanghai' or 'UTC'; did you mean 'UTC'?"),
        ('segment = "1d"', 'segment = "1d"\ntime_zone = "Europe/berlin"', "deploy.toml:25: pipelines.contract_rank.time_zone: "
         "'Europe/berlin' is not an IANA time zone such as 'Asia/Shanghai' or 'UTC'; did you mean 'Europe/Berlin'?"),
        ('segment = "1d"', "publish = true", "deploy.toml:24: pipelines.contract_rank.publish: True is not a table of keys"),
        ("[pipelines.contract_rank]", '[pipelines."größe"]', "deploy.toml:17: pipelines.größe: a pipeline's name consists of "
         "1 to 200 letters (a to z), digits, _ and -: a folder is named by it"),
        ("[pipelines.contract_rank]", '[pipelines."a.b"]', "deploy.toml:17: pipelines.\"a.b\": a pipeline's name must not contain a dot: "
         "PIPELINE.VIEW names a view"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line_and_what_is_allowed(refusal, old, new, message):
    assert refusal(changed(old, new)) == message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"maxwell-json"', '"csv"', "deploy.toml:31: sources.orders.format: 'csv' is unknown; allowed: json, maxwell-json, "
         "debezium-json, canal-json, avro, debezium-avro, protobuf, debezium-protobuf"),
        ('"maxwell-json"', '"json"', "deploy.toml:32: sources.orders.tables: has no effect unless format is maxwell-json or "
         "debezium-json or canal-json"),
        ('["shop.orders"]\nschema', '["shop.(orders"]\nschema', "deploy.toml:32: sources.orders.tables: "
         "'shop.(orders' is not a regular expression for tables: missing ), unterminated subpattern at position 5; write a name such as "
         "'shop.orders'"),
        ('["order_id"]', '["orderid"]', "deploy.toml:34: sources.orders.key: no such column: 'orderid' is unknown; allowed: "
         "order_id, user_id, state, amount, mtime, seen; did you mean 'order_id'?"),
        ("{ seen =", "{ saw =", "deploy.toml:35: sources.orders.metadata: no such column: 'saw' is unknown; allowed: "
         "order_id, user_id, state, amount, mtime, seen"),
        ('"commit_time"', '"commit_tim"', "deploy.toml:35: sources.orders.metadata: maxwell-json says no "
         "'commit_tim' for metadata column 'seen'; it says: database, table, commit_time, transaction, commit, log_file, "
         "log_position, row"),
        ('"commit_time"', '"log_file"', "deploy.toml:35: sources.orders.metadata: metadata column 'seen' takes log_file, a "
         "string, and is timestamp"),
        ('"maxwell-json"', '"canal-json"\nbefore = "never"', "deploy.toml:32: sources.orders.before: 'never' is unknown; "
         "allowed: required, optional"),
        ('"maxwell-json"', '"debezium-json"\ntime_unit = "h"', "deploy.toml:32: sources.orders.time_unit: 'h' is unknown; "
         "allowed: s, ms, us, ns"),
        ('"maxwell-json"', '"maxwell-json"\nrow_kind = "state"', "deploy.toml:32: sources.orders.row_kind: row_kind "
         "'state': maxwell-json contains row kinds itself; leave the key out"),
    ],
)  # fmt: skip
def test_a_mistake_about_a_changelog(refusal, old, new, message):
    assert refusal(changed(old, new, GOOD + CHANGELOG)) == message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('view = "top"', 'veiw = "top"', "deploy.toml:28: pipelines.contract_rank.publish.veiw: unknown key; allowed: "
         "format, options, rename, row_kind, servers, tombstones, topic, view; did you mean 'view'?"),
        ('topic = "contracts.top"\n', "", "deploy.toml:27: pipelines.contract_rank.publish.topic: is missing; it is a name for "
         "a Kafka topic: at most 249 letters, digits, dots, underscores and hyphens"),
        ('"debezium-json"', '"debezium"', "deploy.toml:31: pipelines.contract_rank.publish.format: 'debezium' is unknown; "
         "allowed: json, upsert-json, debezium-json; did you mean 'debezium-json'?"),
        ("tombstones = false", 'tombstones = "no"', "deploy.toml:32: pipelines.contract_rank.publish.tombstones: 'no' is not "
         "true or false"),
    ],
)  # fmt: skip
def test_a_mistake_about_what_is_published(refusal, old, new, message):
    assert refusal(changed(old, new, GOOD + PUBLISH), BROKER_PASSWORD="s3cret") == message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"top"', '"base"', "'base' is not a view that can be published; possible: ranks, top"),
        ('{ rank = "place" }', '{ rank = "amount" }', "messages would have amount twice; choose another name under rename or "
         "row_kind"),
        ('{ rank = "place" }', '{ place = "rank" }', "view 'top' has no column 'place' to rename; there are: project_id, "
         "contract_id, sign_time, amount, rank"),
        ('format = "debezium-json"', 'row_kind = "amount"', "messages would have amount twice; choose another name under "
         "rename or row_kind"),
    ],
)  # fmt: skip
def test_what_no_view_can_be_published_as(deploy, old, new, message):
    deployment = deploy(changed(old, new, GOOD + PUBLISH), BROKER_PASSWORD="s3cret")
    with pytest.raises(ConfigError) as caught:
        blueprints(deployment)
    assert str(caught.value).endswith(f"deploy.toml:27: pipelines.contract_rank.publish: {message}")


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ('["a", "b", "a"]', "'a' is given twice; name it once"),
        ('["my topic"]', "'my topic' is not a name for a Kafka topic: at most 249 letters, digits, dots, underscores and"
         " hyphens"),
        ('[".."]', "'..' is not a name for a Kafka topic: at most 249 letters, digits, dots, underscores and hyphens"),
    ],
)  # fmt: skip
def test_names_of_topics(refusal, topics, message):
    text = GOOD + changed('["shop.orders"]', topics, KAFKA)
    told = refusal(text, BROKER_PASSWORD="s3cret")
    assert told.endswith(f"sources.orders.topics: {message}")
    published = GOOD + changed("contracts.top", "x" * 250, PUBLISH)
    assert "is not a name for a Kafka topic" in refusal(published, BROKER_PASSWORD="s3cret")


@pytest.mark.parametrize(
    "wrong",
    [
        "http://127.0.0.1:9092",
        "a:9092,",
        "a:9092;b:9092",
        "a:x",
        "a:0",
        "a:65536",
        "a b:9092",
        "::1:9092",
        "a:9092:1",
        " ",
    ],
)
def test_servers_of_kafka(refusal, wrong):
    part = next(each.strip() for each in wrong.split(",")[::-1])
    for text in (KAFKA, PUBLISH):
        told = refusal(GOOD + changed("127.0.0.1:9092", wrong, text), BROKER_PASSWORD="s3cret")
        assert told.endswith(f"servers: {part!r} is not a server such as 'host:9092'; several are separated by commas")


@pytest.mark.parametrize("right", ["a", "a_b-1.c:1, SASL_SSL://[::1]:65535", "[fe80::1%eth0]:9092,größe:9092"])
def test_right_servers_of_kafka(deploy, right):
    source = deploy(GOOD + changed("127.0.0.1:9092", right, KAFKA), BROKER_PASSWORD="s3cret").sources["orders"]
    assert source.input.servers == right


@pytest.mark.parametrize("read", ["shop.orders", "shop.orders.epochs"])
def test_a_pipeline_does_not_publish_to_the_topic_that_it_reads(refusal, read):
    kafka = changed('["shop.orders"]', f'["{read}"]', changed("order_id bigint", SCHEMA, KAFKA))
    text = changed('"contracts.top"', '"shop.orders"', changed('source = "contracts"', 'source = "orders"') + PUBLISH)
    assert refusal(text + kafka, BROKER_PASSWORD="s3cret") == (
        f"deploy.toml:30: pipelines.contract_rank.publish.topic: source 'orders' reads '{read}': publish to another"
        " topic"
    )


_OTHER = "".join(GOOD.partition("[pipelines.contract_rank]")[1:]).replace("contract_rank", "other_rank")


@pytest.mark.parametrize(
    ("one", "other", "clash"), [("a", "a", "a"), ("a", "a.epochs", "a.epochs"), ("a.epochs", "a", "a.epochs")]
)
def test_two_pipelines_do_not_publish_to_one_topic(refusal, one, other, clash):
    first = changed("127.0.0.1:9092", "one:9092, two:9092", PUBLISH)
    second = changed("127.0.0.1:9092", "two:9092", PUBLISH.replace("contract_rank", "other_rank"))
    first, second = changed("contracts.top", one, first), changed("contracts.top", other, second)
    assert refusal(GOOD + first + _OTHER + second, BROKER_PASSWORD="s3cret").endswith(
        f"pipelines.other_rank.publish.topic: pipeline 'contract_rank' writes topic '{clash}': publish to another topic"
    )


@pytest.mark.parametrize(("old", "new"), [("contracts.top", "others.top"), ("127.0.0.1", "other")])
def test_two_pipelines_publish_to_two_topics(deploy, old, new):
    second = changed(old, new, PUBLISH.replace("contract_rank", "other_rank"))
    assert len(deploy(GOOD + PUBLISH + _OTHER + second, BROKER_PASSWORD="s3cret").pipelines) == 2


@pytest.mark.parametrize("kind", ["files", "kafka"])
@pytest.mark.parametrize("format_", ["maxwell-json", "debezium-json", "canal-json"])
def test_a_changelog_from_any_source(deploy, kind, format_):
    where = {"files": 'path = "in"', "kafka": 'servers = "127.0.0.1:9092"\ntopics = ["shop.orders"]'}[kind]
    text = changed(
        'kind = "kafka"\nservers = "127.0.0.1:9092"\ntopics = ["shop.orders"]', f'kind = "{kind}"\n{where}', CHANGELOG
    )
    records = deploy(GOOD + changed("maxwell-json", format_, text)).sources["orders"].records
    assert (records.format, records.row_kind) == (format_, None)
    assert records.changes == ChangeSpec(["shop.orders"], ["order_id"], {"seen": "commit_time"})


class TestFile:
    def test_a_missing_file(self):
        with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read: No such file"):
            load(Path("nowhere.toml"), {})

    def test_what_is_no_toml(self, refusal):
        assert refusal('[backend]\nname = "delta').startswith("deploy.toml:2: is not valid TOML: ")

    @pytest.mark.parametrize("name", ["contract_rank", '"a b"'])
    def test_a_pipeline_of_the_name_of_another(self, refusal, name):
        table = f"[pipelines.{name}]\n"
        assert refusal(table + "x = 1\n" + table) == (
            f"deploy.toml:3: is not valid TOML: [pipelines.{name}] occurs twice; give one of them another name, or join them"
        )

    def test_a_value_where_a_table_belongs(self, refusal):
        assert refusal("backend = 3") == "deploy.toml:1: backend: must be a table: write [backend]"


class TestEnvironment:
    def test_overrides_strings_and_numbers_without_regard_to_case(self, deploy):
        deployment = deploy(
            GOOD,
            HEADWATER_BACKEND__NAME="memory",
            headwater_ignored="x",
            HEADWATER_PIPELINES__CONTRACT_RANK__TOP="3",
            HEADWATER_SOURCES__CONTRACTS__WATERMARK_DELAY="1h",
            HEADWATER_BACKEND__SPARK__SPARK_DRIVER_MEMORY="1g",
        )
        assert deployment.backend.name == "memory"
        assert deployment.pipelines["contract_rank"].service.top == 3
        assert deployment.sources["contracts"].watermark_delay == timedelta(hours=1)
        assert deployment.backend.spark["spark.driver.memory"] == "1g"

    def test_overrides_what_is_published(self, deploy):
        publish = (
            deploy(
                GOOD + PUBLISH,
                BROKER_PASSWORD="s3cret",
                HEADWATER_PIPELINES__CONTRACT_RANK__PUBLISH__TOPIC="other",
                HEADWATER_PIPELINES__CONTRACT_RANK__PUBLISH__TOMBSTONES="TRUE",
                HEADWATER_PIPELINES__CONTRACT_RANK__PUBLISH__OPTIONS__SASL_PASSWORD="hunter2",
            )
            .pipelines["contract_rank"]
            .publish
        )
        assert (publish.topic, publish.tombstones, publish.options) == ("other", True, {"sasl.password": "hunter2"})

    def test_an_override_of_no_key_is_told(self, refusal):
        assert refusal(GOOD, HEADWATER_BACKEND__NAM="memory") == (
            "HEADWATER_BACKEND__NAM: there is no such key in deploy.toml; did you mean 'HEADWATER_BACKEND__NAME'?"
        )

    @pytest.mark.parametrize("names", [("a-b", "a_b"), ("Orders", "orders")])
    def test_an_override_of_two_keys_is_refused(self, refusal, names):
        text = GOOD + "".join(
            f'[sources.{name}]\nkind = "files"\npath = "{name}"\nschema = "id int"\n' for name in names
        )
        variable = f"HEADWATER_SOURCES__{names[1].upper()}__PATH"
        assert refusal(text, **{variable: "elsewhere"}) == (
            f"{variable}: sources.{names[0]}.path and sources.{names[1]}.path both have this name; write the value in"
            ' deploy.toml, with "${NAME}" for what comes from the environment'
        )

    def test_two_overrides_of_one_key_are_refused(self, refusal):
        assert refusal(GOOD, HEADWATER_RUN__POLL="9s", HEADWATER_run__poll="1s") == (
            "HEADWATER_RUN__POLL and HEADWATER_run__poll both set run.poll; remove one of them"
        )

    @pytest.mark.parametrize("variable", ["HEADWATER_RUN_POLL", "headwater_run__poll", "Headwater_Run_Poll"])
    def test_a_variable_that_is_nearly_the_name_of_a_key_is_refused(self, refusal, variable):
        assert refusal(GOOD, **{variable: "9s"}) == (
            f"{variable}: has no effect; the variable of run.poll is HEADWATER_RUN__POLL: rename it, or remove it"
        )

    def test_a_variable_that_the_file_refers_to_may_have_any_name(self, deploy, tmp_path):
        backend = deploy(changed('"lake"', '"${HEADWATER_BACKEND_PATH}"'), HEADWATER_BACKEND_PATH="here").backend
        assert backend.path == str(tmp_path / "here")

    def test_a_variable_that_an_overridden_value_refers_to_may_have_any_name(self, deploy, tmp_path):
        text = changed('"lake"', '"${HEADWATER_BACKEND_PATH}"')
        backend = deploy(text, HEADWATER_BACKEND_PATH="here", HEADWATER_BACKEND__PATH="there").backend
        assert backend.path == str(tmp_path / "there")

    def test_an_escaped_reference_does_not_name_a_variable(self, refusal):
        said = refusal(changed('"lake"', '"$${HEADWATER_BACKEND_PATH}"'), HEADWATER_BACKEND_PATH="here")
        assert said.startswith("HEADWATER_BACKEND_PATH: has no effect")

    def test_an_override_of_a_list_is_told(self, refusal):
        said = refusal(GOOD, HEADWATER_PIPELINES__CONTRACT_RANK__GROUP="project_id")
        assert "pipelines.contract_rank.group is at least one text" in said
        assert "which one variable cannot give; write it in deploy.toml" in said

    def test_a_reference_is_replaced_wherever_it_stands(self, deploy, tmp_path):
        text = changed('"in/contracts"', '"in/${REGION}/x"', changed('["contract_id"]', '["${ID}"]'))
        deployment = deploy(text, REGION="eu", ID="contract_id")
        assert deployment.sources["contracts"].input.path == str(tmp_path / "in/eu/x")
        assert deployment.pipelines["contract_rank"].service.id == ("contract_id",)

    def test_an_escaped_reference_stays(self, deploy, tmp_path):
        assert deploy(changed('"lake"', '"lake-$${X}"')).backend.path == str(tmp_path / "lake-${X}")

    @pytest.mark.parametrize("text", ["${X:-lake}", "${X-lake}", "${X", "a/${}", "${ X }", "${X.y}/${X}", "$${X}${"])
    def test_what_begins_like_a_reference_and_is_none_is_refused(self, refusal, text):
        assert refusal(changed('"lake"', f'"{text}"'), X="x") == (
            'deploy.toml:3: backend.path: "${" is not followed by the name of a variable and "}"; write "${NAME}", in'
            ' letters, digits and _ and without a default, or "$${" for the text "${" itself'
        )

    def test_a_secret_in_it_is_not_shown(self, refusal):
        text = changed('"${BROKER_PASSWORD}"', '"hunter${2"', GOOD + KAFKA)
        said = refusal(text)
        assert said.startswith('deploy.toml:33: sources.orders.options."sasl.password": "${" is not followed')
        assert "hunter" not in said

    @pytest.mark.parametrize(
        ("text", "read"), [("$${X:-a}", "${X:-a}"), ("$${", "${"), ("$$${X}", "$${X}"), ("a$X$$/$", "a$X$$/$")]
    )
    def test_other_dollars_stay(self, deploy, tmp_path, text, read):
        assert deploy(changed('"lake"', f'"{text}"')).backend.path == str(tmp_path / read)

    def test_a_missing_variable_is_named(self, refusal):
        assert refusal(GOOD + KAFKA).startswith(
            'deploy.toml:33: sources.orders.options."sasl.password": the environment has no variable BROKER_PASSWORD; set'
        )

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('"delta"', '"${SECRET}"'),
            ('"files"', '"${SECRET}"'),
            ('"5m"', '"${SECRET}"'),
            ("bigint, contract_id", "bigint, ${SECRET} contract_id"),
            ('["project_id"]', '["${SECRET}"]'),
            ('source = "contracts"', 'source = "${SECRET}"'),
            ('"-sign_time"', '"-${SECRET}"'),
            ('segment = "1d"', 'segment = "1d"\ntime_zone = "${SECRET}"'),
        ],
    )
    def test_what_the_environment_gave_is_never_shown(self, refusal, old, new):
        said = refusal(changed(old, new), SECRET="hunter2")
        assert "hunter2" not in said
        assert "SECRET" in said

    def test_a_refused_override_names_its_variable(self, refusal):
        said = refusal(GOOD, HEADWATER_PIPELINES__CONTRACT_RANK__METHOD="hunter2")
        assert said == (
            "deploy.toml:23: pipelines.contract_rank.method (set by HEADWATER_PIPELINES__CONTRACT_RANK__METHOD): the value of"
            " HEADWATER_PIPELINES__CONTRACT_RANK__METHOD is not one of dense_rank, rank, row_number"
        )


class TestLines:
    TEXT = '''\
# comment [not.a.table]
top = """a
[not.a.table]
"""  # three lines
[a."b c".d]
x.y = [1, # one
  { in = "}", out = ']' },
  "[z]",
]
when = 2024-03-01T09:00:00Z
e = {}
[[list]]
'''

    @pytest.mark.parametrize(
        ("path", "line"),
        [
            (("top",), 2),
            (("a", "b c", "d"), 5),
            (("a", "b c", "d", "x", "y"), 6),
            (("a", "b c", "d", "x", "y", 1, "out"), 7),
            (("a", "b c", "d", "x", "y", 2), 8),
            (("a", "b c", "d", "when"), 10),
            (("a", "b c", "d", "e"), 11),
            (("list",), 12),
        ],
    )
    def test_every_way_to_write_a_key(self, path, line):
        assert key_lines(self.TEXT)[path] == line

    def test_no_key_stands_in_text(self):
        assert not any("not" in path for path in key_lines(self.TEXT))


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_a_unit_of_times_is_for_texts(form: str, tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(
        f"""
        [backend]
        name = "memory"
        [sources.s]
        kind = "files"
        path = "in"
        format = "{form}"
        time_unit = "ms"
        schema = "id bigint, at timestamp"
        [pipelines.p]
        service = "ranking"
        source = "s"
        group = ["id"]
        id = ["id"]
        order_by = "at"
        """
    )
    if form == "parquet":
        why = "sources.s.time_unit: has no effect unless format is json or csv or maxwell-json or debezium-json or"
        with pytest.raises(ConfigError, match=why):
            load(file)
    else:
        records = load(file).sources["s"].records
        assert records is not None
        assert records.changes.time_unit == "ms"


@pytest.mark.parametrize(
    ("path", "order_by", "why"),
    [
        ("in", "at desc", r"pipelines.p.order_by: 'at desc': write '-at'; a leading - means descending"),
        ("in", "at ASC", r"pipelines.p.order_by: 'at ASC': write 'at'; a leading - means descending"),
        ("in/*.json", "at", r"sources.s.path: 'in/\*.json' is a pattern, not a folder; name the folder"),
        ("deploy.toml", "at", r"sources.s.path: 'deploy.toml' is a file, not a folder; name the folder"),
    ],
)
def test_what_is_written_in_another_way(path: str, order_by: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(
        f"""
        [backend]
        name = "memory"
        [sources.s]
        kind = "files"
        path = "{path}"
        schema = "id bigint, at timestamp"
        [pipelines.p]
        service = "ranking"
        source = "s"
        group = ["id"]
        id = ["id"]
        order_by = "{order_by}"
        """
    )
    with pytest.raises(ConfigError, match=why):
        load(file)


def test_a_source_where_none_is_declared(refusal) -> None:
    ranking = 'service = "ranking"\nsource = "s"\ngroup = ["g"]\nid = ["g"]\norder_by = "g"\n'
    told = refusal(f'[backend]\nname = "memory"\n[pipelines.p]\n{ranking}')
    assert told.endswith("pipelines.p.source: 's' is unknown; none is declared")
