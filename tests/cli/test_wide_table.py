"""A wide table at the command line, over the example backend: its tables outlive their process, and it needs no JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.app.cli.main import main

DEPLOYMENT = """
[backend]
name = "parquet"
path = "lake"

[sources.info]
kind = "files"
path = "info"
schema = "shop_id bigint, name string, updated_at timestamp"
event_time = "updated_at"

[sources.stock]
kind = "files"
path = "stock"
schema = "shop_id bigint, items int, seq bigint"

[sources.tags]
kind = "files"
path = "tags"
schema = "shop_id bigint, tag string, seq bigint"

[pipelines.shop]
service = "wide_table"
key = ["shop_id"]

[pipelines.shop.topics.info]
source = "info"
columns = ["name"]
sequence = ["updated_at"]

[pipelines.shop.topics.stock]
source = "stock"
columns = ["items"]
sequence = ["seq"]
"""
TAGS = """
[pipelines.shop.topics.tags]
source = "tags"
columns = ["tag"]
sequence = ["seq"]
"""
INFO: list[list[dict[str, Any]]] = [[{"shop_id": 1, "name": "North", "updated_at": "2024-03-01T09:00:00Z"}]]
STOCK: list[list[dict[str, Any]]] = [
    [{"shop_id": 1, "items": 7, "seq": 2}, {"shop_id": None, "items": 7, "seq": 2}],
    [{"shop_id": 1, "items": 6, "seq": 1}, {"shop_id": 2, "items": 5, "seq": 1}],
]


@pytest.fixture
def config(tmp_path: Path, parquet_backend: None) -> str:
    for topic, files in (("info", INFO), ("stock", STOCK), ("tags", [])):
        (tmp_path / topic).mkdir()
        for number, records in enumerate(files):
            (tmp_path / topic / f"{number}.json").write_text("\n".join(map(json.dumps, records)))
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    return str(tmp_path / "deploy.toml")


def add(config: str, text: str) -> None:
    Path(config).write_text(Path(config).read_text() + text)


def shown(config: str, view: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["show", config, view, "--format", "jsonl"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_run_tells_what_waits_in_each_topic(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", config, "--until-idle", "--show", "shop", "--format", "jsonl"]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [
        {"shop_id": 1, "name": "North", "items": 7},
        {"shop_id": 2, "name": None, "items": 5},
    ]
    first, second = err.splitlines()
    assert first.startswith("shop epoch 0: 3 rows in (1 to the dead letters), ")
    assert "watermark 2024-03-01T09:00:00Z, info: 0 files, stock: 1 file waiting" in first
    assert second.startswith("shop epoch 1: 2 rows in, ")


def test_status_tells_what_waits_and_how_many_could_not_be_used(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", config, "--until-idle"]) == 0
    (Path(config).parent / "stock" / "9.json").write_text(json.dumps(STOCK[1][0]))
    capsys.readouterr()
    assert main(["status", config, "--format", "jsonl"]) == 0
    (status,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (status["pipeline"], status["epoch"], status["dead_letters"]) == ("shop", 1, 1)
    assert status["waiting"] == "info: 0 files, stock: 1 file"


def test_a_letter_says_which_topic_it_is_of(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", config, "--until-idle"]) == 0
    capsys.readouterr()
    assert main(["dead-letters", config, "shop", "--format", "jsonl"]) == 0
    (letter,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (letter["reason"], letter["origin"], letter["format"]) == (
        "key column shop_id is null",
        "stock: 0.json",
        "json",
    )


def test_check_explains_views_and_tables(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", config]) == 0
    out = capsys.readouterr().out
    assert "shop.rows: the newest of each topic's columns, a row a key\n      shop_id, name, items\n" in out
    assert "shop.completeness: for each key which topics have reported, and how far\n" in out


def test_a_topic_more_is_shown_before_it_has_brought_anything(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", config, "--until-idle"]) == 0
    add(config, TAGS)
    capsys.readouterr()
    rows = shown(config, "shop", capsys)
    assert [row | {"tag": None} for row in rows] == rows
    assert main(["run", config, "--until-idle"]) == 0
    capsys.readouterr()
    assert shown(config, "shop", capsys) == rows


def test_an_edit_that_the_rows_cannot_follow_is_one_message(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", config, "--until-idle"]) == 0
    add(config, 'where = "items > 0"\n')
    capsys.readouterr()
    assert main(["run", config, "--until-idle"]) == 2
    assert capsys.readouterr() == (
        "",
        f"headwater: {config}:22: pipelines.shop: pipeline 'shop' was built with other sequence, key, where, owner, nulls or absent of topic stock; its"
        " tables cannot be continued with these: use the configuration that they were built with, or build it again"
        " with `headwater rebuild` (frames of a program cannot be read again), or give the pipeline another name\n",
    )
