"""The JSON Schema of the configuration accepts what `load` accepts."""

from __future__ import annotations

import json
import re
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from headwater.app.cli.main import main
from headwater.app.config.json_schema import json_schema

ROOT = Path(__file__).parents[4]
VALIDATOR = Draft7Validator(json_schema())


def deployments() -> dict[str, str]:
    """The whole deployments of the examples (but for those with kinds of their own) and of the pages, by place."""
    examples = [file for file in (ROOT / "examples").rglob("*.toml") if not (file.parent / "pyproject.toml").exists()]
    found = {str(file.relative_to(ROOT)): file.read_text() for file in examples}
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        blocks = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
        whole = [block for block in blocks if "[backend]" in block and "[pipelines." in block]
        found |= {f"{page.relative_to(ROOT)} {at}": block for at, block in enumerate(whole)}
    return found


def plain(value: Any) -> Any:
    """A value of TOML as a value of JSON."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value


def mistakes(text: str) -> list[str]:
    found = VALIDATOR.iter_errors(plain(tomllib.loads(text)))
    return [".".join(map(str, each.absolute_path)) + ": " + each.message for each in found]


def test_it_is_a_schema() -> None:
    Draft7Validator.check_schema(json_schema())
    assert len(deployments()) > 10


@pytest.mark.parametrize("place", deployments())
def test_every_deployment_of_the_pages_and_examples_is_accepted(place: str) -> None:
    assert mistakes(deployments()[place]) == []


GOOD = """
[backend]
name = "delta"
path = "lake"
retain = { versions = 3 }
compact_every = "${EVERY}"
[backend.spark]
spark.driver.memory = "2g"
[sources.orders]
kind = "kafka"
servers = "127.0.0.1:9092"
topics = ["orders"]
schema = "id bigint, state string, at timestamp"
options = { "sasl.password" = "${PASSWORD}" }
[pipelines.states]
service = "retraction"
source = "orders"
group = ["state"]
measures = { n = "count(*)", paid = { measure = "count(*)", where = "state = 'paid'" } }
updated_at = "at"
past = { sql = "SELECT state, count(*) AS n FROM old GROUP BY state", tables = { old = { path = "old" } } }
[pipelines.files]
service = "bulk_merge"
changelog = "orders"
key = ["id"]
bulk = { path = "dump", format = "csv", delimiter = ";", search_ts = 2024-03-01T09:00:00Z, chunk_rows = 10 }
[pipelines.database]
service = "bulk_merge"
changelog = "orders"
key = ["id"]
bulk = { jdbc = "jdbc:postgresql://db/shop", table = "orders", password = "${PASSWORD}" }
"""


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("", "", None),
        ('kind = "kafka"', 'kind = "kafcka"', "sources.orders.kind: 'kafcka' is not one of"),
        ('servers = "127.0.0.1:9092"\n', "", "sources.orders: 'servers' is a required property"),
        ("versions = 3", "version = 3", "backend.retain: Additional properties are not allowed ('version'"),
        ('group = ["state"]', 'group = "state"', "pipelines.states.group: 'state' is not of type 'array'"),
        ('n = "count(*)"', "n = 5", "pipelines.states.measures.n: 5 is not valid under any"),
        ('"${EVERY}"', "-1", "backend.compact_every: -1 is not valid under any"),
        ("updated_at", "updatedat", "pipelines.states: Additional properties are not allowed ('updatedat'"),
        ('path = "dump"', 'paht = "dump"', "pipelines.files.bulk: Additional properties are not allowed ('paht'"),
        ('path = "dump", ', "", "pipelines.files.bulk: 'path' is a required property"),
        ("chunk_rows = 10", 'chunk_rows = "ten"', "pipelines.files.bulk.chunk_rows: 'ten' is not valid under any"),
        ('format = "csv"', 'format = "cvs"', "pipelines.files.bulk.format: 'cvs' is not one of"),
        ("jdbc = ", "jdcb = ", "pipelines.database.bulk: Additional properties are not allowed ('jdcb'"),
        ("table =", "path =", "pipelines.database.bulk: Additional properties are not allowed ('path'"),
        ("sql = ", "path = ", "pipelines.states.past: Additional properties are not allowed ('tables'"),
        (', tables = { old = { path = "old" } }', "", "pipelines.states.past: 'tables' is a required property"),
        ("[backend.spark]", "[bakend.spark]", "Additional properties are not allowed ('bakend'"),
    ],
)
def test_a_mistake_is_found(before: str, after: str, told: str | None) -> None:
    found = mistakes(GOOD.replace(before, after))
    assert found == [] if told is None else any(told in each for each in found), found


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(json_schema()))
