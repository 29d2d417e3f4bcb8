"""Commands that read never write: the folder is the same before and after each of them, in names, sizes and times."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from headwater.app.cli.main import main
from tests.configurations import on_backend, ranked_contracts

if TYPE_CHECKING:
    from pathlib import Path

BACKENDS = [
    "parquet",
    pytest.param("delta", marks=pytest.mark.delta),
    pytest.param("hudi-mor", marks=pytest.mark.hudi),
]
VIEW = """
[pipelines.totals]
service = "materialized_view"
inputs = { r = "ranked.ranks" }
key = ["project"]
sql = "SELECT project, count(*) AS contracts FROM r GROUP BY project"
[pipelines.signed]
service = "cumulate"
source = "contracts"
step = "1m"
measures = { n = "count(*)" }
"""
WAIT = ["--watermark", "2024-03-01T09:00:00Z", "--timeout", "1ms"]
READING: dict[tuple[str, ...], int] = {
    ("status",): 0,
    ("show", "ranked"): 0,
    ("show", "totals"): 0,
    ("diff", "ranked"): 0,
    ("versions", "ranked"): 0,
    ("explain-retention",): 0,
    ("plot", "signed"): 0,
    ("dead-letters", "ranked"): 0,
    ("explain", "totals"): 0,
    ("check",): 0,
    ("plan",): 0,
    ("expire",): 0,
    ("wait-for", "ranked", *WAIT): 0,
}
"""Each command, and its exit code once there is something to read."""
BEFORE = {**READING, ("wait-for", "ranked", *WAIT): 3}
"""The same, before the first run."""


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """All files and folders, each with its size and the time of its last change."""
    return {str(each): (each.stat().st_size, each.stat().st_mtime_ns) for each in folder.rglob("*")}


def reads_only(folder: Path, commands: dict[tuple[str, ...], int]) -> None:
    before = listing(folder)
    for (name, *rest), code in commands.items():
        assert main([name, str(folder / "deploy.toml"), *rest]) == code, name
        assert listing(folder) == before, name


@pytest.mark.parametrize("backend", BACKENDS)
def test_commands_that_read_write_nothing(
    tmp_path: Path, parquet_backend: None, request: pytest.FixtureRequest, backend: str
) -> None:
    if backend != "parquet":
        request.getfixturevalue("spark")
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"project": 1, "contract": at, "signed": f"2024-03-01T09:0{at}:00Z"}) for at in range(3)]
    (tmp_path / "in" / "a.json").write_text("\n".join([*lines, "{"]))
    deployment = ranked_contracts(backend=on_backend(backend, "lake/not/there")) + VIEW
    (tmp_path / "deploy.toml").write_text(deployment)
    reads_only(tmp_path, BEFORE)
    assert main(["run", str(tmp_path / "deploy.toml"), "--until-idle"]) == 0
    assert (tmp_path / "lake" / "not" / "there").exists()
    reads_only(tmp_path, READING)
