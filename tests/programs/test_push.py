"""Frames that a program pushes, on every backend."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from math import inf, nan
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.functions import expr, udf

from headwater import Headwater
from headwater.adapters.spark import program_source
from headwater.adapters.spark.schema import compute, drop_rows
from headwater.app.api.pipeline import Pipeline
from headwater.app.run.runner import Runner
from headwater.domain.errors import (
    BadInput,
    ConfigError,
    EngineLimit,
    EpochConflict,
    NotSupported,
    SinkUnavailable,
    SourceChanged,
    SumOverflow,
)
from headwater.domain.ledger.writer import LedgerWriter
from headwater.domain.table.row_kind import ROW_KINDS
from tests.properties.effort import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = {"id": "bigint", "state": "string", "paid": "decimal(12,2)", "at": "timestamp"}
REASONS = {ROW_KINDS.refusal("kind") + word for word in ("'?'", "null")}
NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)

AT = "timestamp_ltz '2024-03-01 12:00:00Z'"

OF_THE_PROGRAM = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.jsonGenerator.ignoreNullFields": "false",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
}
AS_THE_SETTINGS_ARE = [
    "current_timezone()",
    "date_format(from_utc_timestamp(timestamp_seconds(id), current_timezone()), 'HH:mm')",
    "CAST(convert_timezone('Europe/Berlin', timestamp_ntz '2024-03-02 01:00:00') AS string)",
    "CAST(CAST(id AS decimal(38,18)) / CAST('7' AS decimal(38,10)) AS string)",
    "to_json(named_struct('a', id, 'b', CAST(NULL AS int)))",
    "date_format(timestamp_seconds(id), 'u')",
    "CAST(map_from_arrays(array('a', 'a'), array(id, id + 3))['a'] AS string)",
]
"""Texts that depend on these settings, some when a query is planned, others when its tasks run."""

BACKENDS = [
    "memory",
    "delta:local",
    pytest.param("delta:auto", marks=[pytest.mark.delta, pytest.mark.contract]),
    pytest.param("delta:spark", marks=[pytest.mark.delta, pytest.mark.contract]),
    pytest.param("hudi-mor", marks=[pytest.mark.hudi, pytest.mark.contract]),
    pytest.param("hudi-cow", marks=[pytest.mark.hudi, pytest.mark.further]),
]


def states(backend: str, folder: Path) -> Headwater:
    """A deployment that counts orders by state."""
    name, _, engine = backend.partition(":")
    more: Any = {"engine": engine} if engine else {}
    headwater = Headwater(backend=name, path=None if name == "memory" else folder / "lake", report=print, **more)
    orders = headwater.stream("orders", schema=SCHEMA, event_time="at")
    headwater.retraction(
        "states", source=orders, group=["state"], measures={"n": "count(*)", "paid": "sum(paid)"}, updated_at="at"
    )
    return headwater


def rows(*given: Sequence[Any]) -> pl.DataFrame:
    """Orders as number and state; each is paid with 1.50 an hour after the one before."""
    found = [
        {"id": id_, "state": state, "paid": "1.50", "at": NOON + timedelta(hours=at)}
        for at, (id_, state) in enumerate(given)
    ]
    schema = {"id": pl.Int32, "state": pl.String, "paid": pl.String, "at": pl.Datetime("ms", "UTC")}
    return pl.DataFrame(found, schema=schema).with_columns(pl.col("paid").cast(pl.Decimal(5, 2)))


def counts(headwater: Headwater) -> dict[str, int]:
    answer = headwater.answer("states")
    with answer.engine.working():
        found = answer.frame.collect("pyarrow").to_arrow().to_pylist()
    assert all(float(each["paid"]) == each["n"] * 1.5 for each in found)
    return {each["state"]: each["n"] for each in found}


@pytest.mark.usefixtures("session_of_backend")
@pytest.mark.parametrize("backend", BACKENDS)
class TestPush:
    @pytest.fixture
    def session_of_backend(self, backend: str, request: pytest.FixtureRequest) -> None:
        if backend not in {"memory", "delta:local"}:
            request.getfixturevalue("spark")

    def test_each_push_is_an_epoch_and_a_repeated_number_is_skipped(self, backend: str, tmp_path: Path) -> None:
        with states(backend, tmp_path) as headwater:
            assert headwater.push("orders", rows((1, "new"), (2, "new")), number=5)
            assert not headwater.push("orders", rows((1, "new"), (2, "new")), number=5)
            assert headwater.push("orders", rows((3, "paid")).lazy())
            assert headwater.push("orders", rows((4, "paid")).to_arrow())
            assert counts(headwater) == {"new": 2, "paid": 2}
            assert headwater.epoch("states") == 2
        if backend == "memory":
            return
        with states(backend, tmp_path) as headwater:  # another process, which does not know how far it came
            assert not headwater.push("orders", rows((4, "paid")), number=7)
            assert headwater.push("orders", rows((5, "new")), number=8)
            headwater.run(until_idle=True)
            assert counts(headwater) == {"new": 3, "paid": 2}

    def test_a_frame_that_does_not_fit_is_refused_and_leaves_nothing(self, backend: str, tmp_path: Path) -> None:
        with states(backend, tmp_path) as headwater:
            with pytest.raises(BadInput, match=r"the pushed frame: column 'at' is missing"):
                headwater.push("orders", rows((1, "new")).drop("at"))
            with pytest.raises(BadInput, match=r"column 'id' is .*string, which bigint cannot hold without loss"):
                headwater.push("orders", rows((1, "new")).cast({"id": pl.String}))
            with pytest.raises(BadInput, match="push a frame of Polars, pandas, PyArrow or Spark"):
                headwater.push("orders", [(1, "new")])
            headwater.run(until_idle=True)
            assert headwater.push("orders", rows((1, "new")), number=0)
            assert counts(headwater) == {"new": 1}

    def test_rows_that_cannot_be_used_are_dead_letters_that_can_be_replayed(self, backend: str, tmp_path: Path) -> None:
        kinds = pl.DataFrame({"id": [1, 2, 3], "at": [NOON] * 3, "kind": ["+I", "?", None]})
        name, _, engine = backend.partition(":")
        more: Any = {"engine": engine} if engine else {}
        with Headwater(backend=name, path=None if name == "memory" else tmp_path / "lake", **more) as headwater:
            schema = "id bigint, at timestamp, kind string"
            headwater.stream("orders", schema=schema, event_time="at", row_kind="kind")
            headwater.ranking("ranks", source="orders", group=["id"], id=["id"], order_by="at")
            headwater.push("orders", kinds)
            answer = headwater.answer("ranks.dead_letters")
            with answer.engine.working():
                letters = answer.frame.collect("pyarrow").to_arrow().to_pylist()
            assert {letter["origin"] for letter in letters} == {"push/0"}
            assert sum('"kind":"?"' in letter["raw"].replace(": ", ":") for letter in letters) == 1
            assert {letter["reason"] for letter in letters} == REASONS
            assert headwater.replay("ranks").left == 2

    def test_a_dead_letter_keeps_numbers_that_json_lacks(self, backend: str, tmp_path: Path) -> None:
        found = pl.DataFrame({"id": [1, 2, 3], "x": [nan, inf, 1.0], "y": [1.0, 2.0, -inf], "part": [1, 2, None]})
        name, _, engine = backend.partition(":")
        more: Any = {"engine": engine} if engine else {}
        with Headwater(backend=name, path=None if name == "memory" else tmp_path / "lake", **more) as headwater:
            headwater.stream("rows", schema="id bigint, x double, y double, part bigint")
            headwater.ranking("ranks", source="rows", group=["part"], id=["id"], order_by="x", segment=10)
            headwater.push("rows", found)
            answer = headwater.answer("ranks.dead_letters")
            with answer.engine.working():
                letters = answer.frame.collect("pyarrow").to_arrow().to_pylist()
            assert sorted(
                tuple(json.loads(each["raw"]).get(name) for name in ("id", "x", "y")) for each in letters
            ) == [
                (1, "NaN", 1.0),
                (2, "Infinity", 2.0),
                (3, 1.0, "-Infinity"),
            ]
            assert headwater.replay("ranks").left == 3


def interrupt_once(monkeypatch: pytest.MonkeyPatch, of: type, method: str, pipeline: str) -> None:
    """Let Ctrl-C come once, when a method of a pipeline is called."""
    usual, interrupted = getattr(of, method), list[bool]()

    def interrupting(self: Any, *args: Any, **more: Any) -> Any:
        if not interrupted and pipeline in {getattr(self, "pipeline", None), getattr(self, "name", None)}:
            interrupted.append(True)
            raise KeyboardInterrupt
        return usual(self, *args, **more)

    monkeypatch.setattr(of, method, interrupting)


@pytest.mark.parametrize("backend", ["memory", "delta:local"])
def test_a_push_that_is_interrupted_between_two_commits_leaves_nothing(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with states(backend, tmp_path) as headwater:
        headwater.ranking("ranks", source="orders", group=["state"], id=["id"], order_by="at")
        headwater.push("orders", rows((1, "new")))
        interrupt_once(monkeypatch, LedgerWriter, "publish", "ranks")
        with pytest.raises(KeyboardInterrupt):
            headwater.push("orders", rows((2, "new"), (3, "paid")), number=1)
        headwater.push("orders", rows((4, "new"), (5, "new")), number=2)  # it comes in place of the other one
        ranks = headwater.view("ranks").select("state", "id", "rank").sort("state", "id").rows()
        assert ranks == [("new", 1, 1), ("new", 4, 1), ("new", 5, 2)]
        assert headwater.view("ranks.cells")["_count"].sum() == 3


def interrupted_after(usual: Callable[..., Any], pipeline: str) -> Callable[..., Any]:
    """A method that ends with Ctrl-C, when its work for a pipeline is done."""

    def interrupted(self: Any, *args: Any, **more: Any) -> Any:
        done = usual(self, *args, **more)
        if pipeline in {getattr(self, "pipeline", None), getattr(self, "name", None)}:
            raise KeyboardInterrupt
        return done

    return interrupted


def check_repeats(headwater: Headwater) -> None:
    """Frame 0 is published everywhere, but its push ended with an error: it is not pushed again without a number."""
    message = (
        r"frame 0 ended with an error, but .* published: .* repeat frame 0, .*number=0, .* new frame, give number=1"
    )
    for _ in range(2):
        with pytest.raises(ConfigError, match=message):
            headwater.push("orders", rows((1, "new")))
        with pytest.raises(ConfigError, match="a whole number"):  # it fails too, which changes nothing
            headwater.push("orders", rows((1, "new")), number=-1)
    assert not headwater.push("orders", rows((1, "new")), number=0)
    assert headwater.push("orders", rows((2, "new")))
    assert counts(headwater) == {"new": 2}


@pytest.mark.parametrize("backend", BACKENDS[:3])
@pytest.mark.parametrize(("of", "method"), [(LedgerWriter, "publish"), (Runner, "_run_epoch")])
def test_a_push_that_is_interrupted_when_it_has_just_published_is_not_a_new_one(
    of: type, method: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with states(backend, tmp_path) as headwater:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(of, method, interrupted_after(getattr(of, method), "states"))
            headwater.push("orders", rows((1, "new")))
        check_repeats(headwater)


@pytest.mark.parametrize("number", [None, 7])
def test_a_push_tells_that_it_has_published_also_after_a_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None
) -> None:
    """The topic of the pipeline could not be reached just after the tables were written."""
    faults = iter([SinkUnavailable("the topic cannot be reached")])

    def publish_to_sink(runner: Runner, _phase: object) -> None:
        if runner.ledger.latest:
            for fault in faults:
                raise fault

    monkeypatch.setattr(Runner, "publish_to_sink", publish_to_sink)
    with Headwater(path=tmp_path / "lake", backend="delta", engine="local", run={"retry_wait": "1ms"}) as headwater:
        headwater.stream("orders", schema=SCHEMA, event_time="at")
        headwater.retraction(
            "states", source="orders", group=["state"], measures={"n": "count(*)"}, updated_at="at", identity="none"
        )
        assert headwater.push("orders", rows((1, "new")), number=number)
        assert (next(faults, None), headwater.epoch("states")) == (None, 0)
        assert not headwater.push("orders", rows((1, "new")), number=number or 0)


def test_a_frame_that_failed_before_it_was_published_is_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with states("delta:local", tmp_path) as headwater:
        assert headwater.push("orders", rows((1, "new")))
        interrupt_once(monkeypatch, LedgerWriter, "publish", "states")
        with pytest.raises(KeyboardInterrupt):
            headwater.push("orders", rows((2, "new")))
        assert headwater.push("orders", rows((2, "new")))
        assert counts(headwater) == {"new": 2}


def too_large() -> pl.DataFrame:
    """Two orders whose numbers have no sum."""
    return rows((1, "paid"), (2, "paid")).with_columns(pl.lit(2**62).alias("id"))


class TestSeveralPipelinesOfOneSource:
    """One of them counts orders, the other one adds up their numbers, which may be too large for a sum."""

    @pytest.fixture(params=["memory", "delta:local"])
    def headwater(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Headwater]:
        with states(request.param, tmp_path) as headwater:
            total = {"total": "sum(id)"}
            headwater.retraction("totals", source="orders", group=["state"], measures=total, updated_at="at")
            yield headwater

    def test_a_push_that_failed_in_one_is_made_again_with_its_number(self, headwater: Headwater) -> None:
        good, bad = rows((1, "new"), (2, "new")), too_large()
        assert headwater.push("orders", good)
        with pytest.raises(SumOverflow) as failed:
            headwater.push("orders", bad)
        assert failed.value.__notes__[-1] == "states published this frame: push it again with number=1"
        message = r"last numbers: states 1, totals 0\. .*: states published this frame: .* number=1\. .* give number=2"
        with pytest.raises(ConfigError, match=message):
            headwater.push("orders", bad)
        assert headwater.push("orders", rows((3, "paid")), number=1)  # corrected for the one that could not take it
        assert headwater.push("orders", good)
        assert counts(headwater) == {"new": 4, "paid": 2}
        assert sorted(headwater.view("totals").rows()) == [("new", 6), ("paid", 3)]

    def test_the_first_frame_may_fail_in_one(self, headwater: Headwater) -> None:
        bad = too_large()
        for error in (SumOverflow, ConfigError):
            with pytest.raises(error):
                headwater.push("orders", bad)
            assert counts(headwater) == {"paid": 2}
        with pytest.raises(ConfigError, match="last numbers: states 0, totals none"):
            headwater.push("orders", bad)
        assert headwater.push("orders", rows((3, "new")), number=1)  # the frame that failed is left out
        assert headwater.push("orders", rows((4, "new")))
        assert counts(headwater) == {"paid": 2, "new": 2}
        assert sorted(headwater.view("totals").rows()) == [("new", 7)]

    @pytest.mark.parametrize("headwater", ["delta:local"], indirect=True)
    def test_another_process_knows_which_frames_are_published(self, headwater: Headwater, tmp_path: Path) -> None:
        assert headwater.push("orders", rows((1, "new")))
        with pytest.raises(SumOverflow):
            headwater.push("orders", too_large())
        with states("delta:local", tmp_path) as other:
            other.retraction("totals", source="orders", group=["state"], measures={"total": "sum(id)"}, updated_at="at")
            with pytest.raises(ConfigError, match=r"states 1, totals 0\. If your program has pushed frame 1, "):
                other.push("orders", rows((1, "new")))
            assert other.push("orders", rows((1, "new")), number=2)

    @pytest.mark.parametrize(("of", "method"), [(Pipeline, "hand_over"), (LedgerWriter, "publish")])
    def test_a_push_that_was_interrupted_in_one_is_made_again_with_its_number(
        self, of: type, method: str, headwater: Headwater, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        interrupt_once(monkeypatch, of, method, "totals")
        with pytest.raises(KeyboardInterrupt) as interrupted:
            headwater.push("orders", rows((1, "new"), (2, "new")))
        assert interrupted.value.__notes__ == ["states published this frame: push it again with number=0"]
        with pytest.raises(ConfigError, match=r"last numbers: states 0, totals none\. .* push it again with number=0"):
            headwater.push("orders", rows((1, "new"), (2, "new")))
        assert headwater.push("orders", rows((1, "new"), (2, "new")), number=0)
        assert counts(headwater) == {"new": 2}
        assert headwater.view("totals").rows() == [("new", 3)]

    def test_a_push_that_is_interrupted_when_one_has_just_published_is_not_a_new_one(
        self, headwater: Headwater, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Pipeline, "hand_over", interrupted_after(Pipeline.hand_over, "states"))
            headwater.push("orders", rows((1, "new")))
        with pytest.raises(ConfigError, match="last numbers: states 0, totals none"):
            headwater.push("orders", rows((1, "new")))

    def test_a_push_that_is_interrupted_when_all_have_published_is_not_a_new_one(
        self, headwater: Headwater, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Pipeline, "hand_over", interrupted_after(Pipeline.hand_over, "totals"))
            headwater.push("orders", rows((1, "new")))
        check_repeats(headwater)

    def test_a_lazy_frame_is_computed_once_for_all(self, headwater: Headwater) -> None:
        computed = count(1)
        orders = (
            rows((1, "new")).lazy().map_batches(lambda found: found.with_columns(pl.lit(next(computed)).alias("id")))
        )
        assert headwater.push("orders", orders)
        assert headwater.view("totals").rows() == [("new", 1)]
        assert next(computed) == 2

    def test_a_frame_that_failed_in_the_first_one_is_a_new_one(self, headwater: Headwater) -> None:
        with pytest.raises(BadInput):
            headwater.push("orders", rows((1, "new")).drop("at"))
        assert headwater.push("orders", rows((1, "new")))
        assert counts(headwater) == {"new": 1}


class TestTwoProgramsAndOneSource:
    """Two programs push to one source, which two pipelines read: each numbers its frames by what the tables have."""

    @pytest.fixture
    def program(self, tmp_path: Path) -> Callable[..., Headwater]:
        """A program that has opened the tables."""

        def program(**more: Any) -> Headwater:
            opened = Headwater(backend="delta", engine="local", path=tmp_path / "lake", **more)
            orders = opened.stream("orders", schema=SCHEMA, event_time="at")
            for name in ("one", "two"):
                opened.retraction(name, source=orders, group=["state"], measures={"n": "count(*)"}, updated_at="at")
                opened.epoch(name)
            return opened

        return program

    @pytest.fixture
    def push_between(self, program: Callable[..., Headwater]) -> Callable[[Callable[[], object]], Headwater]:
        """A program whose next frame is in the first pipeline, when another one pushes, and the second one is next."""

        def push_between(act: Callable[[], object]) -> Headwater:
            acts = [act]
            return program(report=lambda _: acts and acts.pop()())

        return push_between

    @staticmethod
    def push_again(program: Headwater, number: int) -> None:
        """Push a frame by a program that knows the first table as it is, but the second one as it was."""
        with pytest.raises(EpochConflict) as refused:
            program.push("orders", rows((2, "b")))
        assert refused.value.__notes__[-1] == f"one published this frame: push it again with number={number}"
        assert program.push("orders", rows((2, "b")), number=number)

    @staticmethod
    def states(program: Headwater) -> list[set[str]]:
        return [set(program.view(name)["state"]) for name in ("one", "two")]

    def test_the_first_frames_of_both(
        self, program: Callable[..., Headwater], push_between: Callable[[Callable[[], object]], Headwater]
    ) -> None:
        other = program()

        def push() -> None:
            with pytest.raises(EpochConflict):
                other.push("orders", rows((2, "b")))
            with pytest.raises(ConfigError, match=r"last numbers: one 0, two none\. .* wait until all have its frame"):
                other.push("orders", rows((2, "b")))

        assert push_between(push).push("orders", rows((1, "a")))
        self.push_again(other, 1)
        assert self.states(other) == [{"a", "b"}] * 2

    def test_the_number_of_another_program_is_no_repeat(
        self, program: Callable[..., Headwater], push_between: Callable[[Callable[[], object]], Headwater]
    ) -> None:
        other = program()
        first = push_between(lambda: other.pipeline("two").push(rows((2, "b")), number=0))
        remedy = "one published this frame, but two one of another program: push it again only with"
        for number, error in ((None, EpochConflict), (0, EpochConflict), (None, ConfigError)):
            with pytest.raises(error) as refused:
                first.push("orders", rows((1, "a")), number=number)
            told = "\n".join([str(refused.value), *getattr(refused.value, "__notes__", [])])
            assert f"{remedy} pipeline('two').push(frame)" in told
            assert self.states(other) == [{"a"}, {"b"}]
        assert first.pipeline("two").push(rows((1, "a")))
        assert first.push("orders", rows((3, "c")), number=2)
        assert first.push("orders", rows((4, "d")))
        assert self.states(other) == [{"a", "c", "d"}, {"a", "b", "c", "d"}]

    def test_a_number_that_both_give(self, program: Callable[..., Headwater]) -> None:
        first, other = program(), program()
        assert first.push("orders", rows((1, "a")), number=0)
        for number in (0, 0):
            with pytest.raises(EpochConflict) as refused:
                other.push("orders", rows((2, "b")), number=number)
            assert "no pipeline published this frame: push it again, without a number or with number=1" in (
                refused.value.__notes__
            )
        assert first.push("orders", rows((3, "c")), number=1)
        for _ in range(2):  # first it does not know that the tables have changed
            with pytest.raises(EpochConflict):
                other.push("orders", rows((2, "b")), number=1)
        self.push_again(other, 2)
        assert self.states(other) == [{"a", "b", "c"}] * 2

    def test_a_number_that_both_give_to_one_pipeline(self, program: Callable[..., Headwater]) -> None:
        first, other = program().pipeline("one"), program()
        assert first.push(rows((1, "a")), number=0)
        for _ in range(2):
            with pytest.raises(EpochConflict) as refused:
                other.pipeline("one").push(rows((2, "b")), number=0)
            assert "no pipeline published this frame: push it again, without a number or with number=1" in (
                refused.value.__notes__
            )
        assert other.pipeline("one").push(rows((2, "b")), number=1)
        assert not other.pipeline("one").push(rows((2, "b")), number=1)
        assert set(other.view("one")["state"]) == {"a", "b"}

    def test_a_program_that_was_started_again_repeats_its_frame(
        self, program: Callable[..., Headwater], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        interrupt_once(monkeypatch, LedgerWriter, "publish", "two")
        with pytest.raises(KeyboardInterrupt):
            program().push("orders", rows((1, "a")), number=7)
        again = program()
        interrupt_once(monkeypatch, LedgerWriter, "publish", "two")
        with pytest.raises(KeyboardInterrupt):
            again.push("orders", rows((1, "a")), number=7)
        assert again.push("orders", rows((1, "a")), number=7)
        assert not program().push("orders", rows((1, "a")), number=7)
        assert self.states(again) == [{"a"}] * 2


def test_a_source_that_was_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows((1, "new")).write_parquet(tmp_path / "in" / "a.parquet")
    count = {"group": ["state"], "measures": {"n": "count(*)"}, "updated_at": "at"}
    for of_files in (True, False):
        with Headwater(backend="delta", engine="local", path=tmp_path / "lake", report=print) as headwater:
            if of_files:
                headwater.files("orders", path=tmp_path / "in", format="parquet", schema=SCHEMA, event_time="at")
            else:
                headwater.stream("orders", schema=SCHEMA, event_time="at")
            for name in ("one", "two"):
                headwater.retraction(name, source="orders", **count)
            if of_files:
                headwater.run(until_idle=True)
            else:
                with pytest.raises(SourceChanged):
                    headwater.push("orders", rows((1, "new")))


def test_times_in_dictionaries_are_read_as_other_times() -> None:
    """Categories of pandas, for example."""
    late, fine = pa.array([2**61, None], pa.timestamp("us")), pa.array([1, None], pa.timestamp("ns"))
    with Headwater(backend="memory", report=print) as headwater:
        headwater.stream("orders", schema="id bigint, at timestamp, seen array<timestamp_ntz>", event_time="at")
        headwater.ranking("ranks", source="orders", group=["id"], id=["id"], order_by="at")

        def push(at: pa.Array, inside: pa.Array) -> None:
            seen = pa.ListArray.from_arrays(pa.array([0, 1, 2]), inside.dictionary_encode())
            headwater.push("orders", pa.table({"id": [1, 2], "at": at.dictionary_encode(), "seen": seen}))

        noon = pa.array([NOON, None], pa.timestamp("ns", "Europe/Berlin"))
        push(noon, noon.cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("s")))
        found = headwater.view("ranks").sort("id").select("id", "at", "seen").rows()
        assert found == [(1, NOON, [NOON.replace(tzinfo=None)]), (2, None, [None])]
        push(late, late)
        assert headwater.view("ranks.dead_letters")["reason"].str.contains("out of range: 0001-01-01").to_list() == [
            True
        ]
        for at, inside in ((fine, late), (noon, fine)):
            with pytest.raises(BadInput, match="times finer than a microsecond"):
                push(at, inside)


def test_record_batches_are_pushed(tmp_path: Path) -> None:
    with states("memory", tmp_path) as headwater:
        (batch,) = rows((1, "new"), (2, "new")).to_arrow().to_batches()
        assert headwater.push("orders", batch)
        assert counts(headwater) == {"new": 2}


def test_columns_of_pandas_that_arrow_cannot_hold_are_refused(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas", reason="the extra dev is not installed")
    good = {"id": [1, 2], "state": ["a", "b"], "paid": [1, 2], "at": pd.to_datetime([NOON, NOON])}
    with states("memory", tmp_path) as headwater:
        for bad in (["a", 5], pd.arrays.SparseArray([1, 2]), [2**70, 1]):
            with pytest.raises(
                BadInput, match=r"the pushed frame has a column that Arrow cannot hold: .*; give it values"
            ):
                headwater.push("orders", pd.DataFrame({**good, "state": bad}))
        twice = pd.DataFrame(good)
        twice.columns = ["id", "state", "state", "at"]
        with pytest.raises(BadInput, match="'state' 2 times; give each column a name of its own"):
            headwater.push("orders", twice)
        assert headwater.push("orders", pd.DataFrame({**good, "paid": pd.array([1, 2], "Int8"), "more": ["a", 5]}))


def test_unsigned_integers_are_decimals_if_all_of_them_fit(tmp_path: Path) -> None:
    with Headwater() as headwater:
        headwater.stream("orders", schema="id bigint, more decimal(20,0), part decimal(20,1), at timestamp")
        headwater.ranking("ranks", source="orders", group=["id"], id=["id"], order_by="at")
        frame = rows((1, "new")).with_columns(pl.lit(2**64 - 1, pl.UInt64).alias("more"), pl.lit(7).alias("part"))
        assert headwater.push("orders", frame)
        assert headwater.view("ranks")["more"].to_list() == [2**64 - 1]
        with pytest.raises(BadInput, match=r"column 'part' is .*uint64, which decimal\(20,1\) cannot hold"):
            headwater.push("orders", frame.with_columns(pl.col("more").alias("part")))


def test_a_repeated_number_is_one_even_if_a_tick_is_due(tmp_path: Path) -> None:
    with Headwater(report=print) as headwater:
        headwater.stream("orders", schema=SCHEMA, event_time="at", idle_after="1ms")
        headwater.cumulate("curve", source="orders", step="1m", size="1d", measures={"n": "count(*)"}, ticks="dense")
        assert headwater.push("orders", rows((1, "new")), number=0)
        time.sleep(0.01)  # longer than `idle_after`, so that ticks are due
        assert [headwater.push("orders", rows((1, "new")), number=0) for _ in range(2)] == [False, False]
        assert headwater.epoch("curve") == 0
        headwater.run(until_idle=True)
        assert headwater.epoch("curve") > 0


@pytest.mark.parametrize("number", ["8", 1.5, True, -1, float("nan"), [1], 2**63, 2**70])
def test_the_number_of_a_frame_is_a_whole_one(number: Any, tmp_path: Path) -> None:
    with states("memory", tmp_path) as headwater:
        with pytest.raises(ConfigError, match="give a whole number from 0 on"):
            headwater.push("orders", rows((1, "new")), number=number)
        assert counts(headwater) == {}


@pytest.mark.parametrize("backend", ["memory", "delta:local"])
def test_numbers_of_numpy(backend: str, tmp_path: Path) -> None:
    with states(backend, tmp_path) as headwater:
        pushed = [headwater.push("orders", rows((1, "new")), number=each) for each in np.array([9, 10, 10, 11])]
    assert pushed == [True, True, False, True]


@pytest.mark.parametrize(
    "backend", ["memory", "delta:local", pytest.param("delta:spark", marks=[pytest.mark.delta, pytest.mark.contract])]
)
def test_nested_columns_come_back_as_they_went(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if backend == "delta:spark":
        request.getfixturevalue("spark")
    name, _, engine = backend.partition(":")
    more: Any = {"engine": engine} if engine else {}
    found = [
        {"id": 1, "at": NOON, "tags": ["a", None], "place": {"at": NOON, "City": "x"}},
        {"id": 2, "at": NOON, "tags": [], "place": {"at": None, "City": None}},
        {"id": 3, "at": NOON, "tags": None, "place": None},
    ]
    place = pl.Struct({"City": pl.String, "at": pl.Datetime("ms", "UTC")})
    types = {"id": pl.Int32, "at": pl.Datetime("us", "UTC"), "tags": pl.List(pl.String), "place": place}
    with Headwater(backend=name, path=None if name == "memory" else tmp_path / "lake", **more) as headwater:
        ddl = "id bigint, at timestamp, tags array<string>, place struct<at:timestamp,City:string>"
        headwater.stream("orders", schema=ddl, event_time="at")
        headwater.ranking("ranks", source="orders", group=["at"], id=["id"], order_by="at")
        assert headwater.push("orders", pl.DataFrame(found, types))
        assert headwater.push("orders", pl.DataFrame([{**found[2], "tags": ["z"]}], types).to_arrow())
        answer = headwater.answer("ranks")
        with answer.engine.working():
            rows = answer.frame.select("id", "at", "tags", "place").collect("pyarrow").to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: int(row["id"])) == [*found[:2], {**found[2], "tags": ["z"]}]


def test_frames_of_spark_are_not_read_without_spark(tmp_path: Path) -> None:
    class DataFrame:
        """Stands for Spark's: its name is all that is looked at."""

    DataFrame.__module__ = "pyspark.sql.dataframe"
    with states("delta:local", tmp_path) as headwater, pytest.raises(EngineLimit, match=r"push frame\.toPandas\(\)"):
        headwater.push("orders", DataFrame())


@pytest.mark.delta
@pytest.mark.contract
@pytest.mark.parametrize("backend", ["delta:auto", "delta:spark"])
def test_a_frame_of_spark_is_pushed_to_spark(backend: str, spark: SparkSession, tmp_path: Path) -> None:
    found = "SELECT 1L id, 'new' state, CAST(1.5 AS decimal(12,2)) paid, timestamp_ltz '2024-03-01 12:00:00Z' at"
    with states(backend, tmp_path) as headwater:
        assert headwater.push("orders", rows((1, "new")))
        assert headwater.push("orders", spark.sql(found))
        assert headwater.push("orders", rows((1, "paid")))
        assert counts(headwater) == {"new": 2, "paid": 1}


@pytest.mark.delta
@pytest.mark.contract
@pytest.mark.parametrize("alone", [False, True], ids=["", "of the pipeline"])
def test_a_push_that_spark_has_published_is_no_new_one_for_the_local_engine(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, alone: bool
) -> None:
    found = spark.sql(f"SELECT 1L id, 'new' state, CAST(1.5 AS decimal(12,2)) paid, {AT} at")
    with states("delta:auto", tmp_path) as headwater:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Runner, "_run_epoch", interrupted_after(Runner._run_epoch, "states"))
            headwater.push("orders", found)
        if alone:
            with pytest.raises(ConfigError, match="frame 0 ended with an error"):
                headwater.pipeline("states").push(rows((1, "new")))
        check_repeats(headwater)


@pytest.mark.delta
@pytest.mark.contract
@pytest.mark.parametrize("cached", [False, True], ids=["", "cached"])
def test_a_frame_of_spark_is_computed_once_for_all(spark: SparkSession, tmp_path: Path, *, cached: bool) -> None:
    calls = tmp_path / "calls"
    calls.write_text("")

    def numbered(_: int) -> int:
        with calls.open("a") as file:
            return file.write("x") + calls.stat().st_size

    number = udf(numbered, "bigint").asNondeterministic()
    orders = spark.range(1).select(number("id").alias("id"), expr("'new' state"), expr("1.5BD paid"), expr(f"{AT} at"))
    orders = orders.withColumn("paid", expr("CAST(paid AS decimal(12,2))"))
    if cached:
        orders.persist()
    with states("delta:spark", tmp_path) as headwater:
        headwater.retraction("totals", source="orders", group=["state"], measures={"total": "sum(id)"}, updated_at="at")
        assert headwater.push("orders", orders)
        assert counts(headwater) == {"new": 1}
        assert [row["total"] for row in headwater.view("totals").collect()] == [1]
    assert calls.read_text() == "x"
    assert orders.storageLevel.useMemory == cached
    orders.unpersist()


@pytest.mark.delta
@pytest.mark.contract
@pytest.mark.parametrize("pipelines", [1, 2], ids=["", "several pipelines"])
def test_a_frame_of_spark_has_the_rows_that_it_has_in_its_session(
    spark: SparkSession, tmp_path: Path, *, pipelines: int
) -> None:
    session = spark.newSession()
    for name, value in OF_THE_PROGRAM.items():
        session.conf.set(name, value)
    each = (
        f"SELECT id, {sql} state, CAST(1.5 AS decimal(12,2)) paid, {AT} at FROM range({number}, {number + 1})"
        for number, sql in enumerate(AS_THE_SETTINGS_ARE)
    )
    frame = session.sql(" UNION ALL ".join(each))
    there = {row["state"]: 1 for row in frame.collect()}
    with states("delta:spark", tmp_path) as headwater:
        if pipelines > 1:
            headwater.ranking("ranks", source="orders", group=["state"], id=["id"], order_by="at")
        assert headwater.push("orders", frame)
        assert counts(headwater) == there
        if pipelines > 1:
            assert {row["state"]: row["rank"] for row in headwater.view("ranks").collect()} == there
    assert {"America/New_York", '{"a":4,"b":null}', "9"} < there.keys()
    assert not spark.sparkContext._jsc.getPersistentRDDs()


@pytest.mark.delta
@pytest.mark.contract
def test_rows_of_spark_that_are_lost_with_an_executor_are_computed_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = list[Any]()

    def compute_and_lose(frame: Any) -> Any:
        computed.append(compute(frame))
        if len(computed) == 1:
            drop_rows(computed[0])
        return computed[-1]

    monkeypatch.setattr(program_source, "compute", compute_and_lose)
    found = f"SELECT id, 'new' state, CAST(1.5 AS decimal(12,2)) paid, {AT} at FROM range(2)"
    with states("delta:spark", tmp_path) as headwater:
        assert headwater.push("orders", spark.newSession().sql(found))
        assert counts(headwater) == {"new": 2}
    assert len(computed) == 2


@pytest.mark.delta
@pytest.mark.contract
def test_a_frame_of_spark_may_have_nested_columns(spark: SparkSession, tmp_path: Path) -> None:
    # Without nulls inside, Spark has another type for the same values.
    found = "SELECT 1L id, now() at, array('a') tags, named_struct('city', 'x', 'n', 1) place"
    with Headwater(backend="delta", engine="spark", path=tmp_path / "lake") as headwater:
        ddl = "id bigint, at timestamp, tags array<string>, place struct<city:string,n:int>"
        headwater.stream("orders", schema=ddl, event_time="at")
        headwater.ranking("ranks", source="orders", group=["id"], id=["id"], order_by="at")
        assert headwater.push("orders", spark.sql(found))
        (row,) = headwater.view("ranks").select("tags", "place").collect()
        assert row.asDict(recursive=True) == {"tags": ["a"], "place": {"city": "x", "n": 1}}
        wrong = "the pushed frame: column 'place.city' is int, which string cannot hold without loss; allowed: string"
        with pytest.raises(BadInput, match=wrong):
            headwater.push("orders", spark.sql(found.replace("'x'", "1")))


@pytest.mark.delta
@pytest.mark.contract
@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_types_of_a_frame_of_spark_are_widened(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    ddl = (
        "id bigint, at timestamp, paid decimal(12,2), part double, tags array<bigint>, more map<bigint,timestamp>,"
        " place struct<city:string,at:timestamp>, wall timestamp_ntz, gone string, no array<string>,"
        " none map<bigint,string>, deep struct<a:array<int>,b:bigint>"
    )
    wall = "timestamp_ntz '2024-07-01 12:00:00'"
    found = (
        f"SELECT 1 id, {wall} at, 7S paid, 3 part, array(1S, null) tags, map(2, {wall}, 1, null) more,"
        f" named_struct('at', {wall}, 'city', 'x', 'n', 1) place, {wall} wall, null gone, array() no, map() none,"
        " named_struct('a', array(), 'b', 1, 'c', make_ym_interval(1), 'C', map()) deep"
    )
    with Headwater(backend="delta", engine=engine, path=tmp_path / "lake") as headwater:
        headwater.stream("orders", schema=ddl, event_time="at", time_zone="Europe/Berlin")
        headwater.ranking("ranks", source="orders", group=["id"], id=["id"], order_by="at")
        assert headwater.push("orders", spark.sql(found))
        answer = headwater.answer("ranks")
        with answer.engine.working():
            (row,) = answer.frame.drop("rank").collect("pyarrow").to_arrow().to_pylist()
        at, noon = datetime(2024, 7, 1, 10, tzinfo=UTC), datetime(2024, 7, 1, 12)
        assert row == {
            "id": 1,
            "at": at,
            "paid": 7,
            "part": 3,
            "tags": [1, None],
            "more": [{"key": 1, "value": None}, {"key": 2, "value": at}],
            "place": {"city": "x", "at": at},
            "wall": noon,
            "gone": None,
            "no": [],
            "none": [],
            "deep": {"a": [], "b": 1},
        }


@pytest.mark.delta
@pytest.mark.contract
def test_columns_of_a_frame_of_spark_that_do_not_fit_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    good = {"id": "1L", "state": "'new'", "paid": "1.50BD", "at": AT}
    bad = [
        ({"id": "1.5D"}, "the pushed frame: column 'id' is double, which bigint cannot hold without loss; allowed: "),
        ({"at": "date '2024-03-01'"}, "the pushed frame: column 'at' is date, which timestamp cannot hold"),
        ({"state": "make_ym_interval(1)"}, "the pushed frame: column 'state' is interval year to month, which no"),
        ({"state": "map()"}, "the pushed frame: column 'state' is map<string,null>, which string cannot hold"),
        ({"state": "array(make_ym_interval(1))"}, r"column 'state\[\]' is interval year to month, which no table can"),
    ]
    with states("delta:spark", tmp_path) as headwater:
        for wrong, message in bad:
            select = ", ".join(f"{value} {name}" for name, value in {**good, **wrong}.items())
            with pytest.raises(BadInput, match=message):
                headwater.push("orders", spark.sql(f"SELECT {select}"))
        frame = spark.sql(f"SELECT 1L id, 'new' state, 1.50BD PAID, {AT} at")
        missing = ": column 'paid' is missing; it has: id, state, PAID, at; did you mean 'PAID'?"
        with pytest.raises(BadInput, match=re.escape(f"the pushed frame{missing}")):
            headwater.push("orders", frame)
        with pytest.raises(BadInput, match=re.escape(f"the frame of the query{missing}")):
            headwater.foreach_batch("states")(frame, 0)


@pytest.mark.delta
@pytest.mark.contract
def test_values_of_spark_that_no_other_engine_reads_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    ddl = (
        "id bigint, name string, at timestamp, wall timestamp_ntz, day date, tags array<string>, more map<string,date>,"
        " place struct<at:timestamp,city:string>"
    )
    good = {
        "name": "'ü'",
        "at": AT,
        "wall": "timestamp_ntz '9999-12-31 23:59:59.999999'",
        "day": "date '0001-01-01'",
        "tags": "array('a', null)",
        "more": "map('k', date '2024-03-01')",
        "place": f"named_struct('at', {AT}, 'city', 'x')",
    }
    damaged = "CAST(X'ff41' AS string)"
    bad = [
        ("name", damaged, "column 'name': string wanted, not \ufffdA (not UTF-8)"),
        ("at", f"{AT} + make_interval(9000)", "column 'at': timestamp wanted, not +11024-03-01 12:00:00 (out of range"),
        ("wall", "timestamp_ntz '2024-03-01' - make_interval(3000)", "column 'wall': timestamp_ntz wanted, not -0976"),
        ("day", "date '2024-03-01' + 4000000", "column 'day': date wanted, not +12975"),
        ("tags", f"array(null, {damaged})", "column 'tags': array<string> wanted, not [null, \ufffdA] (not UTF-8)"),
        ("more", f"map({damaged}, null)", "column 'more': map<string,date> wanted, not"),
        ("more", "map('k', date '2024-03-01' + 4000000)", "column 'more': map<string,date> wanted, not"),
        ("place", f"named_struct('at', {AT} + make_interval(9000), 'city', 'x')", "column 'place': struct<"),
        ("place", f"named_struct('at', {AT}, 'city', {damaged})", "column 'place': struct<"),
    ]
    rows = [good, dict.fromkeys(good, "null"), *({**good, name: value} for name, value, _ in bad)]
    types = dict(each.split(" ") for each in ddl.split(", "))
    selects = (
        f"SELECT {at}L id, {', '.join(f'CAST({value} AS {types[name]}) {name}' for name, value in row.items())}"
        for at, row in enumerate(rows)
    )
    with Headwater(backend="delta", engine="spark", path=tmp_path / "lake", report=print) as headwater:
        headwater.stream("orders", schema=ddl, event_time="at")
        headwater.ranking("ranks", source="orders", group=["day"], id=["id"], order_by="at")
        headwater.push("orders", spark.sql(" UNION ALL ".join(selects)))
        assert [row["id"] for row in headwater.view("ranks").select("id").collect()] == [0]
        reasons = [row["reason"] for row in headwater.view("ranks.dead_letters").orderBy("position").collect()]
    assert len(reasons) == len(bad) + 1
    for reason, (_, _, wanted) in zip(reasons[1:], bad, strict=True):
        assert reason.startswith(wanted)


@pytest.mark.delta
@pytest.mark.contract
def test_columns_of_spark_that_differ_in_case(spark: SparkSession, tmp_path: Path) -> None:
    found = f"SELECT 1L id, 'new' state, 'other' STATE, CAST(1.5 AS decimal(12,2)) paid, {AT} at"
    with states("delta:spark", tmp_path) as headwater:
        assert headwater.push("orders", spark.sql(found))
        assert counts(headwater) == {"new": 1}
        with pytest.raises(BadInput, match="column 'state' must exist exactly once; it has: id, state, state, paid"):
            headwater.push("orders", spark.sql(found.replace("STATE", "state")))


@pytest.mark.delta
@pytest.mark.contract
def test_fields_of_spark_that_differ_in_case(spark: SparkSession, tmp_path: Path) -> None:
    with Headwater(backend="delta", engine="spark", path=tmp_path / "lake") as headwater:
        headwater.stream("orders", schema="id bigint, at timestamp, place array<struct<x:bigint>>", event_time="at")
        headwater.ranking("ranks", source="orders", group=["id"], id=["id"], order_by="at")
        wrong = "column 'place[].x' must exist exactly once, ignoring case; its struct has: x, X; rename or leave out the others"
        with pytest.raises(BadInput, match=re.escape(f"the pushed frame: {wrong}")):
            headwater.push("orders", spark.sql(f"SELECT 1L id, {AT} at, array(named_struct('x', 1, 'X', 2)) place"))


@pytest.mark.delta
@pytest.mark.contract
def test_a_map_of_a_frame_is_kept_as_its_entries(spark: SparkSession, tmp_path: Path) -> None:
    kind = pa.map_(pa.string(), pa.map_(pa.int32(), pa.string()))
    arrow = pa.table(
        {
            "id": [2],
            "at": pa.array([datetime(2024, 3, 1, tzinfo=UTC)]),
            "more": pa.array([[("b", None), ("a", [(3, "z"), (1, "y")])]], kind),
        }
    )
    entries = [{"key": "a", "value": [{"key": 1, "value": "y"}, {"key": 3, "value": "z"}]}, {"key": "b", "value": None}]
    of_spark = "SELECT 1L id, TIMESTAMP '2024-03-01' at, map('b', null, 'a', map(3, 'z', 1, 'y')) more"
    with Headwater(backend="delta", engine="spark", path=tmp_path / "lake") as headwater:
        ddl = "id bigint, at timestamp, more map<string,map<int,string>>"
        headwater.stream("orders", schema=ddl, event_time="at")
        headwater.ranking("ranks", source="orders", group=["id"], id=["id"], order_by="at")
        assert headwater.push("orders", spark.sql(of_spark))
        assert headwater.push("orders", arrow)
        found = [
            row.asDict(recursive=True) for row in headwater.view("ranks").select("id", "more").orderBy("id").collect()
        ]
        assert found == [{"id": 1, "more": entries}, {"id": 2, "more": entries}]
        with pytest.raises(BadInput, match=r"column 'more.value' is int, which map<int,string> cannot hold"):
            headwater.push("orders", spark.sql("SELECT 1L id, now() at, map('a', 1) more"))


@pytest.mark.delta
@pytest.mark.contract
def test_row_kinds_of_a_frame_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    rows_of = "SELECT 1L id, timestamp_ltz '2024-03-01 12:00:00Z' at, explode(array('+I', '?', null)) kind"
    with Headwater(backend="delta", engine="spark", path=tmp_path / "lake") as headwater:
        headwater.stream("orders", schema="id bigint, at timestamp, kind string", event_time="at", row_kind="kind")
        headwater.ranking("ranks", source="orders", group=["id"], id=["id"], order_by="at")
        headwater.push("orders", spark.sql(rows_of))
        assert {row["reason"] for row in headwater.view("ranks.dead_letters").collect()} == REASONS


@pytest.mark.delta
@pytest.mark.contract
def test_batches_of_a_query_and_pushes_are_not_mixed(spark: SparkSession, tmp_path: Path) -> None:
    found = "SELECT 1L id, 'new' state, CAST(1.5 AS decimal(12,2)) paid, timestamp_ltz '2024-03-01 12:00:00Z' at"
    with states("delta:spark", tmp_path) as headwater:
        headwater.foreach_batch("states")(spark.sql(found), 0)
        with pytest.raises(SourceChanged, match="this frame is pushed, and the one before it was a batch"):
            headwater.push("orders", rows((1, "new")))
        assert counts(headwater) == {"new": 1}


def test_a_source_that_is_read_by_headwater_takes_no_frames(tmp_path: Path) -> None:
    headwater = Headwater()
    headwater.files("orders", tmp_path, schema=SCHEMA, event_time="at")
    with pytest.raises(ConfigError, match="no pipeline reads source 'orders'"):
        headwater.push("orders", rows((1, "new")))
    headwater.cumulate("curve", source="orders", step="1h", measures={"n": "count(*)"})
    with pytest.raises(ConfigError, match='give the source kind = "stream"'):
        headwater.push("orders", rows((1, "new")))
    with pytest.raises(ConfigError, match="there is no source 'order'; there are: orders; did you mean 'orders'"):
        headwater.push("order", rows((1, "new")))


def test_a_pipeline_that_is_declared_later_starts_with_the_next_push(tmp_path: Path) -> None:
    with states("memory", tmp_path) as headwater:
        headwater.push("orders", rows((1, "new"), (2, "paid")))
        headwater.ranking("ranks", source="orders", group=["state"], id=["id"], order_by="at")
        headwater.materialized_view(
            "sizes",
            inputs={"ranks": "ranks"},
            key=["state"],
            sql="SELECT state, count(*) AS n FROM ranks GROUP BY state",
        )
        headwater.push("orders", rows((3, "new")))
        headwater.run(until_idle=True)
        assert counts(headwater) == {"new": 2, "paid": 1}
        assert headwater.view("ranks")["id"].to_list() == [3]
        assert headwater.view("sizes").to_dicts() == [{"state": "new", "n": 1}]


@pytest.mark.parametrize("backend", ["memory", "delta:local"])
def test_batches_of_spark_need_its_engine(backend: str, tmp_path: Path) -> None:
    with states(backend, tmp_path) as headwater, pytest.raises(NotSupported, match='engine = "spark"'):
        headwater.foreach_batch("states")


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.lists(st.sampled_from("ab"), max_size=4)), max_size=12))
def test_in_any_order_and_however_often_repeated_a_number_counts_once(pushes: list[tuple[int, list[str]]]) -> None:
    expected, newest = Counter[str](), -1
    headwater = Headwater()
    headwater.stream("orders", schema=SCHEMA, event_time="at")
    headwater.retraction("states", source="orders", group=["state"], measures={"n": "count(*)"}, updated_at="at")
    for number, found in pushes:
        frame = rows(*((at, state) for at, state in enumerate(found)))
        assert headwater.push("orders", frame, number=number) == (number > newest)
        if number > newest:
            newest = number
            expected.update(found)
    if newest >= 0:
        assert {each["state"]: each["n"] for each in headwater.view("states").to_dicts()} == expected


def test_an_arrow_table_of_dictionaries_is_read(tmp_path: Path) -> None:
    frame = rows((1, "new"), (2, "new")).to_arrow()
    states_of = frame.column("state").cast(pa.string()).dictionary_encode()
    with states("memory", tmp_path) as headwater:
        headwater.push("orders", frame.set_column(1, "state", states_of))
        assert counts(headwater) == {"new": 2}
