"""Properties of the boundaries that wall clocks cut time by: over all zones, years 1850 to 2200, every quarter hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.domain.duration import microseconds, parse_duration
from headwater.domain.service.boundaries import Boundaries
from headwater.domain.service.cumulate.panes import PANE, WINDOW, Panes
from headwater.domain.service.segments import Segments
from headwater.domain.table.schema import Schema
from headwater.testing.frames import polars_frame
from tests.backends import memory_backend

from .effort import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUARTER = timedelta(minutes=15)
_DAY = timedelta(days=1)
_NAMED = [
    "Europe/Berlin",
    "America/Havana",
    "America/New_York",
    "America/St_Johns",
    "America/Toronto",
    "America/Juneau",
    "Asia/Beirut",
    "Asia/Manila",
    "Asia/Gaza",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Australia/Lord_Howe",
    "Africa/Monrovia",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Europe/Amsterdam",
    "Antarctica/Casey",
]
ZONES = sorted(available_timezones() - {"Factory", "localtime"})
SCHEMA = Schema.parse("at timestamp")


@cache
def first_shown(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first instant at which a clock shows a wall time or a later one, by looking at it instant by instant."""
    pieces = [*_pieces(wall.replace(tzinfo=UTC), zone)]
    for (start, offset), (end, _) in pairwise([*pieces, (datetime.max.replace(tzinfo=UTC), timedelta())]):
        reached = max(start, wall.replace(tzinfo=UTC) - offset)
        if reached < end:
            return reached
    raise AssertionError(wall)


def _pieces(near: datetime, zone: ZoneInfo) -> Iterator[tuple[datetime, timedelta]]:
    """When a clock changes within two days, and by how much it is ahead from then on."""
    at, last = near - 2 * _DAY, near + 2 * _DAY
    offset = _offset(at, zone)
    yield at, offset
    while at < last:
        later = at + timedelta(hours=3)
        if _offset(later, zone) != offset:
            yield (change := _change(at, later, zone)), _offset(change, zone)
            offset = _offset(later, zone)
        at = later


def _change(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    before = _offset(low, zone)
    while high - low > timedelta(seconds=1):
        between = low + (high - low) // 2
        between = between.replace(microsecond=0) if between.replace(microsecond=0) > low else between
        low, high = (between, high) if _offset(between, zone) == before else (low, between)
    return high.replace(microsecond=0)


def _offset(at: datetime, zone: ZoneInfo) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


def interval(at: datetime, zone: ZoneInfo, offset: timedelta) -> tuple[int, datetime, datetime]:
    """Number, start and end of the local day, from an offset on, that holds an instant."""
    shown = at.astimezone(zone).replace(tzinfo=None)
    number = (shown - _EPOCH.replace(tzinfo=None) - offset) // _DAY
    starts = {each: first_shown(_wall(each, offset), zone) for each in range(number - 1, number + 4)}
    return next(
        (each, start, starts[each + 1]) for each, start in starts.items() if start <= at < starts.get(each + 1, at)
    )


def _wall(number: int, offset: timedelta) -> datetime:
    return _EPOCH.replace(tzinfo=None) + number * _DAY + offset


def near_changes(zone: str, offset: timedelta) -> list[datetime]:
    """Instants around the changes of a clock, and around the day's boundary next to each."""
    return [each for change in _changes(zone) for each in near(change, zone, offset)]


def near(change: datetime, zone: str, offset: timedelta) -> list[datetime]:
    """Instants around a change of a clock, and around the day's boundaries next to it."""
    shown = change.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC)
    walls = (_wall((shown - _EPOCH - offset) // _DAY + day, offset) for day in (0, 1))
    starts = [change, *(first_shown(wall, ZoneInfo(zone)) for wall in walls)]
    instants = [start + timedelta(microseconds=by) for start in starts for by in (-1, 0)]
    return [*instants, *(change + at * _QUARTER for at in (-5, -1, 1, 3, 5))]


@cache
def _changes(zone: str) -> list[datetime]:
    """All changes of a clock from 1850 to 2200."""
    tz, step, found = ZoneInfo(zone), 3 * _DAY, []
    at, last = datetime(1850, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
    offset = _offset(at, tz)
    while at < last:
        if (now := _offset(at + step, tz)) != offset:
            found.append(_change(at, at + step, tz))
            offset = now
        at += step
    return found


def assert_cut_right(zone: str, offset: timedelta, moments: list[datetime]) -> None:
    """Each instant lies in the interval whose start and end hold it, however it is asked for."""
    boundaries = Boundaries(microseconds(_DAY), microseconds(offset), zone)
    engine = memory_backend().engine
    rows = polars_frame([(each,) for each in sorted(moments)], SCHEMA)
    rows = boundaries.floor(rows, "at", engine, into="wall")
    rows = boundaries.start(rows, "wall", engine, into="start")
    found = rows.collect(backend="polars")
    frame: Any = found.to_native()
    numbers = []
    for at, wall, start in frame.iter_rows():
        number, expected, _ = interval(at, ZoneInfo(zone), offset)
        assert (wall, start) == (microseconds(_wall(number, offset).replace(tzinfo=UTC) - _EPOCH), _micros(expected)), (
            at,
            zone,
            offset,
        )
        assert (boundaries.floor_of(_micros(at)), boundaries.start_of(wall)) == (wall, start)
        numbers.append(number)
    assert numbers == sorted(numbers)


def assert_panes_right(zone: str, offset: timedelta, moments: list[datetime]) -> None:
    """A window and a pane hold each of their instants, whoever asks; panes of a day, or of six hours and less."""
    engine = memory_backend().engine
    for step in (_DAY, timedelta(hours=6)):
        panes = Panes.of(size=_DAY, step=step, offset=offset, zone=zone)
        rows = panes.assign(polars_frame([(each,) for each in moments], SCHEMA), "at", engine)
        rows = panes.number(rows, PANE, engine, into="number")
        rows = panes.expand(rows, "number", "number", engine, into="end")
        frame: Any = rows.collect(backend="polars").to_native().select("at", WINDOW, PANE, "end")
        assert frame.height == len(moments)
        for at, window, pane, end in frame.iter_rows():
            _, started, ends = interval(at, ZoneInfo(zone), offset)
            whole = (at - started) // step
            expected = min(_micros(started + (whole + 1) * step), _micros(ends)) if step < _DAY else _micros(ends)
            assert (window, pane, end) == (_micros(started), expected, expected), (at, zone, offset, step)
            assert (panes.find_window(_micros(at)), panes.find_next_end(at)) == (window, pane)
            assert panes.find_last_end(at) == _micros(started + whole * step if step < _DAY else started)


def _micros(at: datetime) -> int:
    return microseconds(at - _EPOCH)


@given(st.sampled_from(ZONES), st.integers(0, 95), st.data())
@settings(max_examples=examples(50))
def test_an_instant_lies_in_the_day_that_holds_it(zone: str, quarter: int, data: st.DataObject) -> None:
    moments = st.datetimes(datetime(1850, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
    drawn = data.draw(st.lists(moments, min_size=1, max_size=5))
    offset = quarter * _QUARTER
    if changes := _changes(zone):
        change = data.draw(st.sampled_from(changes))
        drawn += near(change, zone, offset)
    assert_cut_right(zone, offset, drawn)
    assert_panes_right(zone, offset, drawn)


@pytest.mark.parametrize(("zone", "quarter"), [(zone, at % 2 * (at % 11)) for at, zone in enumerate(_NAMED)])
def test_every_change_of_a_clock_is_cut_right(zone: str, quarter: int) -> None:
    assert_cut_right(zone, quarter * _QUARTER, near_changes(zone, quarter * _QUARTER))


_WHOLE = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(2**53 - 3, 2**53 + 9), st.integers(-9, 9))


@given(st.lists(_WHOLE, min_size=1, max_size=20), st.sampled_from(["1", "3", "0.1", "1e9"]))
@settings(max_examples=examples(100))
def test_segments_of_whole_numbers_keep_their_order(values: list[int], interval: str) -> None:
    """Equal numbers share a segment, and a greater one never has an earlier segment, beyond 2**53 too."""
    for ddl in ("bigint", "decimal(20,1)"):
        schema = Schema.parse(f"x {ddl}")
        kind = schema["x"]
        segments = Segments.of("x", kind, interval=interval, offset="0.5", zone="UTC", nulls_lowest=True)
        given_ = [(each if ddl == "bigint" else Decimal(each),) for each in sorted(values)]
        rows = segments.assign(polars_frame(given_, schema), memory_backend().engine)
        found = rows.collect(backend="polars").rows()
        numbers = [number for _, number in found]
        assert numbers == sorted(numbers)
        assert len(dict(found)) == len(set(found))


@given(
    st.lists(st.datetimes(timezones=st.just(UTC)), min_size=1, max_size=20), st.sampled_from(["1d", "7d", "1h", "1ms"])
)
@settings(max_examples=examples(100))
def test_segments_of_times_are_counted_exactly(times: list[datetime], interval: str) -> None:
    """From the year 1 to the year 9999, to the microsecond."""
    segments = Segments.of("at", SCHEMA["at"], interval=interval, offset="0s", zone="UTC", nulls_lowest=True)
    rows = segments.assign(polars_frame([(each,) for each in times], SCHEMA), memory_backend().engine)
    every = microseconds(parse_duration(interval))
    for at, number in rows.collect(backend="polars").rows():
        assert number == _micros(at) // every == segments.number_of(at)
