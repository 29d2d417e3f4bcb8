"""The past of a retraction: what is cut, what waits, and user-supplied pasts."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from attrs import evolve

from headwater.app.run.options import RunOptions
from headwater.domain.errors import BadInput, ConfigError, SumOverflow
from headwater.domain.service.retraction import PastTable, PlainTable
from headwater.domain.table.schema import Schema

from .counting import Shop, march, measures, moment, order, settings

if TYPE_CHECKING:
    from pathlib import Path

COUNTED = measures(orders="count(*)", buyers="count(distinct buyer)")


def counted(**changed: Any) -> Shop:
    """Orders and buyers by state, of three days."""
    shop = Shop(settings(measures=COUNTED, **changed))
    shop.read(
        order("+I", "new", "01 09:00", buyer="ann"),
        order("+I", "new", "02 09:00", buyer="bob"),
        order("-U", "new", "02 10:00", buyer="bob"),
        order("+U", "paid", "03 09:00", buyer="bob"),
    )
    return shop


LIFE = [
    (march(1), "new", 1, 1),
    (march(2), "new", 2, 2),
    (march(3), "new", 1, 1),
    (march(3), "paid", 1, 1),
]


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_days_before_the_cut_go_into_the_past_and_change_no_answer(cut: int) -> None:
    shop = counted()
    before = shop.shows()
    assert shop.shows("by_day") == LIFE
    shop.roll(cut)
    assert shop.shows() == before
    assert shop.shows("by_day") == [row for row in LIFE if row[0] >= march(cut)]
    assert [row[0] for row in shop.shows("deltas")] == [row[0] for row in LIFE if row[0] >= march(cut)]


def test_what_is_below_the_cut_is_kept_once() -> None:
    shop = counted()
    shop.roll(3)
    assert shop.holds("past", "state", "_rows") == [("new", 2)]
    assert shop.holds("past_values_buyers", "_value", "_times") == [("ann", 1), ("bob", 1)]
    assert {day for (day,) in shop.holds("sums", "_segment")} == {(march(3) - date(1970, 1, 1)).days}
    shop.roll(4)
    assert shop.holds("sums") == []


def test_a_cut_moves_forward_alone() -> None:
    shop = counted()
    shop.roll(3)
    before, held = shop.shows("by_day"), shop.holds("past")
    shop.roll(3)
    assert (shop.shows("by_day"), shop.holds("past")) == (before, held)
    with pytest.raises(
        ConfigError, match="the past already reaches up to day 2024-03-03, so it cannot be cut at 2024-03-02"
    ):
        shop.roll(2)
    assert shop.shows("by_day") == before
    assert shop.runner().ledger.snapshot().publication.epoch.number == 2


def test_nothing_published_cannot_be_cut() -> None:
    with pytest.raises(ConfigError, match="'p' has published nothing yet; run it first"):
        Shop().roll(2)


def test_a_late_change_goes_into_the_past_at_once() -> None:
    shop = counted()
    shop.roll(3)
    shop.read(order("+I", "new", "01 10:00", buyer="eve"), order("-D", "paid", "03 10:00", buyer="bob"))
    assert shop.shows() == [("new", 2, 2)]
    assert shop.holds("past", "state", "_rows") == [("new", 3)]
    assert shop.shows("by_day") == [(march(3), "new", 2, 2)]  # one came to paid that day, and went


DAILY = {"event_time": "mtime", "roll_after": timedelta(hours=1)}


def test_days_go_into_the_past_when_the_watermark_has_passed_them() -> None:
    shop = counted(**DAILY)
    assert shop.holds("cut") == []
    shop.read(order("+I", "new", "04 00:30", buyer="eve"))
    assert shop.shows("by_day")[0][0] == march(3)  # by the watermark of the epoch before, on the third
    shop.read(order("+I", "new", "04 01:00", buyer="eve"))
    assert shop.shows("by_day")[0][0] == march(3)  # which is not an hour into the fourth yet
    shop.read(order("+I", "new", "03 23:00", buyer="joe"), order("+I", "new", "04 02:00", buyer="kim"))
    assert shop.shows("by_day") == [(march(4), "new", 5, 4)]
    assert shop.holds("past", "state", "_rows") == [("new", 2), ("paid", 1)]
    assert shop.shows() == [("new", 5, 4), ("paid", 1, 1)]


def test_days_are_rolled_even_where_all_of_a_batch_is_set_aside() -> None:
    shop = counted(**DAILY)
    shop.read(order("+I", "new", None))
    assert shop.shows("by_day") == LIFE[2:]
    assert shop.shows() == [("new", 1, 1), ("paid", 1, 1)]


def test_no_day_is_rolled_by_a_watermark_that_one_record_has_moved_far_ahead(caplog: pytest.LogCaptureFixture) -> None:
    """The clock shows 1 January 2024. A cut there could not be undone, and no later day would be shown again."""
    shop = counted(**DAILY)
    never = {"_row_kind": "+I", "state": "new", "mtime": datetime(2099, 12, 31, tzinfo=UTC), "buyer": "max"}
    shop.read(never)
    caplog.clear()
    shop.read(order("+I", "new", "04 09:00", buyer="eve"))
    assert (march(4), "new", 2, 2) in shop.shows("by_day")
    assert shop.shows() == [("new", 3, 3), ("paid", 1, 1)]
    assert caplog.messages == [
        "p: the watermark, 2099-12-31, is more than 300 days after today, so roll_after moves no day into the past."
        " One record that is dated far ahead does this. Instead, use headwater roll … p --cut DAY"
    ]


@pytest.mark.parametrize(("ahead", "days"), [(300, 1), (301, 3)])
def test_a_watermark_can_be_ahead_of_the_clock_by_300_days(ahead: int, days: int) -> None:
    shop = counted(**DAILY)
    time = datetime(2024, 1, 1, 12, tzinfo=UTC) + timedelta(days=ahead)
    shop.read({"_row_kind": "+I", "state": "new", "mtime": time, "buyer": "max"})
    shop.read(order("+I", "new", "04 09:00", buyer="eve"))
    assert len({day for day, *_ in shop.shows("by_day")}) == days


def test_a_group_whose_past_and_days_cancel_is_gone() -> None:
    shop = counted()
    shop.roll(4)
    shop.read(order("-D", "new", "05 09:00", buyer="ann"), order("-D", "paid", "05 09:00", buyer="bob"))
    assert shop.shows() == []
    shop.roll(6)
    assert (shop.holds("past"), shop.holds("past_values_buyers")) == ([], [])


# ---- a past of the user's own


def test_rows_of_the_users_own_are_counted(tmp_path: Path) -> None:
    """The source's table as it was when the second of March ended."""
    table = pl.DataFrame(
        {
            "state": ["new", "new", None],
            "buyer": ["ann", "bob", "bob"],
            "amount": [Decimal("1.00"), Decimal("2.00"), None],
        },
        schema={"state": pl.String, "buyer": pl.String, "amount": pl.Decimal(9, 2)},
    )
    table.write_parquet(tmp_path / "orders.parquet")
    past = PastTable({"past": PlainTable(str(tmp_path / "orders.parquet"), "parquet")})
    told = measures(
        orders="count(*)", buyers="count(distinct buyer)", least="min(amount)", most="max(amount)", mean="avg(amount)"
    )
    shop = Shop(settings(measures=told, past=past))
    shop.read(
        order("+I", "new", "02 09:00", "2.00", buyer="bob"),
        order("-U", "new", "02 09:00", "2.00", buyer="bob"),
        order("+U", "paid", "03 09:00", "2.00", buyer="bob"),
    )
    shop.roll(3)
    one = Decimal("1.00")
    assert shop.shows() == [
        ("new", 1, 1, one, one, 1.0),
        ("paid", 1, 1, Decimal("2.00"), Decimal("2.00"), 2.0),
        (None, 1, 1, None, None, None),
    ]


def totals_of(tmp_path: Path, text: str) -> PastTable:
    """A query over daily totals that a batch leaves."""
    (tmp_path / "daily.csv").write_text(text)
    sql = (
        "SELECT state, cast(orders AS bigint) AS orders, cast(amount AS decimal(19,2)) AS amount,"
        " cast(amounts AS bigint) AS amounts, cast(amount AS double) AS mean FROM daily WHERE day = date_sub(:cut, 1)"
    )
    return PastTable({"daily": PlainTable(str(tmp_path / "daily.csv"), "csv")}, sql, "totals")


MONEY = measures(orders="count(*)", amount="sum(amount)", amounts="count(amount)", mean="avg(amount)")
HEAD = "day,state,orders,amount,amounts\n"


def test_sums_and_means_go_on_from_totals(tmp_path: Path) -> None:
    past = totals_of(tmp_path, f"{HEAD}2024-03-01,new,3,7.50,2\n2024-03-01,held,1,,0\n2024-03-02,new,9,90,9\n")
    shop = Shop(settings(measures=MONEY, past=past))
    shop.read(order("+I", "new", "02 09:00", "2.50"), order("-D", "held", "02 09:00"))
    shop.roll(2)
    assert shop.shows() == [("new", 4, Decimal("10.00"), 3, 10 / 3)]
    shop.roll(3)
    assert shop.shows() == [("new", 9, Decimal("90.00"), 9, 10.0)]


def test_totals_that_do_not_fit_into_their_sum_stop_the_cut(tmp_path: Path) -> None:
    past = totals_of(tmp_path, f"{HEAD}2024-03-01,new,3,{'9' * 30},2\n")
    assert past.sql is not None
    past = evolve(past, sql=past.sql.replace("decimal(19,2)", "decimal(38,2)"))
    shop = Shop(settings(measures=MONEY, past=past))
    shop.read(order("+I", "new", "02 09:00", "2.50"))
    before = shop.shows()
    with pytest.raises(SumOverflow, match=r"measure 'amount' in the past's totals: the sum of group \(state = new\)"):
        shop.roll(2)
    assert shop.shows() == before


def test_what_comes_late_to_a_past_of_the_users_own_waits_for_the_batch(tmp_path: Path) -> None:
    past = totals_of(tmp_path, f"{HEAD}2024-03-01,new,3,7.50,2\n")
    shop = Shop(settings(measures=MONEY, past=past))
    shop.read(order("+I", "new", "02 09:00", "2.50"))
    shop.roll(2)
    expected = [("new", 4, Decimal("10.00"), 3, 10 / 3)]
    shop.read(order("+I", "new", "01 09:00", "99.00"))
    assert (shop.shows(), [row[0] for row in shop.shows("deltas")]) == (expected, [march(2)])
    totals_of(tmp_path, f"{HEAD}2024-03-01,new,4,106.50,3\n")
    shop.roll(2)
    assert shop.shows() == [("new", 5, Decimal("109.00"), 4, 27.25)]


def test_views_kept_as_tables_follow_a_past_of_the_users_own(tmp_path: Path) -> None:
    views = ("totals", "deltas", "by_day")
    past = totals_of(tmp_path, f"{HEAD}2024-03-01,new,3,7.50,2\n2024-03-01,held,1,,0\n2024-03-02,new,9,90,9\n")
    shop = Shop(settings(measures=MONEY, past=past), RunOptions(materialize=views))
    shop.read(order("+I", "new", "02 09:00", "2.50"), order("-D", "held", "02 09:00"))
    for cut in (2, 3):
        shop.roll(cut)
        shop.read(order("+I", "new", "01 09:00", "2.50"), order("+I", "paid", f"0{cut} 09:00", "2.50"))
        assert [shop.holds(view) for view in views] == [shop.shows(view) for view in views]
    assert [row[:2] for row in shop.shows()] == [("new", 9), ("paid", 1)]


@pytest.mark.parametrize("holds", ["rows", "totals"])
def test_a_past_without_a_column_is_refused(tmp_path: Path, holds: str) -> None:
    pl.DataFrame({"stat": ["new"], "orders": [1]}).write_parquet(tmp_path / "past.parquet")
    past = PastTable({"past": PlainTable(str(tmp_path / "past.parquet"), "parquet")}, holds=holds)
    shop = Shop(settings(past=past))
    shop.read(order("+I", "new", "02 09:00"))
    with pytest.raises(ConfigError, match="the past has no column 'state'; it has: stat, orders"):
        shop.roll(2)
    assert shop.shows() == [("new", 1)]


def test_a_past_of_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "past.csv").write_text("state,orders\nnew,5\n")
    past = PastTable({"past": PlainTable(str(tmp_path / "past.csv"), "csv")}, holds="totals")
    shop = Shop(settings(past=past))
    shop.read(order("+I", "new", "02 09:00"))
    with pytest.raises(ConfigError, match="column 'orders' is string, not a number: cast it in the past's sql"):
        shop.roll(2)


def test_a_past_of_other_types_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"state": [7], "buyer": ["ann"]}).write_parquet(tmp_path / "past.parquet")
    past = PastTable({"past": PlainTable(str(tmp_path / "past.parquet"), "parquet")})
    shop = Shop(settings(measures=COUNTED, past=past))
    shop.read(order("+I", "new", "02 09:00"))
    with pytest.raises(
        ConfigError, match="the past's column 'state' is bigint, not a string: cast it in the past's sql"
    ):
        shop.roll(2)


def test_narrower_whole_numbers_and_a_past_without_groups_are_welcome(tmp_path: Path) -> None:
    pl.DataFrame({"orders": [5]}, schema={"orders": pl.Int32}).write_parquet(tmp_path / "past.parquet")
    past = PastTable({"past": PlainTable(str(tmp_path / "past.parquet"), "parquet")}, holds="totals")
    shop = Shop(settings(group=[], past=past))
    shop.read(order("+I", "new", "02 09:00"))
    shop.roll(2)
    assert shop.shows() == [(6,)]


def a_past_of(tmp_path: Path, rows: pl.DataFrame, holds: str, **changed: Any) -> Shop:
    """A shop with one order, whose past is cut from these rows."""
    rows.write_parquet(tmp_path / "past.parquet")
    past = PastTable({"past": PlainTable(str(tmp_path / "past.parquet"), "parquet")}, holds=holds)
    shop = Shop(settings(past=past, **changed))
    shop.read({"_row_kind": "+I", "state": "new", "mtime": moment("02 09:00")})
    return shop


@pytest.mark.parametrize(
    ("kind", "stored", "value"),
    [
        ("int", pl.Int64, 2**31),
        ("int", pl.Int64, -(2**31) - 1),
        ("int", pl.UInt32, 2**31),
        ("tinyint", pl.Int16, 128),
    ],
)
@pytest.mark.parametrize("measure", ["sum(a)", "max(a)", "group"])
def test_integers_of_a_past_that_do_not_fit_stop_the_cut(
    tmp_path: Path, kind: str, stored: Any, value: int, measure: str
) -> None:
    schema = Schema.parse(f"state string, a {kind}, mtime timestamp")
    own = {"group": ["state", "a"]} if measure == "group" else {"measures": measures(schema, most=measure)}
    rows = pl.DataFrame({"state": ["old"], "a": [value]}, schema={"state": pl.String, "a": stored})
    shop = a_past_of(tmp_path, rows, "rows", schema=schema, **own)
    before = shop.shows()
    with pytest.raises(BadInput, match=f"the past's column 'a' has the value {value}, which does not fit into {kind}"):
        shop.roll(2)
    assert shop.shows() == before


def test_integers_of_a_wider_type_that_fit_are_welcome(tmp_path: Path) -> None:
    schema = Schema.parse("state string, a int, mtime timestamp")
    most = measures(schema, most="max(a)", least="min(a)")
    rows = pl.DataFrame({"state": ["new"] * 3, "a": [2**31 - 1, -(2**31), None]})
    shop = a_past_of(tmp_path, rows, "rows", schema=schema, measures=most)
    shop.roll(2)
    assert shop.shows() == [("new", 2**31 - 1, -(2**31))]


MONEYS = measures(orders="count(*)", amount="sum(amount)", amounts="count(amount)")
FITS = {
    "state": pl.Series(["new"]),
    "orders": pl.Series([3]),
    "amount": pl.Series([Decimal("7.50")], dtype=pl.Decimal(19, 2)),
    "amounts": pl.Series([2]),
}


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("orders", pl.Series([None], dtype=pl.Int64), r"value null in group \(state = new\), but it is a count"),
        ("amounts", pl.Series([None], dtype=pl.Int64), r"write coalesce\(amounts, 0\) in the past's sql"),
        ("orders", pl.Series([1.7]), r"value 1.7 in group \(state = new\), which is not a bigint"),
        ("orders", pl.Series([Decimal("1.7")]), "which is not a bigint, and is not rounded silently"),
        (
            "orders",
            pl.Series([2**63 + 5], dtype=pl.UInt64),
            "has the value 9223372036854775813 .*does not fit into bigint",
        ),
        ("orders", pl.Series([float("nan")]), "has the value NaN .*does not fit into bigint"),
        (
            "amount",
            pl.Series([Decimal("1.0049")]),
            r"value 1.0049 in group \(state = new\), which is not a decimal\(19,2\)",
        ),
        ("amount", pl.Series([1.0049]), r"which is not a decimal\(19,2\)"),
        ("amount", pl.Series([None], dtype=pl.Decimal(19, 2)), "value null in group .*but amounts is not 0"),
    ],
)
def test_totals_that_cannot_be_stored_as_they_are_stop_the_cut(
    tmp_path: Path, column: str, value: pl.Series, why: str
) -> None:
    shop = a_past_of(tmp_path, pl.DataFrame(FITS | {column: value}), "totals", measures=MONEYS)
    before = shop.shows()
    with pytest.raises(BadInput, match=rf"the past's column '{column}' has the {why}" if why[0] == "v" else why):
        shop.roll(2)
    assert shop.shows() == before


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("orders", pl.Series([3.0])),
        ("orders", pl.Series([Decimal("3.00")])),
        ("orders", pl.Series([3], dtype=pl.UInt64)),
        ("amount", pl.Series([Decimal("7.5000")])),
        ("amount", pl.Series([7.5])),
        ("amounts", pl.Series([2], dtype=pl.Int8)),
    ],
)
def test_totals_of_other_types_that_need_no_rounding_are_welcome(tmp_path: Path, column: str, value: pl.Series) -> None:
    shop = a_past_of(tmp_path, pl.DataFrame(FITS | {column: value}), "totals", measures=MONEYS)
    shop.roll(2)
    assert shop.shows() == [("new", 4, Decimal("7.50"), 2)]


def test_moments_are_days_of_the_pipelines_zone() -> None:
    shop = Shop(settings(time_zone="Asia/Shanghai"))
    shop.read(order("+I", "new", "01 15:59:59"), order("+I", "new", "01 16:00"))
    assert shop.shows("deltas") == [(march(1), "new", 1), (march(2), "new", 1)]
    service: Any = shop.runner().service
    assert service.default_cut(moment("01 16:00"), moment("05 09:00")) == march(2)
    assert service.default_cut(None, moment("01 16:00")) == march(2)


@pytest.mark.parametrize(
    ("zone", "watermark", "day"),
    [
        ("Asia/Shanghai", datetime(9999, 12, 31, 23, tzinfo=UTC), date.max),
        ("America/New_York", datetime(1, 1, 1, 2, tzinfo=UTC), date.min),
    ],
)
def test_the_first_and_the_last_day_are_those_of_the_calendar(zone: str, watermark: datetime, day: date) -> None:
    service: Any = Shop(settings(time_zone=zone)).runner().service
    assert service.default_cut(watermark, moment("01 09:00")) == day


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/New_York"])
@pytest.mark.parametrize(
    ("kind", "hour"), [("timestamp_ntz", 2), ("timestamp_ntz", 20), ("date", 0)], ids=["morning", "evening", "date"]
)
def test_days_of_times_without_a_zone_are_not_shifted(kind: str, hour: int, zone: str) -> None:
    schema = Schema.parse(f"state string, mtime {kind}")
    own = settings(schema=schema, measures=measures(schema, orders="count(*)"), time_zone=zone, event_time="mtime")
    time = date(2024, 3, 6) if kind == "date" else datetime(2024, 3, 6, hour)
    shop = Shop(evolve(own, roll_after=timedelta(hours=1)))
    for _ in range(2):  # a cut is due by the watermark of the epoch before
        shop.read({"_row_kind": "+I", "state": "new", "mtime": time})
    assert shop.shows("by_day") == [(march(6), "new", 2)]
    runner: Any = shop.runner()
    assert runner.service.default_cut(runner.ledger.latest.watermark, moment("09 09:00")) == march(6)
    assert runner.service.default_cut(None, moment("09 12:00")) == march(9)
