"""How a view reads other pipelines: why it waits, what stays readable for it, and which keys changes affect."""

from __future__ import annotations

import json
from contextlib import ExitStack
from datetime import timedelta
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from headwater.adapters.memory.store import MemoryStore
from headwater.app.run.alerts import Alerts
from headwater.app.run.view_inputs import ViewInputs
from headwater.domain.errors import ConfigError, VersionExpired
from headwater.domain.ports import Now, Pace
from headwater.testing.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from headwater import Headwater
    from headwater.domain.ports import Version
    from headwater.domain.service.materialized_view import SourceExpr

ORDERS = """
[backend]
name = "memory"
retain = { versions = 1 }
[sources.order_log]
kind = "files"
path = "orders"
schema = "kind string, id bigint, customer bigint, pieces int, at timestamp"
row_kind = "kind"
event_time = "at"
[sources.customer_log]
kind = "files"
path = "customers"
schema = "kind string, id bigint, name string, low int, at timestamp"
row_kind = "kind"
event_time = "at"

[pipelines.orders]
service = "bulk_merge"
key = ["id"]
columns = ["customer", "pieces"]
changelog = "order_log"
bulk = { path = "orders", format = "json", search_ts = "2024-03-01T00:00:00Z" }
[pipelines.customers]
service = "bulk_merge"
key = ["id"]
columns = ["name", "low"]
changelog = "customer_log"
bulk = { path = "customers", format = "json", search_ts = "2024-03-01T00:00:00Z" }

[pipelines.lines]
service = "materialized_view"
inputs = { o = "orders.rows", c = "customers.rows" }
key = ["id"]
sql = "SELECT o.id, c.name, o.pieces FROM o JOIN c ON c.id = o.customer"
"""
OVER_VIEWS = "".join(
    [
        '[backend]\nname = "memory"\n',
        *(
            f'[sources.{each}]\nkind = "files"\npath = "{each}"\nschema = "k string, at timestamp"\nevent_time = "at"\n'
            f'[pipelines.of_{each}]\nservice = "retraction"\nsource = "{each}"\ngroup = ["k"]\nupdated_at = "at"\n'
            'measures = { n = "count(*)" }\nidentity = "none"\n'
            for each in "abc"
        ),
        '[pipelines.pair]\nservice = "materialized_view"\ninputs = { p = "of_a.totals", q = "of_b.totals" }\nkey = ["k"]\n'
        'sql = "SELECT p.k, p.n AS a, q.n AS b FROM p JOIN q ON p.k = q.k"\n',
        '[pipelines.both]\nservice = "materialized_view"\ninputs = { v = "pair.rows", t = "of_c.totals" }\nkey = ["k"]\n'
        'sql = "SELECT v.k, v.a, v.b, t.n AS c FROM v JOIN t ON v.k = t.k"\n',
    ]
)
ALIKE = """
[backend]
name = "memory"
[sources.rows]
kind = "files"
path = "rows"
schema = "id bigint, a bigint, b__c bigint, a__b bigint, c bigint, d struct<e:bigint>, d_e bigint"
[pipelines.s]
service = "wide_table"
key = ["id"]
[pipelines.s.topics.rows]
source = "rows"
columns = ["a", "b__c", "a__b", "c", "d", "d_e"]
sequence = ["id"]

[pipelines.values]
service = "materialized_view"
inputs = { s = "s.rows", p = "s.rows" }
key = ["id"]
sql = "SELECT s.id, count(p.id) AS n FROM s LEFT JOIN p ON s.d.e = p.a AND s.d_e = p.b__c GROUP BY s.id"
[pipelines.indexes]
service = "materialized_view"
inputs = { s = "s.rows", p = "s.rows" }
key = ["id"]
sql = """
ALIKE += (
    '"SELECT p.id, sum(s.d_e) AS n, max(t.id) AS m FROM p LEFT JOIN s ON s.a = p.d.e AND s.b__c = p.d_e'
    ' LEFT JOIN s t ON t.a__b = p.d.e AND t.c = p.d_e GROUP BY p.id"'
)
RANKED = (
    ORDERS.replace("retain = { versions = 1 }", "retain = { versions = 1 }\nexpire_every = 1")
    + """
[pipelines.firsts]
service = "ranking"
source = "customer_log"
group = ["low"]
id = ["id"]
order_by = "at"
[pipelines.shown]
service = "materialized_view"
inputs = { o = "orders.rows", f = "firsts.ranks" }
key = ["id"]
sql = "SELECT o.id, f.rank, o.pieces FROM o JOIN f ON f.id = o.customer"
"""
)
LARGE = "SELECT o.id, c.name FROM o LEFT JOIN c ON o.pieces >= c.low"


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with ExitStack() as exits:
        found = Trial(tmp_path, "memory", exits)
        found.deploy(ORDERS)
        yield found


def feed(trial: Trial, source: str, head: Sequence[str], changes: Sequence[Sequence[Any]]) -> None:
    """Let changes arrive, the last value of each the time of day."""
    rows = [dict(zip((*head, "at"), (*change[:-1], f"2024-03-01T{change[-1]}:00Z"), strict=True)) for change in changes]
    trial.feed(source, map(json.dumps, rows))


def order(trial: Trial, *changes: Sequence[Any]) -> None:
    feed(trial, "order_log", ["kind", "id", "customer", "pieces"], changes)


def customer(trial: Trial, *changes: Sequence[Any]) -> None:
    feed(trial, "customer_log", ["kind", "id", "name", "low"], changes)


def alarms(trial: Trial, view: str = "lines") -> tuple[str, ...]:
    (found,) = (status.alarms for status in trial.open().status() if status.pipeline == view)
    return found


def waits(trial: Trial) -> str:
    return next(status.lag for status in trial.open().status() if status.pipeline == "lines")


def remedy(watermark: str) -> str:
    """What an alarm says of an input that cannot be read as of the lowest watermark yet."""
    lowest = f"all inputs have reached 2024-03-01T{watermark}:00Z"
    return f'; {lowest}: wait for a later change of each input, or set align = "newest"'


class TestAlarms:
    def test_an_input_that_lags(self, trial: Trial) -> None:
        order(trial, ("+I", 1, 7, 2, "09:00"), ("+I", 2, 7, 2, "11:00"))
        customer(trial, ("+I", 7, "ann", 1, "08:00"), ("+I", 8, "bob", 1, "09:30"))
        trial.run()
        assert trial.reader.view("lines").rows() == [(1, "ann", 2)]
        told = ("input c lags 1h30m behind o: the view is held back at 2024-03-01T09:30:00Z",)
        assert alarms(trial) == told
        trial.set("pipelines.lines.lag", '"1h29m"')
        assert alarms(trial) == told
        trial.set("pipelines.lines.lag", '"1h30m"')
        assert alarms(trial) == ()

    def test_an_alarm_that_lasts_is_sent_once(self, trial: Trial) -> None:
        order(trial, ("+I", 1, 7, 2, "09:00"))
        customer(trial, ("+I", 7, "ann", 1, "08:00"))
        trial.run()
        headwater, told = trial.open(), list[str]()
        sent = Alerts(headwater.start(["lines"]), timedelta(), lambda event: told.append(event["text"]))
        for hour in (10, 11, 12):
            sent.check()
            order(trial, ("+I", hour, 7, 2, f"{hour}:00"))
            headwater.run(["orders"], until_idle=True)
        assert told == [
            "headwater alarm: lines: input c lags 1h behind o: the view is held back at 2024-03-01T08:00:00Z"
        ]

    def test_it_ends_when_the_input_has_come_up(self, trial: Trial) -> None:
        order(trial, ("+I", 1, 7, 2, "09:00"))
        customer(trial, ("+I", 7, "ann", 1, "08:00"))
        trial.run()
        assert len(alarms(trial)) == 1
        customer(trial, ("+I", 8, "bob", 1, "08:55"))
        trial.run()
        assert alarms(trial) == ()

    def test_no_input_lags_where_each_is_read_as_it_stands(self, trial: Trial) -> None:
        trial.set("pipelines.lines.align", '"newest"')
        order(trial, ("+I", 1, 7, 2, "11:00"))
        customer(trial, ("+I", 7, "ann", 1, "09:00"))
        trial.run()
        assert trial.reader.view("lines").rows() == [(1, "ann", 2)]
        assert alarms(trial) == ()

    def test_an_input_that_has_published_nothing(self, trial: Trial) -> None:
        order(trial, ("+I", 1, 7, 2, "11:00"))
        trial.run(["orders"])
        trial.run(["lines"])
        held = "held back by input c: pipeline 'customers' has published nothing yet"
        assert (alarms(trial), waits(trial)) == ((held,), held)
        assert trial.publications("lines") == []

    def test_an_input_whose_watermark_is_the_first_of_all_times(self, trial: Trial) -> None:
        trial.feed("order_log", ['{"kind": "+I", "id": 1, "customer": 7, "pieces": 2, "at": "0001-01-01T00:00:00Z"}'])
        customer(trial, ("+I", 7, "ann", 1, "09:00"))
        trial.run()
        held = "held back by input o: its watermark is 0001-01-01T00:00:00Z, before which nothing can be shown"
        assert (alarms(trial)[0], waits(trial)) == (held, held)
        order(trial, ("+I", 2, 7, 3, "10:00"))
        customer(trial, ("+I", 8, "bob", 1, "11:00"))
        trial.run()
        assert trial.reader.view("lines").rows() == [(1, "ann", 2)]

    def test_an_input_that_is_being_loaded(self, trial: Trial) -> None:
        trial.set("pipelines.customers.bulk", '{ path = "c", format = "json", search_ts = "2024-03-01T10:00:00Z" }')
        trial.fill("customers", [["id", "name", "low"], ["7", "ann", "1"]])
        trial.set("pipelines.lines.lag", '"1h"')
        order(trial, ("+I", 1, 7, 2, "09:59"), ("+I", 2, 7, 3, "10:30"))
        customer(trial, ("+I", 8, "bob", 1, "09:59"))
        trial.run()
        held = "held back by input c: its bulk is still being loaded (chunks are unread)"
        assert (alarms(trial), waits(trial)) == ((held + remedy("09:59"),), held)
        for number, time in ((9, "10:05"), (10, "10:10"), (11, "10:15")):
            customer(trial, ("+I", number, "cat", 1, time))
        trial.run()
        assert alarms(trial) == ()
        assert trial.reader.view("lines").rows() == [(1, "ann", 2)]

    def test_an_input_that_was_loaded_later_is_told_at_the_end_of_the_run(
        self, trial: Trial, caplog: pytest.LogCaptureFixture
    ) -> None:
        trial.set("pipelines.customers.bulk", '{ path = "c", format = "json", search_ts = "2024-03-01T10:00:00Z" }')
        trial.fill("customers", [["id", "name", "low"], ["7", "ann", "1"]])
        trial.set("pipelines.lines.lag", '"1h"')
        order(trial, ("+I", 1, 7, 2, "09:30"))
        for number, time in ((8, "10:05"), (9, "10:10"), (10, "10:15")):
            customer(trial, ("+I", number, "cat", 1, time))
        headwater = trial.open()
        headwater.run(until_idle=True)
        headwater.run(until_idle=True)  # it is reported once
        (exact,) = trial.reader.view("customers.settled")["exact_from"]
        held = f"held back by input c: its bulk was read later; the earliest possible time is {exact:%FT%TZ}"
        assert [each.getMessage() for each in caplog.records] == [f"lines: {held}{remedy('09:30')}"]
        assert (alarms(trial), waits(trial)) == ((held + remedy("09:30"),), held)
        order(trial, ("+I", 2, 8, 2, "10:25"))
        customer(trial, ("+I", 11, "cat", 1, "10:20"))
        headwater.run(until_idle=True)
        assert (len(caplog.records), alarms(trial)) == (1, ())
        assert sorted(trial.reader.view("lines").rows()) == [(1, "ann", 2)]

    def test_an_input_that_does_not_reach_back_so_far(self, trial: Trial) -> None:
        trial.set("pipelines.orders.history", '"1h"')
        order(trial, ("+I", 1, 7, 2, "09:00"))
        customer(trial, ("+I", 7, "ann", 1, "09:00"))
        trial.run()
        order(trial, ("+I", 2, 7, 2, "20:00"))
        trial.run()
        held, lags = alarms(trial)
        assert held.startswith("held back by input o: its history reaches back to 2024-03-01T")
        assert held.endswith("make `history` longer" + remedy("09:00"))
        assert lags == "input c lags 11h behind o: the view is held back at 2024-03-01T09:00:00Z"

    def test_an_input_whose_publications_have_expired(self, trial: Trial) -> None:
        trial.deploy(RANKED)
        order(trial, ("+I", 1, 7, 2, "10:00"))
        for number, time in ((7, "09:00"), (8, "11:00"), (9, "12:00")):
            customer(trial, ("+I", number, "ann", 1, time))
        trial.run()
        order(trial, ("+I", 3, 8, 4, "11:30"))
        trial.run()
        held = (
            "held back by input f: its publications up to 2024-03-01T11:30:00Z have expired; let it keep more (retain)"
        )
        assert alarms(trial, "shown")[0] == held
        order(trial, ("+I", 2, 9, 3, "12:00"))
        trial.run()
        assert sorted(trial.reader.view("shown").rows()) == [(1, 1, 2), (3, 2, 4)]

    def test_an_input_that_was_built_again_with_a_lower_watermark(self, tmp_path: Path) -> None:
        with ExitStack() as exits:
            trial = Trial(tmp_path, "delta:local", exits)
            trial.deploy(ORDERS.replace('name = "memory"', 'name = "delta"'))
            trial.set("pipelines.lines.align", '"newest"')
            order(trial, ("+I", 1, 7, 2, "09:10"))
            customer(trial, ("+I", 7, "ann", 1, "09:10"))
            trial.run()
            trial.set("sources.order_log.watermark_delay", '"5m"')
            trial.rebuild("orders")
            customer(trial, ("-U", 7, "ann", 1, "09:12"), ("+U", 7, "bob", 1, "09:12"))
            trial.run()
            shown = trial.publications("lines")
            assert [f"{each.watermark:%H:%M}" for each in shown] == ["09:10"] * len(shown)
            assert trial.reader.view("lines").rows() == [(1, "bob", 2)]


@pytest.mark.lengthy
class TestLeases:
    """The orders keep one version beside what somebody holds."""

    @pytest.fixture
    def ran(self, trial: Trial) -> Headwater:
        """A run whose view has shown the first order."""
        order(trial, ("+I", 1, 7, 2, "09:00"), ("+I", 9, 0, 0, "09:10"))
        customer(trial, ("+I", 7, "ann", 1, "09:00"), ("+I", 0, "end", 1, "12:00"))
        headwater = trial.open()
        headwater.run(until_idle=True)
        assert headwater.view("lines").rows() == [(1, "ann", 2)]
        return headwater

    def go_on(self, trial: Trial, headwater: Headwater, *minutes: int) -> None:
        """Epochs of orders that the view does not read, and what is not kept is given up."""
        for minute in minutes:
            order(trial, ("+I", minute, 7 if minute < 40 else 0, minute, f"09:{minute}"))
            headwater.run(["orders"], until_idle=True)
        headwater.upkeep("orders").expire(dry_run=False)

    def readable(self, headwater: Headwater) -> list[int]:
        found = headwater.upkeep("orders").versions()
        return [each.publication.epoch.number for each in found if each.readable]

    def recomputed(self, headwater: Headwater) -> list[tuple[bool, int | None]]:
        """Of each epoch of the view whether it computed all, else how many keys."""
        return headwater.view("lines.recomputed").sort("epoch").select("whole", "keys").rows()

    def test_what_the_view_read_last_stays_readable_and_no_more(self, trial: Trial, ran: Headwater) -> None:
        self.go_on(trial, ran, 20, 30, 40)
        assert self.readable(ran) == [3, 0]
        (held,) = {lease.holder for lease in ran.upkeep("orders").leases()}
        assert held == "pipeline lines"

    def test_the_next_epoch_tells_by_it_what_has_changed_and_lets_it_go(self, trial: Trial, ran: Headwater) -> None:
        self.go_on(trial, ran, 20, 30, 40)
        ran.run(["lines"], until_idle=True)
        assert self.recomputed(ran) == [(True, None), (False, 3)]
        self.go_on(trial, ran, 50)
        assert self.readable(ran) == [4, 3]

    def test_it_is_leased_anew_while_nothing_is_to_be_done(self, trial: Trial, ran: Headwater) -> None:
        for _ in range(4):
            trial.clock.sleep(timedelta(hours=7))
            ran.run(["lines"], until_idle=True)
        self.go_on(trial, ran, 20, 30, 40)
        assert self.readable(ran) == [3, 0]
        assert len({lease.id for lease in ran.upkeep("orders").leases()}) == 1

    def test_another_run_of_the_view_finds_it(self, trial: Trial, ran: Headwater) -> None:
        ran.close()
        headwater = trial.open()
        self.go_on(trial, headwater, 20, 30)
        headwater.run(["lines"], until_idle=True)
        assert self.recomputed(headwater) == [(True, None), (False, 2)]

    def test_another_run_of_the_view_goes_on_leasing_it(self, trial: Trial, ran: Headwater) -> None:
        ran.close()
        headwater = trial.open()
        for _ in range(2):
            headwater.run(["lines"], until_idle=True)
            trial.clock.sleep(timedelta(hours=11))
        self.go_on(trial, headwater, 20, 30)
        assert self.readable(headwater) == [2, 0]

    def test_what_earlier_runs_have_leased_is_released(self, trial: Trial, ran: Headwater) -> None:
        for minute in (20, 30, 40):
            ran.close()
            ran = trial.open()
            order(trial, ("+I", minute, 7, minute, f"09:{minute}"))
            ran.run(until_idle=True)
        ran.upkeep("orders").expire(dry_run=False)
        assert self.readable(ran) == [3]
        leased = {(lease.holder, lease.id) for lease in ran.upkeep("orders").leases()}
        assert [holder for holder, _ in leased] == ["pipeline lines"]

    def test_a_second_run_releases_nothing_before_it_has_published_an_epoch(self, trial: Trial, ran: Headwater) -> None:
        """The first run may be at work on the next epoch, which reads newer versions than the last one."""
        self.go_on(trial, ran, 30)
        first = ran.pin("orders", hold=timedelta(hours=1), holder="pipeline lines").lease
        (second,) = trial.open().start(["lines"])
        assert second.source.plan(second.ledger.offsets, Now(trial.clock.now(), Pace.DRAIN))
        assert first in {lease.id for lease in ran.upkeep("orders").leases()}
        self.go_on(trial, ran, 40)
        second.run(until_idle=True)
        assert first not in {lease.id for lease in ran.upkeep("orders").leases()}

    def test_what_goes_while_its_changes_are_read_is_planned_again(
        self, trial: Trial, ran: Headwater, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole, failed = MemoryStore.changed_keys, []

        def go_once(store: MemoryStore, table: str, after: Version | None, until: Version) -> Any:
            if table == "orders.current" and not failed:
                failed.append(table)
                raise VersionExpired("a file is gone")
            return whole(store, table, after, until)

        monkeypatch.setattr(MemoryStore, "changed_keys", go_once)
        self.go_on(trial, ran, 20)
        ran.run(["lines"], until_idle=True)
        assert failed
        assert self.recomputed(ran) == [(True, None), (False, 1)]

    def test_a_lost_file_of_its_own_table_is_told_as_it_is(self, tmp_path: Path) -> None:
        with ExitStack() as exits:
            trial = Trial(tmp_path, "delta:local", exits)
            trial.deploy(ORDERS)
            order(trial, ("+I", 1, 7, 2, "08:30"), ("+I", 2, 7, 2, "09:00"))
            customer(trial, ("+I", 7, "ann", 1, "08:30"), ("+I", 8, "bob", 1, "09:00"))
            trial.run()
            for file in (tmp_path / "tables" / "lines" / "rows").rglob("*.parquet"):
                file.unlink()
            order(trial, ("+U", 1, 7, 3, "09:10"), ("+I", 3, 7, 3, "09:30"))
            customer(trial, ("+I", 9, "cat", 1, "09:30"))
            with pytest.raises(
                VersionExpired, match=r"file \S*/lines/rows/\S+ is gone .* put the file back from a backup"
            ):
                trial.run()

    def test_what_others_have_leased_stays(self, trial: Trial, ran: Headwater) -> None:
        for name in ("orders", "customers"):
            ran.pin(name, hold=timedelta(hours=1), holder="somebody")
        with ran.pin("orders", hold=timedelta(hours=1), holder="pipeline lines~2"):  # a rebuild of the view
            ran.close()
            ran = trial.open()
            self.go_on(trial, ran, 20, 30)
            ran.run(["lines"], until_idle=True)
            held = {lease.holder for lease in ran.upkeep("orders").leases()}
        assert held == {"pipeline lines", "pipeline lines~2", "somebody"}

    def test_a_rebuild_leaves_the_leases_of_runs_alone(self, tmp_path: Path) -> None:
        with ExitStack() as exits:
            trial = Trial(tmp_path, "delta:local", exits)
            trial.deploy(ORDERS)
            order(trial, ("+I", 1, 7, 2, "09:00"))
            customer(trial, ("+I", 7, "ann", 1, "09:00"))
            trial.run()
            trial.set("pipelines.lines.sql", '"SELECT o.id, c.name FROM o JOIN c ON c.id = o.customer"')
            trial.rebuild("lines", meanwhile=lambda: order(trial, ("+I", 2, 7, 2, "09:30")))
            held = {lease.holder for lease in trial.open().upkeep("orders").leases()}
            assert held == {"pipeline lines", "pipeline lines~2"}

    def test_a_view_that_stood_still_for_too_long_is_computed_as_a_whole_and_tells_net_changes(
        self, trial: Trial, ran: Headwater
    ) -> None:
        trial.clock.sleep(timedelta(hours=13))
        self.go_on(trial, ran, 20, 30, 40)
        assert self.readable(ran) == [3]
        ran.run(["lines"], until_idle=True)
        assert self.recomputed(ran) == [(True, None), (True, None)]
        changes = ran.diff("lines", after=0).select("_row_kind", "id", "pieces").rows()
        assert sorted(changes) == [("+I", 20, 20), ("+I", 30, 30)]


@pytest.mark.lengthy
class TestSharedNames:
    """Earlier versions gave one name to two values or two indexes, so that rows were wrong."""

    def run(self, trial: Trial, *numbers: int) -> None:
        for number in numbers:
            row = {"id": number, "a": 1, "b__c": 2, "a__b": 3, "c": 3, "d": {"e": 1}, "d_e": 2}
            trial.feed("rows", [json.dumps(row)])
            trial.run()

    def rows(self, trial: Trial) -> list[list[tuple[int | None, ...]]]:
        return [sorted(trial.reader.view(f"{name}.rows").rows()) for name in ("values", "indexes")]

    def right(self, count: int) -> list[list[tuple[int | None, ...]]]:
        """What both views show of equal rows."""
        ids = range(1, count + 1)
        return [[(id_, count) for id_ in ids], [(id_, 2 * count, None) for id_ in ids]]

    def test_values_and_indexes_with_names_that_are_alike_are_distinct(self, trial: Trial) -> None:
        trial.deploy(ALIKE)
        self.run(trial, 1, 2, 3)
        assert self.rows(trial) == self.right(3)
        assert [len(trial.publications(name)) for name in ("values", "indexes")] == [3, 3]

    def test_rows_of_earlier_versions_become_right_by_the_next_run(
        self, trial: Trial, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trial.deploy(ALIKE)
        with monkeypatch.context() as earlier:
            for module in ("step", "lookups"):
                earlier.setattr(f"{_VIEWS}.{module}.name_of", _former_name)
            earlier.setattr(f"{_VIEWS}.tables.index_names", _former_index_names)
            earlier.setattr(f"{_VIEWS}.had_shared_names", lambda *_: False)
            self.run(trial, 1, 2)
            found = self.rows(trial)
            assert all(one != other for one, other in zip(found, self.right(2), strict=True))
        trial.run()
        assert self.rows(trial) == self.right(2)
        self.run(trial, 3)
        assert self.rows(trial) == self.right(3)
        for name in ("values", "indexes"):
            whole = trial.reader.view(f"{name}.recomputed").sort("epoch")["whole"].to_list()
            assert whole == [True, False, True, False]


@pytest.mark.lengthy
class TestViewsOverViews:
    """The input that is a view sets the moment, which may be long before the watermarks of the others."""

    hour = 9

    def arrive(self, trial: Trial, **times: Sequence[str]) -> None:
        for source, each in times.items():
            trial.feed(source, [json.dumps({"k": "x", "at": f"2024-03-01T{time}:00Z"}) for time in each])
        trial.run()

    def shown(self, trial: Trial) -> list[tuple[Any, ...]]:
        return trial.reader.view("both.rows").rows()

    @pytest.fixture(params=["at", "before"])
    def views(self, request: pytest.FixtureRequest, trial: Trial) -> Trial:
        trial.deploy(OVER_VIEWS)
        for view in ("pair", "both"):
            trial.set(f"pipelines.{view}.align", f'"{request.param}"')
        return trial

    def test_another_input_is_read_at_the_moment_that_the_view_shows(self, views: Trial) -> None:
        self.arrive(views, a=["10:00"], b=["10:00"], c=["10:00"])
        self.arrive(views, a=["12:00"], b=["12:00"])
        for time in ("11:00", "11:30"):
            self.arrive(views, c=[time])
            assert self.shown(views) == [("x", 1, 1, 1)]
        self.arrive(views, c=["12:00"])
        assert self.shown(views) == [("x", 2, 2, 4)]

    def test_an_input_that_begins_later_is_waited_for(self, views: Trial) -> None:
        self.arrive(views, a=["10:00"], b=["10:00"])
        self.arrive(views, a=["12:00"], b=["12:00"], c=["11:00"])
        held, _ = alarms(views, "both")
        assert held.startswith("held back by input t: it has no publication up to 2024-03-01T10:00:00Z: wait for")
        self.arrive(views, c=["12:00"])
        assert self.shown(views) == [("x", 2, 2, 2)]
        assert alarms(views, "both") == ()

    def test_an_input_of_a_view_is_read_at_the_same_publication_beside_it(self, trial: Trial) -> None:
        """Whichever moments of the same publications the two views show."""
        trial.deploy(OVER_VIEWS.replace('"of_c.totals"', '"of_b.totals"'))
        for lower, upper in product(("before", "at"), repeat=2):
            trial.set("pipelines.pair.align", f'"{lower}"')
            trial.set("pipelines.both.align", f'"{upper}"')
            for _ in range(3):
                self.hour += 1
                self.arrive(trial, a=[f"{self.hour}:00"], b=[f"{self.hour}:00"])
                # A moment before the watermark is shown later than one at it.
                count = self.hour - (10 if (lower, upper) == ("at", "before") else 9)
                assert self.shown(trial) == [("x", count, count, count)]

    def test_a_view_of_newest_publications_shows_no_moment(self, trial: Trial) -> None:
        """It may contain rows that are later than those of the others, or lack some."""
        text = OVER_VIEWS.replace(
            '{ p = "of_a.totals", q = "of_b.totals" }', '{ p = "of_a.totals", q = "of_a.totals" }'
        )
        refused = r'inputs.v: view \'pair\' shows its inputs at their newest .*: set align = "before" in pipelines.pair'
        trial.deploy(text)
        with pytest.raises(ConfigError, match=refused):
            trial.open()
        trial.set("pipelines.both.align", '"newest"')
        trial.open()
        trial.unset("pipelines.both.align")
        trial.set("pipelines.pair.align", '"before"')
        self.arrive(trial, a=["10:00"], c=["10:00"])
        self.arrive(trial, a=["12:00"], c=["11:00"])
        assert self.shown(trial) == [("x", 1, 1, 1)]

    def test_a_view_of_one_view_shows_its_moments(self, trial: Trial) -> None:
        trial.deploy(
            OVER_VIEWS.replace('"pair.rows"', '"same.rows"')
            + '[pipelines.same]\nservice = "materialized_view"\ninputs = { v = "pair.rows" }\nkey = ["k"]\n'
            + 'sql = "SELECT k, a, b FROM v"\n'
        )
        self.arrive(trial, a=["10:00"], b=["10:00"], c=["10:00"])
        self.arrive(trial, a=["12:00"], b=["12:00"], c=["11:00"])
        assert self.shown(trial) == [("x", 1, 1, 1)]
        self.arrive(trial, c=["12:00"])
        assert self.shown(trial) == [("x", 2, 2, 3)]

    def test_an_edited_view_is_waited_for(self, views: Trial) -> None:
        """What it showed before has other values."""
        self.arrive(views, a=["10:00"], b=["10:00"], c=["10:00"])
        self.arrive(views, a=["12:00"], b=["12:00"], c=["11:00"])
        views.set("pipelines.pair.sql", '"SELECT p.k, 100 * p.n AS a, q.n AS b FROM p JOIN q ON p.k = q.k"')
        views.run()
        assert self.shown(views) == [("x", 1, 1, 1)]
        assert alarms(views, "both")[0].startswith("held back by input v: it has no publication up to 2024-03-01T1")
        assert " since it was edited at a moment that the other views share; " in alarms(views, "both")[0]
        self.arrive(views, c=["12:00"])
        assert self.shown(views) == [("x", 200, 2, 3)]

    def test_a_view_of_newest_publications_that_becomes_one_of_a_moment_does_not_go_back(self, views: Trial) -> None:
        settings: Any = views.open().deployment.pipelines["both"].service
        views.set("pipelines.both.align", '"newest"')
        self.arrive(views, a=["10:00"], b=["10:00"], c=["10:00"])
        self.arrive(views, a=["12:00"], b=["12:00"], c=["11:00"])
        assert self.shown(views) == [("x", 2, 2, 2)]
        views.set("pipelines.both.align", f'"{settings.align}"')
        views.run()
        assert self.shown(views) == [("x", 2, 2, 2)]
        assert "it has not reached 2024-03-01T1" in alarms(views, "both")[0]
        self.arrive(views, c=["12:00"])
        assert self.shown(views) == [("x", 2, 2, 3)]

    def test_rows_that_earlier_versions_read_too_late_become_right_by_the_next_run(
        self, views: Trial, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as earlier:
            earlier.setattr(ViewInputs, "_newest_up_to", lambda self, pipeline, _: self._pipelines.latest(pipeline))
            self.arrive(views, a=["10:00"], b=["10:00"], c=["10:00"])
            self.arrive(views, a=["12:00"], b=["12:00"], c=["11:00"])
            assert self.shown(views) == [("x", 1, 1, 2)]
        views.run()
        assert self.shown(views) == [("x", 1, 1, 1)]
        self.arrive(views, c=["12:00"])
        assert self.shown(views) == [("x", 2, 2, 3)]


_VIEWS = "headwater.domain.service.materialized_view"


def _former_name(value: SourceExpr) -> str:
    return f"_{value.read}_{value.sql}".replace("`", "").replace(".", "_")


def _former_index_names(lookups: Iterable[tuple[str, Sequence[SourceExpr]]]) -> dict[tuple[str, ...], str]:
    return {
        (name, *(each.sql for each in exprs)): f"{name}_by_{'__'.join(str(each.column) for each in exprs)}"
        for name, exprs in lookups
    }


class TestDeclaredChanges:
    """No equality leads from customers to orders: a customer goes with all orders that are large enough."""

    def deploy(self, trial: Trial, concerned: str) -> Headwater:
        trial.set("pipelines.lines.sql", f'"{LARGE}"')
        trial.set("pipelines.lines.changes", f'{{ c = "{concerned}" }}')
        order(trial, ("+I", 1, 0, 10, "09:00"), ("+I", 2, 0, 20, "09:00"), ("+I", 3, 0, 30, "09:00"))
        order(trial, ("+I", 4, 0, 0, "12:00"))
        customer(trial, ("+I", 7, "ann", 25, "09:00"), ("+I", 8, "end", 99, "09:10"))
        headwater = trial.open()
        headwater.run(until_idle=True)
        assert self.rows(headwater) == [(1, None), (2, None), (3, "ann")]
        return headwater

    def rows(self, headwater: Headwater) -> list[tuple[int, str | None]]:
        return sorted(headwater.view("lines").rows())

    def newest(self, headwater: Headwater) -> tuple[bool, int | None, int | None]:
        """What the view's newest epoch computed."""
        told = headwater.view("lines.recomputed").sort("epoch").tail(1)
        return next(iter(told.select("whole", "keys", "net").rows()))

    def test_a_query_says_which_keys_a_change_concerns_by_its_row_before_and_after(self, trial: Trial) -> None:
        headwater = self.deploy(trial, "SELECT o.id FROM o JOIN c ON o.pieces >= c.low")
        customer(trial, ("-U", 7, "ann", 25, "09:20"), ("+U", 7, "ann", 15, "09:20"), ("+I", 9, "end", 99, "09:30"))
        headwater.run(until_idle=True)
        assert self.rows(headwater) == [(1, None), (2, "ann"), (3, "ann")]
        assert self.newest(headwater) == (False, 2, 2)
        customer(trial, ("-D", 7, "ann", 15, "09:40"), ("-D", 9, "end", 99, "09:50"))
        headwater.run(until_idle=True)
        assert self.rows(headwater) == [(1, None), (2, None), (3, None)]
        assert self.newest(headwater) == (False, 2, 4)

    def test_a_query_that_leaves_keys_out_leaves_them_as_they_were(self, trial: Trial) -> None:
        headwater = self.deploy(trial, "SELECT o.id FROM o JOIN c ON o.pieces >= c.low AND o.id = 2")
        customer(trial, ("-U", 7, "ann", 25, "09:20"), ("+U", 7, "amy", 15, "09:20"), ("+I", 9, "end", 99, "09:30"))
        headwater.run(until_idle=True)
        assert self.rows(headwater) == [(1, None), (2, "amy"), (3, "ann")]

    def test_all_computes_the_whole_view_and_tells_net_changes(self, trial: Trial) -> None:
        headwater = self.deploy(trial, "all")
        customer(trial, ("-U", 7, "ann", 25, "09:20"), ("+U", 7, "ann", 15, "09:20"), ("+I", 9, "end", 99, "09:30"))
        headwater.run(until_idle=True)
        assert self.rows(headwater) == [(1, None), (2, "ann"), (3, "ann")]
        assert self.newest(headwater) == (True, None, None)
        changes = headwater.diff("lines", after=headwater.epoch("lines") - 1)
        assert sorted(changes.select("_row_kind", "id", "name").rows()) == [("+U", 2, "ann"), ("-U", 2, None)]

    def test_what_is_declared_of_one_input_says_nothing_of_another(self, trial: Trial) -> None:
        headwater = self.deploy(trial, "all")
        order(trial, ("+I", 5, 0, 40, "09:05"))
        headwater.run(until_idle=True)
        assert self.rows(headwater)[-1] == (5, "ann")
        assert self.newest(headwater) == (False, 1, 1)
