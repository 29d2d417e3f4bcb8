"""Configuration of what a bulk load reads: files, or a table of a database whose password no file holds."""

from datetime import UTC, datetime
from unittest.mock import Mock

import polars as pl
import pytest

from headwater.app.config import BulkFiles, BulkJdbc, load
from headwater.app.services.kind import kind_of
from headwater.domain.errors import ConfigError

SAMPLE = """\
[backend]
name = "memory"

[sources.account_log]
kind = "kafka"
servers = "127.0.0.1:9092"
topics = ["bank"]
format = "maxwell-json"
tables = ['bank\\.accounts']
schema = "account_id bigint, balance bigint, ts timestamp"
metadata = { ts = "commit_time" }
event_time = "ts"

[pipelines.accounts]
service = "bulk_merge"
key = ["account_id"]
changelog = "account_log"
"""
FILES = SAMPLE + 'bulk = { path = "in/accounts", search_ts = "2024-01-01T00:00:00Z", chunk_rows = 10 }\n'
JDBC = (
    SAMPLE
    + """\
[pipelines.accounts.bulk]
jdbc = "jdbc:postgresql://127.0.0.1/bank"
table = "public.accounts"
user = "reader"
password = "${BANK_PASSWORD}"
chunks_per_epoch = 2
position_query = "SELECT 1"
options = { fetchsize = "500" }
"""
)


def loaded(tmp_path, text, environ=None):
    file = tmp_path / "deployment.toml"
    file.write_text(text)
    return load(file, environ or {}).pipelines["accounts"]


def test_a_key_that_an_update_without_its_old_image_may_change_is_refused(tmp_path):
    text = FILES.replace("maxwell-json", "debezium-json").replace("tables =", 'before = "optional"\ntables =')
    with pytest.raises(
        ConfigError, match=r'pipelines.accounts.key: source .account_log. has before = "optional" and no'
    ):
        loaded(tmp_path, text)
    loaded(tmp_path, text.replace("tables =", 'key = ["account_id"]\ntables ='))


def test_files_are_read_from_a_folder(tmp_path):
    at = datetime(2024, 1, 1, tzinfo=UTC)
    pipeline = loaded(tmp_path, FILES)
    assert pipeline.bulk == BulkFiles(str(tmp_path / "in/accounts"), "parquet", at, chunk_rows=10)
    assert (pipeline.service.search_ts, pipeline.service.repeatable) == (at, True)


def test_a_database_is_read_with_a_password_of_the_environment(tmp_path):
    pipeline = loaded(tmp_path, JDBC, {"BANK_PASSWORD": "hunter2"})
    options = {"fetchsize": "500", "user": "reader", "password": "hunter2"}
    assert pipeline.bulk == BulkJdbc(
        "jdbc:postgresql://127.0.0.1/bank",
        "public.accounts",
        options,
        position_query="SELECT 1",
        chunks_per_epoch=2,
    )
    assert "hunter2" not in repr(pipeline)
    assert (pipeline.service.search_ts, pipeline.service.repeatable) == (None, False)


@pytest.mark.parametrize(
    ("change", "needed"),
    [(("", ""), False), (('position_query = "SELECT 1"', ""), True), (('position = "pos"', 'mode = "upsert"'), False)],
    ids=["queried", "of_the_table", "by_time"],
)
def test_positions_of_changes_need_chunks_from_before_all_open_transactions(tmp_path, change, needed):
    text = JDBC.replace("ts timestamp", "ts timestamp, pos bigint").replace(
        '"commit_time"', '"commit_time", pos = "log_position"'
    )
    text = text.replace('changelog = "account_log"', 'changelog = "account_log"\nposition = "pos"').replace(*change)
    pipeline, parts = loaded(tmp_path, text, {"BANK_PASSWORD": "hunter2"}), Mock()
    kind_of(pipeline).open(pipeline.service, pipeline, parts)
    assert parts.open.call_args.kwargs["needs_commit_order"] is needed


def test_a_password_may_come_from_a_file_of_its_own(tmp_path):
    (tmp_path / "secret").write_text("hunter2\n")
    text = JDBC.replace('password = "${BANK_PASSWORD}"', 'password_file = "secret"')
    assert loaded(tmp_path, text).bulk.options["password"] == "hunter2"
    with pytest.raises(ConfigError, match=r"pipelines.accounts.bulk.password_file: .*secre cannot be read: No such"):
        loaded(tmp_path, text.replace('"secret"', '"secre"'))


@pytest.mark.parametrize(("content", "told"), [(b"\xff\xfehunter2", "is not in UTF-8"), (b" \n", "is empty; write")])
def test_a_file_without_a_readable_password_is_refused(tmp_path, content, told):
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ConfigError, match=rf":22: pipelines.accounts.bulk.password_file: .*secret {told}"):
        loaded(tmp_path, JDBC.replace('password = "${BANK_PASSWORD}"', 'password_file = "secret"'))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"${BANK_PASSWORD}"', '"hunter2"', r":22: pipelines.accounts.bulk.password: must not be in the file"),
        ('fetchsize = "500"', 'trustStorePassword = "hunter2"', "options.trustStorePassword: must not be in the"),
        ("//127.0.0.1/bank", "//reader:hunter2@127.0.0.1/bank", "the address must not contain a password"),
        ("//127.0.0.1/bank", "//127.0.0.1/bank?password=hunter2", "the address must not contain a password"),
        ("jdbc:postgresql:", "postgresql:", "jdbc: the address must begin with 'jdbc:'"),
        ("position_query", "search_ts", r"bulk.search_ts: unknown key; allowed: chunk_rows, chunks_per_epoch, clock_q"),
    ],
)
def test_what_is_wrong_is_told_without_the_secret(tmp_path, old, new, message):
    with pytest.raises(ConfigError, match=message) as refused:
        loaded(tmp_path, JDBC.replace(old, new), {"BANK_PASSWORD": "other"})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("format_", "more", "name", "text"),
    [
        (
            "json",
            "",
            "1.json",
            '{"account_id": 1, "balance": 5}\n\n{"account_id": 2, "read_at": "2024-03-01T09:00:00Z"}\n',
        ),
        ("json", 'layout = "array", ', "1.json", '[{"account_id": 1, "balance": 5}, {"read_at": null}]'),
        ("csv", "", "1.csv", "\ufeffaccount_id,balance,read_at\n1,5,2024-03-01T09:00:00Z\n"),
        ("csv", 'delimiter = ";", comment = "#", ', "1.csv", "# of March\naccount_id;balance;read_at\n1;5;\n"),
    ],
)
def test_search_ts_is_a_moment_or_a_column_of_the_files(tmp_path, format_, more, name, text):
    def with_search_ts(value):
        given = f'bulk = {{ path = "in", format = "{format_}", {more}search_ts = "{value}" }}\n'
        return loaded(tmp_path, SAMPLE + given)

    typo = r"deployment.toml:\d+: pipelines.accounts.bulk.search_ts: .* is not a time such as .*, or a column of the fi"
    for _ in ("no folder yet", "no file yet"):
        assert with_search_ts("read_at").service.search_ts == "read_at"
        with pytest.raises(ConfigError, match=typo):
            with_search_ts("2024-3-1T09:00:00Z")
        (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / name).write_text(text)
    assert with_search_ts("read_at").service.search_ts == "read_at"
    assert with_search_ts("2024-03-01T09:00:00Z").service.search_ts == datetime(2024, 3, 1, 9, tzinfo=UTC)
    there = rf"file {name} has the columns: account_id, balance, read_at"
    for wrong in ("2024-3-1T09:00:00Z", "raed_at"):
        with pytest.raises(ConfigError, match=typo + ".*" + there):
            with_search_ts(wrong)


def test_search_ts_of_parquet_is_a_column_of_the_files(tmp_path):
    (tmp_path / "in" / "accounts").mkdir(parents=True)
    pl.DataFrame({"account_id": [1], "at": [datetime(2024, 3, 1, tzinfo=UTC)]}).write_parquet(
        tmp_path / "in" / "accounts" / "1.parquet"
    )
    assert loaded(tmp_path, FILES.replace("2024-01-01T00:00:00Z", "at")).service.search_ts == "at"
    with pytest.raises(ConfigError, match=r"'ts' is not .*; file 1.parquet has the columns: account_id, at"):
        loaded(tmp_path, FILES.replace("2024-01-01T00:00:00Z", "ts"))


def test_search_ts_must_be_a_timestamp(tmp_path):
    with pytest.raises(ConfigError, match=r"bulk.search_ts: column 'balance' must be a timestamp, not bigint"):
        loaded(tmp_path, FILES.replace("2024-01-01T00:00:00Z", "balance"))


def test_a_database_and_csv_have_no_nested_columns(tmp_path):
    for text, why in (
        (JDBC, "column 'balance' is array<bigint>, which this kind of table cannot load"),
        (FILES.replace("search_ts", 'format = "csv", search_ts'), r"column 'balance' is array<bigint>, and csv has no"),
    ):
        nested = text.replace("balance bigint", "balance array<bigint>")
        with pytest.raises(ConfigError, match=why):
            loaded(tmp_path, nested, {"BANK_PASSWORD": "hunter2"})
        assert loaded(tmp_path, text, {"BANK_PASSWORD": "hunter2"}).bulk
    assert loaded(tmp_path, FILES.replace("balance bigint", "balance struct<a:int>")).bulk
