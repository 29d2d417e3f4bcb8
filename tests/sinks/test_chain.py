"""Pipelines that follow each other over a topic: ranks of ranks, exact whatever the epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from headwater import Headwater
from tests.configurations import SCHEMA
from tests.faults.contracts import Row, lines, ranks, records
from tests.kafka_reading import committed

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.testing.kafka_broker import KafkaBroker

pytestmark = pytest.mark.kafka

_DEPLOYMENT = """\
[backend]
name = "memory"
compact_every = 4

[sources.contracts]
kind = "kafka"
servers = "{servers}"
topics = ["{name}"]
schema = "{schema}"
max_rows_per_epoch = 170

[pipelines.ranked]
service = "ranking"
source = "contracts"
group = ["project"]
id = ["contract"]
order_by = "signed"
[pipelines.ranked.publish]
servers = "{servers}"
topic = "{name}-ranked"
rename = {{ rank = "place" }}

[sources.ranked]
kind = "kafka"
servers = "{servers}"
topics = ["{name}-ranked"]
schema = "{schema}, place bigint, row_kind string"
row_kind = "row_kind"
max_rows_per_epoch = 230

[pipelines.by_place]
service = "ranking"
source = "ranked"
group = ["place"]
id = ["contract"]
order_by = "signed"
repeats = "{repeats}"
[pipelines.by_place.publish]
servers = "{servers}"
topic = "{name}-by-place"
format = "upsert-json"
"""


@pytest.fixture
def name(kafka: KafkaBroker) -> str:
    name = f"contracts-{uuid4().hex[:8]}"
    for topic in (name, f"{name}-ranked", f"{name}-by-place"):
        kafka.create_topic(topic, partitions=2)
    return name


def ranks_of_ranks(rows: list[Row]) -> list[Row]:
    """The rank of each contract among those that hold the same place in their projects."""
    placed = {row["contract"]: row["rank"] for row in ranks(rows)}
    newest = {row["contract"]: row for row in rows}
    groups = [row | {"project": placed[contract]} for contract, row in newest.items()]
    return [newest[row["contract"]] | {"place": row["project"], "rank": row["rank"]} for row in ranks(groups)]


@pytest.mark.parametrize("repeats", ["anywhere", pytest.param("same-segment", marks=pytest.mark.slow)])
def test_ranks_of_ranks_equal_the_oracle(tmp_path: Path, kafka: KafkaBroker, name: str, repeats: str) -> None:
    config = tmp_path / "deploy.toml"
    config.write_text(_DEPLOYMENT.format(servers=kafka.servers, name=name, schema=SCHEMA, repeats=repeats))
    rows: list[Row] = []
    with Headwater.from_config(config) as headwater:
        for day in range(4):
            for partition in (0, 1):
                some = [row for row in records(day) if row["contract"] % 2 == partition]
                kafka.produce(name, lines(some), partition)
            rows += records(day)
            headwater.run(until_idle=True)
        by_place = headwater.view("by_place")
        assert headwater.epoch("by_place") > 10
    expected = ranks_of_ranks(rows)
    assert _plain(by_place) == expected
    assert _upserted(kafka, f"{name}-by-place") == expected


def _plain(frame: Any) -> list[Row]:
    rows = frame.sort("contract").rows(named=True)
    return [row | {"signed": f"{row['signed']:%Y-%m-%dT%H:%M:%SZ}"} for row in rows]


def _upserted(kafka: KafkaBroker, topic: str) -> list[Row]:
    rows: dict[int, Row] = {}
    for found in committed(kafka, topic):
        if found.value is None:
            del rows[found.key["contract"]]
        else:
            rows[found.key["contract"]] = found.value
    return [rows[contract] for contract in sorted(rows)]
