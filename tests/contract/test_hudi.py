"""Both table types of the Hudi backend under the contract."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import narwhals as nw
import pytest
from attrs import evolve
from py4j.protocol import Py4JJavaError
from pyarrow.parquet import read_metadata

from headwater.adapters.hudi import commit as writing
from headwater.adapters.hudi import compact as compacting
from headwater.adapters.hudi import lock, timeline
from headwater.adapters.hudi import write as changing
from headwater.adapters.hudi.client import upkeep_client
from headwater.adapters.hudi.compact import CompactionPolicy
from headwater.adapters.hudi.path import Folder
from headwater.adapters.spark.jvm import java_class
from headwater.adapters.spark.queries import SparkQueries
from headwater.domain.errors import (
    BadInput,
    ConfigError,
    EpochConflict,
    SchemaConflict,
    StoreUnavailable,
    TableDamaged,
    VersionExpired,
)
from headwater.domain.table.change import Between, Change
from headwater.domain.table.merge import Sum
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import Layout
from headwater.testing.frames import SparkFrames
from headwater.testing.store_committing import CommittingContract
from headwater.testing.store_harness import StoreHarness, TableDriver, bag, both_layouts, mark_of, spec_of
from headwater.testing.store_history import (
    ChangesContract,
    FencingContract,
    MarksContract,
    RollbackContract,
    UpkeepContract,
)
from headwater.testing.store_keeping import ExpiringContract, LeasesContract
from headwater.testing.store_loading import LoadingContract
from headwater.testing.store_merging import MergingContract
from headwater.testing.store_nested import NestedContract
from headwater.testing.store_reading import EnsureContract, ReadingContract, ValuesContract
from headwater.testing.store_whole import WholeContract

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from headwater.adapters.hudi.store import HudiStore
    from headwater.domain.table.spec import TableSpec
    from headwater.testing.store_harness import Row

pytestmark = [pytest.mark.hudi, pytest.mark.contract]

NAMES = spec_of("day int, id bigint, name string", ["day", "id"], partition_by=["day"])
ITEMS = spec_of("id bigint, name string", ["id"])
WORDS = spec_of("word string, id bigint, total bigint", ["word", "id"], rules={"total": Sum()})
EVENTS = spec_of("id bigint, name string")


class AnHourBehind(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) - timedelta(hours=1)


class Hudi(SparkFrames, StoreHarness):
    retypes = False

    table_type = "MERGE_ON_READ"

    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def reopen(self) -> HudiStore:
        from headwater.adapters.hudi.spec import TableType
        from headwater.adapters.hudi.store import HudiStore

        eager = CompactionPolicy(min_files=1)  # the few files of a test are to be compacted
        return HudiStore(self.spark, str(self.root), TableType(self.table_type), buckets=2, compaction=eager)


class TestMergeOnRead(Hudi, CommittingContract, MergingContract, ReadingContract, RollbackContract):
    """What frames of Spark are read, merged and written by; the rest of the contract is below, and on the local engine."""


class TestCopyOnWrite(Hudi, CommittingContract, RollbackContract):
    """What copy-on-write does in its own way; the rest of the contract is below."""

    table_type = "COPY_ON_WRITE"


class _Rest(
    EnsureContract,
    ValuesContract,
    LoadingContract,
    NestedContract,
    MarksContract,
    FencingContract,
    UpkeepContract,
    ExpiringContract,
    LeasesContract,
    ChangesContract,
    WholeContract,
):
    pass


@pytest.mark.slow
class TestMergeOnReadInFull(Hudi, _Rest):
    pass


@pytest.mark.slow
class TestCopyOnWriteInFull(Hudi, ReadingContract, MergingContract, _Rest):
    table_type = "COPY_ON_WRITE"


class _KeysLookedUp(Hudi):
    """As if every table were large: the few stored rows of incoming keys are looked up by their keys."""

    @pytest.fixture(autouse=True)
    def _large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(changing, "LOOKED_UP_BYTES", 0)


@pytest.mark.slow
class TestKeysLookedUpInFull(_KeysLookedUp, MergingContract):
    """Every merge rule, on rows that are looked up."""


class TestKeysLookedUp(_KeysLookedUp):
    def test_keys_of_any_text_in_partitions_and_buckets(self, store: HudiStore) -> None:
        words = ["", "null_", "'", "a'b\\", "~", "数 ü", "%", "x" * 200]
        for spec in (WORDS, evolve(WORDS, name="pipeline.parted", partition_by=["word"])):
            table = self.table(store, spec)
            table.commit(append=[(word, id_, 1) for word in words for id_ in range(5)])
            table.commit(merge=[(word, 1, 1) for word in words], delete=[(words[0], 0)])
            table.compact()
            table.commit(merge=[(word, 1, 1) for word in words[:4]] + [("new", 1, 1), (words[0], 0, 7)])
            rest = [(word, id_, 1) for word in words for id_ in (0, 2, 3, 4) if (word, id_) != (words[0], 0)]
            met = [(word, 1, 3) for word in words[:4]] + [(word, 1, 2) for word in words[4:]]
            assert table.rows() == bag(*rest, *met, ("new", 1, 1), (words[0], 0, 7))

    def test_so_many_keys_are_not_looked_up(self, store: HudiStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(changing, "LOOKED_UP_KEYS", 1)
        table = self.table(store, WORDS)
        table.commit(append=[("a", id_, 1) for id_ in range(5)])
        table.commit(merge=[("a", 1, 1), ("a", 2, 1), ("b", 2, 1)])
        assert table.rows() == bag(*(("a", id_, 1) for id_ in (0, 3, 4)), ("a", 1, 2), ("a", 2, 2), ("b", 2, 1))


class TestPlainTables(SparkFrames):
    """Tables of Hudi's that somebody else wrote."""

    def test_they_are_read_without_what_hudi_adds(self, tmp_path: Path) -> None:
        options = {"hoodie.table.name": "plain", "hoodie.datasource.write.recordkey.field": "x"}
        rows = self.frame([(1, "a"), (2, "b")], Schema.parse("x bigint, name string")).to_native()
        rows.write.format("hudi").options(**options).save(str(tmp_path / "plain"))
        found = SparkQueries(self.spark).scan(str(tmp_path / "plain"), "hudi").collect(backend="polars")
        assert found.columns == ["x", "name"]
        assert sorted(found.rows()) == [(1, "a"), (2, "b")]


class TestWriters(Hudi):
    """What a second writer meets, and what a dead one leaves behind."""

    def test_of_two_at_the_same_moment_one_succeeds(self, store: HudiStore) -> None:
        mine, theirs = self.table(store, NAMES), self.table(self.reopen(), NAMES)
        mine.newest = mine.commit(append=[(1, 1, "before")])
        theirs.sequence = 1
        start = Barrier(2)

        def race(table: TableDriver, day: int) -> bool:
            start.wait()
            try:
                table.commit(append=[(day, 2, "raced")])
            except EpochConflict:
                return False
            return True

        with ThreadPoolExecutor(2) as threads:  # on files of their own, where Hudi alone would let both pass
            won = list(threads.map(race, (mine, theirs), (2, 3)))
        assert sorted(won) == [False, True]
        winner = 2 if won[0] else 3
        newest = next(self.reopen().versions(NAMES.name))
        assert mine.rows_at(newest.version) == bag((1, 1, "before"), (winner, 2, "raced"))
        assert newest.mark == mark_of(2)

    @pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
    def test_what_a_dead_writer_left_is_never_seen_and_taken_away(self, table_type: str) -> None:
        self.table_type = table_type
        table = self.table(self.reopen(), NAMES)
        table.commit(append=[(1, 1, "a")])
        self.die_in_a_commit(table, [(1, 1, "b"), *((day, 5, "x") for day in range(4)), (4, 5, "fails")])
        again = self.table(self.reopen(), NAMES)
        assert [commit.version for commit in again.store.versions(NAMES.name)] == [table.newest]
        assert table.rows() == bag((1, 1, "a"))
        again.sequence = 1
        again.commit(merge=[(1, 1, "c")])
        assert again.rows() == bag((1, 1, "c"))
        assert self.unfinished() == []

    @pytest.mark.parametrize("spec", [NAMES, ITEMS, EVENTS], ids=["partitions", "buckets", "files"])
    @pytest.mark.parametrize("too_late", [False, True], ids=["rolled back before", "rolled back by the next commit"])
    def test_what_a_dead_writer_left_and_a_compaction_after_it_are_in_nobodys_way(
        self, monkeypatch: pytest.MonkeyPatch, spec: TableSpec, *, too_late: bool
    ) -> None:
        table = self.table(self.reopen(), spec)
        rows = [(1, 1, "a"), (1, 2, "b")] if spec.partition_by else [(1, "a"), (2, "b")]
        write = partial(table.commit, **{"merge" if spec.key else "append": rows})
        for _ in range(2):
            write()
        content, before = table.rows(), table.newest
        self.die_in_a_commit(table, rows)
        with monkeypatch.context() as patch:
            if too_late:  # Headwater once planned without a rollback; Hudi's writer then refused every commit
                patch.setattr(compacting, "rollback_unfinished", lambda *_: None)
            table.compact()
        assert table.newest != before
        assert bool(self.unfinished()) == too_late
        write()
        assert table.rows() == (content if spec.key else content + bag(*rows))
        assert self.unfinished() == []

    @pytest.mark.parametrize("kind", [lock._file_lock, lock._storage_lock])
    def test_a_lock_keeps_others_out_and_is_given_back(
        self, monkeypatch: pytest.MonkeyPatch, kind: Callable[[Folder, str], AbstractContextManager[None]]
    ) -> None:
        monkeypatch.setattr(lock, "_SECONDS", 0.5)
        monkeypatch.setattr(lock, "_file_lock", kind)
        folder = Folder(self.spark, str(self.root))
        with (
            lock.locked(folder),
            ThreadPoolExecutor(1) as other,
            pytest.raises(StoreUnavailable, match="another writer"),
        ):
            other.submit(self.lock_and_leave, folder).result()
        self.lock_and_leave(folder)

    def lock_and_leave(self, folder: Folder) -> None:
        with lock.locked(folder):
            pass

    def test_a_storage_lock_is_seen_by_other_processes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lock, "_SECONDS", 0.5)
        folder = Folder(self.spark, str(self.root))
        with lock._storage_lock(folder, "x"), pytest.raises(StoreUnavailable), lock._storage_lock(folder, "x"):
            pass
        with lock._storage_lock(folder, "x"):
            pass

    @pytest.mark.parametrize("made", [[], ["hoodie.properties", ".hoodie.properties.crc"]])
    def test_a_table_that_was_begun_and_never_made(self, store: HudiStore, made: list[str]) -> None:
        table = self.table(store, NAMES)
        store._tables[NAMES.name].keep()  # as the first commit does, before Hudi makes the table
        meta = self.root / "pipeline" / "items" / ".hoodie"
        (meta / "timeline").mkdir(parents=True)
        for name in made:  # by a writer that died before it wrote to them
            (meta / name).touch()
        again = self.table(self.reopen(), NAMES)
        again.commit(append=[(1, 1, "a")])
        assert table.rows_at(again.newest) == bag((1, 1, "a"))

    @pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"")])
    def test_a_table_with_commits_and_without_properties_is_not_made_again(
        self, store: HudiStore, damage: Callable[[Path], object]
    ) -> None:
        table = self.table(store, NAMES)
        table.commit(append=[(1, 1, "a")])
        properties = self.root / "pipeline" / "items" / ".hoodie" / "hoodie.properties"
        content = properties.read_bytes()
        damage(properties)
        with pytest.raises(TableDamaged, match=r"hoodie\.properties is empty or missing"):
            self.table(self.reopen(), NAMES).commit(append=[(1, 2, "b")])
        properties.unlink(missing_ok=True)
        properties.with_name("hoodie.properties.backup").write_bytes(content)  # as Hudi does to change them
        assert self.table(self.reopen(), NAMES).rows_at(table.newest) == bag((1, 1, "a"))

    def die_in_a_commit(self, table: TableDriver, rows: Sequence[Row]) -> None:
        """Begin a commit of rows of which the last cannot be computed."""
        *_, name = table.spec.schema.names
        there = self.frame(rows, table.spec.schema).to_native()
        failing = f"IF({name} = '{rows[-1][-1]}', CAST(raise_error('half way') AS string), {name}) AS {name}"
        with pytest.raises(Py4JJavaError, match="half way"):
            table.commit_change(Change(append=nw.from_native(there.selectExpr(*there.columns[:-1], failing))))
        assert self.unfinished()

    def unfinished(self) -> list[str]:
        """The instants that were begun and not completed."""
        instants = self.root / "pipeline" / "items" / ".hoodie" / "timeline"
        begun = (file.stem[:17] for file in instants.glob("[0-9]*.requested"))
        return [instant for instant in begun if not list(instants.glob(f"{instant}_*"))]

    def test_a_clock_that_is_behind_makes_no_commit(self, store: HudiStore, monkeypatch: pytest.MonkeyPatch) -> None:
        table = self.table(store, NAMES)
        table.commit(append=[(1, 1, "a")])
        with monkeypatch.context() as patch:
            patch.setattr(timeline, "datetime", AnHourBehind)
            with pytest.raises(StoreUnavailable, match="behind"):
                table.commit(append=[(1, 2, "b")])
        assert len(list(store.versions(NAMES.name))) == 1
        table.commit(append=[(1, 2, "b")])

    def test_null_keys_are_refused(self, store: HudiStore) -> None:
        table = self.table(store, NAMES)
        for row in ((None, 1, "a"), (1, None, "a")):
            with pytest.raises(BadInput, match="null"):
                table.commit(append=[row])
        assert list(store.versions(NAMES.name)) == []

    def test_a_table_that_is_not_headwaters_is_left_alone(self, store: HudiStore) -> None:
        place = self.root / "pipeline" / "items"
        self.spark.range(1).write.format("hudi").option("hoodie.table.name", "theirs").save(str(place))
        with pytest.raises(SchemaConflict, match="move that table away"):
            store.ensure(NAMES)

    def test_a_partition_is_read_alone(self, store: HudiStore) -> None:
        table = self.table(store, NAMES)
        table.commit(append=[(day, 1, "a") for day in range(3)])
        for day in (0, 2):
            for file in (self.root / "pipeline" / "items" / str(day)).iterdir():
                file.write_bytes(bytes(file.stat().st_size))
        assert table.rows(table.matching(day=Between(1, 1))) == bag((1, 1, "a"))


class TestLoads(Hudi):
    """A load is a bulk insert into as many files as it fills, which compaction then keeps at their size."""

    def small_files(self) -> HudiStore:
        store = self.reopen()
        store.compaction = CompactionPolicy(min_files=1, target_bytes=1024 * 1024)
        return store

    def loaded(self, store: HudiStore, layout: Layout = Layout.LOG) -> TableDriver:
        table = self.table(store, evolve(ITEMS, layout=layout))
        rows = self.spark.range(150_000).selectExpr("id", "sha2(CAST(id AS string), 256) AS name")
        table.commit_change(Change(load=nw.from_native(rows)))
        return table

    def files(self, table: TableDriver) -> list[int]:
        """The sizes of the base files that the newest version is read from."""
        read = cast("HudiStore", table.store).read_optimized(table.spec.name).to_native().inputFiles()
        return [Path(urlsplit(file).path).stat().st_size for file in read]

    @both_layouts
    def test_files_are_sized_by_the_load(self, layout: Layout) -> None:
        table = self.loaded(self.small_files(), layout)
        table.compact()
        sizes = self.files(table)
        assert len(sizes) > 3
        assert max(sizes) < 3 * 1024 * 1024
        assert table.frame().to_native().count() == 150_000

    @pytest.mark.slow  # test_hudi_local.TestSameRows resizes one too
    def test_buckets_follow_the_size_of_the_table(self) -> None:
        store = self.small_files()
        table = self.loaded(store)
        table.compact()
        before, loaded = len(self.files(table)), table.newest
        store.compaction = evolve(store.compaction, target_bytes=32 * 1024 * 1024)
        table.commit(merge=[(7, "merged")], delete=[(8,)], append=[(-1, "appended")])
        table.compact()
        assert len(self.files(table)) < before
        found = self.table(self.reopen(), ITEMS)
        found.sequence, found.newest = table.sequence, table.newest
        found.commit(merge=[(9, "merged too")])
        near = found.matching([(7,), (8,), (9,), (-1,)], ["id"])
        assert found.rows(near) == bag((7, "merged"), (9, "merged too"), (-1, "appended"))
        assert found.frame().to_native().count() == 150_000
        assert bag(*self.rows(store.read(ITEMS.name, loaded, near)))[(7, "merged")] == 0

    def test_a_loaded_table_may_be_overwritten(self) -> None:
        table = self.table(self.small_files(), ITEMS)
        first = table.load([(1, "a"), (2, "b")])
        table.commit(overwrite=[(2, "c")])
        table.commit(merge=[(3, "d")])
        assert table.rows() == bag((2, "c"), (3, "d"))
        table.load([(4, "e")])
        table.rollback(first)
        assert table.rows() == bag((1, "a"), (2, "b"))


class TestUpkeep(Hudi):
    """What was planned and never finished disturbs nobody, and what was cleaned away is told."""

    def test_commits_go_on_over_a_compaction_that_is_planned(self, store: HudiStore) -> None:
        table = self.table(store, NAMES)
        before = table.commit(overwrite=[(1, id_, "a") for id_ in range(3)])
        table.commit(append=[(1, 3, "b")], merge=[(1, 0, "b")])
        self.plan(table, "scheduleCompaction")
        between = table.commit(merge=[(1, 1, "c")], delete=[(1, 2)])
        content = bag((1, 0, "b"), (1, 1, "c"), (1, 3, "b"))
        assert table.rows() == content
        table.compact()
        assert table.newest == between
        assert table.rows() == content
        table.commit(merge=[(1, 1, "d")])
        assert table.rows() == bag((1, 0, "b"), (1, 1, "d"), (1, 3, "b"))
        assert table.rows_at(before) == bag(*((1, id_, "a") for id_ in range(3)))

    def test_base_files_alone_show_the_last_compaction(self, store: HudiStore) -> None:
        table = self.table(store, NAMES)
        assert self.base(store) == bag()
        table.commit(append=[(1, id_, "a") for id_ in range(3)])
        table.commit(merge=[(1, 0, "b")], delete=[(1, 2)])
        table.compact()
        compacted = bag((1, 0, "b"), (1, 1, "a"))
        assert self.base(store) == table.rows() == compacted
        table.commit(merge=[(1, 1, "c")], delete=[(1, 0)])
        assert table.rows() == bag((1, 1, "c"))
        assert self.base(self.reopen()) == compacted
        with pytest.raises(ConfigError, match="no table"):
            store.read_optimized("pipeline.others")

    def test_base_files_have_no_filter_that_no_index_asks(self, store: HudiStore) -> None:
        self.table(store, NAMES).commit(overwrite=[(1, 1, "a")])
        files = list((self.root / "pipeline" / "items").rglob("*.parquet"))
        assert files
        for file in files:
            assert not [name for name in read_metadata(file).metadata if b"bloomfilter" in name]

    def test_estimates_of_sizes_start_no_process(self) -> None:
        system = java_class(self.spark, "java.lang.System")
        system.clearProperty("jol.skipHotspotSAAttach")
        self.reopen()
        assert system.getProperty("jol.skipHotspotSAAttach") == "true"

    def test_the_programs_own_way_to_estimate_sizes_stays(self) -> None:
        system = java_class(self.spark, "java.lang.System")
        system.setProperty("jol.skipHotspotSAAttach", "false")
        self.reopen()
        assert system.getProperty("jol.skipHotspotSAAttach") == "false"
        system.setProperty("jol.skipHotspotSAAttach", "true")

    def test_base_files_are_all_there_is_of_a_table_that_is_copied(self, store: HudiStore) -> None:
        table = self.table(store, evolve(NAMES, layout=Layout.MERGED))
        table.commit(append=[(1, 1, "a"), (2, 1, "a")])
        table.commit(merge=[(1, 1, "b")], delete=[(2, 1)])
        assert self.base(store) == table.rows() == bag((1, 1, "b"))

    def base(self, store: HudiStore) -> Counter[Any]:
        return bag(*self.rows(store.read_optimized(NAMES.name)))

    def test_a_plan_to_put_files_together_is_in_nobodys_way(self, store: HudiStore) -> None:
        table = self.table(store, EVENTS)
        for _ in range(3):
            table.commit(append=[(1, "a")])
        self.plan(table, "scheduleClustering")
        table.commit(append=[(2, "b")])
        assert table.rows() == bag(*[(1, "a")] * 3, (2, "b"))
        table.compact()
        assert table.rows() == bag(*[(1, "a")] * 3, (2, "b"))
        assert len(list((self.root / "pipeline" / "items").glob("*.parquet"))) > len(
            table.frame().to_native().inputFiles()
        )
        self.plan(table, "scheduleClustering")
        table.commit(overwrite=[(3, "c")])
        assert table.rows() == bag((3, "c"))

    def test_files_that_are_to_be_put_together_may_change(
        self, store: HudiStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(writing._SMALL_COMMITS, "hoodie.parquet.small.file.limit", "0")  # each commit a file
        table = self.table(store, evolve(NAMES, layout=Layout.MERGED))
        for id_ in range(3):
            table.commit(append=[(1, id_, "a")])
        self.plan(table, "scheduleClustering")
        table.commit(merge=[(1, 1, "b")])
        content = bag((1, 0, "a"), (1, 1, "b"), (1, 2, "a"))
        assert table.rows() == content
        table.compact()
        assert table.rows() == content
        table.commit(merge=[(1, 1, "c")], delete=[(1, 2)])
        assert table.rows() == bag((1, 0, "a"), (1, 1, "c"))

    def plan(self, table: TableDriver, schedule: str) -> None:
        """Plan upkeep, and do none, as a process that dies in between."""
        with self.client(table) as client:
            nothing = java_class(self.spark, "org.apache.hudi.common.util.Option").empty()
            assert getattr(client, schedule)(nothing).isPresent()

    def client(self, table: TableDriver) -> AbstractContextManager[Any]:
        used = cast("HudiStore", table.store)._tables[table.spec.name]
        return upkeep_client(used.folder, used.timeline, used.definition, CompactionPolicy(min_files=1).settings)

    def test_files_that_were_cleaned_away_are_missed_before_they_are_read(self, store: HudiStore) -> None:
        table = self.table(store, spec_of("id bigint, name string", ["id"]))
        made = [table.commit(overwrite=[(number, "a")]) for number in range(4)]
        with self.client(table) as client:
            client.getConfig().setValue("hoodie.clean.commits.retained", "1")
            client.clean()
        assert table.rows_at(made[3]) == bag((3, "a"))
        for reading in (partial(store.read, NAMES.name), partial(store.changes, NAMES.name, None)):
            with pytest.raises(VersionExpired):
                reading(made[0])
