"""Delta without Spark: `backend.engine`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from headwater.app.cli.main import main
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from pathlib import Path

NO_SPARK = (
    "import sys; from headwater.app.cli.main import main; code = main(sys.argv[1:]);"
    " print(code, sorted({'pyspark', 'py4j', 'delta'} & set(sys.modules)))"
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    row = {"project": 1, "contract": 11, "signed": "2024-03-01T09:00:00Z"}
    (tmp_path / "in" / "a.json").write_text(json.dumps(row))
    (tmp_path / "deploy.toml").write_text(ranked_contracts())
    return tmp_path / "deploy.toml"


def choose(config: Path, monkeypatch: pytest.MonkeyPatch, engine: str, name: str = "delta", path: str = "") -> None:
    monkeypatch.setenv("HEADWATER_BACKEND__NAME", name)
    monkeypatch.setenv("HEADWATER_BACKEND__PATH", path or str(config.parent / "lake"))
    monkeypatch.setenv("HEADWATER_BACKEND__ENGINE", engine)


def test_no_spark_is_imported(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(config, monkeypatch, "local")
    for command in (["check"], ["run", "--until-idle"], ["status"], ["versions", "ranked"], ["show", "ranked"]):
        arguments = [command[0], str(config), *command[1:]]
        done = subprocess.run([sys.executable, "-c", NO_SPARK, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "0 []", command
    assert list((config.parent / "lake").glob("*/*/_delta_log/*.json"))


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"engine": "auto"}, "it must be one of spark, local"),
        ({"engine": "local", "name": "memory"}, "backend memory has one engine only: leave this key out"),
        ({"engine": "local", "path": "s3a://bucket/lake"}, 'not at s3a://bucket/lake: set engine = "spark"'),
    ],
    ids=str,
)
def test_what_is_refused(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    chosen: dict[str, str],
    told: str,
) -> None:
    choose(config, monkeypatch, **chosen)
    assert main(["check", str(config)]) == 2
    assert told in capsys.readouterr().err


def test_spark_settings_that_would_do_nothing(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    choose(config, monkeypatch, "local")
    with config.open("a") as file:
        file.write('[backend.spark]\n"spark.driver.memory" = "2g"\n')
    assert main(["check", str(config)]) == 2
    error = capsys.readouterr().err
    assert ": backend.spark" in error
    assert "remove it, or set another engine" in error


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("soundex(CAST(id AS string))", "is not known without Spark; docs/sql.md lists what is"),
        ("CAST(id / 2 AS string)", "a cast from double to string is not the same here as on Spark; leave it out"),
    ],
)
def test_sql_that_it_does_not_answer(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sql: str, told: str
) -> None:
    """The message names the line, the pipeline and the text, and what can be done."""
    choose(config, monkeypatch, "local")
    query = f"SELECT {sql} AS x FROM (SELECT contract AS id FROM ranks)"
    with config.open("a") as file:
        file.write(
            '\n[pipelines.odd]\nservice = "snapshots"\ninputs = { ranks = "ranked.ranks" }\nevery = "15m"\n'
            f'[pipelines.odd.tables]\nodd = "{query}"\n'
        )
    line = config.read_text().splitlines().index("[pipelines.odd]") + 1
    for command, key in ((["check"], "tables.odd: "), (["run", "--until-idle"], "")):
        assert main([command[0], str(config), *command[1:]]) == 2
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.startswith(f"headwater: {config}:{line}: pipelines.odd: {key}{query!r}: ")
        assert said.endswith(told)
