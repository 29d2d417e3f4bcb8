"""``headwater dead-letters`` at the command line, after the cause of the dead letters was fixed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from headwater.app.cli.main import main
from tests.configurations import FILES, ranked_contracts
from tests.example_fixtures import parquet_registered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LETTERS = [
    '{"project": 1, "contract": 12, "signed": "2024-03-02T09:00:00Z", "kind": "lease"}',
    '{"project": 1, "contract": 13, "signed": "2024-03-01T08:00:00Z", "kind": "sale"}',
    '{"contract": 14, "signed": "2024-03-01T08:00:00Z", "kind": "c"}',
]
GOOD = '{"project": 1, "contract": 11, "signed": "2024-03-01T09:00:00Z", "kind": "c"}'


def deployment(row_kind: str) -> str:
    schema = "project bigint, contract bigint, signed timestamp, kind string"
    return ranked_contracts(backend='name = "parquet"\npath = "lake"\n', source=f"{FILES}{row_kind}", schema=schema)


@pytest.fixture
def config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Path]:
    """A deployment that has run with a wrong setting, on a backend that keeps its tables without a JVM."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("\n".join([GOOD, *LETTERS]))
    file = tmp_path / "deploy.toml"
    file.write_text(deployment('row_kind = "kind"\n'))
    (tmp_path / "site").mkdir()
    with parquet_registered(tmp_path / "site"):
        assert main(["run", str(file), "--until-idle"]) == 0
        capsys.readouterr()
        yield file


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_prints_the_letters_and_counts_them_by_reason(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dead-letters", str(config), "ranked", "--format", "jsonl"]) == 0
    out, err = capsys.readouterr()
    assert sorted(letter["raw"] for letter in rows(out)) == sorted(LETTERS)
    assert list(rows(out)[0]) == ["epoch", "reason", "origin", "position", "raw", "format", "row_kind", "bytes"]
    assert err.splitlines() == [
        "headwater: 1 x column 'kind': a row kind (+I -U +U -D, or c r u d) wanted, not 'lease'",
        "headwater: 1 x column 'kind': a row kind (+I -U +U -D, or c r u d) wanted, not 'sale'",
        "headwater: 1 x group column project is null",
    ]


def test_a_replay_tells_what_went_in_and_what_is_left(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(deployment(""))
    assert main(["dead-letters", str(config), "ranked", "--replay", "--format", "jsonl"]) == 0
    out, err = capsys.readouterr()
    (letter,) = rows(out)
    assert (letter["epoch"], letter["reason"], letter["raw"]) == (1, "group column project is null", LETTERS[2])
    progress, *told = err.splitlines()
    assert progress.startswith("ranked epoch 1: 3 rows in (1 to the dead letters), ")
    assert ", replay, " in progress
    assert told == [
        "headwater: ranked: 3 read again, 2 of their rows were used; 1 is left",
        "headwater: 1 x group column project is null",
    ]
    assert main(["show", str(config), "ranked", "--format", "jsonl"]) == 0
    assert {row["contract"]: row["rank"] for row in rows(capsys.readouterr().out)} == {13: 1, 11: 2, 12: 3}
    assert main(["status", str(config), "--format", "jsonl"]) == 0
    (status,) = rows(capsys.readouterr().out)
    assert (status["epoch"], status["waiting"], status["dead_letters"]) == (1, "0 files", 1)


def test_many_reasons_are_told_in_part(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.dumps({"project": 1, "contract": 20 + at, "kind": f"word {at}"}) for at in range(30)]
    (config.parent / "in" / "b.json").write_text("\n".join(lines))
    assert main(["run", str(config), "--until-idle"]) == 0
    capsys.readouterr()
    assert main(["dead-letters", str(config), "ranked"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "headwater: … and for other reasons"


def test_letters_that_cannot_be_read_from_here(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = deployment('format = "csv"\n')
    config.write_text(text)
    assert main(["dead-letters", str(config), "ranked", "--replay"]) == 0
    assert capsys.readouterr().err.splitlines()[0] == (
        "headwater: ranked: 0 read again, 0 of their rows were used; 3 are left,"
        " 3 of them in a format that this source cannot read again"
    )


def test_a_pipeline_that_is_not_there(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dead-letters", str(config), "rank"]) == 2
    assert "there is no pipeline 'rank'" in capsys.readouterr().err
