"""Changelogs through files and Kafka, on every engine, up to ranks."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import narwhals as nw
import pytest

from headwater import Headwater
from headwater.adapters.files import splits
from headwater.adapters.files.listing import FilesSettings
from headwater.adapters.kafka.settings import KafkaSettings
from headwater.app.config import load
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing.clock import NOW
from tests.configurations import on_backend, ranked_contracts

from .conftest import Engine, rows

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.domain.ports import StreamSource
    from headwater.testing.kafka_broker import KafkaBroker

CANAL = RecordSpec(Schema.parse("id bigint, state string"), "canal-json")


def inserted(*ids: int) -> bytes:
    return json.dumps({"type": "INSERT", "data": [{"id": str(each), "state": "a"} for each in ids]}).encode()


def updated(*ids: int) -> bytes:
    data = [{"id": str(each), "state": "b"} for each in ids]
    return json.dumps({"type": "UPDATE", "data": data, "old": [{"state": "a"} for _ in ids]}).encode()


MESSAGES = [inserted(1, 2), updated(1, 2), b'{"type":"CREATE","isDdl":true}', b"{oops", inserted(3)]
EXPECTED = [
    ("+I", 1, "a"),
    ("+I", 2, "a"),
    ("-U", 1, "a"),
    ("+U", 1, "b"),
    ("-U", 2, "a"),
    ("+U", 2, "b"),
    (None, None, None),
    ("+I", 3, "a"),
]


def check(source: StreamSource) -> list[dict[str, Any]]:
    """The rows of a source that holds the messages, once they were looked at."""
    offsets = source.plan(None, NOW)
    assert offsets is not None
    lines = rows(source.read(OffsetRange(*json.loads(json.dumps([offsets.after, offsets.until])))))
    assert [(line["_row_kind"], line["id"], line["state"]) for line in lines] == EXPECTED
    assert len({line["_position"] for line in lines}) == len(lines)
    assert [line["_raw"] for line in lines if line["_error"]] == ["{oops"]
    return lines


@pytest.mark.parametrize("name", ["1.json", "1.jsonl.gz"])
def test_files(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(splits, "BYTES_A_SPLIT", 64)  # so that lines lie across the cuts
    text = b"\n".join(MESSAGES)
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    check(engine.files(FilesSettings(str(tmp_path)), CANAL))


@pytest.mark.kafka
def test_kafka(engine: Engine, kafka: KafkaBroker) -> None:
    topic = f"topic-{uuid4().hex[:8]}"
    kafka.create_topic(topic, partitions=2)
    kafka.produce(topic, [MESSAGES[0], None, *MESSAGES[1:3]], partition=0)
    kafka.produce(topic, MESSAGES[3:], partition=1)
    lines = check(engine.kafka(KafkaSettings(kafka.servers, (topic,)), CANAL))
    assert [line["_origin"].rpartition("@")[2] for line in lines] == ["0", "0", "2", "2", "2", "2", "0", "1"]


SOURCE = """
kind = "files"
path = "in"
format = "maxwell-json"
tables = ["crm.contracts"]
time_zone = "Asia/Shanghai"
key = ["contract"]
metadata = { changed = "commit_time" }
"""
SCHEMA = "contract bigint, project bigint, signed timestamp, changed timestamp"


def maxwell(kind: str, contract: int, project: int, signed: str, old: dict[str, Any] | None = None) -> str:
    data = {"contract": contract, "project": project, "signed": f"2024-03-{signed}"}
    message = {"database": "crm", "table": "contracts", "type": kind, "ts": 1709280000, "xid": 1, "data": data}
    return json.dumps(message | ({"old": old} if old is not None else {}))


EPOCHS = [
    [
        maxwell("insert", 1, 1, "01 09:00:00"),
        maxwell("insert", 2, 1, "01 10:00:00"),
        maxwell("insert", 3, 1, "02 07:59:59"),
        maxwell("insert", 4, 2, "02 08:00:00"),
        maxwell("insert", 9, 1, "01 09:00:00").replace("contracts", "drafts"),
    ],
    [
        maxwell("update", 1, 1, "03 09:00:00", {"signed": "2024-03-01 09:00:00"}),
        maxwell("update", 4, 1, "02 08:00:00", {"project": 2}),
        maxwell("update", 7, 1, "01 10:00:00", {"contract": 2}),
        maxwell("delete", 3, 1, "02 07:59:59"),
        '{"type":"insert","database":"crm","table":"contracts","data":{"contract":"x"}}',
    ],
]


@pytest.mark.parametrize("backend", ["memory", pytest.param("delta", marks=[pytest.mark.delta, pytest.mark.contract])])
def test_ranks_follow_the_changes(request: pytest.FixtureRequest, tmp_path: Path, backend: str) -> None:
    if backend != "memory":
        request.getfixturevalue("spark")
    (tmp_path / "in").mkdir()
    for number, epoch in enumerate(EPOCHS):
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(epoch))
    deployment = ranked_contracts(backend=on_backend(backend), source=SOURCE, schema=SCHEMA)
    (tmp_path / "deploy.toml").write_text(deployment)
    with Headwater(load(tmp_path / "deploy.toml", {}), report=lambda _: None) as headwater:
        headwater.run(until_idle=True)
        ranks = lines(headwater.view("ranked.ranks"), "project", "rank", "contract")
        letters = lines(headwater.view("ranked.dead_letters"), "epoch", "raw", "reason")
    assert ranks == [(1, 1, 7), (1, 2, 4), (1, 3, 1)]
    assert letters == [(1, EPOCHS[1][-1], "column 'contract': bigint wanted, not 'x'")]


def lines(frame: Any, *columns: str) -> list[tuple[Any, ...]]:
    """Some columns of a view's rows, in order."""
    table = nw.from_native(frame).lazy().select(*columns).collect("pyarrow")
    return sorted(table.iter_rows())
