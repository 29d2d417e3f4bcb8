"""Delta without Spark, or with Spark only where it is needed: `backend.engine`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from headwater.app.cli.main import main
from headwater.app.wiring import backends
from headwater.app.wiring.memory import local_bytes
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from pathlib import Path

NO_SPARK = (
    "import sys; from headwater.app.cli.main import main; code = main(sys.argv[1:]);"
    " print(code, sorted({'pyspark', 'py4j', 'delta'} & set(sys.modules)))"
)
ONLY_SPARK = """
[pipelines.odd]
service = "snapshots"
inputs = { ranks = "ranked.ranks" }
every = "15m"
[pipelines.odd.tables]
odd = "SELECT soundex(CAST(project AS STRING)) AS id FROM ranks"
"""
COUNTED = """
[pipelines.counted]
service = "retraction"
source = "contracts"
group = ["project"]
measures = { contracts = "count(*)" }
updated_at = "signed"
roll_after = "1d"
"""
NO_QUERY = NO_SPARK.replace("'delta'}", "'duckdb'}")
STREAMED = """
[sources.handed]
kind = "stream"
schema = "project bigint, contract bigint, signed timestamp"
[pipelines.streamed]
service = "ranking"
source = "handed"
group = ["project"]
id = ["contract"]
order_by = "signed"
"""
PLAIN = """
[pipelines.tagged]
service = "snapshots"
inputs = { ranks = "ranked.ranks", tags = { path = "tags.csv", format = "csv" } }
every = "15m"
[pipelines.tagged.tables]
tagged = "SELECT tag, count(*) AS n FROM ranks JOIN tags ON tags.project = ranks.project GROUP BY tag"
"""
FINE = """
[pipelines.fine]
service = "materialized_view"
inputs = { ranks = "ranked.ranks" }
key = ["project"]
sql = "SELECT project, count(*) AS n FROM ranks GROUP BY project"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    row = {"project": 1, "contract": 11, "signed": "2024-03-01T09:00:00Z"}
    (tmp_path / "in" / "a.json").write_text(json.dumps(row))
    (tmp_path / "deploy.toml").write_text(ranked_contracts())
    return tmp_path / "deploy.toml"


def choose(
    config: Path, monkeypatch: pytest.MonkeyPatch, engine: str | None, name: str = "delta", path: str = ""
) -> None:
    monkeypatch.setenv("HEADWATER_BACKEND__NAME", name)
    monkeypatch.setenv("HEADWATER_BACKEND__PATH", path or str(config.parent / "lake"))
    if engine:
        monkeypatch.setenv("HEADWATER_BACKEND__ENGINE", engine)


@pytest.mark.parametrize("engine", ["local", "auto", None])
def test_no_spark_is_imported(config: Path, monkeypatch: pytest.MonkeyPatch, engine: str | None) -> None:
    choose(config, monkeypatch, engine)
    for command in (["check"], ["run", "--until-idle"], ["status"], ["versions", "ranked"], ["show", "ranked"]):
        arguments = [command[0], str(config), *command[1:]]
        done = subprocess.run([sys.executable, "-c", NO_SPARK, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "0 []", command
    assert list((config.parent / "lake").glob("*/*/_delta_log/*.json"))


def test_what_asks_no_sql_starts_no_engine_for_it(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with config.open("a") as file:
        file.write(COUNTED)
    choose(config, monkeypatch, "local")
    for command in (["status"], ["versions", "counted"], ["show", "counted.totals"]):
        arguments = [command[0], str(config), *command[1:]]
        done = subprocess.run([sys.executable, "-c", NO_QUERY, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "0 []", command


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"engine": "flink"}, "it must be one of auto, spark, local"),
        ({"engine": "flink", "name": "hudi-mor"}, "it must be one of auto, spark, local"),
        ({"engine": "spark", "name": "memory"}, "backend memory has one engine only: leave this key out"),
        ({"engine": "local", "path": "hdfs://host/lake"}, "abfs://…, abfss://…, and not at hdfs://host/lake: set"),
        ({"engine": "local", "name": "hudi-cow", "path": "s3a://bucket/lake"}, 'set engine = "spark"'),
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


@pytest.mark.parametrize("engine", ["local", "auto"])
def test_a_deployment_without_spark_runs_on_memory_too(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    choose(config, monkeypatch, engine, name="memory")
    assert main(["check", str(config)]) == 0
    assert "on backend memory." in capsys.readouterr().out


def test_spark_settings_are_harmless_without_spark(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable may set the engine of a file that has settings for Spark."""
    choose(config, monkeypatch, "local")
    with config.open("a") as file:
        file.write('[backend.spark]\n"spark.driver.memory" = "2g"\n')
    assert main(["check", str(config)]) == 0, capsys.readouterr().err


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


def engines(checked: str) -> dict[str, str]:
    """The engine of each pipeline, from the output of ``headwater check``."""
    found, pipeline = {}, ""
    lines = checked.splitlines()
    for line, following in pairwise(lines):
        if ", from " in line and not line.startswith(" "):
            pipeline = line.partition(",")[0]
        if line == "  engine":
            found[pipeline] = following.strip()
    return found


def test_check_says_which_engine_does_what_and_why(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    choose(config, monkeypatch, "auto")
    monkeypatch.setenv("HEADWATER_BACKEND__LOCAL_MB", "2048")
    with config.open("a") as file:
        file.write(ONLY_SPARK + STREAMED + PLAIN + FINE)
    (config.parent / "tags.csv").write_text("project,tag\n1,blue\n")
    assert main(["check", str(config)]) == 0
    found = engines(capsys.readouterr().out)
    small = "local; spark for an epoch that needs more than 2,048 MiB of memory"
    assert (found["ranked"], found["fine"], found["streamed"]) == (small, small, small)
    refused = "spark, because local does not run it: "
    assert found["odd"].startswith(f"{refused}tables.odd: ")
    assert "soundex" in found["odd"].lower()
    assert found["tagged"].startswith(f"{refused}inputs.tags: ")


def test_without_a_choice_nothing_names_an_engine(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    choose(config, monkeypatch, "local")
    for command in (["check"], ["run", "--until-idle"], ["status", "--format", "jsonl"]):
        assert main([command[0], str(config), *command[1:]]) == 0
        said = capsys.readouterr()
        assert "engine" not in said.out
        assert "on local" not in said.err
    logs = (config.parent / "lake").glob("*/*/_delta_log/*.json")
    assert all('\\"engine\\"' not in log.read_text() for log in logs)


def test_an_epoch_names_its_engine(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    choose(config, monkeypatch, "auto")
    assert main(["run", str(config), "--until-idle"]) == 0
    assert re.search(r"waiting, \d+\.\d\d s on local \(read", capsys.readouterr().err)
    assert main(["status", str(config), "--format", "jsonl"]) == 0
    (status,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (list(status)[-1], status["engine"]) == ("engine", "local")


def test_without_an_engine_each_epoch_chooses_where_spark_works_on_this_machine(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    choose(config, monkeypatch, None)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)  # a Spark of another test may be running
    assert main(["check", str(config)]) == 0
    assert engines(capsys.readouterr().out)["ranked"].startswith("local; spark for an epoch that needs more than ")
    with config.open("a") as file:
        file.write('[backend.spark]\n"spark.master" = "spark://127.0.0.1:7077"\n')
    assert main(["check", str(config)]) == 0
    assert "engine" not in capsys.readouterr().out


def test_where_spark_is_not_installed_everything_is_local(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    choose(config, monkeypatch, "auto")
    monkeypatch.setattr(backends, "is_installed", lambda _name: False)
    with config.open("a") as file:
        file.write('[backend.spark]\n"spark.driver.memory" = "2g"\n')
    for command in (["check"], ["run", "--until-idle"], ["status"]):
        assert main([command[0], str(config), *command[1:]]) == 0
    assert "on local" not in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_a_limit_that_would_do_nothing(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    choose(config, monkeypatch, engine)
    monkeypatch.setenv("HEADWATER_BACKEND__LOCAL_MB", "100")
    assert main(["check", str(config)]) == 2
    assert 'does nothing without engine = "auto": remove it' in capsys.readouterr().err


@pytest.mark.parametrize(("key", "value"), [("ENGINE", "local"), ("NAME", "memory")])
def test_a_limit_in_a_file_whose_engine_is_replaced(
    config: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: str
) -> None:
    config.write_text(config.read_text().replace("[backend]", "[backend]\nlocal_mb = 100", 1))
    monkeypatch.setenv(f"HEADWATER_BACKEND__{key}", value)
    assert main(["check", str(config)]) == 0


def test_the_limit_is_a_part_of_the_memory() -> None:
    assert local_bytes(3) == 3 * 1024 * 1024
    assert 0 < local_bytes(None) * 8 <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
