"""The local engine's Delta tables under the contract: no JVM."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from concurrent.futures import Future
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock, patch
from uuid import uuid4

import polars as pl
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.adapters.delta.actions import by_partition
from headwater.adapters.delta.compaction_policy import CompactionPolicy, Rewrite
from headwater.adapters.delta.expire import SweepPolicy
from headwater.adapters.delta.local import compaction, data_files, lookups
from headwater.adapters.delta.local import store as local_store
from headwater.adapters.delta.local.compaction import prepare_compaction
from headwater.adapters.delta.local.disk import Disk
from headwater.adapters.delta.local.log import LocalLog
from headwater.adapters.delta.local.lookups import Lookups
from headwater.adapters.delta.local.read import LocalVersion
from headwater.adapters.delta.local.store import LocalDeltaStore
from headwater.adapters.delta.local.write import prepare_change
from headwater.adapters.polars.file_cache import READ_WHOLE, FileCache
from headwater.adapters.polars.local_engine import LocalEngine
from headwater.domain.errors import EpochConflict, HeadwaterError, StoreUnavailable, TableDamaged, VersionExpired
from headwater.domain.ports import Version
from headwater.domain.table.change import Between, Matching
from headwater.domain.table.merge import Max, Sum
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import Layout
from headwater.testing.engine_contract import FrameEngineContract
from headwater.testing.frames import PolarsFrames
from headwater.testing.store_contract import StoreContract
from headwater.testing.store_harness import StoreHarness, TableDriver, bag, both_layouts, spec_of
from tests.properties.effort import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headwater.adapters.delta.actions import DataFile
    from headwater.domain.table.spec import TableSpec
    from headwater.testing.store_harness import Bag

pytestmark = pytest.mark.contract

NAMES = spec_of("id bigint, name string", ["id"])
KEYED = spec_of("id string, n bigint", ["id"], layout=Layout.MERGED)
PLANES = ["a", "\uffff", *(chr(0x10000 * plane + 0xBB7) + "\u91ce" for plane in (1, 2, 3, 16)), "\U0010ffff" * 40]
"""Texts with characters of several planes of Unicode."""
SLICED = {
    "sums": spec_of("id bigint, n bigint", ["id"], rules={"n": Sum()}),
    "newest": spec_of("id bigint, n bigint", ["id"]),
    "merged": spec_of("id bigint, n bigint", ["id"], layout=Layout.MERGED),
    "no key": spec_of("id bigint, n bigint"),
}


class Everything(CompactionPolicy):
    """Compacts all partitions."""

    def choose(self, files: Iterable[DataFile]) -> list[Rewrite]:
        return [Rewrite.of(found, found) for found in by_partition(files).values()]


class LocalDelta(PolarsFrames, StoreHarness):
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def reopen(self) -> LocalDeltaStore:
        return LocalDeltaStore(str(self.root))


class TestLocalDeltaStore(LocalDelta, StoreContract):
    def test_data_is_on_the_disk_before_its_commit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        flushed, fsync = list[int](), os.fsync
        monkeypatch.setattr(os, "fsync", lambda opened: (flushed.append(os.fstat(opened).st_ino), fsync(opened)))
        table = self.table(self.reopen(), SLICED["sums"])
        flushed.clear()
        table.commit(merge=[(1, 1)])
        (data,) = self.root.rglob("*.parquet")
        commit = max(self.root.rglob("_delta_log/*.json"))
        assert flushed == [each.stat().st_ino for each in (data, commit, commit.parent)]

    def test_commits_that_stand_though_their_names_are_said_to_be_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """NFS answers so if its first answer was lost, and the request was repeated."""
        store = LocalDeltaStore(str(self.root), Everything())
        table, link = self.table(store, SLICED["sums"]), os.link

        def make_and_refuse(draft: Path, file: Path) -> None:
            link(draft, file)
            raise FileExistsError(17, "File exists", str(file))

        monkeypatch.setattr(os, "link", make_and_refuse)
        table.commit(merge=[(1, 1)])
        table.commit(merge=[(1, 2)])
        assert table.rows() == bag((1, 3))
        compacted = store.compact(SLICED["sums"].name)
        assert compacted == "2"
        assert table.rows_at(compacted) == bag((1, 3))

    @pytest.mark.parametrize(("of", "call"), [(Path, "read_text"), (os, "scandir")])
    def test_a_log_that_may_not_be_read_is_told(self, monkeypatch: pytest.MonkeyPatch, of: Any, call: str) -> None:
        self.table(self.reopen(), SLICED["sums"]).commit(merge=[(1, 1)])
        monkeypatch.setattr(of, call, Mock(side_effect=PermissionError(13, "Permission denied")))
        with pytest.raises(StoreUnavailable, match=r"cannot read .*_delta_log: Permission denied; check the disk"):
            self.reopen().version(SLICED["sums"].name, Version("1"))

    def test_an_existing_table_keeps_its_properties(self) -> None:
        """Tables of earlier versions name removed files for 30 days."""
        new, old = f"interval {SweepPolicy().orphan_age.days} days", "interval 30 days"
        self.table(self.reopen(), NAMES).commit(append=[(1, "a")])
        (first,) = self.root.rglob("_delta_log/*.json")
        text = first.read_text(encoding="utf-8")
        assert f'"delta.deletedFileRetentionDuration": "{new}"' in text
        first.write_text(text.replace(new, old), encoding="utf-8")
        wider = evolve(NAMES, schema=Schema.parse(f"{NAMES.schema.ddl}, more int"))
        table = self.table(self.reopen(), wider)
        table.sequence = 1
        table.commit(append=[(2, "b", 5)])
        assert table.rows() == bag((1, "a", None), (2, "b", 5))
        log = LocalLog(str(first.parent.parent))
        log.newest()
        properties = log.metadata().properties
        assert properties["delta.deletedFileRetentionDuration"] == old

    def test_a_log_is_opened_once_in_a_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By whatever asks for it first: a log that is long is listed for tens of milliseconds."""
        spec = SLICED["sums"]
        self.table(self.reopen(), spec).commit(merge=[(1, 1)])
        list_names, listed = Disk.list_names, list[str]()

        def listing(disk: Disk, folder: str, *, after: str = "") -> Iterator[str]:
            listed.append(folder)
            return list_names(disk, folder, after=after)

        monkeypatch.setattr(Disk, "list_names", listing)
        store = self.reopen()
        assert len(list(store.versions(spec.name))) == 1
        for _ in range(2):
            store.ensure(spec)
            assert store.version(spec.name, Version("0")).version == "0"
        assert len(listed) == 1

    def test_a_filter_of_another_reader_finds_its_rows(self) -> None:
        """Where bounds are missing, or have exponents, delta-rs' dataset finds nothing."""
        deltalake = pytest.importorskip("deltalake", reason="reads tables, and comes with headwater[delta]")
        spec = spec_of("id bigint, single float, whole double, exact decimal(38,18)", ["id"], layout=Layout.MERGED)
        table = self.table(self.reopen(), spec)
        tiny = Decimal("1E-18")
        table.commit(merge=[(1, 0.25, -0.0, tiny), (2, 0.1, 1e300, -tiny), (3, None, 0.5, None)])
        (place,) = (folder.parent for folder in self.root.rglob("_delta_log"))
        filters: dict[str, Any] = {"single": 0.2, "whole": 0.4, "exact": Decimal(0)}
        for name, above in filters.items():
            found = deltalake.DeltaTable(str(place)).to_pyarrow_table(filters=[(name, ">", above)])
            right = {"single": [1], "whole": [2, 3], "exact": [1]}[name]
            assert sorted(found["id"].to_pylist()) == right, name

    @pytest.mark.parametrize("checkpoint", [False, True], ids=["", "checkpoint"])
    def test_another_reader_finds_texts_of_any_character(self, *, checkpoint: bool) -> None:
        deltalake = pytest.importorskip("deltalake", reason="reads tables, and comes with headwater[delta]")
        table = self.table(self.reopen(), KEYED)
        for at, text in enumerate(PLANES):
            table.commit(merge=[(text, at)])
        if checkpoint:
            self.write_checkpoint()
        (place,) = (str(folder.parent) for folder in self.root.rglob("_delta_log"))
        for at, text in enumerate(PLANES):
            wanted = [("id", "=", text)]
            assert deltalake.DeltaTable(place).to_pyarrow_table(filters=wanted)["n"].to_pylist() == [at], ascii(text)
            assert pl.scan_delta(place).filter(id=text).collect()["n"].to_list() == [at], ascii(text)

    def test_a_checkpoint_with_misread_bounds_hides_no_rows(self) -> None:
        """Earlier versions wrote texts as escapes, which delta-rs copies into its checkpoints as other characters."""
        table = self.table(self.reopen(), KEYED)
        for at, text in enumerate(PLANES):
            table.commit(merge=[(text, at)])
        for file in self.root.rglob("_delta_log/*.json"):
            actions = map(json.loads, file.read_text(encoding="utf-8").splitlines())
            file.write_text("\n".join(map(json.dumps, actions)))
        self.write_checkpoint()
        again = TableDriver(self, self.reopen(), KEYED, sequence=table.sequence, newest=table.newest)
        again.store.ensure(KEYED)
        again.commit(merge=[(text, -at) for at, text in enumerate(PLANES)])
        assert again.rows() == bag(*((text, -at) for at, text in enumerate(PLANES)))

    def write_checkpoint(self) -> None:
        store = self.reopen()
        store.ensure(KEYED)
        store._log(KEYED.name).newest()
        store._log(KEYED.name).checkpoint()

    def test_numbers_that_are_not_finite_have_no_bounds(self) -> None:
        table = self.table(self.reopen(), spec_of("id bigint, n double", ["id"], layout=Layout.MERGED))
        for number in (1.0, float("nan"), float("inf"), float("-inf")):
            table.commit(merge=[(1, number), (2, 2.0)])
        *_, first, nan, above, below = sorted(self.root.rglob("_delta_log/*.json"))
        assert '\\"n\\":1.0' in first.read_text()
        assert all('\\"n\\":1.0' not in each.read_text() for each in (nan, above, below))
        assert all('\\"id\\":1' in each.read_text() for each in (nan, above, below))


class TestCompaction(LocalDelta):
    @pytest.mark.parametrize("kind", ["bigint", "string", "decimal(9,2)"])
    def test_sums_by_a_key_that_partitions_the_table(self, kind: str) -> None:
        """A decimal has no order code; only keys that repeat are folded."""
        spec = spec_of(
            f"day bigint, value {kind}, n bigint", ["day", "value"], rules={"n": Sum()}, partition_by=("day",)
        )
        store = LocalDeltaStore(str(self.root), CompactionPolicy(min_files=2, min_share=0))
        table = self.table(store, spec)
        one, two = (
            ("a", "b") if kind == "string" else (1, 2) if kind == "bigint" else (Decimal("1.00"), Decimal("2.00"))
        )
        table.commit(merge=[(1, one, 1), (1, two, 2), (2, one, 4)])
        table.commit(merge=[(1, two, 8), (2, two, 16), (2, one, -4)])
        before = table.rows()
        compacted = store.compact(spec.name)
        assert compacted is not None
        assert before == table.rows_at(compacted) == bag((1, one, 1), (1, two, 10), (2, one, 0), (2, two, 16))

    @pytest.mark.parametrize(("keys", "waits"), [(range(10_000), True), ([*range(1000)] * 10, False)])
    def test_sums_whose_rows_hardly_repeat_are_compacted_less_often(self, keys: Sequence[int], *, waits: bool) -> None:
        store = LocalDeltaStore(str(self.root), CompactionPolicy(min_files=2))
        table, spec = self.table(store, SLICED["sums"]), SLICED["sums"]

        def grow(first: int) -> bool:
            """Commit five times a thousand rows; whether a compaction follows."""
            for at in range(first, first + 5000, 1000):
                table.commit(merge=[(key, 1) for key in keys[at : at + 1000]])
            return store.compact(spec.name) is not None

        assert grow(0)
        assert grow(5000) is not waits
        assert table.rows() == bag(*Counter(keys).items())

    @pytest.mark.parametrize("ddl", ["id bigint, n bigint", "id decimal(9,2), n bigint"])
    @pytest.mark.parametrize("layout", ["sums", "newest", "merged", "no key"])
    @pytest.mark.parametrize("target", [1024 * 1024, 700])
    @pytest.mark.parametrize("held", [1000, 7])
    def test_slices(self, monkeypatch: pytest.MonkeyPatch, ddl: str, layout: str, target: int, held: int) -> None:
        """A file is written slice by slice; decimals, and rows without a key, have no order to slice by.

        Of a partition with more than `held` rows, not all are in memory at a time.
        """
        monkeypatch.setattr(compaction, "_SLICE", 3)
        monkeypatch.setattr(compaction, "_HELD", held)
        spec = evolve(SLICED[layout], schema=Schema.parse(ddl))
        store = LocalDeltaStore(str(self.root), Everything(target_bytes=target))
        table, chance = self.table(store, spec), Random(1)
        for at in range(6):
            ids = chance.sample(range(40), 20)
            if layout == "no key":
                table.commit(append=[(each, chance.randrange(100)) for each in ids])
            else:
                table.commit(merge=[(each, chance.randrange(100)) for each in ids])
            if layout in {"newest", "merged"}:
                table.commit(delete=[(each,) for each in chance.sample(range(40), 3)])
            if at == 2:  # its files are in order, those that come later are not
                table.newest = store.compact(spec.name)
        before = table.rows()
        with patch.object(LocalVersion, "scan", autospec=True, side_effect=LocalVersion.scan) as scan:
            table.newest = store.compact(spec.name)
        assert table.newest is not None
        assert before == table.rows()
        assert scan.called == (held == 7)
        files = list(store._log(spec.name).files(int(table.newest)).values())
        assert sum(file.rows or 0 for file in files) == sum(before.values())
        assert (len(files) == 1) == (target > 700)
        ids = sorted(row[0] for row in before)
        assert min(file.lowest["id"] for file in files) == ids[0]
        assert max(file.highest["id"] for file in files) == ids[-1]
        if layout != "no key":
            ranges = sorted((file.lowest["id"], file.highest["id"]) for file in files)
            assert all(one[1] < other[0] for one, other in pairwise(ranges))
            (path, *_) = (str(file.path) for file in files)
            assert pl.read_parquet(self.root / "pipeline" / "items" / path)["id"].is_sorted()


class TestCompactionBeside(LocalDelta):
    """Compaction by a sibling while epochs commit."""

    def beside(self, monkeypatch: pytest.MonkeyPatch, between: Callable[[], object]) -> LocalDeltaStore:
        """A store whose compaction is overtaken: `between` runs when its files are written, before it commits."""

        def overtaken(*arguments: Any) -> Any:
            written = prepare_compaction(*arguments)
            between()
            return written

        monkeypatch.setattr(local_store, "prepare_compaction", overtaken)
        return LocalDeltaStore(str(self.root), CompactionPolicy(min_files=2, min_share=0))

    def data_files(self) -> set[str]:
        return {file.name for file in self.root.rglob("*.parquet") if file.parent.name != "_delta_log"}

    @both_layouts
    def test_rows_that_are_added_meanwhile_stay(
        self, store: LocalDeltaStore, monkeypatch: pytest.MonkeyPatch, layout: Layout
    ) -> None:
        spec = spec_of("id bigint, name string", layout=layout)
        table = self.table(store, spec)
        table.commit(append=[(1, "a")])
        table.commit(append=[(2, "b")])
        other = self.beside(monkeypatch, lambda: table.commit(append=[(3, "c")])).sibling()
        other.ensure(spec)
        assert other.compact(spec.name) == "3"
        assert table.rows_at(Version("3")) == table.rows() == bag((1, "a"), (2, "b"), (3, "c"))
        assert len(self.data_files()) == 4

    def test_it_gives_way_to_an_epoch_that_has_rewritten_its_files(
        self, store: LocalDeltaStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spec = spec_of("id bigint, name string", ["id"], layout=Layout.MERGED)
        table = self.table(store, spec)
        table.commit(append=[(1, "a"), (2, "b")])
        table.commit(append=[(3, "c")])
        there: list[set[str]] = []

        def between() -> None:
            table.commit(merge=[(1, "z")])
            there.append(self.data_files())

        other = self.beside(monkeypatch, between).sibling()
        other.ensure(spec)
        assert other.compact(spec.name) is None
        (kept,) = there
        (orphan,) = kept - self.data_files()  # what it had written is gone, and nothing else
        assert orphan not in {Path(file.path).name for file in other.sibling()._log(spec.name).files(2).values()}
        assert table.rows() == bag((1, "z"), (2, "b"), (3, "c"))
        monkeypatch.undo()
        assert other.compact(spec.name) is not None
        assert table.rows() == bag((1, "z"), (2, "b"), (3, "c"))

    def test_an_epoch_that_only_adds_rows_writes_them_once_though_it_is_overtaken(
        self, store: LocalDeltaStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = self.table(store, NAMES)
        table.commit(append=[(1, "a")])
        table.commit(merge=[(1, "b")])
        other = LocalDeltaStore(str(self.root), CompactionPolicy(min_files=2, min_share=0))
        other.ensure(NAMES)
        prepared: list[Version | None] = []

        def overtaken(*arguments: Any) -> Any:
            writing = prepare_change(*arguments)
            prepared.append(other.compact(NAMES.name))
            return writing

        monkeypatch.setattr(local_store, "prepare_change", overtaken)
        assert table.commit(merge=[(1, "c"), (2, "d")]) == "3"
        assert prepared == ["2"]
        assert table.rows() == bag((1, "c"), (2, "d"))
        assert len(self.data_files()) == 4

    def test_an_epoch_that_rewrites_files_does_its_work_again(
        self, store: LocalDeltaStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spec = spec_of("id bigint, name string", ["id"], layout=Layout.MERGED)
        table = self.table(store, spec)
        table.commit(append=[(1, "a"), (2, "b")])
        table.commit(append=[(3, "c")])
        other = LocalDeltaStore(str(self.root), CompactionPolicy(min_files=2, min_share=0))
        other.ensure(spec)
        prepared: list[Version | None] = []

        def overtaken(*arguments: Any) -> Any:
            writing = prepare_change(*arguments)
            prepared.append(other.compact(spec.name))
            return writing

        monkeypatch.setattr(local_store, "prepare_change", overtaken)
        assert table.commit(merge=[(1, "z")]) == "3"
        assert prepared == ["2", None]
        assert table.rows() == bag((1, "z"), (2, "b"), (3, "c"))

    def test_another_writer_that_overtakes_is_no_upkeep(
        self, store: LocalDeltaStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table, rival = self.table(store, NAMES), self.table(store.sibling(), NAMES)
        table.commit(append=[(1, "a")])
        rival.sequence = 1

        def overtaken(*arguments: Any) -> Any:
            writing = prepare_change(*arguments)
            monkeypatch.undo()
            rival.commit(merge=[(1, "theirs")])
            return writing

        monkeypatch.setattr(local_store, "prepare_change", overtaken)
        with pytest.raises(EpochConflict):
            table.commit(merge=[(1, "ours")])
        assert rival.rows() == bag((1, "theirs"))
        assert len(self.data_files()) == 2


SMALL = st.integers(0, 2)
COUNTS = spec_of(
    "day bigint, page string, visitor bigint, pane bigint, _times bigint, _most bigint",
    ["day", "page", "visitor", "pane"],
    rules={"_times": Sum(), "_most": Max()},
    partition_by=("day",),
)
LATEST = evolve(COUNTS, rules={})
"""Its newest row counts."""
COUNTED = st.tuples(
    st.integers(1, 2), st.sampled_from("ab"), st.integers(1, 3), st.sampled_from([0, 5]), st.integers(-2, 2), SMALL
)
ASKED = st.tuples(st.integers(1, 3), st.sampled_from("abc"), st.integers(1, 4))
WORK = st.one_of(
    st.tuples(st.just("merge"), st.lists(COUNTED, min_size=1, max_size=5, unique_by=lambda row: row[:4])),
    st.tuples(st.sampled_from(["compact", "rollback", "delete", "look back", "overwrite"]), st.just([])),
)


def _work(table: TableDriver, kind: str, rows: list[Any], versions: list[Version]) -> Version | None:
    """Do something to a table; the version to read then, which may be an early one."""
    match kind:
        case "merge":
            return table.commit(merge=rows)
        case "overwrite":
            return table.commit(overwrite=[(1, "a", 1, 0, 1, 1)])
        case "delete":
            return table.commit(delete=[(1, "a", 1, 0)])
        case "rollback" if versions:
            return table.rollback(versions[-2] if len(versions) > 1 else None)
        case "compact" if versions:
            table.compact()
            return table.newest
    return versions[0] if versions else None


class TestLookups(LocalDelta):
    """What is answered from memory is what is read from files."""

    @given(
        spec=st.sampled_from([COUNTS, LATEST]),
        work=st.lists(st.tuples(WORK, st.booleans()), max_size=9),
        asked=st.lists(ASKED, min_size=1, max_size=6),
    )
    @settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    def test_rows_after_any_commits(self, spec: TableSpec, work: list[Any], asked: list[tuple[int, str, int]]) -> None:
        self.root = self.root / uuid4().hex
        eager = CompactionPolicy(min_files=2, min_share=0)
        stores = [LocalDeltaStore(str(self.root), eager) for _ in range(2)]
        plain = LocalDeltaStore(str(self.root), lookups=Lookups(limit=0))
        mine, theirs = (self.table(store, spec) for store in stores)
        plain.ensure(spec)
        keys = self.frame(asked, spec.schema.select(spec.key[:3]))
        wanted = Matching(keys, {"pane": (0,), "day": Between(1, 2)})
        versions: list[Version] = []
        for (kind, rows), by_another in work:
            table = theirs if by_another else mine
            at = _work(table, kind, rows, versions)
            mine.sequence = theirs.sequence = table.sequence
            mine.newest = theirs.newest = table.newest
            if at is not None:
                versions.append(at)
            found, expected = (self.rows(store.read(spec.name, at, wanted)) for store in (stores[0], plain))
            assert bag(*found) == bag(*expected)
            found, expected = (
                self.rows(store.look_up(spec.name, at, keys, wanted, {"times": "_times", "most": "_most"}))
                for store in (stores[0], plain)
            )
            assert bag(*found) == bag(*expected)

    def counts(self, table: TableDriver, day: int) -> Bag:
        keys = self.frame([(day, "a", 1)], COUNTS.schema.select(COUNTS.key[:3]))
        return table.rows(Matching(keys, {"pane": (0,)}))

    def test_the_index_least_recently_used_is_dropped(self) -> None:
        """Two are made by the second lookup of each, and one of them has room."""
        store = LocalDeltaStore(str(self.root), cache=FileCache(limit=0), lookups=Lookups(limit=6_000))
        table = self.table(store, COUNTS)
        table.commit(merge=[(day, "a", visitor, 0, day, visitor) for day in (1, 2) for visitor in range(100)])
        for day in (1, 1, 2, 2):
            assert self.counts(table, day) == bag((day, "a", 1, 0, day, 1))
        for file in self.root.rglob("*.parquet"):
            file.unlink()
        assert self.counts(table, 2) == bag((2, "a", 1, 0, 2, 1))
        with pytest.raises(HeadwaterError):
            self.counts(table, 1)

    def test_the_first_rows_that_ask_make_no_index(self) -> None:
        """There are a hundred rows, and one key is asked for: it has to be asked for again."""
        store = LocalDeltaStore(str(self.root), cache=FileCache(limit=0))
        table = self.table(store, COUNTS)
        at = table.commit(merge=[(1, "a", visitor, 0, 1, visitor) for visitor in range(100)])
        keys = self.frame([(1, "a", 1)], COUNTS.schema.select(COUNTS.key[:3]))

        def found() -> Bag:
            asking = store.look_up(COUNTS.name, at, keys, Matching(keys, {"pane": (0,)}), {"times": "_times"})
            return bag(*self.rows(asking))

        assert found() == bag((1, "a", 1, 1))
        for file in self.root.rglob("*.parquet"):
            file.unlink()
        with pytest.raises(HeadwaterError):
            found()

    def test_keys_beyond_those_of_the_files_need_no_index(self) -> None:
        store = LocalDeltaStore(str(self.root), cache=FileCache(limit=0))
        table = self.table(store, COUNTS)
        at = table.commit(merge=[(1, "a", visitor, 0, 1, visitor) for visitor in range(100)])
        for file in self.root.rglob("*.parquet"):
            file.unlink()
        keys = self.frame([(1, "a", visitor) for visitor in (100, 200)], COUNTS.schema.select(COUNTS.key[:3]))
        wanted = Matching(keys, {"pane": (0,)})
        for _ in range(2):
            asking = store.look_up(COUNTS.name, at, keys, wanted, {"times": "_times"})
            assert bag(*self.rows(asking)) == bag((1, "a", 100, None), (1, "a", 200, None))
            assert table.rows(wanted) == bag()

    @pytest.mark.parametrize("most", [512, 2])
    def test_a_commit_is_no_work_for_the_indexes_of_other_partitions(
        self, monkeypatch: pytest.MonkeyPatch, most: int
    ) -> None:
        """They follow when they are asked; one that lacks too many commits is built again, after a read."""
        monkeypatch.setattr(lookups, "_MOST_BEHIND", most)
        store = LocalDeltaStore(str(self.root))
        table = self.table(store, COUNTS)
        table.commit(merge=[(day, "a", visitor, 0, day, visitor) for day in (1, 2) for visitor in range(100)])
        for day in (1, 1, 2, 2):
            assert self.counts(table, day) == bag((day, "a", 1, 0, day, 1))
        works: list[object] = []
        with monkeypatch.context() as patched:
            patched.setattr(lookups.thread, "submit", lambda work: (works.append(work), Future())[1])
            for _ in range(3):
                table.commit(merge=[(2, "a", 1, 0, 1, 1)])
        assert len(works) == min(3, most)
        for _ in range(3):
            assert self.counts(table, 1) == bag((1, "a", 1, 0, 1, 1))
            assert self.counts(table, 2) == bag((2, "a", 1, 0, 5, 1))
        table.commit(merge=[(1, "a", 1, 0, 1, 9)])
        assert self.counts(table, 1) == bag((1, "a", 1, 0, 2, 9))

    def test_an_index_follows_commits_before_it_is_asked_again(self) -> None:
        store = LocalDeltaStore(str(self.root), cache=FileCache(limit=0))
        table = self.table(store, COUNTS)
        table.commit(merge=[(1, "a", visitor, 0, 1, visitor) for visitor in range(100)])
        for _ in range(2):
            assert self.counts(table, 1) == bag((1, "a", 1, 0, 1, 1))
        table.commit(merge=[(1, "a", 1, 0, 5, 7)])
        lookups.thread.submit(int).result()
        for file in self.root.rglob("*.parquet"):
            file.unlink()
        assert self.counts(table, 1) == bag((1, "a", 1, 0, 6, 7))


class TestLocalEngine(PolarsFrames, FrameEngineContract):
    @pytest.fixture
    def engine(self) -> LocalEngine:
        return LocalEngine()


def _tear(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])


def _blank(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


class TestErrors(LocalDelta):
    """What is wrong with a table is told as on Spark."""

    def files(self) -> list[Path]:
        return sorted((self.root / "pipeline" / "items").glob("*.parquet"))

    def reopened(self, spec: TableSpec) -> tuple[LocalDeltaStore, Version]:
        version = self.table(self.reopen(), spec).commit(append=[(1, "a"), (2, "b")])
        store = self.reopen()
        store.ensure(spec)
        return store, version

    @pytest.mark.parametrize("large", [False, True], ids=["read whole", "scanned"])
    @pytest.mark.parametrize(("harm", "error"), [(_tear, TableDamaged), (Path.unlink, VersionExpired)])
    def test_files_that_cannot_be_read(
        self, harm: Callable[[Path], None], error: type[Exception], monkeypatch: pytest.MonkeyPatch, *, large: bool
    ) -> None:
        monkeypatch.setattr(data_files, "READ_WHOLE", 0 if large else READ_WHOLE)
        store, version = self.reopened(NAMES)
        (file,) = self.files()
        harm(file)
        with pytest.raises(error, match="backup"), LocalEngine().explaining():
            store.read(NAMES.name, version).collect()

    def test_a_file_that_goes_after_the_read_was_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(data_files, "READ_WHOLE", 0)
        store, version = self.reopened(NAMES)
        rows = store.read(NAMES.name, version)
        self.files()[0].unlink()
        with pytest.raises(VersionExpired, match="pin"), LocalEngine().explaining():
            rows.collect()

    @pytest.mark.parametrize("step", ["order_code", "_compacted"], ids=["the keys were to be read", "a slice was read"])
    @pytest.mark.parametrize(("harm", "error"), [(_blank, TableDamaged), (Path.unlink, VersionExpired)])
    def test_a_file_that_goes_while_it_is_compacted(
        self, harm: Callable[[Path], None], error: type[Exception], step: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing is committed, and nothing is left of the file that is written."""
        monkeypatch.setattr(data_files, "READ_WHOLE", 0)
        monkeypatch.setattr(compaction, "_SLICE", 1)
        store, _ = self.reopened(NAMES)
        store.compaction, before, take = Everything(), self.files(), getattr(compaction, step)

        def overtaken(*arguments: Any, **options: Any) -> Any:
            for file in before:
                harm(file)
            monkeypatch.setattr(compaction, step, take)
            return take(*arguments, **options)

        monkeypatch.setattr(compaction, step, overtaken)
        with pytest.raises(error, match=r"(?s)^a data file .*backup"):
            store.compact(NAMES.name)
        assert set(self.files()) <= set(before)
        assert [each.version for each in store.versions(NAMES.name)] == ["0"]

    def test_a_commit_that_cannot_be_parsed(self) -> None:
        self.reopened(NAMES)
        _tear(self.root / "pipeline" / "items" / "_delta_log" / f"{0:020}.json")
        with pytest.raises(TableDamaged, match=r"version 0.*remove the commit's file"):
            self.reopen().ensure(NAMES)

    @pytest.mark.parametrize("lost", [0, 1], ids=["the first", "one between"])
    def test_a_commit_that_is_lost(self, lost: int) -> None:
        """Without it the newest commits cannot be reached; a commit in its place would hide them."""
        table = self.table(self.reopen(), NAMES)
        for number in range(3):
            table.commit(append=[(number, "a")])
        log = self.root / "pipeline" / "items" / "_delta_log"
        (log / f"{lost:020}.json").unlink()
        before = sorted(each.name for each in log.iterdir())
        with pytest.raises(TableDamaged, match=f"neither commit {lost}"):
            self.reopen().ensure(NAMES)
        assert sorted(each.name for each in log.iterdir()) == before

    @pytest.mark.parametrize("gone", ["", "pipeline/items"], ids=["the lake", "the table"])
    def test_a_folder_that_goes_and_comes_back(self, gone: str) -> None:
        """As on a share that is unmounted for a while: a commit into an empty folder would make another log."""
        table = self.table(self.reopen(), NAMES)
        for number in range(3):
            table.commit(append=[(number, "a")])
        folder, away = self.root / gone, self.root.with_name("away")
        folder.rename(away)
        with pytest.raises(StoreUnavailable, match="has no version 2"):
            table.commit(append=[(3, "a")])
        assert not list(self.root.rglob("*.json"))
        shutil.rmtree(folder, ignore_errors=True)
        away.rename(folder)
        table.commit(append=[(3, "a")])
        assert table.rows() == bag((0, "a"), (1, "a"), (2, "a"), (3, "a"))
        self.reopen().ensure(NAMES)

    def test_a_checkpoint_of_a_newer_kind(self) -> None:
        """Its commits are gone, so this engine cannot read the table, and must not take it for a new one."""
        self.reopened(NAMES)
        log = self.root / "pipeline" / "items" / "_delta_log"
        (log / f"{0:020}.json").rename(log / f"{0:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json")
        with pytest.raises(TableDamaged, match='engine = "spark"'):
            self.reopen().ensure(NAMES)

    def test_a_disk_that_is_full(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is committed, and nothing is left of the file."""
        store, version = self.reopened(NAMES)
        before = self.files()

        def full(_rows: pl.DataFrame, path: Path, **_more: Any) -> None:
            path.write_bytes(b"PAR1")
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(pl.DataFrame, "write_parquet", full)
            table = TableDriver(self, store, NAMES, sequence=1, newest=version)
            with pytest.raises(StoreUnavailable, match=r"^cannot write .*space"), LocalEngine().explaining():
                table.commit(append=[(3, "c")])
        assert self.files() == before
        table.commit(append=[(3, "c")])
        assert table.rows() == bag((1, "a"), (2, "b"), (3, "c"))


class TestPartitions(LocalDelta):
    def test_each_type_is_found_again(self) -> None:
        """The values of partition columns are only in the log, as text."""
        values = [
            ("i", "int", -3),
            ("t", "boolean", True),
            ("m", "decimal(10,2)", Decimal("1.50")),
            ("d", "date", date(2024, 2, 29)),
            ("at", "timestamp", datetime(2024, 1, 1, 12, 30, 0, 120000, UTC)),
            ("wall", "timestamp_ntz", datetime(2024, 1, 1, 12, 30, 0, 120000)),
            ("s", "string", "a b/ü=%"),
            ("gone", "string", None),
        ]
        names = [name for name, _, _ in values]
        ddl = ", ".join(f"{name} {kind}" for name, kind, _ in values)
        spec = spec_of(f"id bigint, {ddl}", ["id", *names[:-1]], partition_by=names[:-1])
        row = (1, *(value for _, _, value in values))
        self.table(self.reopen(), spec).commit(append=[row])
        store = self.reopen()
        store.ensure(spec)
        assert self.rows(store.read(spec.name, next(store.versions(spec.name)).version)) == [row]
