"""Whether an unfinished epoch of a program's frames is continued: only with the same rows."""

from __future__ import annotations

from typing import Any, ClassVar

import polars as pl
import pytest

from headwater.adapters.polars.program_source import PolarsProgramSource
from headwater.adapters.records import program_source
from headwater.adapters.records.program_frames import QueryBatch
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.errors import EpochConflict, SourceChanged
from headwater.domain.ports import PushedFrame
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
    with source.push(PushedFrame(ROWS, 0)):
        assert source.readable(begun(source))


def test_a_lazy_frame_is_computed_again_so_each_try_is_another_one(source: PolarsProgramSource) -> None:
    with source.push(PushedFrame(ROWS.lazy(), 0)):
        first = begun(source)
        assert not source.readable(first)
        assert begun(source) != first


@pytest.mark.parametrize("more", [{}, {"attempt": "of another process"}])
def test_a_frame_that_is_handed_over_again_is_another_one(source: PolarsProgramSource, more: dict[str, Any]) -> None:
    before = OffsetRange(None, {"query": "push", "batch": 0, **more})  # without attempts, as earlier versions began it
    assert not source.readable(before)
    with source.push(PushedFrame(ROWS, 0)):
        assert not source.readable(before)
        assert begun(source).until["batch"] == 0


class TestNumbersOfAQuery:
    """A query that pushes number 5, which is in the tables."""

    BEFORE: ClassVar = {"query": "push", "batch": 5, "attempt": "x"}

    @pytest.fixture(autouse=True)
    def in_a_query(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(program_source, "query_batch", lambda _: QueryBatch("q", 2, 1000))

    def test_one_that_it_has_pushed_is_skipped(self, source: PolarsProgramSource) -> None:
        with source.push(PushedFrame(ROWS, 5)):
            assert source.plan({**self.BEFORE, "within": "q"}, NOW) is None

    @pytest.mark.parametrize(
        ("within", "message"), [("", "not by this query"), ("other", "which query other has pushed")]
    )
    def test_one_that_it_has_not_pushed_is_refused(
        self, source: PolarsProgramSource, within: str, message: str
    ) -> None:
        with source.push(PushedFrame(ROWS, 5)), pytest.raises(SourceChanged, match=message):
            source.plan({**self.BEFORE, "within": within}, NOW)

    def test_one_of_an_earlier_version_which_did_not_record_the_query_is_skipped_with_a_warning(
        self, source: PolarsProgramSource, caplog: pytest.LogCaptureFixture
    ) -> None:
        with source.push(PushedFrame(ROWS, 5)):
            assert source.plan(self.BEFORE, NOW) is None
        assert "query q pushes number 5, which is skipped as a repeat" in caplog.text

    def test_its_next_one_is_read(self, source: PolarsProgramSource) -> None:
        with source.push(PushedFrame(ROWS, 6)):
            planned = source.plan(self.BEFORE, NOW)
        assert planned is not None
        until = planned.until
        assert (until["within"], until["spark_batch"], until["planned"]) == ("q", 2, 1000)

    @pytest.mark.parametrize("number", [4, 5])
    @pytest.mark.parametrize(
        "newest", [{"spark_batch": 2, "planned": 1000}, {"spark_batch": 2}, {"spark_batch": 1, "planned": 900}]
    )
    def test_one_of_its_newest_batch_or_a_later_one_is_skipped(
        self, source: PolarsProgramSource, newest: dict[str, int], number: int
    ) -> None:
        with source.push(PushedFrame(ROWS, number)):
            assert source.plan({**self.BEFORE, "within": "q", **newest}, NOW) is None

    @pytest.mark.parametrize(
        ("newest", "message"),
        [
            ({"spark_batch": 3, "planned": 1000}, "goes back to batch 2, but the tables have its batches up to 3"),
            ({"spark_batch": 2, "planned": 900}, "planned batch 2 a second time, .* older checkpoint"),
        ],
    )
    def test_one_of_an_older_checkpoint_is_refused(
        self, source: PolarsProgramSource, newest: dict[str, int], message: str
    ) -> None:
        with source.push(PushedFrame(ROWS, 5)), pytest.raises(SourceChanged, match=message):
            source.plan({**self.BEFORE, "within": "q", **newest}, NOW)


def test_a_push_outside_of_a_query_is_recorded_as_such(source: PolarsProgramSource) -> None:
    with source.push(PushedFrame(ROWS, 0)):
        assert begun(source).until["within"] == ""


class TestNumbersOfOtherPrograms:
    """Frame 5 of another program is in the tables."""

    BEFORE: ClassVar = {"query": "push", "batch": 5, "attempt": "x", "within": "", "frame": "of another program"}

    def test_a_program_may_claim_that_it_is_its_own(self, source: PolarsProgramSource) -> None:
        with source.push(PushedFrame(ROWS, 5)):
            assert source.plan(self.BEFORE, NOW) is None

    @pytest.mark.parametrize("number", [4, 5])
    @pytest.mark.parametrize("before", [BEFORE, {"query": "push", "batch": 5}], ids=["now", "earlier version"])
    def test_without_a_claim_it_is_refused(
        self, source: PolarsProgramSource, before: dict[str, Any], number: int
    ) -> None:
        message = f"have frame 5, which another program .* since the push of frame {number} began"
        with source.push(PushedFrame(ROWS, number, claimed=False)), pytest.raises(EpochConflict, match=message):
            source.plan(before, NOW)

    def test_a_frame_that_is_its_own_is_skipped(self, source: PolarsProgramSource) -> None:
        with source.push(PushedFrame(ROWS, 5, self.BEFORE["frame"], claimed=False)):
            assert source.plan(self.BEFORE, NOW) is None
