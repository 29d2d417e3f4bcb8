"""`kill -9` of a move: no run begins from nothing in its target, and the same command resumes the copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater import Headwater

from .contracts import drop, records
from .deployments import write
from .processes import headwater, running

if TYPE_CHECKING:
    from pathlib import Path

OTHER = """
[pipelines.other]
service = "ranking"
source = "contracts"
group = ["contract"]
id = ["project"]
order_by = "signed"
"""
TO = ("--to", "delta", "--path", "lake-2")
FILES = 3


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    write(tmp_path / "deploy.toml", 'kind = "files"\npath = "in"\n', "delta:local")
    text = (tmp_path / "deploy.toml").read_text() + OTHER
    (tmp_path / "deploy.toml").write_text(text)
    (tmp_path / "new.toml").write_text(text.replace('path = "lake"', 'path = "lake-2"'))
    return tmp_path / "deploy.toml"


def seen(config: Path, pipeline: str) -> list[tuple[int, int, int]]:
    """The ranks that this process sees."""
    with Headwater.from_config(config) as deployment:
        return sorted(deployment.view(pipeline).select("project", "contract", "rank").rows())


@pytest.mark.faults("kill -9 of a move, in the middle of each pipeline", backend="delta:local")
def test_killed_in_each_pipeline(config: Path) -> None:
    new = config.with_name("new.toml")
    drop(config.parent / "in", *range(FILES))
    assert headwater("run", str(config), "--until-idle").returncode == 0
    before = {name: seen(config, name) for name in ("ranked", "other")}
    assert len(before["ranked"]) == len({row["contract"] for file in range(FILES) for row in records(file)})
    for file in range(FILES - 1):  # what was read before the newest file may be deleted
        (config.parent / "in" / f"contracts-{file:02d}.json").unlink()

    for pipeline in before:
        with running(config, *TO, command="move") as run:
            run.kill_when(lambda name=pipeline: (config.parent / "lake-2" / name).exists())
        refused = headwater("run", str(new), "--until-idle")
        assert refused.returncode == 1
        assert "Run the same `headwater move` again: it resumes the copy" in refused.stderr
        shown = headwater("show", str(new), pipeline)
        assert (shown.returncode, shown.stdout) == (1, "")
        assert f"pipeline '{pipeline}' is not ready here" in shown.stderr
        assert "has not ended" in headwater("plan", str(new)).stdout

    done = headwater("move", str(config), *TO)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("headwater: moved") == 2
    drop(config.parent / "in", FILES)
    for each in (config, new):
        ran = headwater("run", str(each), "--until-idle")
        assert ran.returncode == 0, ran.stderr
    for name, rows in before.items():
        assert seen(new, name) == seen(config, name) != rows
    assert "headwater~" not in headwater("plan", str(new)).stdout
