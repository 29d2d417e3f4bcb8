"""The ledger over real tables in memory: the chain of publications, and what a crash or a second writer leaves."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from headwater.adapters.memory.store import MemoryStore
from headwater.domain.epoch.epoch import Epoch, OffsetRange
from headwater.domain.errors import ConfigError, EpochConflict, VersionNotFound
from headwater.domain.ledger.writer import LedgerWriter
from headwater.domain.table.change import Change
from headwater.domain.table.merge import Sum
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import TableSpec
from headwater.testing.clock import ManualClock
from headwater.testing.frames import polars_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headwater.domain.epoch.epoch import Publication

TABLES = ("p.rows", "p.cells", "p.anchor")
SCHEMA = Schema.parse("id bigint, n bigint")
WRITERS = count()


def new_store() -> MemoryStore:
    store = MemoryStore()
    for name in (*TABLES, "p.late"):
        store.ensure(TableSpec(name, SCHEMA, ("id",), {"n": Sum()}))
    return store


@pytest.fixture
def store() -> MemoryStore:
    return new_store()


def opened(
    store: MemoryStore,
    tables: Sequence[str] = TABLES,
    fingerprint: str = "settings",
    clock: ManualClock | None = None,
    settings: str | None = None,
) -> LedgerWriter:
    """The pipeline as a process finds it that starts now."""
    ledger = LedgerWriter(
        store,
        "p",
        tables,
        clock or ManualClock(),
        lambda built: None if built == fingerprint else "settings",
        fingerprint,
        f"writer-{next(WRITERS)}",
        settings=settings,
    )
    ledger.open()
    return ledger


def offsets(until: int, after: int | None = None) -> OffsetRange:
    start = until - 1 if after is None else after
    return OffsetRange({"at": start} if start else None, {"at": until})


def adding(number: int) -> Change:
    """Adds to the one row a table has, so that work done twice, or not at all, shows."""
    return Change(merge=polars_frame([(1, number)], SCHEMA))


def publish(
    ledger: LedgerWriter,
    until: int,
    *,
    tables: Sequence[str] | None = None,
    after: int | None = None,
    rows: int | None = None,
) -> Publication:
    """An epoch that adds its offset to some of the tables; to all, where none are named."""
    ledger.begin(offsets(until, after))
    if rows is not None:
        ledger.record_rows(rows)
    for table in ledger.tables[:-1]:
        if tables is None or table in tables:
            ledger.commit(table, adding(until))
    return ledger.publish(adding(until), None)


def totals(ledger: LedgerWriter, publication: Publication | None = None) -> dict[str, int]:
    """What the rows of each table add up to, as a reader sees them."""
    snapshot = ledger.snapshot(publication)
    read = {table: snapshot.read(table).collect(backend="polars")["n"].to_list() for table in ledger.tables}
    return {table: sum(values) for table, values in read.items()}


def commits(store: MemoryStore) -> Counter[str]:
    return Counter({table: len(list(store.versions(table))) for table in TABLES})


class TestPublications:
    def test_nothing_is_published_at_first(self, store: MemoryStore) -> None:
        ledger = opened(store)
        assert (ledger.latest, ledger.next_epoch, ledger.unfinished) == (None, Epoch("p", 0), None)
        assert list(ledger.publications()) == []
        assert totals(ledger) == dict.fromkeys(TABLES, 0)

    def test_an_epoch_shows_once_it_is_published(self, store: MemoryStore) -> None:
        ledger = opened(store)
        ledger.begin(offsets(1))
        ledger.commit("p.rows", adding(1))
        assert totals(ledger) == dict.fromkeys(TABLES, 0)
        assert ledger.ahead().version("p.rows") is not None
        watermark = datetime(2024, 1, 1, tzinfo=UTC)
        published = ledger.publish(adding(1), watermark)
        assert (published.epoch, published.offsets, published.watermark) == (Epoch("p", 0), {"at": 1}, watermark)
        assert totals(ledger) == {"p.rows": 1, "p.cells": 0, "p.anchor": 1}
        assert opened(store).latest == published

    def test_each_names_the_one_before(self, store: MemoryStore) -> None:
        ledger = opened(store)
        made = [publish(ledger, 1), publish(ledger, 2, tables=["p.rows"]), publish(ledger, 3, tables=[])]
        for reader in (ledger, opened(store)):
            assert list(reader.publications()) == made[::-1]
            assert [reader.as_of_epoch(number) for number in range(3)] == made
            assert [totals(reader, each)["p.rows"] for each in made] == [1, 3, 3]
            assert reader.next_epoch == Epoch("p", 3)

    def test_an_epoch_that_is_not_there_is_not_found(self, store: MemoryStore) -> None:
        ledger = opened(store)
        with pytest.raises(VersionNotFound, match="none is published yet"):
            ledger.as_of_epoch(0)
        publish(ledger, 1)
        for number, end in ((-1, "oldest is 0"), (1, "newest is 0")):
            with pytest.raises(VersionNotFound, match=end):
                ledger.as_of_epoch(number)

    def test_a_moment_finds_what_was_published_by_then(self, store: MemoryStore) -> None:
        clock = ManualClock()
        ledger = opened(store, clock=clock)
        made = []
        for until in (1, 2):
            made.append(publish(ledger, until))
            clock.sleep(timedelta(hours=1))
        first, second = made
        instant = timedelta(microseconds=1)
        assert ledger.as_of_time(first.published_at) == first
        assert ledger.as_of_time(second.published_at - instant) == first
        assert ledger.as_of_time(second.published_at + instant) == second
        with pytest.raises(VersionNotFound, match="nothing by"):
            ledger.as_of_time(first.published_at - instant)

    def test_changes_are_told_between_snapshots(self, store: MemoryStore) -> None:
        ledger = opened(store)
        first = publish(ledger, 1)
        second = publish(ledger, 2, tables=["p.rows"])
        before, after = ledger.snapshot(first), ledger.snapshot(second)
        moved = after.changes_since(before, "p.rows")
        assert moved is not None
        assert sorted(moved.collect(backend="polars").rows()) == [(1, 1, "-U"), (1, 3, "+U")]
        assert after.changes_since(before, "p.cells") is None

    def test_other_settings_are_refused(self, store: MemoryStore) -> None:
        publish(opened(store), 1)
        with pytest.raises(ConfigError, match="other settings"):
            opened(store, fingerprint="other settings")

    def test_the_settings_of_all_epochs_are_recorded(self, store: MemoryStore) -> None:
        """Settings that were edited and set back are not those of before, for the rows in between."""
        found = [publish(opened(store, settings=each), number).settings for number, each in enumerate("aabba", 1)]
        assert (found[0], found[1], found[3]) == ("a", "a", found[2])
        assert len(set(found)) == 3

    def test_settings_of_epochs_that_recorded_none_stay_unknown(self, store: MemoryStore) -> None:
        assert [publish(opened(store, settings=each), n).settings for n, each in ((1, None), (2, "a"))] == [None, None]


class TestAdopting:
    """A ledger that begins with what another store has published."""

    def copy(self, ledger: LedgerWriter, published: Publication, *, tables: int = 3) -> None:
        """The epoch's content; of a try that is cut off, the first tables only."""
        ledger.adopt(published)
        for table in TABLES[: min(tables, 2)]:
            ledger.commit(table, Change(overwrite=polars_frame([(1, 7)], SCHEMA)))
        if tables == 3:
            ledger.publish(Change(overwrite=polars_frame([(1, 7)], SCHEMA)), published.watermark)

    def test_goes_on_from_its_epoch_and_offsets(self, store: MemoryStore) -> None:
        elsewhere = opened(store, settings="a")
        for until in (1, 2, 3):
            published = publish(elsewhere, until)
        ledger = opened(new_store(), settings="b")
        self.copy(ledger, published)
        assert ledger.latest is not None
        assert (ledger.latest.epoch, ledger.latest.offsets) == (Epoch("p", 2), {"at": 3})
        assert ledger.latest.settings == "a"
        assert publish(ledger, 4).epoch == Epoch("p", 3)
        assert totals(ledger) == dict.fromkeys(TABLES, 11)
        with pytest.raises(VersionNotFound, match="oldest is 2"):
            ledger.as_of_epoch(1)

    def test_its_fingerprint_is_recorded_with_what_was_before(self, store: MemoryStore) -> None:
        published, target = publish(opened(store), 1), new_store()
        for tables in (1, 3):  # a try that is cut off is resumed
            ledger = opened(target)
            ledger.fingerprint_after = lambda built: f"{built} later"
            self.copy(ledger, published, tables=tables)
        assert commits(target) == Counter(dict.fromkeys(TABLES, 1))
        assert ledger.latest is not None
        assert ledger.latest.fingerprint == "settings later"
        assert publish(ledger, 2).fingerprint == "settings later later"

    def test_a_try_that_was_cut_off_is_gone_on_with(self, store: MemoryStore) -> None:
        published, target = publish(opened(store), 1), new_store()
        self.copy(opened(target), published, tables=1)
        self.copy(opened(target), published)
        assert totals(opened(target)) == dict.fromkeys(TABLES, 7)
        assert commits(target) == Counter(dict.fromkeys(TABLES, 1))

    def test_a_try_at_an_older_publication_is_taken_back(self, store: MemoryStore) -> None:
        elsewhere, target = opened(store), new_store()
        self.copy(opened(target), publish(elsewhere, 1), tables=2)
        self.copy(opened(target), publish(elsewhere, 2))
        assert totals(opened(target)) == dict.fromkeys(TABLES, 7)

    def test_is_refused_where_there_is_something(self, store: MemoryStore) -> None:
        ledger = opened(store)
        with pytest.raises(ConfigError, match="there already, at epoch 0"):
            ledger.adopt(publish(ledger, 1))


class TestCrashes:
    @pytest.mark.parametrize("finished", range(len(TABLES)))
    @pytest.mark.parametrize("past", [0, 1], ids=["first epoch", "second epoch"])
    def test_finished_commits_are_not_made_again(self, store: MemoryStore, past: int, finished: int) -> None:
        if past:
            publish(opened(store), 1)
        until, before = past + 1, totals(opened(store))
        crashed = opened(store)
        crashed.begin(offsets(until))
        for table in TABLES[:finished]:
            crashed.commit(table, adding(until))
        ledger = opened(store)
        assert totals(ledger) == before
        assert ledger.unfinished == (offsets(until) if finished else None)
        publish(ledger, until)
        assert totals(ledger) == totals(opened(store)) == {table: before[table] + until for table in TABLES}
        assert commits(store) == dict.fromkeys(TABLES, past + 1)

    @pytest.mark.parametrize("finished", [1, 2])
    @pytest.mark.parametrize("past", [0, 1], ids=["first epoch", "second epoch"])
    def test_commits_of_another_range_are_taken_back(self, store: MemoryStore, past: int, finished: int) -> None:
        if past:
            publish(opened(store), 1)
        before, crashed = totals(opened(store)), opened(store)
        crashed.begin(offsets(past + 1))
        for table in TABLES[:finished]:
            crashed.commit(table, adding(99))
        ledger = opened(store)
        publish(ledger, past + 2, after=past)
        assert totals(ledger) == {table: before[table] + past + 2 for table in TABLES}
        assert [each.offsets["at"] for each in opened(store).publications()] == [past + 2, *([1] if past else [])]

    @pytest.mark.parametrize(("before", "kept"), [("digest", True), ("other", False), (None, True)])
    @pytest.mark.parametrize("past", [0, 1], ids=["first epoch", "second epoch"])
    def test_commits_with_other_settings_are_taken_back(
        self, store: MemoryStore, past: int, before: str | None, *, kept: bool
    ) -> None:
        """Also that of a table that the epoch does not change by the new settings. Old versions recorded none."""
        if past:
            publish(opened(store, settings=before), 1)
        until, shown = past + 1, totals(opened(store))
        crashed = opened(store, settings=before)
        crashed.begin(offsets(until))
        for table in TABLES[:2]:
            crashed.commit(table, adding(99))
        ledger = opened(store, settings="digest")
        assert ledger.unfinished == (offsets(until) if kept else None)
        publish(ledger, until, tables=["p.rows"])
        added = {"p.rows": 99, "p.cells": 99} if kept else {"p.rows": until, "p.cells": 0}
        assert totals(opened(store)) == {table: shown[table] + added.get(table, until) for table in TABLES}

    @pytest.mark.parametrize(("before", "kept"), [(2, True), (3, False), (None, True)])
    @pytest.mark.parametrize("past", [0, 1], ids=["first epoch", "second epoch"])
    def test_commits_that_have_read_another_number_of_rows_are_taken_back(
        self, store: MemoryStore, past: int, before: int | None, *, kept: bool
    ) -> None:
        """Also that of a table that the epoch does not change by the rows of now. Old versions recorded none."""
        if past:
            publish(opened(store), 1)
        until, shown = past + 1, totals(opened(store))
        crashed = opened(store)
        crashed.begin(offsets(until))
        if before is not None:
            crashed.record_rows(before)
        for table in TABLES[:2]:
            crashed.commit(table, adding(99))
        ledger = opened(store)
        assert ledger.unfinished == offsets(until)
        publish(ledger, until, tables=["p.rows"], rows=2)
        added = {"p.rows": 99, "p.cells": 99} if kept else {"p.rows": until, "p.cells": 0}
        assert totals(opened(store)) == {table: shown[table] + added.get(table, until) for table in TABLES}
        made = {"p.rows": 1, "p.cells": 1} if kept else {"p.rows": 3, "p.cells": 2}
        assert commits(store) == {table: past + made.get(table, 1) for table in TABLES}

    def test_a_commit_that_recorded_no_rows_is_taken_back_with_one_that_has_read_others(
        self, store: MemoryStore
    ) -> None:
        """The first try was that of an old version."""
        crashed = opened(store)
        crashed.begin(offsets(1))
        crashed.commit("p.rows", adding(99))
        again = opened(store)
        again.begin(offsets(1))
        again.record_rows(3)
        again.commit("p.cells", adding(99))
        publish(opened(store), 1, rows=2)
        assert totals(opened(store)) == dict.fromkeys(TABLES, 1)

    def test_a_crash_while_taking_back_mixes_no_readings(self, store: MemoryStore) -> None:
        """Of two commits only one was taken back and made again; more rows are gone by the third try."""
        crashed = opened(store)
        crashed.begin(offsets(1))
        crashed.record_rows(3)
        for table in TABLES[:2]:
            crashed.commit(table, adding(99))
        again = opened(store)
        again.begin(offsets(1))
        again.record_rows(2)
        again.commit("p.rows", adding(7))
        publish(opened(store), 1, rows=1)
        assert totals(opened(store)) == dict.fromkeys(TABLES, 1)

    def test_a_crash_while_taking_back_mixes_no_settings(self, store: MemoryStore) -> None:
        """The settings are edited, and edited back while only one of two commits was taken back."""
        crashed = opened(store, settings="first")
        crashed.begin(offsets(1))
        for table in TABLES[:2]:
            crashed.commit(table, adding(99))
        again = opened(store, settings="second")
        again.begin(offsets(1))
        again.commit("p.rows", adding(7))
        publish(opened(store, settings="first"), 1)
        assert totals(opened(store)) == dict.fromkeys(TABLES, 1)

    def test_a_crash_after_taking_back_leaves_nothing_to_take_back(self, store: MemoryStore) -> None:
        publish(opened(store), 1)
        crashed = opened(store)
        crashed.begin(offsets(2))
        crashed.commit("p.rows", adding(99))
        again = opened(store)
        again.begin(offsets(3, after=1))
        made = commits(store)
        ledger = opened(store)
        assert ledger.unfinished is None
        ledger.begin(offsets(3, after=1))
        assert commits(store) == made
        publish(ledger, 3, after=1)
        assert totals(ledger) == dict.fromkeys(TABLES, 4)

    def test_nothing_is_committed_before_an_epoch_begins(self, store: MemoryStore) -> None:
        with pytest.raises(EpochConflict, match="no epoch has begun"):
            opened(store).commit("p.rows", adding(1))


class TestTwoWriters:
    @pytest.mark.parametrize("through", [0, 1, 2], ids=["first commit", "second commit", "publication"])
    def test_the_second_fails_and_nothing_is_damaged(self, store: MemoryStore, through: int) -> None:
        publish(opened(store), 1)
        first, second = opened(store), opened(store)
        for ledger in (first, second):
            ledger.begin(offsets(2))
        steps: list[Callable[[LedgerWriter], Any]] = [
            lambda ledger: ledger.commit("p.rows", adding(2)),
            lambda ledger: ledger.commit("p.cells", adding(2)),
            lambda ledger: ledger.publish(adding(2), None),
        ]
        for step in steps[: through + 1]:
            step(first)
        with pytest.raises(EpochConflict, match="another writer"):
            for step in steps:
                step(second)
        for step in steps[through + 1 :]:
            step(first)
        assert totals(opened(store)) == dict.fromkeys(TABLES, 3)
        assert commits(store) == dict.fromkeys(TABLES, 2)

    def test_what_a_loser_added_to_an_untouched_table_is_taken_back(self, store: MemoryStore) -> None:
        winner, loser = opened(store), opened(store)
        loser.begin(offsets(1))
        publish(winner, 1, tables=[])
        loser.commit("p.rows", adding(99))
        with pytest.raises(EpochConflict):
            loser.publish(adding(99), None)
        assert totals(opened(store))["p.rows"] == 0
        winner.begin(offsets(2))
        with pytest.raises(EpochConflict):
            winner.commit("p.rows", adding(2))
        winner.open()
        assert winner.unfinished is None
        publish(winner, 2)
        assert totals(opened(store)) == {"p.rows": 2, "p.cells": 2, "p.anchor": 3}

    def test_what_a_loser_took_back_comes_back(self, store: MemoryStore) -> None:
        publish(opened(store), 1)
        crashed = opened(store)
        crashed.begin(offsets(2))
        crashed.commit("p.rows", adding(2))
        winner, loser = opened(store), opened(store)
        publish(winner, 2, tables=["p.rows"])
        loser.begin(offsets(3, after=1))
        with pytest.raises(EpochConflict):
            loser.publish(adding(3), None)
        ledger = opened(store)
        publish(ledger, 3)
        assert totals(ledger) == {"p.rows": 6, "p.cells": 4, "p.anchor": 6}


class TestAnotherAnchor:
    LONGER = (*TABLES, "p.late")

    def test_a_table_added_carries_on(self, store: MemoryStore) -> None:
        publish(opened(store), 1)
        ledger = opened(store, self.LONGER)
        assert ledger.next_epoch == Epoch("p", 1)
        publish(ledger, 2)
        again = opened(store, self.LONGER)
        assert [each.epoch.number for each in again.publications()] == [1, 0]
        assert totals(again) == {"p.rows": 3, "p.cells": 3, "p.anchor": 3, "p.late": 2}

    def test_a_table_removed_carries_on(self, store: MemoryStore) -> None:
        publish(opened(store, self.LONGER), 1)
        ledger = opened(store)
        publish(ledger, 2)
        assert [each.epoch.number for each in opened(store).publications()] == [1, 0]
        assert totals(opened(store)) == dict.fromkeys(TABLES, 3)

    @pytest.mark.parametrize("finished", [1, 2, 3])
    @pytest.mark.parametrize(("before", "after"), [(TABLES, LONGER), (LONGER, TABLES)], ids=["added", "removed"])
    def test_a_crash_in_between_loses_and_repeats_nothing(
        self, store: MemoryStore, before: Sequence[str], after: Sequence[str], finished: int
    ) -> None:
        publish(opened(store, before), 1)
        crashed = opened(store, before)
        crashed.begin(offsets(2))
        for table in before[: min(finished, len(before) - 1)]:
            crashed.commit(table, adding(2))
        ledger = opened(store, after)
        assert (ledger.next_epoch, ledger.unfinished) == (Epoch("p", 1), offsets(2))
        published = publish(ledger, 2)
        for tables in (after, before):
            assert opened(store, tables).latest == published
        assert {table: total for table, total in totals(ledger).items() if table in TABLES} == dict.fromkeys(TABLES, 3)
        publish(opened(store, after), 3)
        assert totals(opened(store, after))["p.rows"] == 6


class TestTasks:
    """Work that reads nothing of the source, as an epoch of its own."""

    def test_it_is_published_as_any_epoch_is(self, store: MemoryStore) -> None:
        ledger = opened(store)
        publish(ledger, 1)
        at = OffsetRange({"at": 1}, {"at": 1})
        assert ledger.begin(at, "roll") == Epoch("p", 1)
        ledger.commit("p.rows", adding(10))
        published = ledger.publish(adding(10), None)
        assert published.offsets == {"at": 1}
        assert totals(opened(store)) == {"p.rows": 11, "p.cells": 1, "p.anchor": 11}

    @pytest.mark.parametrize("next_task", [None, "roll"])
    def test_what_was_cut_off_is_taken_back(self, store: MemoryStore, next_task: str | None) -> None:
        publish(opened(store), 1)
        dying = opened(store)
        at = OffsetRange({"at": 1}, {"at": 1})
        dying.begin(at, "roll")
        dying.commit("p.rows", adding(10))
        ledger = opened(store)
        assert ledger.unfinished is None
        ledger.begin(at, next_task)
        ledger.commit("p.cells", adding(2))
        ledger.publish(adding(2), None)
        assert totals(ledger) == {"p.rows": 1, "p.cells": 3, "p.anchor": 3}
