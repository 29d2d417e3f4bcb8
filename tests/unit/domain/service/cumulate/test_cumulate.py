"""What cumulate windows do that the other suites do not reach: idle sources, views, estimates, the cutting of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from attrs import define, evolve, field
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.kafka.plan import origin
from headwater.adapters.kafka.settings import KafkaSettings
from headwater.app.run.options import RunOptions
from headwater.app.run.replay import replay
from headwater.app.run.runner import Runner
from headwater.domain.duration import micros_of
from headwater.domain.errors import ConfigError
from headwater.domain.service.base import ReadAt
from headwater.domain.service.cumulate import Cumulate, CumulateSettings
from headwater.domain.service.cumulate.panes import PANE, WINDOW, Panes
from headwater.domain.service.measures import Measure
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.fingerprint import join_parts, split_parts
from headwater.domain.table.row_kind import DELETE, ROW_KIND
from headwater.domain.table.schema import Schema
from headwater.testing.clock import ManualClock
from headwater.testing.failing_store import Crash, FailingStore, Fault
from headwater.testing.frames import polars_frame
from tests.backends import Backend, delta_backend, memory_backend
from tests.properties.cumulate_oracle import pane_end, pane_ends, window_start
from tests.properties.test_cumulate_properties import CUTS
from tests.rows_source import RowsSource

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = Schema.parse("at timestamp, page string, visitor string")
MINUTE = timedelta(minutes=1)
NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


def measures(**texts: str) -> list[Measure]:
    return [Measure.parse(name, text, None, SCHEMA, estimates=True) for name, text in texts.items()]


def chosen(**changed: Any) -> CumulateSettings:
    plain = {
        "pipeline": "views",
        "schema": SCHEMA,
        "event_time": "at",
        "step": MINUTE,
        "measures": measures(pv="count(*)"),
        "dimensions": [["page"], []],
    }
    return CumulateSettings(**(plain | changed))


def view(at: str, page: str | None = "a", visitor: str = "ann") -> dict[str, Any]:
    """A view of a page, shortly after noon: ``01:30``, or ``day hour:minute:second``."""
    text = at if " " in at else f"01 12:{at}"
    return {"at": datetime.fromisoformat(f"2024-03-{text}").replace(tzinfo=UTC), "page": page, "visitor": visitor}


@define(eq=False)
class Site:
    """A pipeline over views, with one clock for all its runs; each read is a run of its own."""

    settings: CumulateSettings = field(factory=chosen)
    options: RunOptions = field(factory=RunOptions)
    backend: Backend = field(factory=memory_backend)
    clock: ManualClock = field(factory=lambda: ManualClock(NOON))
    source: RowsSource = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.source = RowsSource(SCHEMA, self.backend.frame)

    def runner(self, fault: Fault | None = None) -> Runner:
        store, engine = self.backend.open(), self.backend.engine
        service = Cumulate(self.settings, engine, self.backend.queries)
        written = FailingStore(store, fault) if fault else store
        options = evolve(self.options, watermark_delay=self.settings.watermark_delay)
        return Runner("views", service, self.source, written, store, engine, self.clock, uuid4().hex, options)

    def read(self, *rows: dict[str, Any]) -> Runner:
        self.source.give(rows)
        runner = self.runner()
        runner.run(until_idle=True)
        return runner

    def wait_until(self, time: str) -> Runner:
        """Run again when the clock shows so many minutes and seconds past noon."""
        self.clock.moment = datetime.fromisoformat(f"2024-03-01T12:{time}+00:00") - timedelta(seconds=2)
        return self.read()

    def shows(self, name: str = "ticks_page", **asked: Any) -> list[tuple[Any, ...]]:
        runner = self.runner()
        spec = runner.service.known(name)
        frame = runner.service.view(name, ReadAt(runner.ledger.snapshot(), **asked)).sort(*spec.sort)
        rows = frame.collect(backend="polars").rows(named=True)
        return [tuple(_told(value) for key, value in row.items() if key != "window_start") for row in rows]

    @property
    def epochs(self) -> int:
        return len(list(self.runner().ledger.publications()))


def _told(value: Any) -> Any:
    return value.strftime("%H:%M") if isinstance(value, datetime) else value


class TestIdle:
    """A source that brings nothing for five minutes."""

    @pytest.fixture
    def site(self) -> Site:
        return Site(chosen(watermark_delay=MINUTE), RunOptions(idle_after=5 * MINUTE))

    def test_the_last_panes_are_closed_when_the_clock_has_passed_them_by_both_waits(self, site: Site) -> None:
        site.read(view("00:10"), view("01:30", "b"))
        assert site.shows() == []
        site.wait_until("04:59")
        assert site.shows() == []
        site.wait_until("06:55")
        assert site.shows() == []
        site.wait_until("07:05")
        assert site.shows() == [("12:01", "a", 1, 0)]
        assert site.runner().ledger.latest.watermark == NOON + MINUTE
        site.wait_until("59:00")
        assert site.shows() == [("12:01", "a", 1, 0), ("12:02", "b", 1, 0)]

    def test_no_epoch_is_made_for_nothing(self, site: Site) -> None:
        site.read(view("00:10"))
        for time in ("08:00", "08:01", "09:30", "30:00"):
            site.wait_until(time)
        assert site.epochs == 2
        assert site.runner().ledger.latest.watermark == NOON + MINUTE

    def test_dense_ticks_go_on_every_step_till_the_window_ends(self, site: Site) -> None:
        site = Site(chosen(ticks="dense", size=timedelta(hours=1), dimensions=[[]]), site.options)
        site.read(view("56:10"), view("56:20"))
        runner = site.wait_until("59:59")
        for minute in range(62, 70):
            site.clock.moment = NOON + timedelta(minutes=minute, seconds=10)
            assert runner.advance() == (62 <= minute <= 65), minute
        assert site.shows("ticks") == [(f"{12 + at // 60}:{at % 60:02}", "", 2, 0) for at in range(57, 61)]

    def test_rows_before_the_last_tick_are_late_then(self, site: Site) -> None:
        site.read(view("00:10"))
        site.wait_until("08:30")
        site.read(view("00:59"), view("01:00"), view("02:00"), view("04:00"))
        assert site.shows() == [("12:01", "a", 1, 0), ("12:02", "a", 2, 0), ("12:03", "a", 3, 0)]
        letters = site.runner().ledger.snapshot().read("views.dead_letters").collect(backend="polars")
        assert letters["reason"].to_list() == ["late: the tick at the end of its pane was there already"]

    @pytest.mark.parametrize("ticks", ["sparse", "dense"])
    def test_one_look_at_a_clock_that_is_far_ahead_moves_nothing(self, site: Site, ticks: str) -> None:
        site.settings = evolve(site.settings, ticks=ticks)
        runner = site.read(view("00:10"))
        for wrong in (timedelta(days=66 * 365), timedelta()):
            site.clock.wrong = wrong
            assert not runner.run(until_idle=True)
        assert runner.ledger.latest.watermark == NOON - MINUTE + timedelta(seconds=10)
        site.source.give([view("00:20"), view("02:10")])
        runner.run(until_idle=True)
        assert site.shows() == [("12:01", "a", 2, 0)]
        site.clock.moment = NOON + 20 * MINUTE
        runner.run(until_idle=True)
        assert runner.ledger.latest.watermark == NOON + (3 if ticks == "sparse" else 14) * MINUTE

    def test_the_wrong_clock_of_a_new_process_makes_no_row_late_but_those_of_open_panes(
        self, site: Site, caplog: pytest.LogCaptureFixture
    ) -> None:
        """As after the start of a machine whose clock has not been set yet."""
        site.read(view("00:10"))
        site.clock.wrong = timedelta(days=66 * 365)
        runner = site.read()
        assert runner.ledger.latest.watermark == NOON + MINUTE
        assert [text for text in caplog.messages if "watermark" in text] == [
            "views: no rows have come for idle_after, so the watermark moves from 2024-03-01 11:59 to 2024-03-01 12:01,"
            " as the clock shows 2090-02-13 12:00. A watermark cannot go back: if the clock is wrong, set it right"
            " before the next rows come"
        ]
        site.clock.wrong = timedelta()
        site.read(view("01:10"), view("03:10"))
        assert site.shows() == [("12:01", "a", 1, 0), ("12:02", "a", 2, 0)]

    def test_dense_ticks_end_with_the_window_whatever_the_clock_shows(self, site: Site) -> None:
        site = Site(chosen(ticks="dense", size=timedelta(hours=1), dimensions=[[]]), site.options)
        site.read(view("56:10"))
        site.clock.wrong = timedelta(days=66 * 365)
        assert site.read().ledger.latest.watermark == NOON + timedelta(hours=1)

    def test_without_the_rule_the_watermark_waits(self, site: Site) -> None:
        site.options = RunOptions()
        site.read(view("00:10"))
        site.wait_until("59:00")
        assert (site.shows(), site.epochs) == ([], 1)

    def test_nothing_is_idle_before_the_first_row(self, site: Site) -> None:
        site.wait_until("59:00")
        assert site.epochs == 0

    @pytest.mark.parametrize("fault", [Fault(before=True, commit=1), Fault(before=False, commit=1), Fault(before=True)])
    def test_a_crash_is_made_good(self, site: Site, fault: Fault) -> None:
        site.read(view("00:10"))
        site.clock.moment += 9 * MINUTE
        with pytest.raises(Crash):
            site.runner(fault).run(until_idle=True)
        assert site.shows() == []
        site.read()
        assert site.shows() == [("12:01", "a", 1, 0)]
        assert site.epochs == 2

    def test_other_services_do_not_mind(self) -> None:
        runner = Site(options=RunOptions(idle_after=MINUTE)).runner()
        assert super(Cumulate, runner.service).idle(NOON, runner.ledger.snapshot()) is None


class TestViews:
    @pytest.fixture
    def site(self) -> Site:
        site = Site(chosen(late="revise"))
        site.read(view("00:10"), view("02:10", "b"))
        site.read(view("00:20", None), view("00:30"), view("04:00"))
        return site

    def test_ticks_as_of_a_time(self, site: Site) -> None:
        assert site.shows("ticks_total") == [("12:01", 3, 1), ("12:03", 4, 0)]
        assert site.shows("ticks_total", as_of=NOON + 2 * MINUTE) == [("12:01", 3, 1)]

    def test_a_curve_up_to_a_time_in_the_window_of_that_time(self, site: Site) -> None:
        site.read(view("02 00:00:10"), view("02 00:01:10"))
        assert site.shows("curve_total") == [("00:01", 1)]
        evening = site.shows("curve_total", as_of=datetime(2024, 3, 2, tzinfo=UTC))
        assert (len(evening), evening[719:725]) == (
            1440,
            [("12:00", None), ("12:01", 3), ("12:02", None), ("12:03", 4), ("12:04", None), ("12:05", 5)],
        )
        assert site.shows("curve_total", as_of=NOON + MINUTE)[-1] == ("12:01", 3)
        assert site.shows("curve", as_of=NOON + 90 * MINUTE)[-1][1:] == ("b", None)
        for moment in (datetime(2024, 2, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)):
            assert site.shows("curve_total", as_of=moment) == []

    def test_changes_are_those_of_the_ticks_that_were_made(self, site: Site) -> None:
        runner = site.runner()
        before, after = (runner.ledger.snapshot(runner.ledger.as_of_epoch(at)) for at in (0, 1))
        net = runner.service.view_changes("ticks_total", before, after).collect(backend="polars")
        assert sorted(net.select("_row_kind", "pv", "revision").rows()) == [
            ("+I", 4, 0),
            ("+U", 3, 1),
            ("-U", 1, 0),
        ]
        none = runner.service.view_changes("ticks_total", after, after).collect(backend="polars")
        assert none.rows() == []

    def test_what_cannot_be_asked_is_told(self, site: Site) -> None:
        runner = site.runner()
        snapshot = runner.ledger.snapshot()
        with pytest.raises(ConfigError, match="view 'ticks' is read at one epoch, not between two"):
            runner.service.view("ticks", ReadAt(snapshot, since=snapshot))
        for name in ("ticks", "revisions", "curve"):
            with pytest.raises(ConfigError, match=f"view '{name}' has no key, so its changes cannot be listed"):
                runner.service.view_changes(name, snapshot, snapshot)

    def test_nothing_is_shown_before_the_first_row(self) -> None:
        for name in ("ticks", "revisions", "curve", "ticks_total"):
            assert Site().shows(name) == []


@define(eq=False)
class Partitions(RowsSource):
    """Rows that say which partition they are of."""

    lanes: bool = True


class TestLateness:
    """Rows of one epoch; ticks are those of all pages."""

    def late(self, *rows: dict[str, Any], source: type[RowsSource] = RowsSource) -> list[str]:
        site = Site(chosen(watermark_delay=MINUTE))
        site.source = source(SCHEMA, site.backend.frame)
        runner = site.read(*rows)
        letters = runner.ledger.snapshot().read("views.dead_letters").sort("position").collect(backend="polars")
        late = [raw for raw, reason in letters.select("raw", "reason").rows() if reason.startswith("late: ")]
        return [raw.partition("minute ")[2].partition("'")[0] for raw in late]

    def of(self, at: str, source: str = "") -> dict[str, Any]:
        return {**view(at, page=f"minute {at}"), **({"_origin": source} if source else {})}

    def test_a_row_is_late_to_those_before_it_alone(self) -> None:
        rows = map(self.of, ("00:30", "01:59", "00:40", "02:00", "00:50", "01:00", "09:00", "07:59", "08:00"))
        assert self.late(*rows) == ["00:50", "07:59"]

    def test_a_row_that_cannot_be_used_makes_none_late(self) -> None:
        assert self.late(self.of("00:30"), {**self.of("59:00"), "_error": "broken"}, self.of("00:40")) == []

    def test_partitions_are_late_to_themselves_alone(self) -> None:
        first, second = ("00:30", "09:00", "00:40"), ("00:30", "01:30")
        rows = [self.of(at, origin("views", 0, offset)) for offset, at in enumerate(first)]
        rows += [self.of(at, origin("views", 1, offset)) for offset, at in enumerate(second)]
        assert self.late(*rows, source=Partitions) == ["00:40"]
        assert self.late(*rows) == ["00:40", "00:30", "01:30"]

    def test_a_topic_is_read_by_partitions(self) -> None:
        pytest.importorskip("confluent_kafka", reason="the extra kafka is not installed")
        from headwater.adapters.kafka.polars_source import PolarsKafkaSource

        assert PolarsKafkaSource(KafkaSettings("localhost:9092", ("views",)), RecordSpec(SCHEMA)).lanes

    def test_what_was_published_counts_for_all_partitions(self) -> None:
        site = Site(chosen(watermark_delay=MINUTE))
        site.source = Partitions(SCHEMA, site.backend.frame)
        site.read(self.of("09:00", origin("views", 0, 0)))
        site.read(self.of("07:59", origin("views", 1, 0)), self.of("08:00", origin("views", 1, 1)))
        assert site.runner().ledger.snapshot().read("views.dead_letters").collect(backend="polars").shape[0] == 1

    def test_letters_read_again_are_not_late_to_one_another(self) -> None:
        site = Site(chosen(late="drop"))
        site.read(view("00:10"))
        site.source.give([{**view(at), "_error": "broken"} for at in ("05:00", "00:20")])
        site.read()
        site.source.given[1:] = [{**row, "_error": None} for row in site.source.given[1:]]
        replay(site.runner())
        assert site.shows("ticks_total") == [("12:01", 2, 0)]


@pytest.mark.parametrize(
    ("recorded", "changed"),
    [
        ("[['visitor', 'page'], []]", "settings: dimensions [['visitor', 'page'], []] -> [['page', 'visitor'], []]"),
        ("[[], ['page', 'visitor']]", None),
        ("page visitor", None),
        ("5", None),
        (None, None),
    ],
)
def test_another_order_in_a_set_is_a_change_where_it_is_on_record(recorded: str | None, changed: str | None) -> None:
    """The text is for display, so another version may have written another one."""
    edited = chosen(dimensions=[["page", "visitor"], []])
    built = split_parts(edited.fingerprint)
    built["settings"].pop("dimensions")
    if recorded:
        built["settings"]["dimensions"] = recorded
    assert edited.changed(join_parts(built)) == changed


@pytest.mark.parametrize(
    ("kind", "changed"),
    [("int", None), ("smallint", None), ("string", "types of columns: n bigint -> string")],
)
def test_integer_types_that_measures_read_may_change(kind: str, changed: str | None) -> None:
    def settings(kind: str) -> CumulateSettings:
        schema = Schema.parse(f"at timestamp, n {kind}, other {kind}")
        texts = Measure.parse("texts", "count(distinct CAST(n AS string))", None, schema)
        ones = Measure.parse("ones", "count(*)", "CAST(n AS string) = '1'", schema)
        return CumulateSettings("views", schema, "at", MINUTE, [texts, ones])

    built = settings("bigint").fingerprint
    assert settings(kind).changed(built) == changed
    before = join_parts({name: part for name, part in split_parts(built).items() if name != "types"})
    assert settings(kind).changed(before) is None


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_tick_that_late_rows_made_counts_earlier_late_rows_of_the_round(epochs: int) -> None:
    site = Site(chosen(late="revise"))
    site.read(view("05:10", "b"))
    late = [view("03:10", "a"), view("01:10", "a")]
    for rows in [late] if epochs == 1 else [[row] for row in late]:
        site.read(*rows)
    assert site.shows() == [("12:02", "a", 1, 0), ("12:04", "a", 2, 0)]


def test_a_late_row_that_changes_nothing_makes_no_revision() -> None:
    site = Site(chosen(late="revise", measures=measures(uv="count(distinct visitor)", last="max(visitor)")))
    site.read(view("00:10"), view("03:00"))
    site.read(view("00:20"))
    assert (
        site.shows("revisions")
        == site.shows("ticks")
        == [("12:01", "", None, 1, "ann", 0), ("12:01", "page", "a", 1, "ann", 0)]
    )


def test_a_late_row_revises_as_many_extremes_as_there_are() -> None:
    """Each was computed from all before it, which never came to an end."""
    texts = {f"of_{at}": f"{'min' if at % 2 else 'max'}(visitor)" for at in range(6)}
    site = Site(chosen(late="revise", dimensions=[[]], measures=measures(**texts)))
    site.read(view("00:10", visitor="bob"), view("03:00"))
    site.read(view("00:20", visitor="cal"))
    assert site.shows("revisions") == [
        ("12:01", "", *["bob"] * 6, 0),
        ("12:01", "", *["cal", "bob"] * 3, 1),
    ]


@pytest.mark.parametrize("text", ["min(visitor)", "max(visitor)"])
@pytest.mark.parametrize(
    ("rows", "known"),
    [
        (
            [
                view("10:06", visitor="cal"),
                view("12:15", visitor="bob"),
                view("15:45", visitor="dan"),
                view("05:30", visitor="cal") | {ROW_KIND: DELETE},
            ],
            "cal",
        ),
        (
            [
                view("02:00", visitor="ann"),
                view("12:15", visitor="eve"),
                view("13:10", visitor="eve") | {ROW_KIND: DELETE},
                view("15:45", visitor="dan"),
                view("01:30", visitor="cal"),
            ],
            "ann",
        ),
    ],
    ids=["a late row takes it away", "a late row comes beside one that takes another away"],
)
def test_an_extreme_at_a_step_without_rows_is_that_before_it(text: str, rows: list[dict[str, Any]], known: str) -> None:
    delay = timedelta(seconds=50)
    settings = chosen(
        late="revise", ticks="dense", retracts=True, watermark_delay=delay, dimensions=[[]], measures=measures(of=text)
    )
    told = []
    for cut in ([rows], [rows[:2], rows[2:]]):
        site = Site(settings)
        for part in cut:
            site.read(*part)
        told.append(site.shows("revisions"))
    assert told[0] == told[1]
    assert [row for row in told[0] if row[0] == "12:12" and row[-1] == 0] == [("12:12", "", known, 0)]


@define(eq=False)
class Reads:
    """A store that counts the rows it is asked for."""

    store: Any
    rows: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def read(self, *asked: Any) -> Any:
        frame = self.store.read(*asked)
        self.rows += len(frame.collect(backend="polars"))
        return frame


@pytest.mark.parametrize("ticks", ["sparse", "dense"])
def test_an_epoch_reads_the_panes_that_it_closes_and_not_the_day_before_them(ticks: str) -> None:
    """In each minute one new visitor of each of two pages, and one who comes again."""
    counted = measures(
        pv="count(*)", uv="count(distinct visitor)", last="max(visitor)", about="approx_count_distinct(visitor)"
    )
    site = Site(chosen(measures=counted, ticks=ticks))
    read = []
    for minute in range(10):
        pages = [view(f"{minute:02}:10", page, visitor) for page in "ab" for visitor in ("ann", f"v{minute}")]
        site.source.give(pages)
        runner = site.runner()
        runner.store = Reads(runner.store)
        runner.run(until_idle=True)
        read.append(runner.store.rows)
    assert max(read[6:]) <= max(read[2:5])
    site.source.give([view("09:50")])
    runner = site.runner()
    runner.store = Reads(runner.store)
    runner.run(until_idle=True)
    assert runner.store.rows == 0


def test_estimates_are_near_and_never_fall() -> None:
    counted = measures(uv="count(distinct visitor)", about="approx_count_distinct(visitor)")
    site = Site(chosen(measures=counted, dimensions=[[]], ticks="dense"))
    seconds = (divmod(at // 3, 60) for at in range(7_200))
    site.read(*(view(f"{minute:02}:{second:02}", visitor=f"v{at}") for at, (minute, second) in enumerate(seconds)))
    shown = site.shows("ticks")
    assert len(shown) == 39
    assert all(abs(about - exact) <= 0.04 * exact for _, _, exact, about, _ in shown)
    assert all(one[3] <= other[3] for one, other in pairwise(shown))


@pytest.mark.parametrize("kind", ["int", "decimal(9,2)", "string", "boolean", "date", "timestamp", "timestamp_ntz"])
def test_estimates_are_over_any_type_that_can_be_grouped_by(kind: str) -> None:
    schema = Schema.parse(f"at timestamp, x {kind}")
    measure = Measure.parse("about", "approx_count_distinct(x)", None, schema, estimates=True)
    texts = {"boolean": ["true", "false"], "date": ["2024-01-01", "2024-01-02"], "string": ["a", "b"]}
    values = texts.get(kind, ["1", "2"])
    typed = polars_frame([(value,) for value in [*values, *values, None]], Schema.parse("x string"))
    source = typed.collect(backend="polars")["x"]
    column = schema.select(["x"])
    wanted = column["x"].narwhals
    if kind.startswith("timestamp"):
        moments = [datetime(2024, 1, int(value), tzinfo=UTC if kind == "timestamp" else None) for value in values]
        rows = [*moments, *moments, None]
    elif kind == "boolean":
        rows = [value if value is None else value == "true" for value in source]
    elif kind == "date":
        rows = [value and datetime.fromisoformat(value).date() for value in source]
    else:
        rows = source.cast(wanted).to_list()
    given_rows = [{"at": NOON, "x": value} for value in rows]
    backend = memory_backend()
    settings_ = CumulateSettings("views", schema, "at", MINUTE, [measure])
    source_ = RowsSource(schema, backend.frame, given=[*given_rows, {"at": NOON + MINUTE, "x": None}])
    store = backend.open()
    service = Cumulate(settings_, backend.engine, backend.queries)
    runner = Runner("views", service, source_, store, store, backend.engine, ManualClock(), "run")
    runner.run(until_idle=True)
    frame = service.view("ticks", ReadAt(runner.ledger.snapshot()))
    assert frame.collect(backend="polars")["about"].to_list() == [2]


@pytest.mark.parametrize("ticks", ["sparse", "dense"])
def test_sums_of_the_longest_decimals_keep_all_their_digits(ticks: str) -> None:
    check_longest_decimals(memory_backend(), ticks)


@pytest.mark.delta
@pytest.mark.slow
def test_spark_keeps_all_digits_of_the_longest_decimals(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's difference of two decimal(38,10) is a decimal(38,9)."""
    check_longest_decimals(delta_backend(spark, str(tmp_path)), "sparse")


def check_longest_decimals(backend: Backend, ticks: str) -> None:
    schema = Schema.parse("at timestamp, page string, amount decimal(28,10)")
    total = [Measure.parse("total", "sum(amount)", None, schema)]
    told = chosen(schema=schema, measures=total, dimensions=[[]], late="revise", ticks=ticks, retracts=True)
    least, most = Decimal("0.0000000001"), Decimal("123456789012345678.0000000001")
    rows = [
        {**view("00:10"), "amount": most},
        {**view("01:10"), "amount": least},
        {**view("02:10"), "amount": least},
        {**view("00:20"), "amount": least},
        {**view("00:30"), "amount": least, "_row_kind": "-D"},
        {**view("00:40"), "amount": most},
        {**view("03:10"), "amount": least},
        {**view("00:50"), "amount": -least},
    ]
    for limit in (8, 3):
        source = RowsSource(schema, backend.frame, limit, rows)
        store = backend.open()
        service = Cumulate(evolve(told, pipeline=f"views{limit}"), backend.engine, backend.queries)
        runner = Runner(f"views{limit}", service, source, store, store, backend.engine, ManualClock(), "run")
        runner.run(until_idle=True)
        shown = (
            service.view("revisions", ReadAt(runner.ledger.snapshot()))
            .sort("tick", "revision")
            .collect(backend="polars")
        )
        assert shown["total"].to_list() == [
            most,
            2 * most,
            2 * most - least,
            most + least,
            2 * most + least,
            2 * most,
            2 * most + 2 * least,
            2 * most + least,
        ]


@given(st.sampled_from(CUTS), st.integers(-90 * 86_400, 90 * 86_400), st.integers(0, 999_999))
def test_time_is_cut_as_clocks_have_it(cut: Any, seconds: int, micros: int) -> None:
    """A moment's window and pane, and the newest pane that has ended by then, against counting them."""
    moment = cut.near + timedelta(seconds=seconds, microseconds=micros)
    told = chosen(step=cut.step, size=cut.size, offset=cut.offset, time_zone=cut.zone)
    panes: Panes = told.panes
    start, end = window_start(moment, told), pane_end(moment, told)
    rows = polars_frame([(moment,)], Schema.parse("at timestamp"))
    engine = memory_backend().engine
    found = panes.assign(rows, "at", engine)
    assert found.collect(backend="polars").select(WINDOW, PANE).rows() == [(micros_of(start), micros_of(end))]
    ended = [start, *(each for each in pane_ends(start, told) if each <= moment)]
    assert panes.find_last_end(moment) == micros_of(ended[-1])
    assert panes.find_next_end(moment) == micros_of(end)
    numbered = panes.number(found, PANE, engine, into="number")
    number = list(pane_ends(start, told)).index(end) + 1
    assert numbered.collect(backend="polars")["number"].to_list() == [number]
    each = panes.expand(numbered, "number", "number", engine, into="end")
    assert each.collect(backend="polars")["end"].to_list() == [micros_of(end)]
