"""What retraction refuses, and answers that the other suites do not reach."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from headwater.app.run.options import RunOptions
from headwater.domain.errors import BadInput, ConfigError
from headwater.domain.service.base import ReadAt
from headwater.domain.service.retraction import Measure, PastTable, PlainTable
from headwater.domain.table.schema import Schema

from .counting import SCHEMA, Shop, march, measures, moment, order, settings

TOTALS = PastTable({"past": PlainTable("past.csv", "csv")}, holds="totals")
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"measures": []}, r'measures needs at least one, such as \{ orders = "count\(\*\)" \}'),
        ({"group": ["stat"]}, "no column 'stat'"),
        (
            {"group": ["score"]},
            "column 'score' is a double, by which rows cannot be counted exactly; use: bigint, bool",
        ),
        ({"group": ["state", "state"]}, "state: measures and groups need different names"),
        ({"measures": measures(State="count(*)")}, "State, state: measures and groups need different names"),
        ({"measures": measures(_n="count(*)")}, "column '_n' is in the way: names that begin with '_' are taken"),
        ({"schema": SCHEMA.plus(*Schema.parse("_x int").columns)}, "column '_x' is in the way"),
        ({"updated_at": "mtme"}, "no column 'mtme'"),
        ({"updated_at": "amount"}, r"column 'amount' must be a timestamp or date, not decimal\(9,2\)"),
        ({"deleted_at": "id"}, "column 'id' must be a timestamp or date, not bigint"),
        (
            {"schema": Schema.parse("state string, mtime timestamp, gone date"), "deleted_at": "gone"},
            "deleted_at and updated_at must have the same type",
        ),
        ({"event_time": "buyer"}, "column 'buyer' must be a timestamp or date, not string"),
        ({"identity": ["file", "amount"]}, r"column 'amount' must be a bigint or a string, not decimal\(9,2\)"),
        ({"identity": ["place"]}, "no column 'place'"),
        ({"roll_after": DAY}, "roll_after goes by the watermark, so the source needs event_time"),
        (
            {"roll_after": DAY, "event_time": "mtime", "past": TOTALS},
            "roll_after is only for Headwater's own past; with `past`, use `roll` instead",
        ),
        (
            {"past": TOTALS, "measures": measures(amount="sum(amount)", amounts="count(amount)")},
            r"totals need the number of rows of each group: add a measure count\(\*\)",
        ),
        (
            {"past": TOTALS, "measures": measures(orders="count(*)", amount="sum(amount)")},
            r"'amount' cannot be computed from totals, which do not contain measure count\(`amount`\); add that, or set holds = \"r",
        ),
        (
            {"past": TOTALS, "measures": measures(orders="count(*)", mean="avg(amount)", amounts="count(amount)")},
            r"measure 'mean' cannot be computed from totals, which do not contain measure sum\(`amount`\)",
        ),
        (
            {"past": TOTALS, "measures": measures(orders="count(*)", buyers="count(distinct buyer)")},
            "measure 'buyers' cannot be computed from totals, which do not contain its values; add that, or set holds = \"rows\"",
        ),
    ],
)
def test_settings_that_make_no_sense(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings(**changed)


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("sum(score)", None, r"is over a double, whose sums do not cancel exactly; declare the column decimal\(p,s\)"),
        ("avg(score)", None, "is over a double, whose sums do not cancel exactly"),
        ("sum(buyer)", None, "is over a string, whose sums do not cancel exactly"),
        ("sum(amount * 2)", None, r"its argument is unknown; write a column, or cast\(… as decimal\(18,2\)\)"),
        ("max(score)", None, "column 'm' is a double, by which rows cannot be counted exactly"),
        ("count(distinct score)", None, "column 'm' is a double, by which rows cannot be counted exactly"),
        ("sum(price)", None, "'price'"),
        ("count(*)", "price > 1", "'price'"),
        ("count(*)", "sum(amount) > 1", "an aggregate, sum"),
        ("count(*) filter (where amount > 1)", None, "has a FILTER; give its condition under the key where"),
        (
            "approx_count_distinct(buyer)",
            None,
            "is an estimate, which cannot be retracted; write count\\(distinct …\\)",
        ),
        ("stddev(amount)", None, "is not a measure; allowed are"),
        ("sum(distinct amount)", None, "is not a measure; allowed are"),
    ],
)
def test_measures_that_cannot_be_taken_back(text: str, where: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Measure.parse("m", text, where, SCHEMA)


def test_a_condition_that_is_a_column_is_that_column() -> None:
    odd = Schema.parse("`true` boolean, `net-amount` bigint")
    assert Measure.parse("m", "count(*)", "true", odd).condition == "`true`"
    with pytest.raises(ConfigError, match=r"no column 'net'.* write it in backticks: `net-amount`"):
        Measure.parse("m", "sum(net-amount)", None, odd)


@pytest.mark.parametrize(
    ("tables", "sql", "holds", "message"),
    [
        ({}, None, "rows", "past needs a path, or sql and the tables that it is over"),
        ({"a": PlainTable("a", "csv"), "b": PlainTable("b", "csv")}, None, "rows", "past needs a path, or sql"),
        ({"a": PlainTable("a", "csv")}, None, "sums", "holds = 'sums' is not one of rows, totals"),
    ],
)
def test_pasts_that_make_no_sense(tables: dict[str, PlainTable], sql: str | None, holds: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PastTable(tables, sql, holds)


def test_views_have_no_other_time() -> None:
    runner = Shop().runner()
    with pytest.raises(ConfigError, match="not as of an event time; read it at an epoch or label"):
        runner.service.view("totals", ReadAt(runner.ledger.snapshot(), moment("01 00:00")))
    with pytest.raises(ConfigError, match="no view 'sums'"):
        runner.service.view("sums", ReadAt(runner.ledger.snapshot()))


def test_decimals_cancel_where_floats_would_not() -> None:
    shop = Shop(settings(measures=measures(orders="count(*)", amount="sum(amount)", mean="avg(amount)")))
    shop.read(order("+I", "new", "01 09:00", "0.10"), order("+I", "new", "01 09:00", "0.20"))
    shop.read(order("-D", "new", "01 10:00", "0.20"), order("+I", "new", "01 10:00", "-0.10"))
    assert shop.shows() == [("new", 2, Decimal("0.00"), 0.0)]
    shop.read(order("-D", "new", "01 11:00", "0.10"), order("-D", "new", "01 11:00", "-0.10"))
    assert shop.shows() == []


def test_a_sum_and_a_mean_over_nothing_are_null_and_a_count_is_0() -> None:
    shop = Shop(settings(measures=measures(sum="sum(amount)", mean="avg(amount)", given="count(amount)")))
    shop.read(order("+I", "new", "01 09:00"), order("+I", "new", "01 09:00", "2.50"))
    assert shop.shows() == [("new", Decimal("2.50"), 2.5, 1)]
    shop.read(order("-D", "new", "01 09:00", "2.50"))
    assert shop.shows() == [("new", None, None, 0)]


def test_case_does_not_tell_columns_apart() -> None:
    shop = Shop(settings(measures=measures(amount="sum(AMOUNT)", buyers="count(distinct Buyer)")))
    shop.read(order("+I", "new", "01 09:00", "2.50", buyer="ann"))
    assert shop.shows() == [("new", Decimal("2.50"), 1)]


def test_values_go_with_the_only_row_that_has_them() -> None:
    shop = Shop(settings(measures=measures(buyers="count(distinct buyer)", least="min(amount)", last="max(buyer)")))
    shop.read(
        order("+I", "new", "01 09:00", "1.00", buyer="ann"),
        order("+I", "new", "01 09:00", "1.00", buyer="bob"),
        order("+I", "new", "01 09:00", "3.00", buyer="bob"),
        order("+I", "new", "01 09:00"),
    )
    assert shop.shows() == [("new", 2, Decimal("1.00"), "bob")]
    shop.read(order("-D", "new", "01 10:00", "1.00", buyer="bob"))
    assert shop.shows() == [("new", 2, Decimal("1.00"), "bob")]
    shop.read(order("-D", "new", "01 10:00", "3.00", buyer="bob"))
    assert shop.shows() == [("new", 1, Decimal("1.00"), "ann")]
    shop.read(order("-D", "new", "01 10:00", "1.00", buyer="ann"))
    assert shop.shows() == [("new", 0, None, None)]


def test_a_day_on_which_values_alone_changed_is_a_day_of_the_group() -> None:
    shop = Shop(settings(measures=measures(orders="count(*)", buyers="count(distinct buyer)", first="min(buyer)")))
    shop.read(order("+I", "new", "01 09:00", buyer="bob"), order("+I", "new", "01 09:00", buyer="bob"))
    shop.read(order("-U", "new", "01 09:00", buyer="bob"), order("+U", "new", "02 09:00", buyer="ann"))
    assert shop.shows("by_day") == [(march(1), "new", 2, 1, "bob"), (march(2), "new", 2, 2, "ann")]
    assert shop.shows("deltas") == [(march(1), "new", 2)]


def test_by_day_has_as_many_measures_of_values_as_there_are() -> None:
    """Each was computed from all before it, which never came to an end."""
    texts = ("min(buyer)", "max(buyer)", "count(distinct buyer)")
    shop = Shop(settings(measures=measures(**{f"of_{at}": texts[at % 3] for at in range(12)})))
    shop.read(order("+I", "new", "01 09:00", buyer="bob"), order("+I", "new", "02 09:00", buyer="ann"))
    assert shop.shows("by_day") == [
        (march(1), "new", *["bob", "bob", 1] * 4),
        (march(2), "new", *["ann", "bob", 2] * 4),
    ]


def test_an_old_image_is_filed_with_the_new_one() -> None:
    shop = Shop(settings(measures=measures(orders="count(*)", amount="sum(amount)")))
    shop.read(order("+I", "new", "01 09:00", "5.00"))
    shop.read(order("-U", "new", "01 09:00", "5.00"), order("+U", "paid", "03 09:00", "7.00"))
    assert shop.shows("deltas") == [
        (march(1), "new", 1, Decimal("5.00")),
        (march(3), "new", -1, Decimal("-5.00")),
        (march(3), "paid", 1, Decimal("7.00")),
    ]


def test_an_image_alone_is_filed_under_its_own_time() -> None:
    """What another change follows is no pair; neither is what another record's origin tells of."""
    shop = Shop()
    shop.read(
        order("-U", "new", "01 09:00", _origin="topic/0@1"),
        order("+U", "paid", "03 09:00", _origin="topic/0@2"),
        order("-U", "held", "02 09:00", _origin="b.json"),
        order("+I", "new", "04 09:00", _origin="b.json"),
    )
    assert shop.shows("deltas") == [
        (march(1), "new", -1),
        (march(2), "held", -1),
        (march(3), "paid", 1),
        (march(4), "new", 1),
    ]


def test_deletes_are_filed_by_a_column_of_their_own() -> None:
    shop = Shop(settings(deleted_at="gone"))
    shop.read(order("+I", "new", "01 09:00"), order("-D", "new", "01 09:00", gone=moment("02 09:00")))
    assert shop.shows("deltas") == [(march(1), "new", 1), (march(2), "new", -1)]
    shop.read(order("-D", "new", "01 09:00"))
    assert shop.holds("dead_letters", "epoch", "reason") == [(1, "column gone is null, so it has no day")]


def test_a_time_that_the_message_tells_is_that_of_both_images() -> None:
    shop = Shop(settings(same_time=True))
    shop.read(order("-U", "new", "02 09:00"), order("+U", "paid", "02 09:00"))
    assert shop.shows("deltas") == [(march(2), "new", -1), (march(2), "paid", 1)]


def test_both_images_of_an_update_that_cannot_be_filed_are_dead_letters() -> None:
    shop = Shop()
    shop.read(order("-U", "new", "01 09:00", _raw="{…}"), order("+U", "paid", None, _raw="{…}"))
    reason = "column mtime is null, so it has no day"
    letters = shop.holds("dead_letters", "row_kind", "reason", "raw")
    assert letters == [("+U", reason, "{…}"), ("-U", reason, "{…}")]
    assert shop.shows() == []


def test_without_a_group_there_is_one() -> None:
    shop = Shop(settings(group=[], measures=measures(orders="count(*)", buyers="count(distinct buyer)")))
    assert shop.shows() == []
    shop.read(order("+I", "new", "01 09:00", buyer="ann"), order("+I", None, "02 09:00", buyer="bob"))
    assert shop.shows() == [(2, 2)]
    assert shop.shows("by_day") == [(march(1), 1, 1), (march(2), 2, 2)]
    shop.roll(2)
    shop.read(order("-D", "new", "03 09:00", buyer="ann"), order("-D", None, "03 09:00", buyer="bob"))
    assert shop.shows() == []
    assert shop.changed("totals", after=1) == [("-D", 2, 2)]


def test_nulls_of_a_group_are_told_apart_from_all_values() -> None:
    schema = Schema.parse("a string, b int, c date, d boolean, mtime timestamp")
    shop = Shop(settings(schema=schema, group=["a", "b", "c", "d"], measures=measures(schema, n="count(*)")))
    stand_ins = {"a": "", "b": 0, "c": datetime(1970, 1, 1).date(), "d": False, "mtime": moment("01 09:00")}
    alike = [{**stand_ins, name: None} for name in "abcd"] + [stand_ins, {"mtime": stand_ins["mtime"]}]
    shop.read(*alike)
    expected = [(*(row.get(name) for name in "abcd"), 1) for row in alike]
    assert sorted(shop.shows(), key=str) == sorted(expected, key=str)
    shop.read(*({**row, "_row_kind": "-D"} for row in alike[1:]))
    assert shop.shows() == [expected[0]]


PLACED = {"identity": ["file", "pos"]}
COUNTED = ("partition", "place", "repeats")


def place(file: str, pos: int, state: str = "new", origin: str = "rows") -> dict[str, Any]:
    return order("+I", state, "01 09:00", file=file, pos=pos, _origin=origin)


def test_places_are_compared_as_numbers() -> None:
    shop = Shop(settings(**PLACED))
    shop.read(place("binlog.999999", 9))
    shop.read(place("binlog.999999", 10))
    shop.read(place("binlog.1000000", 4))
    assert shop.shows() == [("new", 3)]
    shop.read(place("binlog.999999", 11), place("binlog.1000000", 4))
    assert shop.shows() == [("new", 3)]


def test_a_log_that_begins_again_stops_the_run_until_that_is_accepted() -> None:
    shop = Shop(settings(**PLACED))
    shop.read(place("bin.9", 4), place("bin.10", 4))
    with pytest.raises(
        BadInput, match=r"rows: place goes back to file 1, pos 4 after file 10 was read\. .+ to the last 3 log"
    ):
        shop.read(place("bin.10", 5), place("bin.000001", 4), place("bin.000001", 900), place("bin.000001", 4))
    assert shop.shows() == [("new", 2)]
    shop.settings = settings(**PLACED, log_reset="accept")
    shop.read(place("bin.000001", 900))
    assert shop.shows() == [("new", 5)]
    assert shop.holds("places", *COUNTED)[0] == ("", "00000000000000000001 00000000000000000900 1", 2)


def test_a_log_may_begin_again_several_times_in_one_epoch() -> None:
    shop = Shop(settings(**PLACED, log_reset="accept"))
    told = [place(f"bin.{number}", 4) for number in (9, 10, 1, 1, 10, 3, 10, 2, 2)]
    shop.read(*told)
    assert shop.shows() == [("new", 7)]
    assert shop.holds("places", *COUNTED)[0] == ("", "00000000000000000002 00000000000000000004 1", 2)


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_number_without_the_form_of_a_file_counts_as_one_before_a_file(cut: int) -> None:
    """A stored place does not say which form its text had, so the result would depend on the cut."""
    shop = Shop(settings(**PLACED, log_reset="accept"))
    rows = [place("a9", 4), place("b.5", 4), place("b.6", 4)]
    shop.read(*rows[:cut])
    shop.read(*rows[cut:])
    assert shop.shows() == [("new", 3)]
    assert shop.holds("places", *COUNTED)[0] == ("", "00000000000000000006 00000000000000000004 1", 0)


def test_a_dead_letter_of_an_earlier_log_leaves_the_place_of_the_new_one() -> None:
    """Without commit times, this cannot be told of one of the new log either."""
    shop = Shop(settings(**PLACED))
    shop.read(place("bin.9", 4), place("bin.10", 4) | {"mtime": None}, place("bin.10", 5))
    shop.settings = settings(**PLACED, log_reset="accept")
    shop.read(place("bin.1", 900))
    shop.settings = settings(**PLACED)
    shop.replay(mtime=moment("01 09:00"))
    assert shop.shows() == [("new", 4)]
    shop.read(place("bin.2", 4), place("bin.3", 4), place("bin.3", 4))
    assert shop.shows() == [("new", 6)]


def test_a_replayed_change_is_a_repeat_if_it_is_sent_again() -> None:
    shop = Shop(settings(**PLACED))
    shop.read(place("bin.9", 4), place("bin.10", 4) | {"mtime": None})
    shop.replay(mtime=moment("01 09:00"))
    shop.read(place("bin.10", 4), place("bin.10", 5))
    assert shop.shows() == [("new", 3)]


def test_a_given_window_is_of_commit_time_alone() -> None:
    shop = Shop(settings(**PLACED, repeat_window=DAY))
    shop.read(place("bin.10", 4), place("bin.1", 4))
    assert shop.shows() == [("new", 1)]


def test_a_gtid_is_no_log_file() -> None:
    shop = Shop(settings(**PLACED))
    shop.read(place("3e11fa47:100", 4), place("3e11fa47:1", 4))
    assert shop.shows() == [("new", 1)]


def test_a_place_of_version_0_1_0_is_both_images_of_its_change() -> None:
    shop = Shop(settings(**PLACED))
    shop.read(place("bin.1", 4))
    (named, newest, *_) = shop.holds("places")[0]
    shop.replace("places", [(named, newest.removesuffix(" 1"), None, None)])
    shop.read(place("bin.1", 4), place("bin.1", 5))
    assert shop.shows() == [("new", 2)]
    assert shop.holds("places") == [("", "00000000000000000001 00000000000000000005 1", None, 1)]


def test_a_changed_key_is_a_delete_and_an_insert_in_one_place() -> None:
    shop = Shop(settings(**PLACED))
    gone, came = (order(kind, "new", "01 09:00", file="bin.1", pos=8) for kind in ("-D", "+I"))
    shop.read(place("bin.1", 4), gone)
    shop.read(came)
    shop.read(gone, came)
    assert shop.shows() == [("new", 1)]


def test_a_batch_of_repeats_alone_changes_nothing() -> None:
    shop = Shop(settings(**PLACED, measures=measures(orders="count(*)", buyers="count(distinct buyer)")))
    shop.read(place("bin.1", 4), place("bin.1", 8))
    shop.read(place("bin.1", 8), place("bin.1", 4))
    assert shop.shows() == [("new", 2, 0)]
    assert shop.changed("totals", after=0) == []
    assert shop.holds("places") == [("", "00000000000000000001 00000000000000000008 1", None, 2)]


def test_what_is_told_twice_in_a_batch_counts_once_with_both_images() -> None:
    shop = Shop(settings(**PLACED))
    old, new = order("-U", "new", "01 09:00", file="bin.1", pos=8), order("+U", "paid", "01 09:00", file="bin.1", pos=8)
    shop.read(place("bin.1", 4), old, new, place("bin.1", 4), old, new)
    assert shop.shows() == [("paid", 1)]


def test_every_partition_has_a_place_of_its_own() -> None:
    shop = Shop(settings(**PLACED))
    shop.read(place("bin.1", 100, origin="topic/0@5"), place("bin.1", 50, origin="topic/1@0"))
    shop.read(place("bin.1", 60, origin="topic/1@1"), place("bin.1", 60, origin="topic/0@6"))
    shop.read(place("bin.1", 60, origin="topic/1@2"), place("bin.1", 1, origin="topic/10@0"))
    assert shop.shows() == [("new", 4)]
    assert [row[0] for row in shop.holds("places")] == ["topic/0", "topic/1", "topic/10"]


def test_what_has_no_place_is_set_aside() -> None:
    shop = Shop(settings(**PLACED))
    lost = "identity column file is null or has no number at its end"
    other_digits = place("bin.\N{ARABIC-INDIC DIGIT ONE}", 4)
    shop.read(place("binlog", 4), order("+I", "new", "01 09:00", pos=4), other_digits, place("bin.1", 4))
    assert shop.holds("dead_letters", "reason") == [(lost,), (lost,), (lost,)]
    assert shop.shows() == [("new", 1)]


def test_a_view_kept_as_a_table_is_the_view() -> None:
    counted = measures(orders="count(*)", amount="sum(amount)", buyers="count(distinct buyer)")
    shop = Shop(settings(measures=counted), RunOptions(materialize=("totals", "deltas", "by_day")))
    shop.read(order("+I", "new", "01 09:00", "1.00", buyer="ann"), order("+I", "", "02 09:00", "2.00", buyer="ann"))
    for read in (
        lambda: shop.roll(2),
        lambda: shop.read(order("-U", "new", "01 09:00", "1.00", buyer="ann"), order("+U", "", "03 09:00", "1.00")),
        lambda: shop.roll(4),
        lambda: shop.read(order("+I", "late", "01 09:00", buyer="bob")),
        lambda: shop.read(order("-D", "late", "01 09:00", buyer="bob")),
    ):
        read()
        for view in ("totals", "deltas", "by_day"):
            assert shop.holds(view) == shop.shows(view)
    assert shop.shows() == [("", 2, Decimal("3.00"), 1)]


def test_a_null_group_stops_a_view_kept_as_a_table_until_it_is_taken_out() -> None:
    shop = Shop(options=RunOptions(materialize=("totals",), retries=0))
    shop.read(order("+I", "new", "01 09:00"))
    with pytest.raises(BadInput, match=r"key \(state\) is null in some rows"):
        shop.read(order("+I", None, "01 09:00"))
    assert shop.shows() == [("new", 1)]
    shop.options = RunOptions()
    shop.read()
    assert shop.shows() == [("new", 1), (None, 1)]


def test_changes_are_those_of_groups_that_moved() -> None:
    shop = Shop(settings(measures=measures(orders="count(*)", buyers="count(distinct buyer)")))
    shop.read(order("+I", "new", "01 09:00", buyer="ann"), order("+I", "paid", "01 09:00", buyer="ann"))
    shop.read(order("-U", "new", "01 09:00", buyer="ann"), order("+U", "new", "02 09:00", buyer="bob"))
    assert shop.changed("totals", after=0) == []
    shop.roll(2)
    assert shop.changed("totals", after=1) == []
    shop.read(order("-U", "new", "02 09:00", buyer="bob"), order("+U", "sent", "02 09:00", buyer="bob"))
    assert shop.changed("totals", after=1) == [("+I", "sent", 1, 1), ("-D", "new", 1, 1)]
