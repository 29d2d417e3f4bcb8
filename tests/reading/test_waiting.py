"""Waiting by a clock that tests move, for publications that come, do not come, or cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from headwater.app.read.waiting import wait_for
from headwater.domain.epoch.epoch import Epoch, Publication
from headwater.domain.errors import StoreUnavailable, TableDamaged, WaitTimeout
from headwater.testing.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Sequence

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def reached(watermark: datetime | None) -> Publication:
    return Publication(Epoch("p", 7), {}, {}, watermark, NOON, "settings")


class Looks:
    """What is found at each look; the last of it ever after."""

    def __init__(self, found: Sequence[Publication | Exception | None]) -> None:
        self.found, self.count = found, 0

    def __call__(self) -> Publication | None:
        found = self.found[min(self.count, len(self.found) - 1)]
        self.count += 1
        if isinstance(found, Exception):
            raise found
        return found


def watermark_of(publication: Publication) -> datetime | None:
    return publication.watermark


def waited(looks: Looks, *, timeout: timedelta | None = 5 * MINUTE, stops_after: int = 1000) -> tuple[Publication, int]:
    """What was found, and after how many minutes of waiting."""
    clock = ManualClock(NOON)
    found = wait_for(
        looks,
        NOON,
        complete_to=watermark_of,
        clock=clock,
        poll=MINUTE,
        timeout=timeout,
        stopping=lambda: looks.count >= stops_after,
    )
    return found, (clock.moment - NOON) // MINUTE


def test_it_ends_at_the_first_look_that_shows_it() -> None:
    looks = Looks([None, reached(None), reached(NOON - MINUTE), reached(NOON)])
    assert waited(looks) == (reached(NOON), 3)
    assert waited(Looks([reached(NOON + MINUTE)])) == (reached(NOON + MINUTE), 0)


def test_without_a_timeout_it_waits_for_as_long_as_it_takes() -> None:
    assert waited(Looks([*[None] * 900, reached(NOON)]), timeout=None)[1] >= 900


def test_a_fault_that_passes_is_waited_out() -> None:
    fault = StoreUnavailable("the disk is away")
    assert waited(Looks([fault, fault, reached(NOON)])) == (reached(NOON), 2)
    with pytest.raises(WaitTimeout, match="the tables could not be read in the end: the disk is away") as told:
        waited(Looks([None, fault]))
    assert told.value.__cause__ is fault


def test_a_fault_that_does_not_pass_ends_it() -> None:
    with pytest.raises(TableDamaged):
        waited(Looks([None, TableDamaged("a file is lost")]))


def test_it_gives_up_in_time_and_not_before() -> None:
    looks = Looks([None])
    with pytest.raises(WaitTimeout, match="did not reach 2024-03-01T12:00:00Z within 5m: nothing is published yet"):
        waited(looks)
    assert looks.count in {5, 6}


def test_a_clock_that_is_set_back_does_not_make_it_wait_longer() -> None:
    clock = ManualClock(NOON)
    looks = Looks([None])

    def stops() -> bool:
        clock.now = lambda: NOON - 60 * MINUTE  # type: ignore[method-assign]
        return looks.count > 10

    with pytest.raises(WaitTimeout, match="within 5m"):
        wait_for(
            looks,
            NOON,
            complete_to=watermark_of,
            clock=clock,
            poll=MINUTE,
            timeout=5 * MINUTE,
            stopping=stops,
        )


def test_a_program_that_ends_is_told() -> None:
    looks = Looks([reached(NOON - MINUTE)])
    with pytest.raises(WaitTimeout, match="was asked to end: epoch 7 of p has reached 2024-03-01T11:59:00Z"):
        waited(looks, stops_after=3)
    assert looks.count == 3
