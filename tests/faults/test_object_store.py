"""Tables in an object store, where a run is killed, the store is away for a moment, or two runs write at one time."""

from __future__ import annotations

import json
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import pytest

from tests.configurations import ranked_contracts
from tests.object_store import ObjectStore, object_store

from .contracts import drop, ranks, records
from .processes import headwater, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_RETRIED = 'poll = "100ms"\nretries = 3\nretry_wait = "100ms"\n'
_FILES = 8
_PATIENCE = 120.0


@pytest.fixture
def objects() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def config(objects: ObjectStore, tmp_path: Path) -> Path:
    """A deployment with tables in a bucket, and files that wait."""
    (tmp_path / "in").mkdir()
    drop(tmp_path / "in", *range(_FILES))
    file = tmp_path / "deploy.toml"
    backend = f'name = "delta"\npath = "{objects.new_bucket()}/lake"\nengine = "local"\ncompact_every = 4\n'
    file.write_text(ranked_contracts(backend=backend, run=_RETRIED, source='kind = "files"\npath = "in"\n'))
    return file


def is_commit(environ: dict[str, Any], table: str, version: int) -> bool:
    path = f"/{table}/_delta_log/{version:020}.json"
    return environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].endswith(path)


def check(config: Path) -> None:
    """Run to the end, and compare all ranks."""
    done = headwater("run", str(config), "--until-idle", "--show", "ranked", "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    rows = (row for file in range(_FILES) for row in records(file))
    assert sorted(shown, key=lambda row: row["contract"]) == ranks(rows)


@pytest.mark.faults(
    "kill -9 between two commits to an object store, before and after one is made", backend="delta:local"
)
@pytest.mark.parametrize("carried_out", [False, True])
def test_killed_in_the_middle_of_epochs(objects: ObjectStore, config: Path, *, carried_out: bool) -> None:
    answer, killed = objects.answer, list[int]()
    with running(config) as run:

        def kill(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            if not killed and is_commit(environ, "cells", 2):
                if carried_out:
                    list(answer(environ, start))
                killed.append(run.epochs)
                run.kill()
                environ["REQUEST_METHOD"] = "HEAD"  # nobody hears the answer
            return answer(environ, start)

        objects.answer = kill
        run.process.wait()
    assert killed
    objects.answer = answer
    check(config)


@pytest.mark.faults("an object store answers no request for a while", backend="delta:local")
def test_away_for_a_moment(objects: ObjectStore, config: Path) -> None:
    answer, refused = objects.answer, list[str]()

    def away(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if len(refused) < 4 and (refused or is_commit(environ, "cells", 1)):
            refused.append(environ["PATH_INFO"])
            start("403 Forbidden", [])  # which is not tried again by the library
            return [b""]
        return answer(environ, start)

    objects.answer = away
    with running(config) as run:
        run.wait_until(lambda: run.epochs == _FILES)
    assert len(refused) == 4
    assert any("cannot write s3://" in line and "403 Forbidden" in line for line in run.said)
    assert not any("secret" in line for line in run.said)
    objects.answer = answer
    check(config)


@pytest.mark.faults("two runs of one pipeline in an object store", backend="delta:local")
def test_two_runs(config: Path, survived: Callable[[str], None]) -> None:
    with running(config) as one, running(config) as other:
        both, deadline = (one, other), monotonic() + _PATIENCE
        while sum(run.epochs for run in both) < _FILES and monotonic() < deadline:
            sleep(0.01)
    told = "".join(line for run in both for line in run.said if " epoch " not in line)
    assert not told or "another writer is at work on pipeline 'ranked'; nothing was changed" in told
    check(config)
    survived("continues; one of the runs is refused: `EpochConflict`")
