"""Dead letters read again by the sources of every engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import narwhals as nw
import pytest

from headwater import Headwater
from headwater.adapters.files.listing import FilesSettings
from headwater.adapters.files.polars_source import PolarsFileSource
from headwater.adapters.kafka.settings import KafkaSettings
from headwater.domain.epoch.batch import Batch
from headwater.domain.epoch.epoch import Epoch
from headwater.domain.errors import SourceChanged
from headwater.domain.source import dead_letter
from headwater.domain.source.csv_format import CsvFormat
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing.clock import NOW

from .conftest import Engine, rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.domain.ports import StreamSource
    from headwater.testing.kafka_broker import KafkaBroker

NUMBERS = RecordSpec(Schema.parse("id bigint, state string"), "maxwell-json")
TEXTS = RecordSpec(Schema.parse("id string, state string"), "maxwell-json")


def message(number: int, old: dict[str, Any] | None = None) -> bytes:
    """A message that `NUMBERS` cannot take and `TEXTS` can."""
    told = {"type": "update" if old else "insert", "data": {"id": f"n{number}", "state": "x" * number}}
    return json.dumps(told | ({"old": old} if old else {})).encode()


def letters_of(source: StreamSource) -> nw.LazyFrame[Any]:
    """The dead letters of a source, an epoch after the other."""
    found, after = [], None
    while offsets := source.plan(after, NOW):
        batch = Batch(Epoch("p", len(found)), source.read(offsets), offsets, source.format)
        found.append(dead_letter.extract(batch.rows, batch))
        after = offsets.until
    return nw.concat(found)


def check_order(found: list[dict[str, Any]], ids: list[str]) -> None:
    assert [row["id"] for row in found] == ids
    assert len({row["_position"] for row in found}) == len(found)


def test_files(engine: Engine, tmp_path: Path) -> None:
    numbers = range(40)
    for name in range(4):
        some = [message(each, {"state": "old"}) for each in numbers if each // 10 == name]
        (tmp_path / f"{name}.json").write_bytes(b"\n".join([*some, b'"\xff"']))
    letters = letters_of(engine.files(FilesSettings(str(tmp_path), 2), NUMBERS))
    found = rows(engine.files(FilesSettings(str(tmp_path)), TEXTS).reread(letters))
    used = [row for row in found if row["_error"] is None]
    check_order(used, [f"n{each}" for each in numbers for _ in range(2)])
    assert [(row["_row_kind"], row["state"], row["_origin"]) for row in used[-2:]] == [
        ("-U", "old", "3.json"),
        ("+U", "x" * 39, "3.json"),
    ]
    broken = [row for row in found if row["_error"]]
    assert [(row["_bytes"], row["_origin"]) for row in broken] == [(b'"\xff"', f"{each}.json") for each in range(4)]
    assert used[19]["_position"] < broken[0]["_position"] < used[20]["_position"]


def test_csv_files_that_differ_in_their_headers(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,state\nn1,a\nn2,b\n1,c\n")
    (tmp_path / "b.csv").write_text('state,id,more\nc,n3,z\n"d\ne",n4,z\n')
    spec = RecordSpec(NUMBERS.schema, "csv")
    letters = letters_of(engine.files(FilesSettings(str(tmp_path)), spec))
    fixed = engine.files(FilesSettings(str(tmp_path)), RecordSpec(TEXTS.schema, "csv"))
    found = rows(fixed.reread(letters))
    check_order(found, ["n1", "n2", "n3", "n4"])
    assert [row["state"] for row in found] == ["a", "b", "c", "d\ne"]
    with pytest.raises(SourceChanged, match=r"c\.csv is gone, and with it the header .* put it back"):
        fixed.reread(letters.with_columns(nw.lit("c.csv").alias("origin")))


def test_csv_files_without_a_header_are_not_needed(tmp_path: Path) -> None:
    how = CsvFormat(delimiter=";", header=False)
    (tmp_path / "a.csv").write_text("n1;a\n1;b\n")
    letters = letters_of(PolarsFileSource(FilesSettings(str(tmp_path)), RecordSpec(NUMBERS.schema, "csv", csv=how)))
    (tmp_path / "a.csv").unlink()
    fixed = PolarsFileSource(FilesSettings(str(tmp_path)), RecordSpec(TEXTS.schema, "csv", csv=how))
    assert [(row["id"], row["state"]) for row in rows(fixed.reread(letters))] == [("n1", "a")]


@pytest.mark.kafka
def test_kafka(engine: Engine, kafka: KafkaBroker) -> None:
    topic = f"topic-{uuid4().hex[:8]}"
    kafka.create_topic(topic, partitions=1)
    kafka.produce(topic, [message(each) for each in range(7)], partition=0)
    letters = letters_of(engine.kafka(KafkaSettings(kafka.servers, (topic,), 3), NUMBERS))
    found = rows(engine.kafka(KafkaSettings(kafka.servers, (topic,), 3), TEXTS).reread(letters))
    check_order(found, [f"n{each}" for each in range(7)])
    assert [row["_origin"] for row in found] == [f"{topic}/0@{each}" for each in range(7)]


HANDED = """
[backend]
name = "delta"
path = "lake"
[sources.visits]
kind = "stream"
schema = "page string, visit bigint, at timestamp, wall timestamp_ntz, cost decimal(9,2), share double, op string"
row_kind = "op"
[pipelines.visit_rank]
service = "ranking"
source = "visits"
group = ["page"]
id = ["visit"]
order_by = "at"
"""


@pytest.mark.delta
@pytest.mark.contract
def test_rows_that_were_handed_over(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(HANDED)
    given = (
        "SELECT 'x' page, 1L visit, timestamp '1890-03-01 09:00:00.123456Z' at,"
        " timestamp_ntz '2024-03-01 09:00:00.000001' wall, CAST(1.50 AS decimal(9,2)) cost, 0.1D share, 'shop' op"
    )
    with Headwater.from_config(file, report=lambda _: None) as headwater:
        headwater.foreach_batch("visit_rank")(spark.sql(given), 0)
        (letter,) = headwater.view("visit_rank.dead_letters").collect()
        assert (letter["row_kind"], letter["format"]) == (None, "json")
    file.write_text(HANDED.replace('row_kind = "op"\n', ""))
    with Headwater.from_config(file, report=lambda _: None) as headwater:
        done = headwater.replay("visit_rank")
        assert (done.read, done.rows, done.left) == (1, 1, 0)
        columns = ["page", "visit", "at", "wall", "cost", "share", "op"]
        assert headwater.view("visit_rank.ranks").select(*columns).exceptAll(spark.sql(given)).count() == 0
        assert headwater.view("visit_rank.ranks").count() == 1
