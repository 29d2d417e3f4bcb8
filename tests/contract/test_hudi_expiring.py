"""Expiry on Hudi beyond the contract: which files are deleted, plans, races and crashes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import narwhals as nw
import pytest
from attrs import evolve
from py4j.protocol import Py4JJavaError

from headwater.adapters.hudi import expire as expiring
from headwater.adapters.hudi.archive import ArchivePolicy, Archiver
from headwater.adapters.hudi.client import upkeep_client
from headwater.adapters.hudi.compact import CompactionPolicy
from headwater.adapters.hudi.store import Table
from headwater.adapters.shared.leases import LeaseFiles
from headwater.adapters.spark.jvm import java_class
from headwater.app.run.clock import SystemClock
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.errors import VersionExpired, VersionNotFound
from headwater.domain.ledger.writer import LedgerWriter
from headwater.domain.ports import Version
from headwater.domain.table.change import Change, Matching
from headwater.domain.table.lease import Lease
from headwater.domain.table.spec import Layout
from headwater.testing.store_harness import bag, spec_of
from headwater.testing.store_keeping import expire, pin

from .test_hudi import Hudi

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from headwater.adapters.hudi.store import HudiStore
    from headwater.testing.store_harness import TableDriver

pytestmark = [pytest.mark.hudi, pytest.mark.contract]

NAMES = spec_of("day int, id bigint, name string", ["day", "id"], partition_by=["day"])

both_types = pytest.mark.parametrize(
    "layout", [pytest.param(Layout.LOG, id="mor"), pytest.param(Layout.MERGED, id="cow", marks=pytest.mark.slow)]
)


class Lake(Hudi):
    """Tables laid out as a log are merged on read, others are copied on write."""

    @pytest.fixture(autouse=True)
    def _odd_root(self, tmp_path: Path) -> None:
        """A folder whose name means what it says."""
        self.root = tmp_path / "a {lake}, ü"

    def data(self) -> set[str]:
        """The names of the data files, logs among them."""
        files = (self.root / "pipeline" / "items").glob("[0-9]*/*")
        return {file.name for file in files if file.suffix != ".crc" and not file.name.startswith(".hoodie")}

    def changed_daily(self, layout: Layout, times: int) -> tuple[TableDriver, list[Version]]:
        """A table whose one row was changed so many times, and the versions made: they hold 0, 1, 2 …"""
        table = self.table(self.reopen(), evolve(NAMES, layout=layout))
        return table, [table.commit(merge=[(1, 1, str(number))]) for number in range(times)]

    def another(self, table: TableDriver) -> TableDriver:
        """The table as another writer has it, at the newest mark."""
        theirs = self.table(self.reopen(), table.spec)
        theirs.sequence, theirs.newest = table.sequence, table.newest
        return theirs


def before_listing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen between the record of what goes and the search for its files."""
    record_expiry = LeaseFiles.record_expiry

    def giving_up(
        holds: LeaseFiles, told: list[str], keep: Collection[str], now: datetime, *, dry_run: bool
    ) -> set[str]:
        monkeypatch.setattr(LeaseFiles, "record_expiry", record_expiry)
        gone = record_expiry(holds, told, keep, now, dry_run=dry_run)
        act()
        return gone

    monkeypatch.setattr(LeaseFiles, "record_expiry", giving_up)


class TestFiles(Lake):
    @both_types
    def test_only_what_no_kept_version_is_read_from_goes(self, layout: Layout) -> None:
        table, made = self.changed_daily(layout, 4)
        if layout is Layout.LOG:
            table.compact()
        made.append(table.commit(merge=[(1, 1, "4")]))
        lease, before = pin(table, made[1]), self.data()
        told = expire(table, [made[4]])
        gone = before - self.data()
        assert told.files == len(gone) > 0
        assert [table.rows_at(made[number]) for number in (1, 4)] == [bag((1, 1, "1")), bag((1, 1, "4"))]
        for number in (0, 2, 3):
            with pytest.raises(VersionExpired):
                table.rows_at(made[number])
        table.store.unpin(NAMES.name, lease.id)
        assert expire(table, [made[4]]).files > 0
        assert table.rows() == bag((1, 1, "4"))

    def test_a_log_goes_that_only_versions_between_two_kept_ones_had(self) -> None:
        table, made = self.changed_daily(Layout.LOG, 3)
        table.compact()
        newest = table.commit(merge=[(1, 1, "3")])
        pin(table, made[1])
        before = self.data()
        expire(table, [newest])
        (gone,) = before - self.data()
        assert made[2] in gone
        assert table.rows_at(made[1]) == bag((1, 1, "1"))
        assert table.rows() == bag((1, 1, "3"))

    def test_what_is_planned_to_be_compacted_stays(self) -> None:
        table, made = self.changed_daily(Layout.LOG, 2)
        used = cast("HudiStore", table.store)._tables[NAMES.name]
        with upkeep_client(
            used.folder, used.timeline, used.definition, CompactionPolicy(min_files=1).settings
        ) as client:
            assert client.scheduleCompaction(java_class(self.spark, "org.apache.hudi.common.util.Option").empty())
        made.append(table.commit(merge=[(1, 2, "b")]))
        expire(table, made[-1:])
        opened = table.frame()
        opened.to_native().inputFiles()  # its files are chosen now
        table.compact()
        assert table.rows() == bag((1, 1, "1"), (1, 2, "b"))
        assert expire(table, made[-1:]).files == 0  # so does what was read from before the compaction was complete
        assert bag(*self.rows(opened)) == bag((1, 1, "1"), (1, 2, "b"))
        newest = table.commit(merge=[(1, 1, "c")])
        assert expire(table, [newest]).files > 0
        assert table.rows() == bag((1, 1, "c"), (1, 2, "b"))

    @both_types
    @pytest.mark.parametrize("partition_by", [["day"], []], ids=str)
    def test_a_frame_whose_files_go_before_it_is_computed_is_an_error(
        self, layout: Layout, partition_by: list[str]
    ) -> None:
        spec = evolve(NAMES, layout=layout, partition_by=partition_by)
        table = self.table(self.reopen(), spec)
        first = table.commit(merge=[(1, 1, "a"), (2, 1, "b")])
        second = table.commit(merge=[(1, 1, "c"), (2, 1, "d")])
        store = table.store
        frames = {
            "all": store.read(spec.name, second),
            "a few partitions": store.read(spec.name, second, Matching(within={"day": (1,)})),
            "changes": store.changes(spec.name, first, second),
        }
        table.compact()
        newest = table.commit(overwrite=[(1, 1, "e"), (2, 1, "f")])
        assert expire(table, [newest]).files > 0
        for name, frame in frames.items():
            with pytest.raises(Py4JJavaError):
                pytest.fail(f"{name}: {self.rows(frame)}")

    @both_types
    def test_what_a_dead_writer_left_is_left_to_the_next_writer(self, layout: Layout) -> None:
        table, made = self.changed_daily(layout, 2)
        rows = self.frame([(day, 5, "x") for day in range(5)], NAMES.schema).to_native()
        failing = rows.selectExpr("day", "id", "IF(day = 4, CAST(raise_error('half way') AS string), name) AS name")
        with pytest.raises(Py4JJavaError, match="half way"):
            table.commit_change(Change(append=nw.from_native(failing)))
        expire(table, made[-1:])
        assert table.rows() == bag((1, 1, "1"))
        table.commit(merge=[(1, 1, "2")])
        assert table.rows() == bag((1, 1, "2"))

    def test_what_hudis_own_cleaner_took_is_told_as_expired(self, store: HudiStore) -> None:
        table = self.table(store, NAMES)
        made = [table.commit(overwrite=[(1, 1, str(number))]) for number in range(4)]
        assert not store.expired(NAMES.name)
        used = store._tables[NAMES.name]
        with upkeep_client(used.folder, used.timeline, used.definition, CompactionPolicy().settings) as client:
            client.getConfig().setValue("hoodie.clean.commits.retained", "1")
            client.clean()
        assert made[0] in store.expired(NAMES.name)
        assert made[3] not in store.expired(NAMES.name)
        with pytest.raises(VersionExpired):
            pin(table, made[0])

    def test_a_table_without_commits_has_nothing_to_give_up(self, store: HudiStore) -> None:
        table = self.table(store, NAMES)
        told = expire(table, [])
        assert (told.versions, told.files) == ((), 0)
        assert not store.expired(NAMES.name)


class TestArchive(Lake):
    """Instants that no kept version needs leave the timeline, and stay told as expired."""

    def reopen(self) -> HudiStore:
        return evolve(super().reopen(), archiving=ArchivePolicy(min_instants=4, age=timedelta()))

    def instants(self) -> list[str]:
        files = (self.root / "pipeline" / "items" / ".hoodie" / "timeline").iterdir()
        return [file.name for file in files if file.is_file() and file.suffix != ".crc"]

    def work(self, table: TableDriver, number: int) -> Version:
        """Upserts, a compaction, at first an overwrite: Hudi's cleaner, which knows of those, says so once an hour."""
        for each in range(3):
            table.commit(merge=[(1, 1, f"{number}.{each}"), (2, 1, "x")])
        if table.spec.layout is Layout.LOG:
            table.compact()
        if number < 2:
            table.commit(overwrite=[(1, 1, "over"), (2, 1, "x")])
        return table.commit(merge=[(1, 1, str(number))])

    @both_types
    def test_the_timeline_stays_short(self, layout: Layout) -> None:
        table = self.table(self.reopen(), evolve(NAMES, layout=layout))
        first, sizes = self.work(table, 0), []
        for number in range(1, 4):
            newest, before = self.work(table, number), len(self.instants())
            freed = expire(table, [newest], datetime.now(UTC))
            sizes.append(len(self.instants()))
            assert freed.files > 0
            assert sizes[-1] < before
            assert table.rows() == bag((1, 1, str(number)), (2, 1, "x"))
        assert max(sizes) <= 15  # three a commit that stays, and a cleaning
        assert len(self.data()) <= 4  # files of archived commits go as others do
        for store in (table.store, self.reopen()):
            store.ensure(table.spec)
            self.check_archived(store, first, newest)
        theirs = self.another(table)
        theirs.commit(merge=[(1, 1, "later")])
        assert theirs.rows() == bag((1, 1, "later"), (2, 1, "x"))

    def check_archived(self, store: HudiStore, gone: Version, newest: Version) -> None:
        found = [commit.version for commit in store.versions(NAMES.name)]
        assert newest in found
        assert gone not in found
        for reading in (store.read, partial(store.changes, until=newest)):
            with pytest.raises(VersionExpired):
                reading(NAMES.name, gone)
        with pytest.raises(VersionExpired):
            store.pin(Lease("late", NAMES.name, gone, "me", datetime.now(UTC) + timedelta(hours=1)))
        assert not store.leases(NAMES.name)
        with pytest.raises(VersionNotFound):
            store.version(NAMES.name, Version("20200101000000000"))

    @both_types
    def test_what_is_leased_keeps_its_instant_and_all_later_ones(self, layout: Layout) -> None:
        table, made = self.changed_daily(layout, 6)
        now = datetime.now(UTC)
        lease = pin(table, made[1], now + timedelta(hours=1))
        there = set(self.instants())
        newest = self.work(table, 1)
        expire(table, [newest], now + timedelta(minutes=1))
        assert there.issubset(self.instants())
        assert table.rows_at(made[1]) == bag((1, 1, "1"))
        table.store.unpin(NAMES.name, lease.id)
        expire(table, [newest], now + timedelta(minutes=1))
        assert not there.issubset(self.instants())
        assert table.rows() == bag((1, 1, "1"), (2, 1, "x"))

    def test_a_few_instants_and_young_ones_stay(self) -> None:
        table, made = self.changed_daily(Layout.LOG, 3)
        there = set(self.instants())
        expire(table, made[-1:], datetime.now(UTC))
        table.commit(merge=[(1, 1, "3")])
        newest = table.commit(merge=[(1, 1, "4")])
        expire(table, [newest], datetime.now(UTC) - timedelta(hours=1))
        assert there.issubset(self.instants())

    def test_the_newest_mark_stays(self) -> None:
        table, _ = self.changed_daily(Layout.LOG, 6)
        table.compact()
        newest = table.newest or ""
        expire(table, [newest], datetime.now(UTC))
        table.commit(merge=[(1, 1, "6")])
        assert table.rows() == bag((1, 1, "6"))

    def test_publications_end_where_the_archive_begins(self) -> None:
        table, spec = self.table(self.reopen(), NAMES), NAMES
        ledger = LedgerWriter(
            table.store, "pipeline", [spec.name], SystemClock(), lambda _built: None, "settings", "writer"
        )
        ledger.open()
        for number in range(7):
            ledger.begin(OffsetRange(ledger.latest and ledger.latest.offsets, {"at": number}))
            published = ledger.publish(Change(merge=self.frame([(1, 1, str(number))], spec.schema)), None)
        assert len(ledger.known()) == 7
        expire(table, [Version(published.tables[spec.name])], datetime.now(UTC))
        for store in (table.store, self.another(table).store):  # the first has read all instants
            following = evolve(ledger, store=store)
            following.open()
            assert following.latest == published
            found = following.known()
            assert found[0] == published
            assert 0 < len(found) < 7


class TestRaces(Lake):
    @both_types
    def test_a_commit_and_a_compaction_made_meanwhile_are_not_disturbed(
        self, layout: Layout, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table, made = self.changed_daily(layout, 3)
        theirs = self.another(table)

        def work() -> None:
            theirs.commit(merge=[(1, 1, "3"), (2, 1, "new")])
            theirs.compact()

        before_listing(monkeypatch, work)
        assert expire(table, made[-1:]).versions
        assert table.rows_at(made[-1]) == bag((1, 1, "2"))
        assert theirs.rows() == bag((1, 1, "3"), (2, 1, "new"))
        theirs.commit(overwrite=[(1, 1, "4")])
        assert theirs.rows() == bag((1, 1, "4"))

    @both_types
    def test_expiries_and_commits_side_by_side(self, layout: Layout) -> None:
        table, made = self.changed_daily(layout, 2)
        theirs, now = self.another(table), datetime.now(UTC)

        def commit_all() -> None:
            for number in range(2, 6):
                made.append(theirs.commit(merge=[(1, 1, str(number))]))

        with ThreadPoolExecutor(1) as threads:
            writing = threads.submit(commit_all)
            while not writing.done():
                newest = made[-1]
                expire(table, [newest], now)
                assert table.rows_at(newest).total() == 1
            writing.result()
        assert theirs.rows() == bag((1, 1, "5"))

    @both_types
    def test_a_version_that_expires_before_its_files_are_listed(
        self, layout: Layout, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its remaining files, or those of another version, are not taken for it. It is the newest one at first."""
        table, _ = self.changed_daily(layout, 1)
        theirs, name, whole = self.another(table), table.spec.name, Table.whole
        for read in (
            lambda version: table.store.read(name, version),
            lambda version: table.store.read(name, version, Matching(within={"day": (1,)})),
            lambda version: table.store.changes(name, None, version),
        ):
            read_version = theirs.commit(merge=[(1, 1, "read")])
            with monkeypatch.context() as patched:

                def expire_first(used: Table, version: str | None, patched: pytest.MonkeyPatch = patched) -> Any:
                    found = whole(used, version)
                    if version is not None:
                        patched.undo()
                        expire(theirs, [theirs.commit(merge=[(1, 1, "newer")])])
                    return found

                patched.setattr(Table, "whole", expire_first)
                with pytest.raises(VersionExpired, match=read_version):
                    read(read_version)
        assert theirs.rows() == bag((1, 1, "newer"))

    @both_types
    def test_an_expiry_that_died_is_finished_by_the_next(self, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
        table, made = self.changed_daily(layout, 3)
        newest = table.commit(overwrite=[(1, 1, "3")])
        before = self.data()
        with monkeypatch.context() as dying:
            dying.setattr(expiring, "delete_files", _die)
            with pytest.raises(KeyboardInterrupt):
                expire(table, [newest])
        assert self.data() == before
        with pytest.raises(VersionExpired):
            table.rows_at(made[0])
        freed = expire(table, [made[0], newest])  # what is on record goes, though it is to be kept now
        assert freed.versions == ()
        assert freed.files == len(before - self.data()) > 0
        assert table.rows() == bag((1, 1, "3"))

    def test_after_an_expiry_that_died_a_lease_that_has_ended_holds_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table, made = self.changed_daily(Layout.MERGED, 3)
        lease = pin(table, made[0])
        assert table.rows_at(made[0]) == bag((1, 1, "0"))
        monkeypatch.setattr(Archiver, "archive", _die)
        before = self.data()
        with pytest.raises(KeyboardInterrupt):
            expire(table, made[-1:], lease.until)
        assert self.data() < before
        with pytest.raises(VersionExpired):
            table.rows_at(made[0])


def _die(*_: Any) -> None:
    raise KeyboardInterrupt
