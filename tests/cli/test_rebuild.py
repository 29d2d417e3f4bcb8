"""`headwater rebuild` makes the tables that a fresh pipeline with the edited settings would have, for every service."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Headwater
from headwater.app.cli.main import main
from headwater.app.run.clock import SystemClock
from headwater.app.wiring.edits import Verdict, plan_edits
from headwater.domain.errors import NotSupported, PipelineRebuilt

from .test_plan import DEPLOYMENT, arrive

if TYPE_CHECKING:
    from pathlib import Path

EDITS = {
    "ranked": ('group = ["g"]\nid', 'group = ["g"]\nmethod = "rank"\nid'),
    "totals": ('"sum(v)" }}\n\n[pipelines.ticks]', '"max(v)" }}\n\n[pipelines.ticks]'),
    "ticks": ('step = "1m"', 'step = "2m"'),
    "wide": ('columns = ["g", "v"]\n\n[pipelines.m', 'columns = ["v"]\n\n[pipelines.m'),
    "merged": ('columns = ["g", "v"]\nchangelog', 'columns = ["v"]\nchangelog'),
    "best": ("SELECT id, rank FROM r", "SELECT id, CAST(rank AS string) AS rank FROM r"),
    "shown": ("count(*) AS n", "sum(v) AS n"),
}
"""By pipeline of the deployment: what is replaced, and by what."""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A deployment that has run."""
    for name in ("in", "bulk"):
        (tmp_path / name).mkdir()
    arrive(tmp_path / "in", 1, ("+I", 1, 10), ("+I", 2, 20), ("+I", 3, 20))
    arrive(tmp_path / "in", 2, ("+I", 4, 5), ("-D", 1, 10))
    arrive(tmp_path / "bulk", 0, ("+I", 9, 90))
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT.format(folder=tmp_path))
    with Headwater.from_config(tmp_path / "deploy.toml") as headwater:
        headwater.run(until_idle=True)
    return tmp_path / "deploy.toml"


def edit(config: Path, *pipelines: str) -> None:
    text = DEPLOYMENT
    for name in pipelines:
        assert text.count(EDITS[name][0]) == 1
        text = text.replace(*EDITS[name])
    config.write_text(text.format(folder=config.parent))


def rows(headwater: Headwater) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all views, but for those that tell of epochs."""
    views = (
        f"{name}.{view.name}" for name, each in headwater.services.items() for view in each.views if not view.between
    )
    names = [name for name in views if name not in {"shown.markers", "best.recomputed", "wide.completeness"}]
    return {name: sorted(headwater.view(name).rows(), key=str) for name in names}


def verdicts(config: Path) -> dict[str, Verdict]:
    with Headwater.from_config(config) as headwater:
        edits = plan_edits(headwater.deployment, headwater.services, SystemClock())
    assert edits is not None
    return {each.name: each.verdict for each in edits if each.kind == "pipeline"}


def test_every_service_has_the_rows_of_a_fresh_pipeline(config: Path) -> None:
    edit(config, *EDITS)
    assert [name for name, verdict in verdicts(config).items() if verdict is Verdict.REBUILD] == list(EDITS)[:-1]
    with Headwater.from_config(config) as headwater:
        for name in EDITS:
            found = headwater.rebuild(name)
            assert found
            assert (found.generation, found.former) == (2, 1)
        arrive(config.parent / "in", 3, ("+I", 5, 7), ("-D", 2, 20))
        headwater.run(until_idle=True)
        rebuilt = rows(headwater)
    shutil.rmtree(config.parent / "lake")
    with Headwater.from_config(config) as headwater:
        headwater.run(until_idle=True)
        assert rebuilt == rows(headwater)


def test_readers_of_a_rebuilt_pipeline_compute_their_rows_again(config: Path) -> None:
    edit(config, "ranked")
    with Headwater.from_config(config) as headwater:
        headwater.rebuild("ranked")
        headwater.run(until_idle=True)
        assert dict(headwater.view("best").select("id", "rank").rows()) == {4: 1, 2: 2, 3: 2}
        assert headwater.view("shown.counted").select("n").rows() == [(3,)]


def test_the_command(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = config.parent / "lake"
    with Headwater.from_config(config) as before:
        handle = before.pipeline("ranked")
        assert handle.epoch == 1
        edit(config, "ranked")
        assert main(["run", str(config), "ranked", "--until-idle"]) == 2
        assert "build it again with `headwater rebuild`" in capsys.readouterr().err
        assert main(["rebuild", str(config), "ranked"]) == 0
        told = capsys.readouterr().err
        assert (
            f"ranked: switched to generation 2, at epoch 4. Remove the old tables when nobody reads them any more: {lake}/ranked\n"
            in told
        )
        with pytest.raises(PipelineRebuilt, match="rebuilt as generation 2"):
            handle.snapshot()
    assert main(["rebuild", str(config), "ranked"]) == 0
    kept = "headwater: ranked: generation {} is current; nothing was changed"
    assert f"{kept.format(2)}. To build it again all the same, add --again\n" in capsys.readouterr().err
    assert main(["rebuild", str(config), "ranked", "--again"]) == 0
    assert "switched to generation 3" in capsys.readouterr().err
    assert main(["rebuild", str(config), "ranked", "--cancel"]) == 0
    assert f"{kept.format(3)}\n" in capsys.readouterr().err
    assert main(["plan", str(config)]) == 0
    out = capsys.readouterr().out
    assert ("left behind: ranked.cells" in out, "left behind: ranked~2.cells" in out, "ranked~3" in out) == (
        True,
        True,
        False,
    )
    for name in ("ranked", "ranked~2"):
        shutil.rmtree(lake / name)
    assert main(["run", str(config), "--until-idle", "--show", "ranked.ranks", "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    with pytest.raises(SystemExit, match="2"):
        main(["rebuild", str(config), "ranked", "--again", "--cancel"])


def test_a_rebuild_that_is_given_up_names_the_tables_it_leaves(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(config, "ranked")
    with Headwater.from_config(config) as headwater:
        headwater.stop()
        assert headwater.rebuild("ranked") is None
    assert main(["rebuild", str(config), "ranked", "--cancel"]) == 0
    assert capsys.readouterr().err == (
        "headwater: ranked: gave up generation 2; generation 1 stays current. Remove the unfinished tables:"
        f" {config.parent / 'lake'}/ranked~2\n"
    )
    assert main(["rebuild", str(config), "ranked", "--cancel"]) == 0
    assert "generation 1 is current; nothing was changed" in capsys.readouterr().err


def test_what_cannot_be_rebuilt(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = DEPLOYMENT.format(folder=config.parent)
    config.write_text(text.replace('name = "delta"\nengine = "local"', 'name = "memory"'))
    assert main(["rebuild", str(config), "ranked"]) == 2
    assert "backend memory keeps nothing beyond its run" in capsys.readouterr().err
    config.write_text(text.replace("[pipelines.ranked]", "[pipelines.new]").replace("ranked.", "new."))
    assert main(["rebuild", str(config), "new"]) == 2
    assert "has published nothing in the tables that it has now" in capsys.readouterr().err


def test_frames_of_a_program_cannot_be_read_again() -> None:
    import polars as pl

    with Headwater() as headwater:
        headwater.stream("events", schema="g string, id bigint, v bigint")
        headwater.ranking("ranked", source="events", group=["g"], id=["id"], order_by="v", segment="10", offset="0")
        headwater.push("events", pl.DataFrame({"g": ["a"], "id": [1], "v": [1]}))
        message = "a source of kind stream does not support reading from the beginning again: declare the edited"
        with pytest.raises(NotSupported, match=message) as refused:
            headwater.rebuild("ranked")
        assert refused.value.__notes__ == ["this program: sources.events (pipeline ranked)"]


def test_on_memory_within_a_process(config: Path) -> None:
    text = DEPLOYMENT.format(folder=config.parent).replace('name = "delta"\nengine = "local"', 'name = "memory"')
    with Headwater.from_text(text) as headwater:
        headwater.run(until_idle=True)
        before = sorted(headwater.view("totals").rows())
        found = headwater.rebuild("totals")
        assert found
        assert (found.generation, headwater.epoch("totals")) == (2, 4)
        arrive(config.parent / "in", 3, ("+I", 5, 7))
        headwater.run(until_idle=True)
        assert [(group, n + 1, total + 7) for group, n, total in before] == headwater.view("totals").rows()
