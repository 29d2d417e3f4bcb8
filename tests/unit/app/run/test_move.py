"""A deployment that is moved to another backend in the middle of its input continues there without a difference."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from headwater import BackendSettings, Headwater
from headwater.app.cli.main import main
from headwater.app.config import load
from headwater.app.registry.backends import on_one_session
from headwater.domain.errors import ConfigError
from tests.configurations import SCHEMA, ranked_contracts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IDLE = f"""\
[pipelines.idle]
service = "ranking"
source = "nothing"
group = ["project"]
id = ["contract"]
order_by = "signed"
[sources.nothing]
kind = "files"
path = "nothing"
schema = "{SCHEMA}"
"""
CONFIG = ranked_contracts(pipeline='materialize = ["ranks"]\n') + IDLE
BEFORE = [(1, 11, "2024-03-01T09:00:00Z"), (1, 12, "2024-03-02T09:00:00Z"), (None, 10, "2024-03-02T09:00:00Z")]
AFTER = [(1, 13, "2024-03-01T08:00:00Z"), (1, 14, "2024-03-03T08:00:00Z")]


def arrive(folder: Path, name: str, records: list[tuple[int | None, int, str]]) -> None:
    lines = (json.dumps({"project": p, "contract": c, "signed": s}) + "\n" for p, c, s in records)
    (folder / "in" / f"{name}.json").write_text("".join(lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("in", "nothing"):
        (tmp_path / name).mkdir()
    (tmp_path / "deploy.toml").write_text(CONFIG)
    arrive(tmp_path, "a", BEFORE)
    return tmp_path


@pytest.fixture
def here(folder: Path) -> Iterator[Headwater]:
    with Headwater.from_config(folder / "deploy.toml") as deployment:
        deployment.run(until_idle=True)
        yield deployment


@pytest.fixture
def there(folder: Path) -> Iterator[Headwater]:
    with Headwater.from_config(folder / "deploy.toml") as deployment:
        yield deployment


def ranks(deployment: Headwater, view: str = "ranked") -> list[tuple[int, int]]:
    return sorted(deployment.view(view).select("contract", "rank").rows())


def test_the_target_goes_on_where_the_source_stood(here: Headwater, there: Headwater, folder: Path) -> None:
    assert {name: each.epoch.number for name, each in here.move(there).items()} == {"ranked": 0}
    assert ranks(there) == ranks(here) == [(11, 1), (12, 2)]
    arrive(folder, "b", AFTER)
    there.run(until_idle=True)
    assert ranks(there) == ranks(there, "ranked.ranks") == [(11, 2), (12, 3), (13, 1), (14, 4)]
    assert there.view("ranked.dead_letters").height == 1
    assert (there.epoch("ranked"), here.epoch("ranked")) == (1, 0)


def test_the_source_may_go_on_as_well(here: Headwater, there: Headwater, folder: Path) -> None:
    here.move(there)
    arrive(folder, "b", AFTER)
    here.run(until_idle=True)
    there.run(until_idle=True)
    assert ranks(here) == ranks(there)


def test_a_view_kept_from_now_on_is_filled_by_the_target(folder: Path, here: Headwater) -> None:
    arrive(folder, "b", AFTER)
    deployment = here.deployment
    more = evolve(deployment.pipelines["ranked"], materialize=("ranks", "top"))
    with Headwater(evolve(deployment, pipelines={**deployment.pipelines, "ranked": more})) as there:
        here.move(there)
        there.run(until_idle=True)
        assert ranks(there) == [(11, 2), (12, 3), (13, 1), (14, 4)]
        kept = there.snapshot("ranked").read("ranked.top").collect(backend="polars")
        assert sorted(kept["contract"].to_list()) == [11, 12, 13, 14]


def test_a_pipeline_is_not_moved_upon_another(here: Headwater, there: Headwater) -> None:
    here.move(there)
    with pytest.raises(ConfigError, match="there already, at epoch 0"):
        here.move(there)


def test_spark_is_started_for_both(folder: Path) -> None:
    memory = load(folder / "deploy.toml")
    mine = {"spark.jars.packages": "mine:jar:1", "spark.sql.shuffle.partitions": "7"}
    delta = evolve(memory, backend=BackendSettings("delta", "lake", spark=mine))
    hudi = evolve(memory, backend=BackendSettings("hudi-mor", "lake"))
    for one in (started := on_one_session(memory, delta, hudi)):
        for name in ("spark.jars.packages", "spark.sql.extensions"):
            assert "delta" in one.backend.spark[name]
            assert "hudi" in one.backend.spark[name]
        assert one.backend.spark["spark.serializer"].endswith("KryoSerializer")
    assert started[1].backend.spark.items() >= {"spark.sql.shuffle.partitions": "7"}.items()
    assert started[1].backend.spark["spark.jars.packages"].endswith(",mine:jar:1")
    assert on_one_session(memory) == [memory]


@pytest.mark.parametrize("backend", ["memory", "delta"])
def test_the_command_refuses_what_ends_with_it(folder: Path, capsys: pytest.CaptureFixture[str], backend: str) -> None:
    """No JVM is started, and nothing is said to be moved."""
    assert main(["move", str(folder / "deploy.toml"), "--to", backend, "--path", "lake"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("headwater: backend memory keeps nothing beyond its run, so `headwater move` has no tables")
    assert not (folder / "lake").exists()


def test_the_command_refuses_to_move_to_where_all_is_lost(
    folder: Path, capsys: pytest.CaptureFixture[str], parquet_backend: None
) -> None:
    (folder / "deploy.toml").write_text(CONFIG.replace('name = "memory"', 'name = "parquet"\npath = "lake"'))
    assert main(["move", str(folder / "deploy.toml"), "--to", "memory", "--path", "there"]) == 2
    assert "the moved tables would be lost immediately: move to one of: delta," in capsys.readouterr().err


def test_the_command_names_a_backend_that_is_not_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["move", str(folder / "deploy.toml"), "--to", "detla", "--path", "lake"]) == 2
    assert (
        "backend 'detla' is not available here; available: delta, hudi-cow, hudi-mor, memory" in capsys.readouterr().err
    )
