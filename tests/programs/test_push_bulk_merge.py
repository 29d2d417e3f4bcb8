"""Frames that a program pushes as the changelog of a bulk merge, while its table is loaded."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import narwhals as nw
import polars as pl
import pytest

from headwater import Headwater
from headwater.domain.ledger.writer import LedgerWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.app.run.report import EpochReport


@pytest.fixture
def open_program(tmp_path: Path) -> Callable[..., Headwater]:
    """Starts the program; its bulk has a row in each of four chunks. An epoch reads one."""
    (tmp_path / "bulk").mkdir()
    for chunk in range(4):
        (tmp_path / "bulk" / f"{chunk}.json").write_text(json.dumps({"id": 100 + chunk, "v": chunk}) + "\n")
    bulk = {"path": tmp_path / "bulk", "format": "json", "search_ts": "2024-03-01T00:00:00Z"}

    def start(engine: str = "local", report: Callable[[EpochReport], None] = lambda _: None) -> Headwater:
        headwater = Headwater(backend="delta", engine=engine, path=tmp_path / "lake", report=report)
        headwater.stream("changes", schema="id bigint, v bigint, at timestamp", event_time="at")
        headwater.bulk_merge("merged", changelog="changes", key=["id"], columns=["v"], bulk=bulk)
        return headwater

    return start


def frame(id_: int) -> pl.DataFrame:
    return pl.DataFrame({"id": [id_], "v": [id_], "at": [datetime(2024, 3, 2, id_, tzinfo=UTC)]})


def ids(headwater: Headwater) -> list[int]:
    return sorted(headwater.view("merged")["id"])


def die_before_publishing(work: Callable[[], Any]) -> None:
    """Do work that ends between two commits of its epoch."""

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(LedgerWriter, "publish", die)
        work()


@pytest.mark.parametrize("number", [1, None])
def test_a_frame_is_read_though_an_epoch_of_a_chunk_alone_is_unfinished(
    open_program: Callable[..., Headwater], number: int | None
) -> None:
    assert open_program().push("changes", frame(0), number=0)
    die_before_publishing(lambda: open_program().run(until_idle=True))
    headwater = open_program()
    assert headwater.push("changes", frame(1), number=number)
    assert headwater.push("changes", frame(2))
    assert ids(headwater) == [0, 1, 2, 100, 101]
    headwater.run(until_idle=True)
    assert ids(headwater) == [0, 1, 2, 100, 101, 102, 103]


def test_an_epoch_of_a_chunk_alone_is_finished_if_there_is_no_frame(open_program: Callable[..., Headwater]) -> None:
    assert open_program().push("changes", frame(0), number=0)
    die_before_publishing(lambda: open_program().run(until_idle=True))
    headwater = open_program()
    headwater.run(until_idle=True)
    assert ids(headwater) == [0, 100, 101, 102, 103]


def test_a_repeated_number_reads_no_chunk(open_program: Callable[..., Headwater]) -> None:
    headwater = open_program()
    assert headwater.push("changes", frame(0), number=0)
    assert not headwater.push("changes", frame(0), number=0)
    assert (headwater.epoch("merged"), ids(headwater)) == (0, [0])
    headwater.run(until_idle=True)
    assert ids(headwater) == [0, 100, 101, 102, 103]


@pytest.mark.delta
@pytest.mark.contract
@pytest.mark.parametrize("engine", ["auto", "spark"])
@pytest.mark.parametrize("by", ["foreach_batch", "push"])
def test_frames_of_spark_are_the_changes(
    by: str, engine: str, spark: SparkSession, open_program: Callable[..., Headwater]
) -> None:
    reports: list[EpochReport] = []

    def hand_over(id_: int) -> None:
        headwater, at = open_program(engine, reports.append), f"timestamp_ltz '2024-03-02 0{id_}:00:00Z'"
        rows = spark.sql(f"SELECT {id_}L id, {id_}L v, {at} at")
        if by == "push":
            headwater.push("changes", rows, number=id_)
        else:
            headwater.foreach_batch("merged")(rows, id_)

    hand_over(0)
    die_before_publishing(lambda: open_program(engine).run(until_idle=True))
    hand_over(1)
    hand_over(1)  # reads no chunk, either
    assert [each.engine for each in reports] == ["local" if engine == "auto" else None] * 2
    headwater = open_program(engine)
    headwater.run(until_idle=True)
    found = nw.from_native(headwater.view("merged")).lazy().select("id", "v").collect("polars")
    assert sorted(found.rows()) == [(0, 0), (1, 1), (100, 0), (101, 1), (102, 2), (103, 3)]
