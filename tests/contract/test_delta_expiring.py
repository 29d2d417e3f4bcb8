"""Expiry on Delta beyond the contract: races, crashes, orphans, the log, and Delta's own readers."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import narwhals as nw
import pytest
from attrs import evolve

from headwater.adapters.delta import followed_log
from headwater.adapters.delta.compaction_policy import CompactionPolicy
from headwater.adapters.delta.expire import SweepPolicy
from headwater.adapters.delta.local.folder import LocalFolder
from headwater.adapters.delta.local.log import LocalLog
from headwater.adapters.delta.local.store import LocalDeltaStore
from headwater.app.cli.main import main
from headwater.domain.errors import BadInput, StoreUnavailable, VersionExpired
from headwater.domain.table.lease import Lease
from headwater.domain.table.spec import Layout
from headwater.testing.frames import PolarsFrames, SparkFrames
from headwater.testing.store_harness import StoreHarness, bag, both_layouts, spec_of
from headwater.testing.store_keeping import HOUR, expire, pin
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from headwater.domain.ports import KeptStore, Version
    from headwater.domain.table.schema import Schema
    from headwater.testing.store_harness import Row, TableDriver

pytestmark = pytest.mark.contract
on_spark = pytest.mark.delta

NAMES = spec_of("id bigint, name string", ["id"], layout=Layout.MERGED)


class Lake(StoreHarness):
    """One table as two processes have it."""

    @pytest.fixture(autouse=True)
    def _odd_root(self, tmp_path: Path) -> None:
        """A folder whose name means what it says."""
        self.root = tmp_path / "a [lake] {with} 100%20, ü"

    @abstractmethod
    def opened(self, **policies: Any) -> KeptStore:
        """A store with policies of its own."""

    @abstractmethod
    def checkpoint(self) -> None:
        """Write a checkpoint of the table."""

    @abstractmethod
    def name_at(self, version: Version) -> str:
        """What Delta's own reader finds."""

    @property
    @abstractmethod
    def swept(self) -> type[Any]:
        """The class that deletes files."""

    def reopen(self) -> KeptStore:
        return self.opened()

    def another(self) -> KeptStore:
        """A store as another process has it."""
        store = self.reopen()
        store.ensure(NAMES)
        return store

    @property
    def folder(self) -> Path:
        return self.root / "pipeline" / "items"

    def data(self) -> set[str]:
        return {file.name for file in self.folder.glob("*.parquet")}

    def log(self) -> list[str]:
        return sorted(file.name for file in (self.folder / "_delta_log").glob("0*"))

    def overwritten(self, times: int, store: KeptStore | None = None) -> tuple[TableDriver, list[Version]]:
        """A table that was overwritten so many times, and the versions made: they hold 0, 1, 2 …"""
        table = self.table(store or self.reopen(), NAMES)
        return table, [table.commit(overwrite=[(1, str(number))]) for number in range(times)]


class SparkLake(SparkFrames, Lake):
    def opened(self, **policies: Any) -> KeptStore:
        from headwater.adapters.delta.store import DeltaStore

        return DeltaStore(self.spark, str(self.root), **policies)

    def frame(self, rows: Sequence[Row], schema: Schema) -> nw.LazyFrame[Any]:
        """All rows in one task, so that a commit writes one file, and none that is empty."""
        return nw.from_native(super().frame(rows, schema).to_native().coalesce(1))

    def another(self) -> KeptStore:
        self._deltas.clearCache()  # Delta shares nothing between two processes
        return super().another()

    def checkpoint(self) -> None:
        self._deltas.clearCache()  # else it knows no newer version than it met last
        self._deltas.forTable(self.spark._jsparkSession, str(self.folder)).checkpoint()

    def name_at(self, version: Version) -> str:
        reader = self.spark.read.format("delta").option("versionAsOf", version)
        return str(reader.load(str(self.folder)).first()["name"])

    @property
    def swept(self) -> type[Any]:
        from headwater.adapters.delta.folder import TableFolder

        return TableFolder

    @property
    def _deltas(self) -> Any:
        return self.spark._jvm.org.apache.spark.sql.delta.DeltaLog


class LocalLake(PolarsFrames, Lake):
    swept = LocalFolder

    def opened(self, **policies: Any) -> KeptStore:
        return LocalDeltaStore(str(self.root), **policies)

    def checkpoint(self) -> None:
        pytest.importorskip("deltalake", reason="writes checkpoints, and comes with headwater[delta]")
        log = LocalLog(str(self.folder))
        log.newest()
        log.checkpoint()

    def name_at(self, version: Version) -> str:
        from deltalake import DeltaTable

        found = DeltaTable(str(self.folder), version=int(version)).to_pyarrow_table()
        return str(found["name"][0].as_py())


def before_recording(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None], *, after: bool = False) -> None:
    """Let something happen just before (or after) an expiry puts on record what goes."""
    from headwater.adapters.shared.leases import LeaseFiles

    record = LeaseFiles._record

    def recording(holds: LeaseFiles, versions: Collection[str], told: set[str]) -> set[str]:
        monkeypatch.setattr(LeaseFiles, "_record", record)
        if not after:
            act()
        recorded = record(holds, versions, told)
        if after:
            act()
        return recorded

    monkeypatch.setattr(LeaseFiles, "_record", recording)


class Races(Lake):
    def test_who_pins_before_it_is_on_record_is_spared(self, monkeypatch: pytest.MonkeyPatch) -> None:
        table, (first, second, third) = self.overwritten(3)
        reader = self.another()
        lease = Lease("late", NAMES.name, first, "reader", datetime(2999, 1, 1, tzinfo=UTC))
        before_recording(monkeypatch, lambda: reader.pin(lease))
        gone = expire(table, [third])
        assert first not in gone.versions
        assert second in gone.versions
        assert table.rows_at(first) == bag((1, "0"))
        assert first not in reader.expired(NAMES.name)
        with pytest.raises(VersionExpired):  # it goes with that lease, and no other can be had
            pin(table, first, name="later still")
        reader.unpin(NAMES.name, "late")
        with pytest.raises(VersionExpired):
            table.rows_at(first)
        assert expire(table, [third]).files > 0

    def test_who_pins_when_it_is_on_record_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        table, (first, _, third) = self.overwritten(3)
        reader, told = self.another(), []

        def try_to_pin() -> None:
            with pytest.raises(VersionExpired) as caught:
                reader.pin(Lease("late", NAMES.name, first, "reader", datetime(2999, 1, 1, tzinfo=UTC)))
            told.append(str(caught.value))

        before_recording(monkeypatch, try_to_pin, after=True)
        assert first in expire(table, [third]).versions
        assert len(told) == 1
        assert "has expired; read a newer one, pin what you read" in told[0]
        assert list(reader.leases(NAMES.name)) == []

    def test_two_expiries_at_once_lose_no_record(self, monkeypatch: pytest.MonkeyPatch) -> None:
        table, (first, second, third) = self.overwritten(3)
        other = self.another()
        now = datetime(2024, 1, 1, tzinfo=UTC)
        before_recording(
            monkeypatch, lambda: other.expire(NAMES.name, [second, third], now=now, dry_run=False) and None
        )
        expire(table, [first, third])
        assert {first, second}.issubset(self.another().expired(NAMES.name))
        assert table.rows_at(third) == bag((1, "2"))

    def test_a_commit_made_meanwhile_is_not_disturbed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        table, (*_, third) = self.overwritten(3)
        other = self.another()
        writer = self.table(other, NAMES)
        writer.sequence = 3
        before_recording(monkeypatch, lambda: writer.commit(overwrite=[(1, "3")]) and None, after=True)
        expire(table, [third])
        assert writer.rows() == bag((1, "3"))
        assert table.rows_at(third) == bag((1, "2"))
        writer.commit(merge=[(2, "4")])
        assert writer.rows() == bag((1, "3"), (2, "4"))


class Crashes(Lake):
    def test_an_expiry_that_died_is_finished_by_the_next(self, monkeypatch: pytest.MonkeyPatch) -> None:
        table, (first, _, third) = self.overwritten(3)
        with monkeypatch.context() as dying:
            dying.setattr(self.swept, "delete", lambda _folder, _files: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                expire(table, [third])
        assert len(self.data()) == 3
        with pytest.raises(VersionExpired):
            table.rows_at(first)
        freed = expire(table, [first, third])  # what is on record goes, though it is to be kept now
        assert (freed.versions, freed.files) == ((), 2)
        assert len(self.data()) == 1
        assert table.rows() == bag((1, "2"))

    def test_orphans_of_crashed_writers_go_when_they_are_old(self) -> None:
        table, (only,) = self.overwritten(1)
        old, new = self.folder / "part-0-old.parquet", self.folder / "part-0-new.parquet"
        for file in (old, new):
            file.write_bytes(b"unfinished")
        now = datetime.now(UTC)
        long_ago = (now - timedelta(days=8)).timestamp()
        os.utime(old, (long_ago, long_ago))
        freed = expire(table, [only], now)
        assert (freed.files, freed.size) == (1, 10)
        assert not old.exists()
        assert new.exists()
        assert table.rows() == bag((1, "0"))

    def test_a_clock_that_is_ahead_makes_no_file_old(self) -> None:
        """The file of a commit under way is the newest one, whatever the clock says."""
        table, (*_, last) = self.overwritten(2)
        (self.folder / "part-0-written.parquet").write_bytes(b"unfinished")
        freed = expire(table, [last], datetime.now(UTC) + timedelta(days=8))
        assert freed.files == 1
        assert (self.folder / "part-0-written.parquet").exists()

    def test_nothing_is_deleted_where_files_are_missing(self) -> None:
        table, (*_, third) = self.overwritten(3)
        before, commit = self.data(), self.folder / "_delta_log" / f"{int(third):020}.json"
        (newest,) = (action["add"] for action in map(json.loads, commit.read_text().splitlines()) if "add" in action)
        (self.folder / newest["path"]).rename(self.root / "elsewhere")
        with pytest.raises(StoreUnavailable, match="1 files of its newest version 2 are not found"):
            expire(table, [third])
        assert self.data() == before.difference([newest["path"]])

    def test_a_damaged_note_is_told(self) -> None:
        table, (first, _, third) = self.overwritten(3)
        expire(table, [third])
        pin(table, third)
        (lease,) = (self.folder / ".headwater" / "leases").glob("*.json")
        for torn in ('{"id": "lea', "{}"):
            lease.write_text(torn)
            lease.with_name(f".{lease.name}.crc").unlink(missing_ok=True)
            with pytest.raises(BadInput, match=r"leases/lease-1\.json is damaged"):
                table.rows_at(first)
        assert table.rows() == bag((1, "2"))


class Log(Lake):
    def test_the_log_ends_at_the_checkpoint_of_the_oldest_kept_version(self) -> None:
        table, made = self.overwritten(4, self.opened(sweep=SweepPolicy(log_age=timedelta())))
        idle = self.another()
        assert idle.version(NAMES.name, made[3]).mark is not None
        self.checkpoint()
        made += [table.commit(overwrite=[(1, str(number))]) for number in (4, 5)]
        self.checkpoint()
        expire(table, made[4:], datetime.now(UTC))
        assert [int(name.split(".")[0]) for name in self.log()] == [3, 3, 4, 5, 5]
        reader = self.another()
        assert [commit.version for commit in reader.versions(NAMES.name)] == [*reversed(made[3:])]
        with pytest.raises(VersionExpired):
            reader.version(NAMES.name, made[0])
        for store in (table.store, reader):
            for gone in (made[0], made[3]):
                with pytest.raises(VersionExpired):
                    store.read(NAMES.name, gone)
                with pytest.raises(VersionExpired):
                    store.pin(Lease("late", NAMES.name, gone, "reader", datetime(2999, 1, 1, tzinfo=UTC)))
        assert list(reader.leases(NAMES.name)) == []
        assert (self.name_at(made[4]), self.name_at(made[5])) == ("4", "5")
        writer = self.table(idle, NAMES)  # a process that had last looked when the log was whole
        writer.sequence = 6
        writer.commit(merge=[(2, "6")])
        assert writer.rows() == bag((1, "5"), (2, "6"))

    def test_young_commits_stay(self) -> None:
        table, made = self.overwritten(3)
        self.checkpoint()
        expire(table, made[2:], datetime.now(UTC))
        assert len(self.log()) == 4
        expire(table, made[2:], datetime.now(UTC) + HOUR)
        assert [int(name.split(".")[0]) for name in self.log()] == [2, 2]
        assert table.rows() == bag((1, "2"))

    def test_what_came_and_went_between_two_kept_versions_goes(self) -> None:
        eager = CompactionPolicy(min_files=2, min_share=0)
        table = self.table(self.opened(compaction=eager), spec_of("id bigint, name string", ["id"]))
        table.commit(append=[(1, "a")])
        first = table.commit(append=[(2, "b")])
        table.commit(append=[(3, "goes")])
        table.commit(overwrite=[(4, "d")])
        table.commit(append=[(5, "e")])
        table.compact()
        last = table.commit(append=[(6, "f")])
        pin(table, first)
        assert expire(table, [last]).files == 3
        assert len(self.data()) == 4
        assert table.rows_at(first) == bag((1, "a"), (2, "b"))
        assert table.rows() == bag((4, "d"), (5, "e"), (6, "f"))

    def test_of_a_partition_whose_rows_have_been_deleted_no_file_stays(self) -> None:
        by_day = spec_of("id bigint, day bigint, name string", ["id", "day"], partition_by=("day",))
        table = self.table(self.opened(sweep=SweepPolicy(timedelta(), timedelta())), by_day)
        table.commit(append=[(1, 1, "a"), (2, 1, "b"), (1, 2, "c")])
        table.commit(delete=[(1, 1)])
        table.compact()
        assert table.rows() == bag((2, 1, "b"), (1, 2, "c"))
        table.commit(delete=[(2, 1)])
        table.compact()
        expire(table, [table.newest], datetime.now(UTC))
        assert table.rows() == bag((1, 2, "c"))
        assert [file.parent.name for file in self.folder.glob("day=*/*.parquet")] == ["day=2"]

    def test_small_files_do_not_add_up(self) -> None:
        """Of 12 epochs with upkeep after every third, no more is left than of the last few."""
        eager = CompactionPolicy(min_files=2, min_share=0)
        store = self.opened(compaction=eager, sweep=SweepPolicy(timedelta(), timedelta()))
        table = self.table(store, spec_of("id bigint, name string", ["id"]))
        counts = []
        for number in range(12):
            table.commit(append=[(number, "new")], merge=[(number // 2, "again")] if number else None)
            if number % 3 == 2:
                table.compact()
                self.checkpoint()
                expire(table, [table.newest], datetime.now(UTC))
                counts.append((len(self.data()), len(self.log())))
        assert len(set(counts[1:])) == 1
        # The last three commits and their compaction, between two checkpoints: the newest mark is told of by the first.
        assert counts[-1] == (1, 7)
        assert sum(table.rows().values()) == 12


class Changes(Lake):
    @both_layouts
    def test_they_are_found_though_files_of_in_between_have_gone(self, layout: Layout) -> None:
        store = self.opened(compaction=CompactionPolicy(min_files=2, min_share=0))
        table = self.table(store, evolve(NAMES, layout=layout))
        held = table.commit(append=[(1, "a"), (2, "b"), (3, "c")])
        pin(table, held)
        table.commit(merge=[(1, "z")], append=[(4, "passing"), (5, "d")])
        table.commit(delete=[(2,), (4,)])
        table.compact()
        newest = table.commit(append=[(6, "e")])
        assert expire(table, [newest]).files > 0
        changed = bag((1, "a", "-U"), (1, "z", "+U"), (2, "b", "-D"), (5, "d", "+I"), (6, "e", "+I"))
        assert table.changes(held, newest) == changed
        assert table.changed_keys(held, newest) >= {(1,), (2,), (5,), (6,)}


@on_spark
class TestRaces(SparkLake, Races):
    pass


class TestLocalRaces(LocalLake, Races):
    pass


@on_spark
class TestCrashes(SparkLake, Crashes):
    pass


class TestLocalCrashes(LocalLake, Crashes):
    pass


@on_spark
class TestLog(SparkLake, Log):
    pass


@on_spark
class TestChanges(SparkLake, Changes):
    pass


class TestLocalChanges(LocalLake, Changes):
    pass


class TestLocalLog(LocalLake, Log):
    @pytest.fixture(autouse=True)
    def _odd_root(self, tmp_path: Path) -> None:
        """As odd as delta-rs bears, which writes the checkpoints."""
        self.root = tmp_path / "a [lake] {with} 100%, ü"

    def test_commits_that_an_expiry_has_read_are_not_read_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """However many there are: here five times as many as are kept whole."""
        monkeypatch.setattr(followed_log, "_MOST_COMMITS", 4)
        table, _ = self.overwritten(20)
        with patch.object(LocalLog, "read_commit", autospec=True, side_effect=LocalLog.read_commit) as read:
            for number in range(20, 23):
                versions = [commit.version for commit in table.store.versions(NAMES.name)]
                assert expire(table, versions[:15], datetime.now(UTC)).versions
                table.commit(overwrite=[(1, str(number))])
        assert sorted(call.args[1] for call in read.call_args_list) == list(range(16))

    def test_a_path_that_looks_encoded_gets_no_checkpoint_of_another_table(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        pytest.importorskip("deltalake", reason="writes checkpoints, and comes with headwater[delta]")
        plain, encoded = (LocalDeltaStore(str(tmp_path / name)) for name in ("a b", "a%20b"))
        for store, name in ((plain, "plain"), (encoded, "encoded")):
            table = self.table(store, NAMES)
            for number in range(51):
                table.commit(append=[(number, name)])
        assert list(tmp_path.glob("a b/pipeline/items/_delta_log/*.checkpoint.parquet"))
        assert not list(tmp_path.glob("a%20b/pipeline/items/_delta_log/*.checkpoint.parquet"))
        assert "no checkpoint of version 50: the package deltalake takes a percent sign" in caplog.text
        again = LocalDeltaStore(encoded.root)
        again.ensure(NAMES)
        assert {row[1] for row in self.rows(again.read(NAMES.name, next(again.versions(NAMES.name)).version))} == {
            "encoded"
        }


class TestCommands:
    @pytest.mark.parametrize("engine", [pytest.param("spark", marks=on_spark), "local"])
    def test_upkeep_from_the_command_line(
        self,
        request: pytest.FixtureRequest,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        engine: str,
    ) -> None:
        if engine == "spark":
            request.getfixturevalue("spark")
        monkeypatch.setenv("HEADWATER_BACKEND__ENGINE", engine)
        (tmp_path / "in").mkdir()
        for number in range(3):
            record = {"project": 1, "contract": number, "signed": f"2024-03-0{number + 1}T09:00:00Z"}
            (tmp_path / "in" / f"{number}.json").write_text(json.dumps(record) + "\n")
        config = tmp_path / "deploy.toml"
        config.write_text(CONFIG)

        def told(command: str, *arguments: str) -> list[dict[str, Any]]:
            assert main([command, str(config), *arguments, "--format", "jsonl"]) == 0
            return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

        told("run", "--until-idle")
        (pin,) = told("pin", "ranked", "--at", "0", "--for", "2h", "--holder", "nightly")
        assert (pin["pipeline"], pin["epoch"], pin["holder"]) == ("ranked", 0, "nightly")
        would_go = told("expire")
        assert would_go == told("expire", "--apply")
        assert [each["versions"] for each in would_go] == [0, 1, 1]
        assert [(each["epoch"], each["readable"], each["leases"]) for each in told("versions", "ranked")] == [
            (2, True, ""),
            (1, False, ""),
            (0, True, pin["lease"]),
        ]
        states = {(each["table"], each["version"]): each["state"] for each in told("explain-retention", "ranked")}
        assert [states["ranked.cells", str(version)] for version in range(3)] == ["kept", "expired", "kept"]
        assert len(told("show", "ranked", "--at", "0")) == 1
        assert main(["show", str(config), "ranked", "--at", "1"]) == 1
        assert "has expired" in capsys.readouterr().err
        assert main(["unpin", str(config), pin["lease"]]) == 0
        assert [each["versions"] for each in told("expire", "--apply")] == [0, 1, 1]
        assert [each["table"] for each in told("compact")] == ["ranked.dead_letters", "ranked.ranked", "ranked.cells"]
        assert len(told("show", "ranked")) == 3


CONFIG = ranked_contracts(backend='name = "delta"\npath = "lake"\nengine = "spark"\nretain = { versions = 1 }\n')
