"""What ranking refuses, and answers that the other suites do not reach."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from headwater.app.run.replay import replay
from headwater.app.run.runner import Runner
from headwater.domain.errors import ConfigError
from headwater.domain.service.base import ReadAt
from headwater.domain.service.ranking import Ranking, RankingSettings
from headwater.domain.table.fingerprint import fingerprint
from headwater.domain.table.schema import Schema
from headwater.testing.clock import ManualClock
from tests.backends import memory_backend
from tests.rows_source import RowsSource

SCHEMA = Schema.parse("team bigint, id bigint, day date, score double, name string")


def settings(**changed: Any) -> RankingSettings:
    plain = {"pipeline": "p", "schema": SCHEMA, "group": ["team"], "id": ["id"], "order_by": "day"}
    return RankingSettings(**(plain | changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"method": "ntile"}, "method = 'ntile' is not one of dense_rank, rank, row_number"),
        ({"method": "row_number"}, "needs tie_break"),
        ({"tie_break": ["id"]}, "tie_break is for row_number"),
        ({"nulls": "middle"}, "not one of first, last"),
        ({"top": 0}, "at least 1"),
        ({"group": []}, "at least one column"),
        ({"order_by": "dya"}, "no column 'dya'"),
        ({"event_time": "score"}, "must be a timestamp or date"),
        ({"schema": SCHEMA.plus(*Schema.parse("_rank int").columns)}, "column '_rank' is in the way"),
    ],
)
def test_settings_that_make_no_sense(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings(**changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"order_by": "name"}, "cannot be cut into segments"),
        ({"segment": "0s"}, "longer than 0"),
        ({"order_by": "score", "segment": "1d"}, "must be a number"),
        ({"order_by": "score", "segment": "-5"}, "more than 0"),
        ({"order_by": "score", "segment": "inf"}, "segment 'inf' must be a finite number"),
        ({"order_by": "score", "segment": "nan"}, "segment 'nan' must be a finite number"),
        ({"order_by": "score", "segment": "5", "offset": "nan"}, "offset 'nan' must be a finite number"),
        ({"order_by": "score", "segment": "5", "offset": "-inf"}, "offset '-inf' must be a finite number"),
    ],
)
def test_segments_that_make_no_sense(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Ranking(settings(**changed), memory_backend().engine)


def ran(ranking: RankingSettings, rows: list[dict[str, Any]], limit: int = 1_000_000) -> Runner:
    """A runner that has read all rows, `limit` in an epoch."""
    backend = memory_backend()
    store = backend.open()
    service, source = Ranking(ranking, backend.engine), RowsSource(SCHEMA, backend.frame, given=rows, limit=limit)
    runner = Runner("p", service, source, store, store, backend.engine, ManualClock(), "run")
    runner.run(until_idle=True)
    return runner


def answers(runner: Runner, view: str) -> list[tuple[Any, ...]]:
    return sorted(runner.service.view(view, ReadAt(runner.ledger.snapshot())).collect(backend="polars").rows())


@pytest.mark.parametrize(("first", "warns"), [([None, None], True), ([None, date(2024, 3, 1)], False)])
def test_a_first_epoch_without_any_order_is_told(
    caplog: pytest.LogCaptureFixture, first: list[date | None], warns: object
) -> None:
    """Its column may have another name than its field."""
    ran(settings(), [{"team": 1, "id": at, "day": day, "score": 1.0, "name": "a"} for at, day in enumerate(first)])
    assert ("p: order_by: column 'day' is null in all rows of the first epoch" in caplog.text) == warns


def test_the_base_of_days_is_told_in_instants() -> None:
    rows = [{"team": 1, "id": at, "day": date(2024, 3, at)} for at in (1, 2)]
    (_, first_start, first_end, before_first), (_, second_start, second_end, before_second) = answers(
        ran(settings(), rows), "base"
    )
    assert (first_start.isoformat(), before_first) == ("2024-03-01T00:00:00+00:00", 0)
    assert (first_end, second_end, before_second) == (second_start, None, 1)


def test_numbers_rank_by_segments_of_their_own_unit_and_odd_ones_are_set_aside() -> None:
    scores = [3.5, -2.0, 10.0, 3.5, float("nan"), float("inf"), None]
    rows = [{"team": 1, "id": at, "score": score} for at, score in enumerate(scores)]
    runner = ran(settings(order_by="score", segment="2.5", offset="1"), rows)
    assert {row[1]: row[-1] for row in answers(runner, "ranks")} == {1: 1, 0: 2, 3: 2, 2: 3, 6: 4}
    letters = runner.ledger.snapshot().read("p.dead_letters").collect(backend="polars")
    assert letters["reason"].to_list() == ["order column score is not a finite number"] * 2


def test_the_lowest_segment_of_numbers_starts_below_all_its_rows() -> None:
    scores = [-1e308, -3e18, 5.0, 3e18, 1e308]
    rows = [{"team": 1, "id": at, "score": score} for at, score in enumerate(scores)]
    runner = ran(settings(order_by="score", segment="1", offset="1"), rows)
    last = float(2**61)
    assert [row[1:] for row in answers(runner, "base")] == [
        (float("-inf"), 5.0, 0),
        (5.0, last, 2),
        (last, None, 3),
    ]


def test_a_dead_letter_whose_id_has_moved_since_is_one_row_after_its_replay() -> None:
    """Although `same-segment` looks for no row without its old image."""
    first = {"team": 1, "id": 7, "day": date(2024, 3, 1)}
    moved = [{**first, "_row_kind": "-U"}, {**first, "day": date(2024, 5, 1), "_row_kind": "+U"}]
    runner = ran(settings(repeats="same-segment"), [{**first, "team": None}, *moved])
    assert isinstance(runner.source, RowsSource)
    runner.source.given = [first]
    assert replay(runner).rows == 1
    assert [(row[1], row[2]) for row in answers(runner, "ranks")] == [(7, date(2024, 3, 1))]
    assert runner.ledger.snapshot().read("p.cells").collect(backend="polars")["_count"].to_list() == [1]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_an_id_that_comes_again_in_its_group_and_segment_replaces_its_row(limit: int) -> None:
    """Although the new row is newer than all rows of its cell, and comes without its old image."""
    rows = [{"team": 1, "id": at, "score": score} for at, score in [(1, 1.0), (2, 2.0), (1, 5.0), (3, 7.0)]]
    runner = ran(settings(order_by="score", segment="100", repeats="same-segment"), rows, limit)
    assert {row[1]: row[-1] for row in answers(runner, "ranks")} == {2: 1, 1: 2, 3: 3}
    assert runner.ledger.snapshot().read("p.cells").collect(backend="polars")["_count"].to_list() == [3]


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_equal_numbers_have_one_rank_however_many_come_in_an_epoch(limit: int) -> None:
    """3600000 * (1 / 3600000) is less than 1."""
    rows = [{"team": 1, "id": at, "score": 3_600_000.0 - (at == 5)} for at in range(1, 12)]
    runner = ran(settings(order_by="score", segment="3600000"), rows, limit)
    assert {row[1]: row[-1] for row in answers(runner, "ranks")} == {at: 1 if at == 5 else 2 for at in range(1, 12)}


@pytest.mark.parametrize(
    ("order_by", "segment", "goes_on"), [("id", "1000", True), ("id", "49", False), ("day", "1d", True)]
)
def test_tables_whose_segments_can_be_wrong_are_not_continued(order_by: str, segment: str, *, goes_on: bool) -> None:
    now = settings(order_by=order_by, segment=segment)
    values = {
        "pipeline": "p",
        "group": ("team",),
        "id": ("id",),
        "order_by": order_by,
        "descending": False,
        "method": "dense_rank",
        "tie_break": (),
        "segment": segment,
        "offset": "0s",
        "time_zone": "UTC",
        "nulls": "last",
    }
    kind = SCHEMA[order_by].ddl
    built = fingerprint(f"{sorted(values.items())} {kind}", {"segment": segment})
    assert now.changed(built) == (None if goes_on else "settings: segment 49 -> 49 (divided exactly)")
