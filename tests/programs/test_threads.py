"""One `Headwater` in several threads of a program."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Event
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from headwater import Headwater
from headwater.domain.errors import EpochConflict

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
LOCAL = ["memory", "delta:local"]
SHARED = [
    "delta:local",
    pytest.param("delta:auto", marks=[pytest.mark.delta, pytest.mark.contract]),
    pytest.param("delta:spark", marks=[pytest.mark.delta, pytest.mark.contract]),
    pytest.param("hudi-mor", marks=[pytest.mark.hudi, pytest.mark.contract]),
    pytest.param("hudi-cow", marks=[pytest.mark.hudi, pytest.mark.further]),
]


def opened(backend: str, folder: Path) -> Headwater:
    name, _, engine = backend.partition(":")
    more: Any = {"engine": engine} if engine else {}
    return Headwater(backend=name, path=None if name == "memory" else folder / "lake", report=lambda _: None, **more)


def pushed(backend: str, folder: Path) -> Headwater:
    """A deployment that counts pushed rows by number."""
    headwater = opened(backend, folder)
    headwater.stream("rows", schema="n bigint, at timestamp", event_time="at")
    headwater.retraction("counts", source="rows", group=["n"], measures={"c": "count(*)"}, updated_at="at")
    return headwater


def one(number: int) -> pl.DataFrame:
    return pl.DataFrame({"n": [number], "at": [NOON]})


@pytest.mark.parametrize("backend", LOCAL)
def test_threads_that_push_take_turns(backend: str, tmp_path: Path) -> None:
    with pushed(backend, tmp_path) as headwater, ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lambda number: headwater.push("rows", one(number)), range(20)))
        assert sorted(headwater.view("counts").rows()) == [(number, 1) for number in range(20)]
        assert headwater.epoch("counts") == 19


@pytest.mark.parametrize("backend", LOCAL)
def test_threads_read_while_one_runs(backend: str, tmp_path: Path) -> None:
    for number in range(12):
        line = {"n": number, "at": NOON.isoformat()}
        (tmp_path / f"{number:02}.json").write_text(json.dumps(line) + "\n")
    with opened(backend, tmp_path) as headwater, ThreadPoolExecutor(3) as threads:
        schema = "n bigint, at timestamp"
        headwater.files("rows", tmp_path, schema=schema, event_time="at", files_per_epoch=1)
        headwater.retraction("counts", source="rows", group=["n"], measures={"c": "count(*)"}, updated_at="at")
        ended = Event()

        def read() -> int:
            """Compare versions with what they must be, until the run has ended; return how many were read."""
            count = 0
            while not ended.is_set() or not count:
                epoch = headwater.epoch("counts")
                rows = sorted(headwater.view("counts", at=epoch).rows())
                assert rows == [(number, 1) for number in range(epoch + 1)]
                (status,) = headwater.status()
                assert status.lag.endswith("files") or status.lag == "1 file"
                count += 1
            return count

        reading = [threads.submit(read) for _ in range(2)]
        try:
            headwater.run(until_idle=True)
        finally:
            ended.set()
        assert all(each.result() for each in reading)
        assert headwater.epoch("counts") == 11


@pytest.mark.parametrize("backend", SHARED)
def test_a_push_that_met_another_program_can_be_made_again(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if backend != "delta:local":
        request.getfixturevalue("spark")
    with pushed(backend, tmp_path) as here, pushed(backend, tmp_path) as there:
        assert here.push("rows", one(1), number=1)
        assert there.push("rows", one(2), number=2)
        with pytest.raises(EpochConflict):
            here.push("rows", one(3), number=3)
        assert here.push("rows", one(3), number=3)
        assert not here.push("rows", one(2), number=2)
        answer = here.answer("counts")
        with answer.engine.working():
            found = answer.frame.collect("pyarrow").to_arrow().to_pylist()
    assert sorted((each["n"], each["c"]) for each in found) == [(1, 1), (2, 1), (3, 1)]


def test_a_cut_at_the_watermark_is_made_at_that_of_its_turn(tmp_path: Path) -> None:
    with pushed("memory", tmp_path) as headwater, ThreadPoolExecutor(1) as threads:
        with headwater.pipeline("counts").runner.turn:
            rolled = threads.submit(headwater.roll, "counts")
            with pytest.raises(TimeoutError):
                rolled.result(timeout=0.5)
            headwater.push("rows", one(1))
        assert rolled.result() == NOON.date()
