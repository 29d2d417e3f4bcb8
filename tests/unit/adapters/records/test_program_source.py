"""Whether an unfinished epoch of a program's frames is continued: only with the same rows."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from headwater.adapters.polars.program_source import PolarsProgramSource
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing.clock import NOW

ROWS = pl.DataFrame({"id": [1]})


@pytest.fixture
def source() -> PolarsProgramSource:
    return PolarsProgramSource(RecordSpec(Schema.parse("id bigint"), "json"))


def begun(source: PolarsProgramSource) -> OffsetRange:
    planned = source.plan(None, NOW)
    assert planned is not None
    return planned


def test_a_frame_in_memory_is_the_same_at_the_next_try(source: PolarsProgramSource) -> None:
    with source.push(ROWS, 0):
        assert source.readable(begun(source))


def test_a_lazy_frame_is_computed_again_so_each_try_is_another_one(source: PolarsProgramSource) -> None:
    with source.push(ROWS.lazy(), 0):
        first = begun(source)
        assert not source.readable(first)
        assert begun(source) != first


@pytest.mark.parametrize("more", [{}, {"attempt": "of another process"}])
def test_a_frame_that_is_handed_over_again_is_another_one(source: PolarsProgramSource, more: dict[str, Any]) -> None:
    before = OffsetRange(None, {"query": "push", "batch": 0, **more})  # without attempts, as earlier versions began it
    assert not source.readable(before)
    with source.push(ROWS, 0):
        assert not source.readable(before)
        assert begun(source).until["batch"] == 0
