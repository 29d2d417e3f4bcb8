"""Rows that leave out their records: on Spark, the same rows otherwise, and dead letters have their records."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.adapters.files.listing import FilesSettings
from headwater.domain.epoch.batch import ERROR, RAW
from headwater.domain.epoch.epoch import Epoch
from headwater.domain.ports import Now
from headwater.domain.source import dead_letter
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.change import POSITION
from headwater.domain.table.schema import Schema

from .conftest import rows

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.adapters.files.spark_source import SparkFileSource
    from headwater.domain.epoch.epoch import OffsetRange

pytestmark = [pytest.mark.delta, pytest.mark.contract]

NOW = Now(datetime(2024, 3, 1, tzinfo=UTC))
NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
SPEC = RecordSpec(
    Schema.parse(
        "id bigint, tiny tinyint, small smallint, whole int, big bigint, part float, number double, price decimal(18,2),"
        " name string, yes boolean, bytes binary, day date, at timestamp, wall timestamp, local timestamp_ntz, more string"
    ),
    "parquet",
    optional=frozenset({"more"}),
)


def _table(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)

    def some(value: Any, kind: pa.DataType) -> pa.Array:
        return pa.array([None if number % 7 == 0 else value(number) for number in numbers], kind)

    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "tiny": some(lambda n: n % 100, pa.int8()),
            "small": some(lambda n: -(n % 100), pa.int8() if first else pa.int16()),
            "whole": some(lambda n: n * 3, pa.int32()),
            "big": some(lambda n: 2**62 + n, pa.int64()),
            "part": some(lambda n: n / 3, pa.float32()),
            "number": some(lambda n: n / 3, pa.float32()),
            "price": some(lambda n: Decimal(n) / 10, pa.decimal128(9, 1)),
            "name": some(lambda n: f"näme {n}", pa.large_string()),
            "yes": some(lambda n: n % 2 == 0, pa.bool_()),
            "bytes": some(lambda n: b"\xff%d" % n, pa.binary()),
            "day": some(lambda n: date(1, 1, 1) + timedelta(n), pa.date32()),
            "at": some(lambda n: NOON + timedelta(microseconds=n), pa.timestamp("us", "Asia/Tokyo")),
            "wall": some(lambda n: datetime(1583, 1, 1) + timedelta(milliseconds=n), pa.timestamp("ms")),
            "local": some(lambda n: datetime(9999, 12, 31) + timedelta(microseconds=n), pa.timestamp("us")),
            "extra": some(str, pa.string()),
        }
    )


def _planned(source: SparkFileSource) -> OffsetRange:
    found = source.plan(None, NOW)
    assert found is not None
    return found


def _opened(spark: Any, folder: Path, spec: RecordSpec) -> SparkFileSource:
    from headwater.adapters.files.spark_source import SparkFileSource

    return SparkFileSource(FilesSettings(str(folder), 10), spec, spark)


@pytest.fixture
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.adapters.files import spark_parquet

    monkeypatch.setattr(spark_parquet, "_LARGE", 0)


@pytest.mark.usefixtures("_plain")
def test_sparks_own_reader_gives_the_rows_of_the_workers(spark: Any, tmp_path: Path) -> None:
    for at, first in enumerate((0, 1000)):
        pq.write_table(_table(first, 1000), tmp_path / f"{at}.parquet", row_group_size=300)
    pq.write_table(_table(2000, 10).append_column("more", pa.array(["more"] * 10)), tmp_path / "2.parquet")
    pq.write_table(_table(2010, 5), tmp_path / "3 {}.parquet")  # by a worker
    source = _opened(spark, tmp_path, SPEC)
    offsets = _planned(source)
    lean, whole = source.read_lean(offsets), source.read(offsets)
    plan = str(nw.to_native(lean)._jdf.queryExecution().analyzed())
    assert plan.count("] parquet") == 3
    assert plan.count("MapInArrow") == 1
    assert lean.collect_schema() == whole.collect_schema()
    expected = [{**row, RAW: None} for row in rows(whole)]
    assert len(expected) == 2015
    assert rows(lean) == expected


_NANOS = pa.array([NOON], pa.timestamp("ns", "UTC"))


@pytest.mark.usefixtures("_plain")
@pytest.mark.parametrize(
    ("ddl", "more", "columns", "written"),
    [
        ("x int, op string", {"row_kind": "op"}, {"x": pa.array([1]), "op": pa.array(["c"])}, {}),
        ("x timestamp", {"time_zone": "Asia/Tokyo"}, {"x": pa.array([NOON.replace(tzinfo=None)])}, {}),
        ("x timestamp", {}, {"x": pa.array([2**60], pa.timestamp("us", "UTC"))}, {}),
        ("x date", {}, {"x": pa.array([2**30], pa.date32())}, {}),
        ("x date", {}, {"x": pa.array([0], pa.date32())}, {"write_statistics": False}),
        ("x timestamp", {}, {"x": _NANOS}, {"version": "2.6"}),
        ("x timestamp", {}, {"x": _NANOS}, {"use_deprecated_int96_timestamps": True}),
        ("x string", {}, {"x": pa.array(["a"]).dictionary_encode()}, {}),
        ("x bigint", {}, {"x": pa.array([1], pa.uint32())}, {}),
        ("x bigint", {}, {"x": pa.array([1]), "X": pa.array([1])}, {}),
    ],
)
def test_workers_read_what_spark_could_read_differently(
    tmp_path: Path, ddl: str, more: dict[str, Any], columns: dict[str, pa.Array], written: dict[str, Any]
) -> None:
    from headwater.adapters.files.spark_parquet import plain_columns

    file = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), file, **written)
    assert plain_columns(file, RecordSpec(Schema.parse(ddl), "parquet", **more)) is None


def test_workers_read_small_files(tmp_path: Path) -> None:
    from headwater.adapters.files.spark_parquet import plain_columns

    pq.write_table(_table(0, 10), tmp_path / "a.parquet")
    assert plain_columns(tmp_path / "a.parquet", SPEC) is None


@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_dead_letters_have_their_records(spark: Any, tmp_path: Path, format_: str) -> None:
    spec = RecordSpec(Schema.parse("id int, at timestamp"), format_)
    if format_ == "json":
        records = ['{"id":1,"at":"2024-03-01T12:00:00Z"}', "{oops", '{"id": 2}', '{"id":3}']
        (tmp_path / "a.json").write_text("\n".join(records))
    else:
        at = pa.array([None, 2**60, None, None], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"id": pa.array([1, 5, 2, 3]), "at": at}).cast(_SMALL), tmp_path / "a.parquet")
    source = _opened(spark, tmp_path, spec)
    offsets = _planned(source)
    refused = nw.when(nw.col("id") == 2).then(nw.lit("two")).otherwise(nw.col(ERROR)).alias(ERROR)
    with source.open(Epoch("p", 0), offsets) as batch:
        assert [row[RAW] is None for row in rows(batch.rows)] == [True, False, True, True]
        letters = dead_letter.extract(batch.rows.with_columns(refused), batch).collect("pyarrow").rows(named=True)
    whole = {row[POSITION]: row[RAW] for row in rows(source.read(offsets))}
    assert sorted(letter["position"] for letter in letters) == sorted(whole)[1:3]
    assert all(letter["raw"] == whole[letter["position"]] is not None for letter in letters)


_SMALL = pa.schema({"id": pa.int32(), "at": pa.timestamp("us", "UTC")})
