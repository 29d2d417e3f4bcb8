"""The upkeep of a pipeline over real tables in memory: pins, expiry, and how a run handles faults of upkeep."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater import Headwater
from headwater.adapters.memory.store import MemoryStore
from headwater.app.cli.main import main
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.errors import (
    ConfigError,
    EngineLimit,
    HeadwaterError,
    LeaseNotFound,
    StoreUnavailable,
    VersionExpired,
    VersionNotFound,
)
from headwater.domain.ledger.retention import Retention
from headwater.domain.ledger.upkeep import Upkeep
from headwater.domain.ledger.writer import LedgerWriter
from headwater.domain.ports import Expiry
from headwater.domain.table.change import Change
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import TableSpec
from headwater.testing.clock import ManualClock
from headwater.testing.frames import polars_frame
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from collections.abc import Collection

    from headwater.domain.ports import Commit, Version
    from headwater.domain.table.lease import Lease

ROWS, ANCHOR = "p.rows", "p.anchor"
SCHEMA = Schema.parse("id bigint")
HOUR = timedelta(hours=1)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def opened(store: MemoryStore, clock: ManualClock | None = None) -> LedgerWriter:
    for table in (ROWS, ANCHOR):
        store.ensure(TableSpec(table, SCHEMA, ("id",)))
    ledger = LedgerWriter(store, "p", (ROWS, ANCHOR), clock or ManualClock(), lambda _built: None, "settings", "writer")
    ledger.open()
    return ledger


def publish(ledger: LedgerWriter, count: int = 1, *, rows: bool = True) -> None:
    """So many epochs, of one row each in both tables; in the anchor alone, if not `rows`."""
    for _ in range(count):
        number = ledger.next_epoch.number
        change = Change(overwrite=polars_frame([(number,)], SCHEMA))
        ledger.begin(OffsetRange({"at": number - 1} if number else None, {"at": number}))
        if rows:
            ledger.commit(ROWS, change)
        ledger.publish(change, None)


def readable(ledger: LedgerWriter) -> list[int]:
    """The epochs all of whose tables can be read, and are as they were."""
    found = []
    for publication in ledger.known():
        snapshot, number = ledger.snapshot(publication), publication.epoch.number
        try:
            rows = [snapshot.read(table).collect(backend="polars")["id"].to_list() for table in (ROWS, ANCHOR)]
        except VersionExpired:
            continue
        assert rows[-1] == [number]
        found.append(number)
    return found


class Forgetful(MemoryStore):
    """Tables that do not even tell of the commits of versions that are gone, as others do when their log is cut."""

    def version(self, table: str, version: Version) -> Commit:
        if version in self.expired(table):
            raise VersionExpired(f"version {version} of {table} is told of no more")
        return super().version(table, version)


class ReadOnly(MemoryStore):
    """Tables of whose leases nothing can be written."""

    def pin(self, lease: Lease) -> None:
        raise StoreUnavailable(f"cannot write lease {lease.id}")

    def unpin(self, table: str, lease_id: str) -> None:
        raise StoreUnavailable(f"cannot delete lease {lease_id} of {table}")


class WithFaults(MemoryStore):
    """A store whose upkeep of each table fails in its own way; what it has tried stands in `tried`."""

    def __init__(self, faults: dict[str, HeadwaterError]) -> None:
        super().__init__()
        self.faults, self.tried = faults, list[str]()

    def compact(self, table: str) -> Version | None:
        self.tried.append(table)
        if table in self.faults:
            raise self.faults[table]
        return super().compact(table)

    def expire(self, table: str, keep: Collection[Version], *, now: datetime, dry_run: bool) -> Expiry:
        self.compact(table)
        return super().expire(table, keep, now=now, dry_run=dry_run)


class TestUpkeep:
    def test_a_table_that_fails_keeps_no_other_from_its_upkeep(self) -> None:
        store = WithFaults({ROWS: StoreUnavailable("damaged")})
        publish(ledger := opened(store), 3)
        upkeep = Upkeep(ledger, store, Retention(versions=1))
        with pytest.raises(StoreUnavailable, match="damaged"):
            upkeep.compact()
        assert store.tried == [ROWS, ANCHOR]
        with pytest.raises(StoreUnavailable, match="damaged"):
            upkeep.expire(dry_run=False)
        assert len(store.expired(ANCHOR)) == 2

    def test_of_two_faults_the_limit_of_an_engine_is_told(self) -> None:
        """Another engine may do the work then."""
        store = WithFaults({ROWS: StoreUnavailable("damaged"), ANCHOR: EngineLimit("too large")})
        publish(ledger := opened(store))
        with pytest.raises(EngineLimit):
            Upkeep(ledger, store, Retention(versions=1)).compact()

    def test_what_the_retention_lets_go_goes(self, store: MemoryStore) -> None:
        ledger = opened(store)
        publish(ledger, 5)
        upkeep = Upkeep(ledger, store, Retention(2))
        told = upkeep.expire(dry_run=True)
        assert readable(ledger) == [4, 3, 2, 1, 0]
        assert [(each.table, each.versions) for each in told] == [(ROWS, ("0", "1", "2")), (ANCHOR, ("0", "1", "2"))]
        assert upkeep.expire(dry_run=False) == told
        assert readable(opened(store)) == [4, 3]
        publish(ledger)
        assert readable(opened(store)) == [5, 4, 3]

    def test_a_table_that_rests_stays_at_its_version(self, store: MemoryStore) -> None:
        ledger = opened(store)
        publish(ledger)
        publish(ledger, 3, rows=False)
        Upkeep(ledger, store, Retention(1)).expire(dry_run=False)
        assert readable(ledger) == [3]
        assert ledger.snapshot().read(ROWS).collect(backend="polars")["id"].to_list() == [0]

    def test_a_pin_holds_all_tables_of_a_publication(self, store: MemoryStore) -> None:
        ledger = opened(store)
        publish(ledger, 3)
        upkeep = Upkeep(ledger, store, Retention(1))
        pin = upkeep.pin(ledger.as_of_epoch(1), "reader", HOUR)
        assert (pin.epoch, [lease.table for lease in pin.leases]) == (1, [ANCHOR, ROWS])
        upkeep.expire(dry_run=False)
        assert readable(ledger) == [2, 1]
        pin.release()
        pin.release()
        upkeep.expire(dry_run=False)
        assert readable(ledger) == [2]

    def test_a_pin_may_manage_a_block(self, store: MemoryStore) -> None:
        ledger = opened(store)
        publish(ledger, 2)
        upkeep = Upkeep(ledger, store, Retention(1))
        with upkeep.pin(ledger.as_of_epoch(0), "reader", HOUR) as pin:
            assert {lease.id for lease in upkeep.leases()} == {pin.lease}
            upkeep.expire(dry_run=False)
            assert readable(ledger) == [1, 0]
        assert upkeep.leases() == []

    @pytest.mark.parametrize("end", ["release", "unpin", "time"])
    def test_a_block_of_a_pin_that_keeps_nothing_is_refused(self, store: MemoryStore, end: str) -> None:
        clock = ManualClock()
        ledger = opened(store, clock)
        publish(ledger)
        upkeep = Upkeep(ledger, store, Retention(1))
        pin = upkeep.pin(ledger.as_of_epoch(0), "reader", HOUR)
        ends = {"release": pin.release, "unpin": lambda: upkeep.unpin(pin.lease), "time": lambda: clock.sleep(HOUR)}
        ends[end]()
        with pytest.raises(LeaseNotFound, match=f"lease '{pin.lease}' has ended or been released.*pin"), pin:
            pass

    def test_a_pin_ends_with_its_time(self, store: MemoryStore) -> None:
        clock = ManualClock()
        ledger = opened(store, clock)
        publish(ledger, 2)
        upkeep = Upkeep(ledger, store, Retention(1))
        upkeep.pin(ledger.as_of_epoch(0), "reader", HOUR)
        clock.sleep(HOUR)
        upkeep.expire(dry_run=False)
        assert readable(ledger) == [1]
        assert upkeep.leases() == []

    def test_of_what_is_half_gone_nothing_is_held(self, store: MemoryStore) -> None:
        ledger = opened(store)
        publish(ledger, 3)
        store.expire(ROWS, ["2"], now=ledger.clock.now(), dry_run=False)
        upkeep = Upkeep(ledger, store, Retention(1))
        with pytest.raises(VersionExpired):
            upkeep.pin(ledger.as_of_epoch(1), "reader", HOUR)
        assert upkeep.leases() == []

    def test_a_lease_that_cannot_be_written_is_what_a_pin_tells(self) -> None:
        store = ReadOnly()
        ledger = opened(store)
        publish(ledger)
        with pytest.raises(StoreUnavailable, match="cannot write lease p-"):
            Upkeep(ledger, store, Retention(1)).pin(ledger.as_of_epoch(0), "reader", HOUR)

    def test_publications_tell_who_holds_them(self, store: MemoryStore) -> None:
        ledger = opened(store)
        publish(ledger, 2)
        publish(ledger, rows=False)
        upkeep = Upkeep(ledger, store, Retention(1))
        pin = upkeep.pin(ledger.as_of_epoch(1), "reader", HOUR)
        upkeep.expire(dry_run=False)
        told = [(each.publication.epoch.number, each.readable, each.leases) for each in upkeep.versions()]
        assert told == [(2, True, ()), (1, True, (pin.lease,)), (0, False, ())]

    def test_a_lease_is_taken_back_by_its_name(self, store: MemoryStore) -> None:
        ledger = opened(store)
        publish(ledger)
        upkeep = Upkeep(ledger, store, Retention())
        upkeep.unpin(upkeep.pin(ledger.as_of_epoch(0), "reader", HOUR).lease)
        assert upkeep.leases() == []
        with pytest.raises(LeaseNotFound, match="no lease 'p-1'"):
            upkeep.unpin("p-1")

    def test_the_leases_of_a_holder_are_released_except_those_on_what_it_reads(self, store: MemoryStore) -> None:
        ledger = opened(store)
        publish(ledger, 3)
        upkeep = Upkeep(ledger, store, Retention())
        for holder in ("reader", "other"):
            for epoch in range(3):
                upkeep.pin(ledger.as_of_epoch(epoch), holder, HOUR)
        upkeep.release("reader", [ledger.as_of_epoch(1)])
        held = {(lease.holder, lease.version) for lease in upkeep.leases() if lease.table == ANCHOR}
        assert sorted(held) == [("other", "0"), ("other", "1"), ("other", "2"), ("reader", "1")]

    @pytest.mark.parametrize("kind", [MemoryStore, Forgetful])
    def test_a_run_finds_its_place_though_what_was_once_rolled_back_to_is_gone(self, kind: type[MemoryStore]) -> None:
        store = kind()
        publish(opened(store))
        crashed = opened(store)
        crashed.begin(OffsetRange({"at": 0}, {"at": 1}))
        crashed.commit(ROWS, Change(overwrite=polars_frame([(77,)], SCHEMA)))
        ledger = opened(store)
        ledger.begin(OffsetRange({"at": 0}, {"at": 9}))  # other work: what the crashed run did is taken back
        ledger.publish(Change(overwrite=polars_frame([(1,)], SCHEMA)), None)
        publish(ledger, 3, rows=False)
        Upkeep(ledger, store, Retention(1)).expire(dry_run=False)
        again = opened(store)
        assert readable(again) == [4]
        publish(again)
        assert again.snapshot().read(ROWS).collect(backend="polars")["id"].to_list() == [5]


class FailingKeeper(MemoryStore):
    """Tables whose upkeep fails."""

    def compact(self, table: str) -> Version | None:
        raise StoreUnavailable(f"{table} cannot be compacted now")

    def expired(self, table: str) -> Collection[Version]:
        raise StoreUnavailable(f"{table} cannot be looked at now")


CONFIG = ranked_contracts(backend='name = "memory"\ncompact_every = 1\nexpire_every = 2\nretain = { versions = 1 }\n')


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    for number in range(4):
        record = {"project": 1, "contract": number, "signed": f"2024-03-0{number + 1}T09:00:00Z"}
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps(record) + "\n")
    (tmp_path / "deploy.toml").write_text(CONFIG)
    return str(tmp_path / "deploy.toml")


@pytest.fixture
def kept(config: str, parquet_backend: None) -> str:
    """A deployment whose tables outlive their process."""
    path = Path(config)
    path.write_text(path.read_text().replace('name = "memory"', 'name = "parquet"\npath = "lake"'))
    return config


class TestRun:
    def test_a_run_gives_up_what_is_not_to_be_kept(self, config: str) -> None:
        reports: list[object] = []
        with Headwater.from_config(config, report=reports.append) as deployment:
            deployment.run(until_idle=True)
            assert deployment.view("ranked").height == 4
            with pytest.raises(VersionExpired):
                deployment.view("ranked", at=2)
            assert [version.readable for version in deployment.upkeep("ranked").versions()] == [True, *[False] * 3]
        assert [("expire" in report.seconds) for report in reports] == [False, True, False, True]  # type: ignore[attr-defined]

    def test_upkeep_that_fails_costs_neither_the_run_nor_its_reports(
        self, config: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("headwater.adapters.memory.store.MemoryStore", FailingKeeper)
        reports: list[object] = []
        with Headwater.from_config(config, report=reports.append) as deployment:
            deployment.run(until_idle=True)
            assert deployment.view("ranked").height == 4
        assert len(reports) == 4
        assert "ranked: compact failed, and will be tried again: ranked.dead_letters cannot be compacted" in caplog.text
        assert "ranked: expire failed, and will be tried again: ranked.dead_letters cannot be looked at" in caplog.text

    def test_a_pin_of_a_program_outlives_what_the_run_gives_up(self, config: str, tmp_path: Path) -> None:
        with Headwater.from_config(config) as deployment:
            with pytest.raises(VersionNotFound, match="published nothing"):
                deployment.pin("ranked", hold=HOUR)
            deployment.run(until_idle=True)
            with pytest.raises(ConfigError, match="a lease must be longer than 0"):
                deployment.pin("ranked", hold=-HOUR)
            with pytest.raises(ConfigError, match=r"holder 'a\\udcff' is not UTF-8"):
                deployment.pin("ranked", hold=HOUR, holder="a\udcff")
            with deployment.pin("ranked", hold=HOUR, holder="test") as pin:
                for number in range(4, 8):
                    record = {"project": 1, "contract": number, "signed": f"2024-03-0{number + 1}T09:00:00Z"}
                    (tmp_path / "in" / f"{number}.json").write_text(json.dumps(record) + "\n")
                deployment.run(until_idle=True)
                assert deployment.view("ranked", at=pin.epoch).height == 4
                assert deployment.view("ranked").height == 8
            deployment.upkeep("ranked").expire(dry_run=False)
            with pytest.raises(VersionExpired):
                deployment.view("ranked", at=pin.epoch)

    def test_a_lease_of_nobody_cannot_be_taken_back(self, config: str) -> None:
        with Headwater.from_config(config) as deployment:
            for unknown in ("ranked-0", "other-1", ""):
                with pytest.raises(LeaseNotFound, match=r"`(headwater )?versions` lists"):
                    deployment.unpin(unknown)


class TestCommands:
    """Over the example backend, before the first run; the same commands over Delta are tested with its adapter."""

    @pytest.mark.parametrize(
        ("command", "columns"),
        [
            (["versions", "ranked"], "epoch,label,published,superseded,readable,leases,tables"),
            (["explain-retention"], "table,version,committed,superseded,state,why,may_go"),
        ],
    )
    def test_of_nothing_no_row_is_told(
        self, kept: str, capsys: pytest.CaptureFixture[str], command: list[str], columns: str
    ) -> None:
        name, *pipeline = command
        assert main([name, kept, *pipeline, "--format", "csv"]) == 0
        assert capsys.readouterr().out == columns + "\n"

    def test_expire_tells_no_remedy_if_nothing_may_expire(self, kept: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["expire", kept, "ranked", "--format", "jsonl"]) == 0
        out, err = capsys.readouterr()
        assert json.loads(out.splitlines()[0]) == {
            "table": "ranked.dead_letters",
            "versions": 0,
            "files": 0,
            "bytes": 0,
        }
        assert err == ""

    def test_expire_tells_that_it_changed_nothing(
        self, kept: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Upkeep, "expire", lambda *_, **__: (Expiry("ranked.cells", (3,), 1, 10),))
        assert main(["expire", kept, "ranked"]) == 0
        assert capsys.readouterr().err == "headwater: nothing was changed: add --apply to expire these versions\n"

    def test_compact_tells_the_versions_made(self, kept: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["compact", kept, "--format", "jsonl"]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"table": "ranked.cells", "version": None}

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["pin", "ranked", "--for", "2h"], 1, "pipeline 'ranked' has published nothing that could be held"),
            (["pin", "ranke", "--for", "2h"], 2, "there is no pipeline 'ranke'"),
            (["unpin", "ranked-1"], 1, "pipeline 'ranked' has no lease 'ranked-1'"),
        ],
    )
    def test_what_cannot_be_done_is_told(
        self, kept: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
    ) -> None:
        name, *rest = arguments
        assert main([name, kept, *rest]) == code
        assert message in capsys.readouterr().err

    @pytest.mark.parametrize("hold", ["0s", "-1h", "long"])
    def test_a_hold_of_no_time_is_refused(self, config: str, hold: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["pin", config, "ranked", f"--for={hold}"])
        assert ended.value.code == 2
