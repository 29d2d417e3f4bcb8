"""Versions in a program, on the memory backend: read by label, compared, and waited for."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Headwater, Label
from headwater.app.config import load
from headwater.domain.errors import ConfigError, RetentionTooShort, VersionExpired, VersionNotFound, WaitTimeout
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NINE, TEN = "2024-03-01T09:00:00Z", "2024-03-02T10:00:00.5Z"
FILES = {
    "a": [(1, 11, NINE), (1, 12, TEN)],
    "b": [(1, 13, "2024-03-01T08:00:00Z")],
    "c": [(2, 21, "2024-03-04T00:00:00Z")],
}
SCHEMA = "project bigint, contract bigint, signed timestamp"


def bring(folder: Path, *names: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    for name in names:
        records = [
            {"project": project, "contract": contract, "signed": signed} for project, contract, signed in FILES[name]
        ]
        (folder / "in" / f"{name}.json").write_text("".join(json.dumps(each) + "\n" for each in records))


def opened(folder: Path, **settings: str) -> Headwater:
    (folder / "deploy.toml").write_text(ranked_contracts(**settings))
    return Headwater(load(folder / "deploy.toml"), report=lambda _report: None)


@pytest.fixture
def ran(tmp_path: Path) -> Iterator[Headwater]:
    """Three epochs: two with the watermark of the second contract, one after it."""
    bring(tmp_path, *FILES)
    with opened(tmp_path) as headwater:
        headwater.run(until_idle=True)
        yield headwater


def kinds(frame: Any, *names: str) -> list[tuple[Any, ...]]:
    return sorted(frame.select("_row_kind", *names).rows())


class TestLabels:
    def test_a_label_names_the_newest_version_of_that_watermark(self, ran: Headwater) -> None:
        second = {11, 12, 13}
        assert set(ran.view("ranked", label=TEN)["contract"]) == second
        assert set(ran.view("ranked", at=Label.parse("2024-03-02T10:00:00.5+00:00"))["contract"]) == second
        assert set(ran.view("ranked", label=datetime(2024, 3, 4, tzinfo=UTC))["contract"]) == {*second, 21}

    @pytest.mark.parametrize(
        ("label", "near"),
        [
            ("2024-03-02T00:00:00Z", "epoch 0 has 2024-03-02T10:00:00.5Z"),
            (
                "2024-03-03T00:00:00Z",
                "epoch 1 has 2024-03-02T10:00:00.5Z; epoch 2 has 2024-03-04T00:00:00Z",
            ),
            ("2024-03-05T00:00:00", "epoch 2 has 2024-03-04T00:00:00Z"),
        ],
    )
    def test_a_label_that_no_version_has_is_told_with_those_next_to_it(
        self, ran: Headwater, label: str, near: str
    ) -> None:
        with pytest.raises(VersionNotFound, match="pipeline 'ranked' has no version of label") as told:
            ran.view("ranked", label=label)
        assert str(told.value).endswith(f"; {near}")

    def test_before_the_first_publication_there_is_none(self, tmp_path: Path) -> None:
        with opened(tmp_path) as headwater, pytest.raises(VersionNotFound, match="none is published yet"):
            headwater.view("ranked", label=NINE)

    def test_a_version_has_one_name(self, ran: Headwater) -> None:
        with pytest.raises(ConfigError, match="give one of them"):
            ran.view("ranked", at=1, label=NINE)
        with pytest.raises(ConfigError, match="'yesterday' is not a label; write a watermark such as"):
            ran.view("ranked", label="yesterday")

    def test_what_is_gone_is_told_before_it_is_read(self, tmp_path: Path) -> None:
        bring(tmp_path, *FILES)
        with opened(tmp_path, backend='name = "memory"\nretain = { versions = 1 }\n') as headwater:
            headwater.run(until_idle=True)
            headwater.upkeep("ranked").expire(dry_run=False)
            with pytest.raises(VersionExpired):
                headwater.answer("ranked", label=TEN)

    def test_whatever_takes_a_version_takes_a_label(self, ran: Headwater) -> None:
        assert ran.pin("ranked", at=Label.parse(TEN), hold=timedelta(hours=1)).epoch == 1
        assert ran.changes("ranked", after=Label.parse(TEN)).height == 1


class TestDiff:
    def test_a_keyed_view_by_row_kinds(self, ran: Headwater) -> None:
        changed = ran.diff("ranked", after=0, until=1)
        assert changed.columns == ["project", "contract", "signed", "rank", "_row_kind"]
        assert kinds(changed, "contract", "rank") == [
            ("+I", 13, 1),
            ("+U", 11, 2),
            ("+U", 12, 3),
            ("-U", 11, 1),
            ("-U", 12, 2),
        ]

    def test_from_the_epoch_before_to_the_newest(self, ran: Headwater) -> None:
        assert kinds(ran.diff("ranked"), "contract", "rank") == [("+I", 21, 1)]
        assert kinds(ran.diff("ranked", until=0), "contract", "rank") == [("+I", 11, 1), ("+I", 12, 2)]
        assert kinds(ran.diff("ranked", after=-1), "contract") == [("+I", each) for each in (11, 12, 13, 21)]
        assert ran.diff("ranked", after=2).height == 0

    def test_what_came_and_went_again_does_not_show(self, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        for name, signed in (("a", NINE), ("b", TEN), ("c", NINE)):
            (tmp_path / "in" / f"{name}.json").write_text(json.dumps({"project": 1, "contract": 11, "signed": signed}))
        with opened(tmp_path) as headwater:
            headwater.run(until_idle=True)
            assert kinds(headwater.diff("ranked", after=0, until=1), "contract") == [("+U", 11), ("-U", 11)]
            assert kinds(headwater.diff("ranked", after=0, until=2), "contract") == []

    def test_rows_without_a_key_are_compared_whole_and_counted(self, tmp_path: Path) -> None:
        bring(tmp_path, *FILES)
        with opened(tmp_path) as headwater:
            headwater.run(until_idle=True)
            came = headwater.diff("ranked.base", after=0, until=2)
        assert kinds(came, "project", "base_rank", "_multiplicity") == [
            ("+I", 1, 2, 1),
            ("+I", 2, 0, 1),
            ("-D", 1, 1, 1),
        ]

    def test_a_table_that_the_pipeline_keeps(self, ran: Headwater) -> None:
        assert kinds(ran.diff("ranked.cells", after=1), "project") == [("+I", 2)]
        assert ran.diff("ranked.dead_letters", after=-1).height == 0

    def test_a_view_that_is_kept_as_a_table(self, tmp_path: Path) -> None:
        bring(tmp_path, *FILES)
        with opened(tmp_path, pipeline='materialize = ["ranks"]\n') as headwater:
            headwater.run(until_idle=True)
            assert kinds(headwater.diff("ranked", after=1), "contract", "rank") == [("+I", 21, 1)]
            assert headwater.diff("ranked", after=0, until=1).height == 5

    def test_what_cannot_be_compared_is_told(self, ran: Headwater) -> None:
        with pytest.raises(ConfigError, match=r"ranked\.changes already shows changes"):
            ran.diff("ranked.changes")
        with pytest.raises(ConfigError, match="epoch 2 is later than epoch 1: give the earlier one first"):
            ran.diff("ranked", after=2, until=1)
        with pytest.raises(VersionNotFound, match="no epoch 7"):
            ran.diff("ranked", after=0, until=7)


class TestWaitFor:
    def test_what_has_been_reached_is_there_at_once(self, ran: Headwater) -> None:
        found = ran.wait_for("ranked", datetime(2024, 3, 3, tzinfo=UTC), timeout=timedelta(seconds=1))
        assert (found.epoch.number, found.watermark) == (2, datetime(2024, 3, 4, tzinfo=UTC))
        assert ran.wait_for("ranked", datetime(2024, 3, 4)) == found

    def test_it_is_waited_for_while_others_run(self, tmp_path: Path) -> None:
        bring(tmp_path, "a")
        with opened(tmp_path, run='poll = "10ms"\n') as headwater:
            headwater.start()
            run = threading.Thread(target=headwater.run)
            run.start()
            try:
                first = headwater.wait_for("ranked", datetime(2024, 3, 1, tzinfo=UTC), timeout=timedelta(seconds=60))
                bring(tmp_path, "c")
                second = headwater.wait_for("ranked", datetime(2024, 3, 4, tzinfo=UTC), timeout=timedelta(seconds=60))
            finally:
                headwater.stop()
                run.join()
        assert (first.epoch.number, second.epoch.number) == (0, 1)

    def test_what_does_not_come_in_time_is_told(self, ran: Headwater) -> None:
        with pytest.raises(
            WaitTimeout, match=r"the watermark did not reach 2024-03-05T00:00:00Z within 100ms: "
        ) as told:
            ran.wait_for("ranked", datetime(2024, 3, 5), timeout=timedelta(milliseconds=100))
        assert str(told.value).endswith("epoch 2 of ranked has reached 2024-03-04T00:00:00Z; is the pipeline running?")

    def test_nothing_published_and_no_watermark_are_told(self, tmp_path: Path) -> None:
        with opened(tmp_path, schema=SCHEMA) as headwater:
            with pytest.raises(WaitTimeout, match="nothing is published yet"):
                headwater.wait_for("ranked", datetime(2024, 3, 5), timeout=timedelta(milliseconds=1))
            (tmp_path / "in").mkdir()
            (tmp_path / "in" / "a.json").write_text('{"project": null}')
            headwater.run(until_idle=True)
            with pytest.raises(WaitTimeout, match="it has no watermark: name the event_time of its source"):
                headwater.wait_for("ranked", datetime(2024, 3, 5), timeout=timedelta(milliseconds=1))

    def test_a_program_that_is_to_end_waits_no_longer(self, ran: Headwater) -> None:
        ran.stop()
        with pytest.raises(WaitTimeout, match="before the program was asked to end"):
            ran.wait_for("ranked", datetime(2024, 3, 5))


class TestLongReads:
    KEPT = 'name = "memory"\nretain = { versions = 2 }\n'

    def test_what_may_go_before_it_is_read_is_refused_with_the_remedy(self, tmp_path: Path) -> None:
        bring(tmp_path, *FILES)
        with opened(tmp_path, backend=self.KEPT) as headwater:
            headwater.run(until_idle=True)
            with pytest.raises(RetentionTooShort, match="a read of 2h may not end: epoch 2 of pipeline 'ranked'") as no:
                headwater.view("ranked", longest=timedelta(hours=2))
            assert "retain = { versions = 2 }" in str(no.value)
            assert str(no.value).endswith("headwater pin … ranked --at 2 --for 2h")
            with headwater.pin("ranked", hold=timedelta(hours=3)) as pin:
                assert headwater.view("ranked", at=pin.epoch, longest=timedelta(hours=2)).height == 4
            with pytest.raises(RetentionTooShort):
                headwater.view("ranked", at=2, longest=timedelta(hours=2))

    def test_where_all_is_kept_any_read_may_take_its_time(self, ran: Headwater) -> None:
        assert ran.view("ranked", at=0, longest=timedelta(days=999)).height == 2

    def test_a_duration_is_counted_from_when_the_next_one_came(self, tmp_path: Path) -> None:
        bring(tmp_path, *FILES)
        kept = 'name = "memory"\nretain = { duration = "1h" }\n'
        with opened(tmp_path, backend=kept) as headwater:
            headwater.run(until_idle=True)
            assert headwater.view("ranked", longest=timedelta(hours=1)).height == 4
            with pytest.raises(RetentionTooShort, match="epoch 1 of pipeline 'ranked' is kept for 59m59"):
                headwater.view("ranked", at=1, longest=timedelta(hours=1))
