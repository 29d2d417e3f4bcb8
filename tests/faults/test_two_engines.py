"""Two processes on one lake of Delta, one on each engine: one writes a pipeline at a time, and leases count for both."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from headwater.app.cli.main import main

from .contracts import drop, ranks, records
from .deployments import committed, write
from .processes import headwater, running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Commands = Callable[..., list[dict[str, Any]]]

pytestmark = [pytest.mark.delta, pytest.mark.usefixtures("spark")]

ENGINE = "HEADWATER_BACKEND__ENGINE"
LINES = ("--format", "jsonl")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    config = tmp_path / "deploy.toml"
    write(config, 'kind = "files"\npath = "in"\nfiles_per_epoch = 1\n', "delta")
    config.write_text(config.read_text().replace('path = "lake"\n', 'path = "lake"\nretain = { versions = 1 }\n'))
    _local(config).write_text(re.sub(r'\[backend\.spark\]\n(".+\n)*', "", config.read_text()))
    return config


def _local(config: Path) -> Path:
    """The same deployment for the local engine, which takes no settings of Spark."""
    return config.with_name("local.toml")


@pytest.fixture
def on(config: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Commands]:
    """Commands on each engine: on Spark in this process, on the local one in others. They return the lines written."""

    def rows(code: int, out: str, err: str) -> list[dict[str, Any]]:
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]

    def spark(command: str, *arguments: str) -> list[dict[str, Any]]:
        capsys.readouterr()
        code = main([command, str(config), *arguments])
        return rows(code, *capsys.readouterr())

    def local(command: str, *arguments: str) -> list[dict[str, Any]]:
        done = headwater(command, str(_local(config)), *arguments, **{ENGINE: "local"})
        return rows(done.returncode, done.stdout, done.stderr)

    return {"spark": spark, "local": local}


def ranked(commands: Commands, *arguments: str) -> list[dict[str, Any]]:
    return sorted(commands("show", "ranked", *arguments, *LINES), key=lambda row: row["contract"])


def ranks_of(files: int) -> list[dict[str, Any]]:
    return ranks(row for file in range(files) for row in records(file))


@pytest.mark.faults("two runs of one pipeline at once, one on each engine", backend="delta")
def test_one_run_goes_on_and_the_other_is_refused(
    config: Path, on: dict[str, Commands], survived: Callable[[str], None]
) -> None:
    landing, files = config.parent / "in", 0
    with running(config, **{ENGINE: "spark"}) as spark:
        drop(landing, 0)
        spark.wait_until(lambda: spark.epochs == 1)
        with running(_local(config), **{ENGINE: "local"}) as local:
            while all(run.process.poll() is None for run in (spark, local)):
                files += 1
                assert files < 60, "both write on"
                drop(landing, files)
                time.sleep(0.5)
            lost, won = (spark, local) if local.process.poll() is None else (local, spark)
            drop(landing, files + 1)
            won.wait_until(lambda: committed(config, "cells") == files + 1)
    assert lost.process.returncode == 1
    assert "Let one run at a time write a pipeline" in "".join(lost.said)
    for commands in on.values():
        commands("run", "--until-idle")
        assert ranked(commands) == ranks_of(files + 2)
    survived("continues; of the other run: `EpochConflict`")


@pytest.mark.faults("a lease is taken on one engine, and the other expires", backend="delta")
@pytest.mark.parametrize(("reader", "upkeep"), [("local", "spark"), ("spark", "local")])
def test_a_lease_of_the_other_engine_keeps_its_version(
    config: Path, on: dict[str, Commands], reader: str, upkeep: str
) -> None:
    drop(config.parent / "in", 0, 1, 2)
    on[reader]("run", "--until-idle")
    (pin,) = on[reader]("pin", "ranked", "--at", "0", "--for", "2h", "--holder", "nightly", *LINES)
    assert sum(each["versions"] for each in on[upkeep]("expire", "--apply", *LINES)) > 0
    for commands in on.values():
        assert ranked(commands, "--at", "0") == ranks_of(1)
        assert ranked(commands) == ranks_of(3)
        readable = {each["epoch"]: each["readable"] for each in commands("versions", "ranked", *LINES)}
        assert readable == {2: True, 1: False, 0: True}
    assert not on[reader]("unpin", pin["lease"])
    assert sum(each["versions"] for each in on[upkeep]("expire", "--apply", *LINES)) > 0
    for commands in on.values():
        readable = {each["epoch"]: each["readable"] for each in commands("versions", "ranked", *LINES)}
        assert readable == {2: True, 1: False, 0: False}
        assert ranked(commands) == ranks_of(3)
