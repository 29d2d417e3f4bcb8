"""The contract of every frame engine: rows are computed once, wall clocks of any zone, exact sums, digests."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import md5
from typing import Any
from zoneinfo import ZoneInfo

import narwhals as nw
import pytest

from ..domain.duration import DAY_MICROS, WALL_EPOCH, micros_of, microseconds
from ..domain.errors import SumOverflow
from ..domain.ports import FrameEngine
from ..domain.service.boundaries import Boundaries
from ..domain.table.schema import Schema
from .engine_order_contract import LARGE, LEAST, MOST, RATE, SUMMED, FrameOrderContract
from .expected import rows_of, utc

# zone, time in UTC, time on the wall clock
CLOCKS = [
    ("UTC", "2024-03-10 07:30:00.000001", "2024-03-10 07:30:00.000001"),
    ("UTC", "1969-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999"),
    ("Asia/Shanghai", "2024-06-01 16:00:00", "2024-06-02 00:00:00"),
    ("Asia/Shanghai", "1969-12-31 15:59:59.999999", "1969-12-31 23:59:59.999999"),
    ("America/New_York", "2024-03-10 06:59:59.999999", "2024-03-10 01:59:59.999999"),
    ("America/New_York", "2024-03-10 07:00:00", "2024-03-10 03:00:00"),
    ("America/New_York", "2024-11-03 05:30:00", "2024-11-03 01:30:00"),
    ("America/New_York", "2024-11-03 07:00:00", "2024-11-03 02:00:00"),
    ("America/New_York", "1965-07-01 04:00:00", "1965-07-01 00:00:00"),
]

# zone: how long after midnight the test's days begin there
_CHANGING = {
    "Europe/Berlin": timedelta(hours=2, minutes=30),
    "America/New_York": timedelta(hours=1, minutes=45),
    "America/Havana": timedelta(minutes=15),
    "America/St_Johns": timedelta(),
    "America/Sao_Paulo": timedelta(hours=-1, minutes=30),
    "Asia/Beirut": timedelta(),
    "Asia/Gaza": timedelta(minutes=15),
    "Asia/Kathmandu": timedelta(),
    "Africa/Casablanca": timedelta(hours=2, minutes=15),
    "Africa/Monrovia": timedelta(minutes=30),
    "Australia/Lord_Howe": timedelta(hours=1, minutes=45),
    "Pacific/Apia": timedelta(hours=2),
}


ALL_TYPES = Schema.parse(
    "id int, a tinyint, b smallint, c bigint, d float, e double, f string, g boolean, h binary, i date, j timestamp,"
    " k timestamp_ntz, l decimal(38,2), m array<struct<a:int,at:timestamp,select:binary>>,"
    " n struct<a:string,b:array<int>>"
)
KINDS = {
    "id": 1,
    "a": -128,
    "b": 32767,
    "c": MOST,
    "d": 0.5,
    "e": -0.1,
    "f": "it's a `name` \\n \U0001f389",
    "g": True,
    "h": b"\x00\xff",
    "i": date(1969, 12, 31),
    "j": datetime(1969, 7, 20, 20, 17, 40, 1, UTC),
    "k": datetime(2024, 3, 31, 2, 30, 0, 1),  # noqa: DTZ001 - some zones skip it; this type has none
    "l": LARGE,
    "m": [{"a": 1, "at": datetime(1969, 7, 20, 20, 17, 40, 1, UTC), "select": b"\xff"}, None],
    "n": {"a": None, "b": []},
}
"""A value of each type."""


class FrameEngineContract(FrameOrderContract):
    """Tests of all methods of `FrameEngine`."""

    @pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York"])
    def test_wall_clocks_go_there_and_back(self, engine: FrameEngine, zone: str) -> None:
        moments = [utc(text) for name, text, _ in CLOCKS if name == zone]
        rows = self.frame([(moment,) for moment in moments], Schema.parse("at timestamp"))
        walls = engine.wall_micros(rows, "at", into="wall", zone=zone)
        found = engine.from_wall_micros(walls, "wall", into="back", zone=zone).collect(backend="polars")
        expected = [_micros(wall) for name, _, wall in CLOCKS if name == zone]
        assert sorted(found.rows()) == sorted(zip(moments, expected, moments, strict=True))
        assert found.schema["wall"] == nw.Int64
        assert found.schema["back"] == nw.Datetime("us", "UTC")

    def test_a_clock_set_back_shows_a_time_twice(self, engine: FrameEngine) -> None:
        second = self.frame([(utc("2024-11-03 06:30:00"),)], Schema.parse("at timestamp"))
        walls = engine.wall_micros(second, "at", into="wall", zone="America/New_York")
        back = engine.from_wall_micros(walls, "wall", into="back", zone="America/New_York")
        assert back.collect(backend="polars").rows() == [
            (utc("2024-11-03 06:30:00"), _micros("2024-11-03 01:30:00"), utc("2024-11-03 05:30:00"))
        ]

    def test_a_clock_set_forward_never_shows_some_times(self, engine: FrameEngine) -> None:
        missing = {
            "2024-03-10 02:00:00": "2024-03-10 07:00:00",
            "2024-03-10 02:59:59.999999": "2024-03-10 07:59:59.999999",
        }
        rows = self.frame([(_micros(wall),) for wall in missing], Schema.parse("wall bigint"))
        found = engine.from_wall_micros(rows, "wall", into="at", zone="America/New_York")
        expected = [(_micros(wall), utc(text)) for wall, text in missing.items()]
        assert sorted(found.collect(backend="polars").rows()) == sorted(expected)

    def test_days_of_every_zone_are_cut_at_instants(self, engine: FrameEngine) -> None:
        """Days match those of Python's own zones, around midnights and clock changes from 1970 to 2200."""
        for zone, offset in _CHANGING.items():
            boundaries, rows = Boundaries(DAY_MICROS, microseconds(offset), zone), _near_changes(zone)
            cut = boundaries.floor(self.frame(rows, Schema.parse("at timestamp")), "at", engine, into="wall")
            cut = boundaries.start(cut, "wall", engine, into="start").select("at", "wall", "start")
            found = sorted(cut.collect(backend="polars").rows())
            micros = [micros_of(at) for (at,) in rows]
            walls = [boundaries.floor_of(at) for at in micros]
            expected = [(at, wall, boundaries.start_of(wall)) for (at,), wall in zip(rows, walls, strict=True)]
            assert found == expected, zone
            assert walls == sorted(walls)

    def test_dates_and_wall_times_have_no_zone(self, engine: FrameEngine) -> None:
        wall = datetime.fromisoformat("1969-07-20T20:17:40.000005")
        rows = self.frame([(date(1969, 7, 20), wall), (None, None)], Schema.parse("on date, wall timestamp_ntz"))
        found = engine.wall_micros(rows, "on", into="midnight", zone="America/New_York")
        found = engine.wall_micros(found, "wall", into="then", zone="America/New_York")
        expected = [(_micros("1969-07-20 00:00:00"), microseconds(wall - WALL_EPOCH)), (None, None)]
        assert set(found.select("midnight", "then").collect(backend="polars").rows()) == set(expected)

    def test_nulls_stay_null(self, engine: FrameEngine) -> None:
        rows = self.frame([(None, None)], Schema.parse("at timestamp, micros bigint"))
        found = engine.wall_micros(rows, "at", into="wall", zone="America/New_York")
        found = engine.from_wall_micros(found, "micros", into="moment", zone="America/New_York")
        assert found.collect(backend="polars").rows() == [(None, None, None, None)]

    def test_each_number_between_two_makes_a_row(self, engine: FrameEngine) -> None:
        bounds = [("a", 3, 5), ("b", 7, 7), ("none", 2, 1), ("far", -1, 0), ("null", None, 4)]
        rows = self.frame(bounds, Schema.parse("name string, low bigint, high bigint"))
        found = engine.each_between(rows, "low", "high", into="at").collect(backend="polars")
        expected = [
            (*bounds[0], 3),
            (*bounds[0], 4),
            (*bounds[0], 5),
            (*bounds[1], 7),
            (*bounds[3], -1),
            (*bounds[3], 0),
        ]
        assert sorted(found.rows()) == sorted(expected)
        assert found.schema["at"] == nw.Int64

    def test_digests_are_the_same_on_every_engine(self, engine: FrameEngine) -> None:
        digests = {
            "": "d41d8cd98f00b204e9800998ecf8427e",
            "abc": "900150983cd24fb0d6963f7d28e17f72",
            "Größe": md5("Größe".encode(), usedforsecurity=False).hexdigest(),
            None: None,
        }
        rows = self.frame([(text,) for text in digests], Schema.parse("text string"))
        found = engine.digest(rows, "text", into="digest").collect(backend="polars")
        assert dict(found.rows()) == digests

    def test_digests_of_numbers_are_those_of_their_plain_texts(self, engine: FrameEngine) -> None:
        texts = ["0.00000000", "0.00000001", "-0.00000999", "1234567890.50000000", "-12.00000012"]
        expected: dict[str, dict[Any, str]] = {
            "decimal(18,8)": dict(zip(map(Decimal, texts), texts, strict=True)),
            "decimal(9,2)": {Decimal("0.00"): "0.00", Decimal("-1234.5"): "-1234.50"},
            "bigint": {-7: "-7", MOST: str(MOST)},
            "boolean": {True: "true", False: "false"},
            "date": {date(999, 3, 1): "0999-03-01"},
        }
        for kind, values in expected.items():
            rows = self.frame([(value,) for value in values], Schema.parse(f"value {kind}"))
            found = dict(engine.digest(rows, "value", into="digest").collect(backend="polars").rows())
            assert found == {
                value: md5(text.encode(), usedforsecurity=False).hexdigest() for value, text in values.items()
            }

    def test_sums_that_overflow_on_the_way_are_exact(self, engine: FrameEngine) -> None:
        rows = [
            ("a", 1, 1, MOST, LARGE, RATE),
            ("a", 2, 1, 7, Decimal(0), RATE),
            ("a", 3, -1, -MOST, LEAST, -RATE),
            ("a", 4, 1, MOST, LARGE, RATE),
            ("a", 5, 1, MOST, LARGE, RATE),
            ("a", 6, -1, -MOST, LEAST, -RATE),
            ("a", 7, -1, -8, Decimal("-0.01"), RATE),
            ("b", 1, 1, -MOST, LEAST, RATE),
            ("b", 1, 1, None, None, None),
        ]
        found = engine.add_up(self.frame(rows, SUMMED), ["g"], SUMMED.names[2:], most=["at"])
        expected = [
            ("a", 1, MOST - 1, Decimal("999999999999999999999999999999999999.98"), Decimal("3.75"), 7),
            ("b", 2, -MOST, LEAST, RATE, 1),
        ]
        for frame in (found, engine.persist(found)):
            assert sorted(frame.collect(backend="polars").rows()) == expected
            assert frame.collect_schema()["_sum_d"] == nw.Decimal(38, 2)
            assert frame.collect_schema()["_sum_e"] == nw.Decimal(28, 2)

    @pytest.mark.parametrize(
        ("column", "values"),
        [
            ("_sum_n", [(MOST, RATE), (MOST, RATE)]),
            ("_sum_n", [(-MOST, RATE), (-1, RATE)]),
            ("_sum_n", [(-MOST - 1, RATE)]),
            ("_sum_n", [(-MOST - 1, RATE), (MOST, RATE)]),
            ("_sum_d", [(1, LARGE), (1, Decimal("0.01"))]),
            ("_sum_d", [(1, LEAST), (1, LEAST), (1, LARGE), (1, LEAST)]),
        ],
    )
    def test_a_sum_that_does_not_fit_stops(
        self, engine: FrameEngine, column: str, values: list[tuple[int, Decimal]]
    ) -> None:
        rows = [("Größe 'x'", at, 1, number, amount, None) for at, (number, amount) in enumerate(values)]
        frame = self.frame([("other", 0, 1, 1, RATE, None), *rows], SUMMED)
        sums = SUMMED.names[2:]
        for result in (engine.add_up(frame, ["g"], sums), engine.running(frame, sums, ["g"], "at")):
            with pytest.raises(SumOverflow) as caught, engine.explaining():
                result.collect(backend="polars")
            message = str(caught.value)
            assert f"measure {column.removeprefix('_sum_')!r}: the sum of group (g = Größe 'x') does not fit" in message

    def test_a_frame_holds_the_rows_that_it_is_made_of(self, engine: FrameEngine) -> None:
        rows = [{**KINDS, "id": 1}, {**dict.fromkeys(KINDS), "id": 2}]
        made = engine.frame(rows, ALL_TYPES)
        assert made.collect_schema() == {each.name: each.type.narwhals for each in ALL_TYPES.columns}
        assert sorted(rows_of(made)) == [tuple(row.values()) for row in rows]

    def test_a_frame_may_be_without_rows(self, engine: FrameEngine) -> None:
        made = engine.frame([], ALL_TYPES)
        assert made.collect_schema() == {each.name: each.type.narwhals for each in ALL_TYPES.columns}
        assert made.collect(backend="polars").is_empty()

    def test_rows_are_handed_out_in_their_order(self, engine: FrameEngine) -> None:
        rows = [(number % 7 * 1_000 + number, f"n{number}") for number in range(500)]
        in_order = self.frame(rows, Schema.parse("id bigint, name string")).sort("id")
        assert [row for part in engine.parts(in_order) for row in part.rows()] == sorted(rows)

    def test_nested_rows_are_handed_out_with_instants_as_numbers(self, engine: FrameEngine) -> None:
        rows = [
            (1, [{"at": utc("2024-03-10 07:30:00.000001"), "on": date(2024, 1, 2), "b": b"\x00"}, None]),
            (2, None),
            (3, [{"at": None, "on": None, "b": None}]),
            (4, []),
        ]
        frame = self.frame(rows, Schema.parse("id int, all array<struct<at:timestamp,on:date,b:binary>>")).sort("id")
        numbered = engine.wall_micros(frame, "all", into="in_micros", zone="UTC").select("in_micros")
        found = [row for part in engine.parts(numbered) for (row,) in part.rows()]
        at = _micros("2024-03-10 07:30:00.000001")
        assert found[0] == [{"at": at, "on": date(2024, 1, 2), "b": b"\x00"}, None]
        assert found[1:] == [None, [{"at": None, "on": None, "b": None}], []]

    def test_a_frame_goes_to_the_program_and_comes_back(self, engine: FrameEngine) -> None:
        rows = self.frame([(1, "a"), (2, None)], Schema.parse("id bigint, name string"))
        native = engine.to_native(rows)
        assert not isinstance(native, nw.LazyFrame)
        back = engine.from_native(native)
        assert isinstance(back, nw.LazyFrame)
        assert sorted(back.collect(backend="polars").rows()) == [(1, "a"), (2, None)]

    def test_persisted_rows_are_the_same_rows(self, engine: FrameEngine) -> None:
        rows = self.frame([(1, "a"), (1, "a"), (None, None)], Schema.parse("id bigint, name string"))
        persisted = engine.persist(rows.with_columns(nw.col("id") + 1))
        assert isinstance(persisted, nw.LazyFrame)
        assert sorted(persisted.collect(backend="polars").rows(), key=str) == [(2, "a"), (2, "a"), (None, None)]
        engine.release()
        assert engine.persist(rows).collect(backend="polars").shape == (3, 2)

    def test_what_is_not_about_stored_rows_passes_through_explaining(self, engine: FrameEngine) -> None:
        with pytest.raises(KeyError, match="mine"), engine.explaining():
            raise KeyError("mine")


def _near_changes(zone: str) -> list[tuple[datetime]]:
    """Instants near the clock changes of some years: some quarter hours of the day before and the day after."""
    tz, day, found = ZoneInfo(zone), timedelta(days=1), set[datetime]()
    for year in (1970, 1972, 1987, 2010, 2011, 2024, 2099, 2100, 2199):
        for number in range(366):
            midnight = datetime(year, 1, 1, tzinfo=UTC) + number * day
            if midnight.astimezone(tz).utcoffset() != (midnight + day).astimezone(tz).utcoffset():
                quarters = (midnight + timedelta(minutes=15 * quarter) for quarter in range(-8, 104, 3))
                found |= {each + timedelta(microseconds=by) for each in quarters for by in (-1, 0)}
    return [(each,) for each in sorted(found)]


def _micros(text: str) -> int:
    return microseconds(datetime.fromisoformat(text) - WALL_EPOCH)
