"""The names of Hudi's instants: in UTC wherever a machine is, and later than those of all instants before."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import pytest

from headwater.adapters.hudi import timeline
from headwater.adapters.hudi.client import upkeep_client
from headwater.adapters.hudi.compact import CompactionPolicy
from headwater.adapters.spark.jvm import java_class
from headwater.domain.errors import StoreUnavailable
from headwater.testing.store_harness import TableDriver, bag, spec_of

from .test_hudi import AnHourBehind, Hudi

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.adapters.hudi.store import HudiStore

pytestmark = [pytest.mark.hudi, pytest.mark.contract]

ITEMS = spec_of("id bigint, name string", ["id"])
IN_TOKYO = """
import sys
from headwater.adapters.hudi.compact import CompactionPolicy
from headwater.adapters.hudi.package import EXTENSIONS, PACKAGES, SETTINGS
from headwater.adapters.hudi.spec import TableType
from headwater.adapters.hudi.store import HudiStore
from headwater.adapters.spark.own_session import own_session, working_in
from headwater.adapters.spark.session import open_session
from headwater.domain.errors import StoreUnavailable
from headwater.domain.table.change import Change
from headwater.testing.store_harness import mark_of
from tests.contract.test_hudi_clock import ITEMS
from tests.spark_fixtures import TUNED
import narwhals as nw

session = own_session(open_session(TUNED, packages=PACKAGES, extensions=EXTENSIONS, defaults=SETTINGS), {})
assert session._jvm.java.util.TimeZone.getDefault().getID() == "Asia/Tokyo"
with working_in(session):
    store = HudiStore(session, sys.argv[1], TableType.MERGE_ON_READ, compaction=CompactionPolicy(min_files=1))
    store.ensure(ITEMS)
    assert store.compact(ITEMS.name) is not None  # first it rolls back
    change = Change(append=nw.from_native(session.sql("SELECT 2L AS id, 'again' AS name")))
    store.commit(ITEMS.name, change, mark_of(3))
    theirs = session.range(1).write.format("hudi").option("hoodie.table.name", "theirs")
    theirs.save(f"{sys.argv[1]}/theirs")
    try:
        store.commit(ITEMS.name, change, mark_of(4))
    except StoreUnavailable as error:
        print(error)
    session.stop()
"""


class TestZone(Hudi):
    def test_all_instants_are_in_utc(self, store: HudiStore) -> None:
        table = self.table(store, ITEMS)
        for name in "abc":
            table.commit(merge=[(1, name)])
        self.finished()[-1].unlink()  # as if its writer had died
        there = subprocess.run(
            [sys.executable, "-c", IN_TOKYO, str(self.root)],
            env=os.environ | {"TZ": "Asia/Tokyo"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert there.returncode == 0, there.stderr
        now = f"{datetime.now(UTC):%Y%m%d%H%M%S}"
        assert [file.name for file in self.finished() if file.name > now or file.name.partition("_")[2] > now] == []
        found = self.table(self.reopen(), ITEMS)
        newest = next(store.versions(ITEMS.name)).version
        assert found.rows_at(newest) == bag((1, "b"), (2, "again"))
        assert "8:59:" in there.stdout
        assert "set hoodie.table.timeline.timezone = UTC" in there.stdout

    def finished(self) -> list[Path]:
        """The files of all completed instants, oldest first."""
        return sorted((self.root / "pipeline" / "items" / ".hoodie" / "timeline").glob("*_*"))


class TestSkew(Hudi):
    """A compaction beside a run, by another machine's clock."""

    def test_a_commit_comes_after_a_plan_that_is_ahead(self, store: HudiStore) -> None:
        table = self.merged(store)
        self.plan(table, timedelta(seconds=4.5))
        table.commit(merge=[(1, "d"), (2, "d")])
        table.compact()
        assert table.rows() == bag((1, "d"), (2, "d"))
        table.commit(merge=[(3, "e")])
        assert table.rows() == bag((1, "d"), (2, "d"), (3, "e"))

    def test_a_plan_that_is_far_ahead_is_not_waited_for(self, store: HudiStore) -> None:
        table = self.merged(store)
        self.plan(table, timedelta(hours=1))
        with pytest.raises(StoreUnavailable, match=r"the clock is 0:59:\S+ behind the newest commit or compaction"):
            table.commit(merge=[(1, "d")])
        assert table.rows() == bag((1, "c"))

    def test_a_clock_that_is_behind_makes_no_plan(self, store: HudiStore, monkeypatch: pytest.MonkeyPatch) -> None:
        table = self.merged(store)
        with monkeypatch.context() as patch:
            patch.setattr(timeline, "datetime", AnHourBehind)
            with pytest.raises(StoreUnavailable, match="behind"):
                table.compact()
        assert not list((self.root / "pipeline" / "items" / ".hoodie" / "timeline").glob("*.compaction.*"))
        table.compact()
        assert table.rows() == bag((1, "c"))

    def merged(self, store: HudiStore) -> TableDriver:
        table = self.table(store, ITEMS)
        for name in "abc":
            table.commit(merge=[(1, name)])
        return table

    def plan(self, table: TableDriver, ahead: timedelta) -> None:
        """Plan a compaction, as a machine does whose clock is ahead."""
        used = cast("HudiStore", table.store)._tables[ITEMS.name]
        instant = f"{datetime.now(UTC) + ahead:%Y%m%d%H%M%S%f}"[:17]
        settings = CompactionPolicy(min_files=1).settings
        nothing = java_class(self.spark, "org.apache.hudi.common.util.Option").empty()
        with upkeep_client(used.folder, used.timeline, used.definition, settings) as client:
            assert client.scheduleCompactionAtInstant(instant, nothing)
