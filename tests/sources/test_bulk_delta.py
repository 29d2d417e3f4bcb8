"""A Delta table as the chunks of a bulk load: the files of one version, whatever comes later."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headwater.adapters.delta.bulk import DeltaBulk
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.epoch.key_range import KeyRange
from headwater.domain.errors import BadInput, ConfigError, SourceChanged, VersionExpired
from headwater.domain.source.bulk import BulkSpec
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema

from .conftest import rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.domain.epoch.epoch import Offsets

pytestmark = [pytest.mark.delta, pytest.mark.contract]

READ_AT = datetime(2024, 1, 1, tzinfo=UTC)


def append(spark: SparkSession, path: Path, low: int, high: int) -> None:
    frame = spark.range(low, high, 1, 1).selectExpr("id AS account_id", "CAST(id AS INT) AS balance", "id % 2 AS half")
    frame.write.format("delta").mode("append").partitionBy("half").save(str(path))


def bulk(spark: SparkSession, path: Path, schema: str = "account_id bigint, balance int", **more: Any) -> DeltaBulk:
    given = {"key": ("account_id",), "position": (), "search_ts": READ_AT, "delay": timedelta()} | more
    return DeltaBulk(spark, str(path), BulkSpec(RecordSpec(Schema.parse(schema), "parquet"), **given), 5, 1)


def loaded(source: DeltaBulk, after: Offsets | None = None) -> tuple[list[list[int]], Offsets]:
    chunks = []
    while planned := source.plan(after, READ_AT):
        offsets = OffsetRange(*json.loads(json.dumps([planned.after, planned.until])))
        lines = rows(source.read(offsets).rows)
        assert {line["_search_ts"] for line in lines} == {READ_AT}
        assert {line["_chunk"] for line in lines} == {len(chunks)}
        assert all(line["_error"] is None and line["balance"] == line["account_id"] for line in lines)
        chunks.append(sorted(line["account_id"] for line in lines))
        after = offsets.until
    assert after is not None
    return chunks, after


def test_the_files_of_the_version_that_there_was_are_read_and_no_later_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "accounts"
    append(spark, path, 0, 4)
    append(spark, path, 4, 12)
    source = bulk(spark, path)
    assert source.plan(None, None) is None
    assert source.remaining(None) == (KeyRange(0, 3), KeyRange(4, 11))
    assert source.lag(None) == "4 files"
    first = source.plan(None, READ_AT)
    assert first is not None
    append(spark, path, 12, 20)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE account_id = 1")
    chunks = [sorted(line["account_id"] for line in rows(source.read(first).rows))]
    after: Offsets | None = first.until
    while planned := source.plan(after, READ_AT):
        chunks.append(sorted(line["account_id"] for line in rows(source.read(planned).rows)))
        after = planned.until
    assert sorted(each for chunk in chunks for each in chunk) == list(range(12))
    assert max(map(len, chunks)) <= 5
    assert after is not None
    assert len(json.dumps(after)) < 200
    assert (source.remaining(after), source.lag(after), source.trouble) == ((), "", ())


@pytest.mark.parametrize("key", ["account_id", "other"])
def test_the_keys_of_a_table_whose_columns_were_renamed(spark: SparkSession, tmp_path: Path, key: str) -> None:
    """The files, and the bounds of their columns, have the names of before."""
    path, table = tmp_path / "accounts", f"delta.`{tmp_path / 'accounts'}`"
    spark.range(0, 4, 1, 1).selectExpr("id AS account_id", "id + 1000 AS other").write.format("delta").save(str(path))
    mapped = "'delta.columnMapping.mode'='name','delta.minReaderVersion'='2','delta.minWriterVersion'='5'"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES({mapped})")
    for old, new in (("account_id", "former"), ("other", "account_id"), ("former", "other")):
        spark.sql(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    source = bulk(spark, path, "account_id bigint, other bigint", key=(key,))
    assert source.remaining(None) == ((KeyRange(1000, 1003),) if key == "account_id" else (KeyRange(0, 3),))


def test_a_key_in_another_case_is_not_a_renamed_column(spark: SparkSession, tmp_path: Path) -> None:
    """The declared name is that of another column in the files."""
    path, table = tmp_path / "accounts", f"delta.`{tmp_path / 'accounts'}`"
    spark.range(0, 4, 1, 1).selectExpr("id AS id", "id + 1000 AS other").write.format("delta").save(str(path))
    mapped = "'delta.columnMapping.mode'='name','delta.minReaderVersion'='2','delta.minWriterVersion'='5'"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES({mapped})")
    for old, new in (("id", "former"), ("other", "ID")):
        spark.sql(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    assert bulk(spark, path, "id bigint", key=("id",)).remaining(None) == (KeyRange(1000, 1003),)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        *((kind, KeyRange(6, 11)) for kind in ("tinyint", "int", "bigint")),
        *((kind, KeyRange()) for kind in ("string", "decimal(20,0)", "double")),
    ],
)
def test_only_whole_numbers_bound_the_keys_that_remain(
    spark: SparkSession, tmp_path: Path, kind: str, expected: KeyRange
) -> None:
    """As texts, 6 to 11 are between 10 and 9."""
    spark.range(6, 12, 1, 1).selectExpr(f"CAST(id AS {kind}) AS id").write.format("delta").save(str(tmp_path / "t"))
    assert bulk(spark, tmp_path / "t", "id bigint", key=("id",)).remaining(None) == (expected,)


def test_where_a_column_is_missing_no_key_is_ruled_out(spark: SparkSession, tmp_path: Path) -> None:
    append(spark, tmp_path / "t", 0, 3)
    assert bulk(spark, tmp_path / "t", "account_id bigint, city string").remaining(None) == (KeyRange(),)


def make_again(spark: SparkSession, path: Path, commits: int = 3) -> None:
    shutil.rmtree(path)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    for number in range(commits):
        append(spark, path, 100 * number + 100, 100 * number + 108)


@pytest.mark.parametrize("commits", [1, 3])
def test_a_table_that_is_dropped_and_made_again_during_its_load(
    spark: SparkSession, tmp_path: Path, commits: int
) -> None:
    path = tmp_path / "accounts"
    for low in range(commits):
        append(spark, path, 8 * low, 8 * low + 8)
    first = bulk(spark, path).plan(None, READ_AT)
    assert first is not None
    make_again(spark, path)
    source = bulk(spark, path)
    for fails in (lambda: source.plan(first.until, READ_AT), lambda: source.read(first)):
        with pytest.raises(
            SourceChanged, match="dropped, and made again; load the new one under another pipeline name"
        ):
            fails()


@pytest.mark.parametrize("commits", [0, 1, 3])
def test_a_table_that_is_made_again_after_its_load(spark: SparkSession, tmp_path: Path, commits: int) -> None:
    for low in (0, 8):
        append(spark, tmp_path / "t", low, low + 8)
    _, after = loaded(bulk(spark, tmp_path / "t"))
    make_again(spark, tmp_path / "t", commits)
    source = bulk(spark, tmp_path / "t")
    assert (source.plan(after, READ_AT), source.remaining(after), source.lag(after)) == (None, (), "")


def test_a_table_that_lost_the_version_that_its_load_reads(spark: SparkSession, tmp_path: Path) -> None:
    for low in (0, 8):
        append(spark, tmp_path / "t", low, low + 8)
    first = bulk(spark, tmp_path / "t").plan(None, READ_AT)
    assert first is not None
    make_again(spark, tmp_path / "t", 1)
    with pytest.raises(SourceChanged, match="lacks version 1, which its load reads"):
        bulk(spark, tmp_path / "t").plan(first.until, READ_AT)


def test_a_table_whose_log_is_cleaned_during_its_load(spark: SparkSession, tmp_path: Path) -> None:
    """A process that has read the log goes on; another one cannot."""
    for low in (0, 8):
        append(spark, tmp_path / "t", low, low + 8)
    source = bulk(spark, tmp_path / "t")
    first = source.plan(None, READ_AT)
    assert first is not None
    for number in range(10):  # Delta writes a checkpoint of version 10
        append(spark, tmp_path / "t", 100 + number, 101 + number)
    for version in range(9):
        (tmp_path / f"t/_delta_log/{version:020}.json").unlink()
    chunks, after = [rows(source.read(first).rows)], first.until
    while planned := source.plan(after, READ_AT):
        chunks.append(rows(source.read(planned).rows))
        after = planned.until
    assert sorted(line["account_id"] for chunk in chunks for line in chunk) == list(range(16))
    assert source.trouble == ()
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    again = bulk(spark, tmp_path / "t")
    for fails in (lambda: again.plan(first.until, READ_AT), lambda: again.read(first)):
        with pytest.raises(
            VersionExpired, match=r"version 1 of .* cleaned away; load the table under another pipeline"
        ):
            fails()


def test_a_load_that_an_earlier_version_has_begun_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    for low in (0, 8):
        append(spark, tmp_path / "t", low, low + 8)
    first = bulk(spark, tmp_path / "t").plan(None, READ_AT)
    assert first is not None
    version, at, _ = first.until["frontier"]
    after = {**first.until, "frontier": [version, at]}
    chunks = []
    while planned := bulk(spark, tmp_path / "t").plan(after, READ_AT):
        chunks.append(len(rows(bulk(spark, tmp_path / "t").read(planned).rows)))
        after = planned.until
    assert chunks == [4, 4, 4]
    assert bulk(spark, tmp_path / "t").plan({**after, "frontier": [version, 4]}, READ_AT) is None


def test_a_row_is_read_as_the_table_has_it(spark: SparkSession, tmp_path: Path) -> None:
    append(spark, tmp_path / "t", 0, 3)
    chunks, after = loaded(bulk(spark, tmp_path / "t"))
    assert sorted(each for chunk in chunks for each in chunk) == [0, 1, 2]
    assert after["chunks"] == len(chunks)


def test_what_is_no_table_or_lacks_a_column_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a Delta table; create it"):
        bulk(spark, tmp_path / "nothing").plan(None, READ_AT)
    append(spark, tmp_path / "t", 0, 3)
    source = bulk(spark, tmp_path / "t", "account_id bigint, city string")
    with pytest.raises(BadInput, match="has no column 'city'"):
        source.read(source.plan(None, READ_AT))  # type: ignore[arg-type]


def test_times_beyond_the_year_9999_make_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    at, day = (
        "timestamp_micros(253402300799999999 + id - 1) AS at",
        "date_add(DATE'9999-12-30', CAST(id AS INT)) AS day",
    )
    frame = spark.range(0, 4, 1, 1).selectExpr("id AS account_id", at, day)
    frame.write.format("delta").save(str(tmp_path / "accounts"))
    source = bulk(spark, tmp_path / "accounts", "account_id bigint, at timestamp, day date")
    planned = source.plan(None, READ_AT)
    assert planned is not None
    found = rows(source.read(planned).rows)
    assert sorted(line["account_id"] for line in found if line["_error"] is None) == [0, 1]
    why = "(out of range: 0001-01-01 to 9999-12-31 in UTC)"
    assert {line["_error"] for line in found if line["_error"]} == {
        f"column 'at': timestamp wanted, not +10000-01-01 00:00:00 {why}",
        f"column 'at': timestamp wanted, not +10000-01-01 00:00:00.000001 {why}",
    }


def test_nested_columns_are_read_by_name_and_widened(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "accounts"
    at = "timestamp_micros(253402300799999999 + id) AS at"
    place = "named_struct('x', 1, 'n', CAST(account_id AS INT), 'City', 'c', 'all', array(named_struct('at', t.at), null)) AS place"
    spark.range(0, 2, 1, 1).selectExpr("id AS account_id", at).alias("t").selectExpr("account_id", place).write.format(
        "delta"
    ).save(str(path))
    source = bulk(spark, path, "account_id bigint, place struct<city:string,n:bigint,all:array<struct<at:timestamp>>>")
    planned = source.plan(None, READ_AT)
    assert planned is not None
    good, late = sorted(rows(source.read(planned).rows), key=lambda line: line["_error"] or "")
    last = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)
    assert (good["account_id"], good["place"]) == (0, {"city": "c", "n": 0, "all": [{"at": last}, None]})
    assert late["_error"].startswith(
        "column 'place': struct<city:string,n:bigint,all:array<struct<at:timestamp>>> wanted"
    )
    assert late["_error"].endswith("(out of range: 0001-01-01 to 9999-12-31 in UTC)")
    for ddl, why in (
        ("place struct<zip:string>", r"column 'place'\.zip is missing; there are: x, n, City, all"),
        ("place struct<n:tinyint>", r"column 'place'\.n is int, which tinyint cannot hold without loss"),
        ("place array<string>", "column 'place' is struct<.*, and array<string> is wanted"),
    ):
        wrong = bulk(spark, path, f"account_id bigint, {ddl}")
        with pytest.raises(BadInput, match=why):
            wrong.read(wrong.plan(None, READ_AT))  # type: ignore[arg-type]


def test_maps_are_read_as_their_entries(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "accounts"
    more = "map('b', array(CAST(account_id AS INT)), 'a', null) AS more"
    spark.range(0, 1, 1, 1).selectExpr("id AS account_id", more.replace("account_id", "id")).write.format("delta").save(
        str(path)
    )
    source = bulk(spark, path, "account_id bigint, more map<string,array<bigint>>")
    planned = source.plan(None, READ_AT)
    assert planned is not None
    (row,) = rows(source.read(planned).rows)
    assert row["more"] == [{"key": "a", "value": None}, {"key": "b", "value": [0]}]
    for ddl, why in (
        ("more map<string,array<tinyint>>", r"column 'more'\.value\[\] is int, which tinyint cannot hold without loss"),
        ("more map<bigint,array<int>>", r"column 'more'\.key is string, which bigint cannot"),
        ("more array<string>", r"column 'more' is map<string,array<int>>, and array<string> is wanted"),
    ):
        wrong = bulk(spark, path, f"account_id bigint, {ddl}")
        with pytest.raises(BadInput, match=why):
            wrong.read(wrong.plan(None, READ_AT))  # type: ignore[arg-type]
