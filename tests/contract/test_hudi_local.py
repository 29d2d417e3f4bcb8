"""The Hudi backend for frames of Polars under the contract, and with what the Spark engine makes of the same tables."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import cycle
from struct import pack
from typing import TYPE_CHECKING, Any, cast

import polars as pl
import pyarrow as pa
import pytest
from attrs import evolve

from headwater.adapters.hudi.archive import ArchivePolicy
from headwater.adapters.hudi.compact import CompactionPolicy
from headwater.adapters.hudi.local import exchange
from headwater.adapters.hudi.local import read as reading
from headwater.adapters.hudi.local.commit import LocalCommit
from headwater.adapters.hudi.names import KEY
from headwater.adapters.hudi.timeline import Timeline
from headwater.adapters.spark.jvm import java_class
from headwater.adapters.spark.schema import frame_of
from headwater.domain.errors import BadInput, EngineLimit, TableDamaged
from headwater.domain.table.change import Change
from headwater.domain.table.merge import Latest, Sum
from headwater.domain.table.schema import Schema
from headwater.testing.frames import PolarsFrames
from headwater.testing.store_committing import CommittingContract
from headwater.testing.store_contract import OperationsContract, StoreContract
from headwater.testing.store_harness import StoreHarness, TableDriver, bag, mark_of, spec_of
from headwater.testing.store_keeping import expire
from headwater.testing.store_merging import MergingContract
from headwater.testing.store_nested import NestedContract
from headwater.testing.store_reading import ValuesContract
from headwater.testing.store_whole import WholeContract
from tests.contract import test_hudi, test_hudi_expiring
from tests.contract.turns import TakingTurns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.adapters.hudi.local.store import LocalHudiStore
    from headwater.domain.ports import KeptStore, Version
    from headwater.testing.store_harness import Bag, Row

pytestmark = [pytest.mark.hudi, pytest.mark.contract]

TYPES = (
    "id bigint, t tinyint, s smallint, i int, f float, d double, w string, b boolean, x binary, day date,"
    " at timestamp, wall timestamp_ntz, c decimal(38,10), e decimal(4,1)"
)
_MOST, _SMALL = Decimal("9999999999999999999999999999.9999999999"), Decimal("999.9")
_INSTANT = datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC)
_FIRST, _END = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)
_VALUES: tuple[tuple[Any, ...], ...] = (
    (-128, -32768, -(2**31), 0.5, -0.0, "", False, b"", date.min, _FIRST.replace(tzinfo=UTC), _FIRST, -_MOST, -_SMALL),
    (
        127,
        32767,
        2**31 - 1,
        -1.5,
        1e300,
        "数 \\\n'",
        True,
        b"\0\xff",
        date.max,
        _END.replace(tzinfo=UTC),
        _END,
        _MOST,
        _SMALL,
    ),
    (None,) * 13,
    (
        0,
        0,
        0,
        float("inf"),
        1e-300,
        "x" * 5000,
        True,
        b"x",
        date(1970, 1, 1),
        _INSTANT,
        _INSTANT.replace(tzinfo=None),
        0,
        0,
    ),
)


class Locally(PolarsFrames, StoreHarness):
    """Makes the tests of a class run on the store for frames of Polars."""

    table_type: str
    root: Path

    def reopen(self) -> LocalHudiStore:
        from headwater.adapters.hudi.local.store import LocalHudiStore
        from headwater.adapters.hudi.spec import TableType

        eager = CompactionPolicy(min_files=1)  # the few files of a test are to be compacted
        return LocalHudiStore(self.spark, str(self.root), TableType(self.table_type), buckets=2, compaction=eager)  # type: ignore[attr-defined]

    @contextmanager
    def explaining(self) -> Iterator[None]:
        from headwater.adapters.polars.file_errors import explain_read_errors

        with explain_read_errors():
            yield


class LocalHudi(Locally, test_hudi.Hudi):  # type: ignore[misc]
    pass


class TestMergeOnRead(LocalHudi, OperationsContract, ValuesContract, NestedContract, WholeContract):
    pass


@pytest.mark.slow
class TestMergeOnReadInFull(LocalHudi, MergingContract):
    """Its folds are the domain's; `TestFolded` compares them with those of the Spark engine."""


@pytest.mark.slow
class TestCopyOnWriteInFull(LocalHudi, StoreContract):
    table_type = "COPY_ON_WRITE"


class TestCopyOnWrite(LocalHudi, CommittingContract):
    table_type = "COPY_ON_WRITE"


class TestUpkeep(Locally, test_hudi.TestUpkeep):  # type: ignore[misc]
    test_a_plan_to_put_files_together_is_in_nobodys_way = None  # asks a frame of Spark for its files


@pytest.mark.slow
class TestFiles(Locally, test_hudi_expiring.TestFiles):  # type: ignore[misc]
    test_what_is_planned_to_be_compacted_stays = None  # these two ask a frame of Spark for more
    test_what_a_dead_writer_left_is_left_to_the_next_writer = None
    test_a_frame_whose_files_go_before_it_is_computed_is_an_error = None  # a frame of Polars has been read


@pytest.mark.slow
class TestExpiriesSideBySide(Locally, test_hudi_expiring.TestRaces):  # type: ignore[misc]
    pass


class BothEngines(test_hudi.Hudi):
    """Operations run in turn on the store for frames of Spark and on the one for frames of Polars."""

    @pytest.fixture(autouse=True)
    def _turns(self) -> None:
        self.turns = cycle(["spark", "local"])

    def reopen(self) -> KeptStore:  # type: ignore[override]
        local = Locally.reopen(cast("Locally", self))
        return cast("KeptStore", TakingTurns(local, super().reopen(), self.turns, self.spark))


@pytest.mark.slow
class TestTurns(BothEngines, StoreContract):
    pass


@pytest.mark.slow
class TestTurnsOnCopies(BothEngines, StoreContract):
    table_type = "COPY_ON_WRITE"


class TestSameRows(LocalHudi):
    """What either store has written, both read alike, at each version."""

    @pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
    def test_values_of_all_types(self, table_type: str) -> None:
        self.table_type = table_type
        table = self.table(self.reopen(), spec_of(TYPES, ["id"]))
        rows = [(number, *_VALUES[number % len(_VALUES)]) for number in range(8)]
        made = [table.commit(append=rows[:6]), table.commit(merge=[(1, *_VALUES[2]), (6, *_VALUES[3])], delete=[(2,)])]
        table.compact()
        made.append(table.commit(merge=[(1, *_VALUES[0]), (7, *_VALUES[1])], delete=[(3,), (99,)]))
        spark = self.table(test_hudi.Hudi.reopen(self), table.spec)
        for version in made:
            assert table.rows_at(version) == bag(*spark.harness.rows(spark.store.read(table.spec.name, version)))

    @pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
    def test_changes_from_the_start_when_its_commits_are_archived(self, table_type: str) -> None:
        self.table_type = table_type
        store = evolve(self.reopen(), archiving=ArchivePolicy(min_instants=4, age=timedelta()))
        table = self.table(store, spec_of("day int, name string", ["day"], partition_by=["day"]))
        made = [table.commit(merge=[(day, "a")]) for day in range(6)]
        expire(table, made[4:], datetime.now(UTC))
        assert made[0] not in [commit.version for commit in store.versions(table.spec.name)]
        for found in (table, self.table(test_hudi.Hudi.reopen(self), table.spec)):
            assert found.changes(None, made[4]) == bag(*((day, "a", "+I") for day in range(5)))
            assert found.changes(made[4], made[5]) == bag((5, "a", "+I"))

    @pytest.mark.parametrize("large", [True, False])
    def test_a_loaded_table_whose_buckets_are_resized(self, monkeypatch: pytest.MonkeyPatch, *, large: bool) -> None:
        if large:
            monkeypatch.setattr(reading, "READ_WHOLE", 0)
        store = self.reopen()
        store.compaction = CompactionPolicy(min_files=1, target_bytes=64 * 1024)
        spec = spec_of("id bigint, name string, n bigint", ["id"], rules={"n": Sum()})
        table = self.table(store, spec)
        rows = [(number, f"{number * 7919 % 10007:064}", number) for number in range(5_000)]
        first = table.load(rows)
        table.commit(merge=[(7, "merged", 1), (-1, "new", 2)], delete=[(8,)])
        table.compact()
        store.compaction = evolve(store.compaction, target_bytes=32 * 1024 * 1024)
        table.compact()
        table.commit(merge=[(9, "too", 1)])
        changed = {7: (7, "merged", 8), 9: (9, "too", 10), -1: (-1, "new", 2)}
        kept = {row[0]: row for row in rows if row[0] != 8} | changed
        assert table.rows() == bag(*kept.values())
        assert table.rows_at(first) == bag(*rows)

    def test_columns_that_came_later(self) -> None:
        table = self.table(self.reopen(), spec_of("id bigint, name string", ["id"]))
        table.commit(append=[(1, "a"), (2, "b")])
        table.compact()
        table.commit(merge=[(2, "c")])
        wider = TableDriver(self, self.reopen(), spec_of("id bigint, name string, `a b` decimal(5,2)", ["id"]))
        wider.store.ensure(wider.spec)
        wider.sequence, wider.newest = table.sequence, table.newest
        assert wider.rows() == bag((1, "a", None), (2, "c", None))
        wider.commit(merge=[(3, "d", None)])
        assert wider.rows() == bag((1, "a", None), (2, "c", None), (3, "d", None))


class TestExchange(LocalHudi):
    def test_many_rows_are_several_partitions_in_their_order(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(exchange, "_BATCH_BYTES", 1000)
        monkeypatch.setattr(exchange, "_HEAP_SHARE", 1)
        self.spark.conf.set("spark.sql.execution.arrow.localRelationThreshold", "1b")
        schema = Schema.parse("id bigint, name string")
        rows = pl.DataFrame({"id": list(range(500)), "name": [f"n{number}" for number in range(500)]})
        try:
            handed = exchange.to_spark(self.spark, rows, schema)
            assert handed.rdd.getNumPartitions() > 5
            assert exchange.to_polars(handed, schema).equals(rows)
        finally:
            self.spark.conf.unset("spark.sql.execution.arrow.localRelationThreshold")

    def test_more_than_the_heap_takes_is_beyond_the_engine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        table = self.table(self.reopen(), spec_of("id double, name string", ["id"]))  # Spark writes such keys
        first = table.commit(append=[(1, "a")])
        with monkeypatch.context() as patch:
            patch.setattr(exchange, "_HEAP_SHARE", 10**12)
            with pytest.raises(EngineLimit, match=r"raise spark\.driver\.memory under"):
                table.commit(merge=[(2, "b")])
        assert table.rows() == bag((1, "a"))
        assert table.rows_at(first) == bag((1, "a"))


class TestRaces(LocalHudi):
    def test_upkeep_that_ends_while_files_are_looked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Files are put together: what replaced them is complete before it is asked what was replaced."""
        table = self.table(self.reopen(), spec_of("id bigint"))
        for number in range(3):
            table.commit(append=[(number,)])
        replaced, other = Timeline.replaced, self.reopen()
        other.ensure(table.spec)

        def late(timeline: Timeline) -> dict[tuple[str, str], str]:
            monkeypatch.setattr(Timeline, "replaced", replaced)
            assert other.compact(table.spec.name) is not None
            return replaced(timeline)

        monkeypatch.setattr(Timeline, "replaced", late)
        assert table.rows() == bag((0,), (1,), (2,))
        assert table.rows_at(other.compact(table.spec.name) or table.newest) == bag((0,), (1,), (2,))


class TestFolded(LocalHudi):
    def test_rows_that_arrived_one_after_the_other_are_folded_as_spark_folds_them(self) -> None:
        groups = (Latest(("at", "word"), ("name",)),)
        spec = spec_of(
            "id bigint, at int, word string, name string, n bigint", ["id"], groups=groups, rules={"n": Sum()}
        )
        table = self.table(self.reopen(), spec)
        table.commit(merge=[(1, 1, "a9", "first", 1), (2, None, None, "never", 1)])
        table.commit(merge=[(1, 1, "a10", "second", 2), (2, 0, None, "now", None)])
        table.commit(merge=[(1, None, None, "ignored", 4)], delete=[(2,)])
        table.commit(merge=[(2, 5, "x", "again", 7)])
        spark = self.table(test_hudi.Hudi.reopen(self), spec)
        expected = bag((1, 1, "a10", "second", 7), (2, 5, "x", "again", 7))
        assert table.rows() == expected == bag(*spark.harness.rows(spark.store.read(spec.name, table.newest)))


class TestLogFiles(LocalHudi):
    """What only Hudi can read is left to it, and damage is reported."""

    def log(self) -> tuple[TableDriver, Path]:
        table = self.table(self.reopen(), spec_of("id bigint, name string", ["id"]))
        table.commit(append=[(1, "a")])
        table.commit(merge=[(1, "b")])
        *_, path = sorted((self.root / "pipeline" / "items").glob(".*.log.1_*[0-9]"))
        return table, path

    @pytest.mark.parametrize(("place", "value"), [(14, 2), (18, 4), (18, 6)], ids=["version", "hfile", "changes"])
    def test_a_block_of_another_kind_is_beyond_the_engine(self, place: int, value: int) -> None:
        table, path = self.log()
        data = bytearray(path.read_bytes())
        data[place : place + 4] = pack(">i", value)
        path.write_bytes(data)
        with pytest.raises(EngineLimit, match='which only Hudi reads: set engine = "spark"'):
            self.table(self.reopen(), table.spec).rows_at(table.newest)

    def test_a_block_that_does_not_begin_where_the_one_before_ends_is_damage(self) -> None:
        table, path = self.log()
        data = path.read_bytes()
        path.write_bytes(data[:6] + pack(">q", len(data) - 20) + data[14:])
        with pytest.raises(TableDamaged, match="no block begins at byte"):
            self.table(self.reopen(), table.spec).rows_at(table.newest)

    def test_a_log_that_is_cut_off_is_damage(self) -> None:
        table, path = self.log()
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(TableDamaged, match="cut off"):
            self.table(self.reopen(), table.spec).rows_at(table.newest)


_KEYS = {
    "int": (-(2**31), 0, 7),
    "boolean": (False, True),
    "date": (date.min, date(1582, 10, 10), date(1969, 12, 31), date.max),
    "timestamp": (_FIRST.replace(tzinfo=UTC), _INSTANT, _END.replace(tzinfo=UTC)),
    "string": ("", "a", "A-9", "empty_", "null_", "~", "a~b", "a_b", "a.b*c +d", "%5F", "数 \\\n'", "é" * 40, "\0"),
}
"""By type, values of keys that this process writes as text."""


class Died(Exception):
    """A writer ends in the middle of a commit."""


class TestOwnCommits(LocalHudi):
    """Commits that this process makes without Spark: for Hudi they are like its own."""

    @pytest.fixture(params=["MERGE_ON_READ", "COPY_ON_WRITE"], autouse=True)
    def _type(self, request: pytest.FixtureRequest) -> None:
        self.table_type = request.param

    @contextmanager
    def without_jobs(self) -> Iterator[None]:
        tracker = self.spark.sparkContext.statusTracker()
        before = {*tracker.getJobIdsForGroup()}
        yield
        assert {*tracker.getJobIdsForGroup()} == before

    def seen(self, table: TableDriver, version: Version | None = None) -> Bag:
        """The rows of a version, or of the newest one that was made through the table, which both engines read alike."""
        read, at = Counter[Any](), version or table.newest
        for store in (self.reopen(), test_hudi.Hudi.reopen(self)):
            store.ensure(table.spec)
            found = bag(*self.rows(store.read(table.spec.name, at)))
            assert not read or found == read
            read = found
        return read

    def commit_on_spark(self, table: TableDriver, rows: Sequence[Row]) -> None:
        store, table.sequence = test_hudi.Hudi.reopen(self), table.sequence + 1
        store.ensure(table.spec)
        change = Change(merge=frame_of(self.spark, table.spec.schema, rows))
        table.newest = store.commit(table.spec.name, change, mark_of(table.sequence))

    @pytest.mark.parametrize("kind", _KEYS)
    @pytest.mark.parametrize("partition_by", [[], ["k"]])
    def test_keys_are_found_again(self, kind: str, partition_by: list[str]) -> None:
        spec = spec_of(f"k {kind}, n bigint, word string", ["k", "n"], partition_by=partition_by)
        table, keys = self.table(self.reopen(), spec), [(key, n) for key in _KEYS[kind] for n in range(3)]
        first = table.commit(append=[(*key, "first") for key in keys])
        with self.without_jobs():
            second = table.commit(merge=[(*key, "second") for key in keys])
            third = table.commit(append=[(key, 3, "new") for key in _KEYS[kind]], delete=keys[::2])
        left = [*((*key, "second") for key in keys[1::2]), *((key, 3, "new") for key in _KEYS[kind])]
        assert self.seen(table, first) == bag(*((*key, "first") for key in keys))
        assert self.seen(table, second) == bag(*((*key, "second") for key in keys))
        assert self.seen(table, third) == bag(*left)
        self.commit_on_spark(table, [(*key, "fourth") for key in keys])
        with self.without_jobs():
            table.commit(merge=[(*keys[0], "fifth")])
        table.compact()
        assert self.seen(table, third) == bag(*left)
        newest = [(*keys[0], "fifth"), *((*key, "fourth") for key in keys[1:]), *left[len(keys[1::2]) :]]
        assert self.seen(table) == bag(*newest)

    def test_decimals_of_rows_that_spark_merges_with_others(self) -> None:
        """Hudi merges records as Avro, in which a decimal is bytes."""
        table = self.table(self.reopen(), spec_of("id int, a decimal(9,2), b decimal(18,3), c decimal(38,10)", ["id"]))
        rows = [(n, Decimal(f"{n}.10"), Decimal(f"-{n}.345"), Decimal(f"{n}.0000000001")) for n in range(5)]
        table.commit(append=rows[:3])
        with self.without_jobs():
            table.commit(merge=rows[1:4])
        self.commit_on_spark(table, rows[4:])
        self.commit_on_spark(table, [(0, None, None, None)])
        table.compact()
        assert self.seen(table) == bag((0, None, None, None), *rows[1:])

    def test_a_column_of_another_process_that_is_nested(self) -> None:
        table = self.table(self.reopen(), spec_of("id int, name string", ["id"]))
        table.commit(append=[(1, "a")])
        wider = TableDriver(self, self.reopen(), spec_of("id int, name string, tags array<string>", ["id"]))
        wider.store.ensure(wider.spec)
        wider.sequence = table.sequence
        wider.commit(merge=[(2, "b", ["x"])])
        table.sequence = wider.sequence
        table.commit(merge=[(1, "c")])
        assert table.rows() == bag((1, "c"), (2, "b"))
        wider.newest = table.newest
        assert [str(row) for row in wider.rows()] == [str(row) for row in bag((1, "c", None), (2, "b", ["x"]))]

    def test_partitions_whose_names_are_too_long(self) -> None:
        table = self.table(self.reopen(), spec_of("k string, n int", ["k", "n"], partition_by=["k"]))
        table.commit(append=[("a", 1)])
        table.commit(delete=[("x" * 300, 1)])
        with pytest.raises(BadInput, match="the value of k in some row is too long for the name of a folder"):
            table.commit(merge=[("x" * 300, 1)])
        assert self.seen(table) == bag(("a", 1))

    def test_rows_without_a_key(self) -> None:
        table = self.table(self.reopen(), spec_of("day int, n bigint", partition_by=["day"]))
        rows = [(1, 1), (1, 1), (2, None), (None, 3), (3, 4)]
        table.commit(append=rows[:2])
        with self.without_jobs():
            table.commit(append=rows[2:])
        assert self.seen(table) == bag(*rows)

    def test_a_commit_without_rows(self) -> None:
        table = self.table(self.reopen(), spec_of("id bigint, name string", ["id"]))
        table.commit(append=[(1, "a")])
        with self.without_jobs():
            table.commit(append=[], delete=[(9,)])
        table.commit(merge=[(2, "b")])
        assert self.seen(table) == bag((1, "a"), (2, "b"))

    @pytest.mark.parametrize("step", ["_begin", "_written", "_complete"])
    @pytest.mark.parametrize("next_writer", ["local", "spark"])
    def test_what_a_dead_writer_left_is_rolled_back(
        self, step: str, next_writer: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = self.table(
            self.reopen(), spec_of("part int, id bigint, name string", ["part", "id"], partition_by=["part"])
        )
        table.commit(append=[(1, 1, "a"), (1, 2, "b")])
        done = getattr(LocalCommit, step)

        def dies(commit: LocalCommit, *arguments: object) -> None:
            if step != "_complete":
                done(commit, *arguments)
            raise Died

        with monkeypatch.context() as patched, pytest.raises(Died):
            patched.setattr(LocalCommit, step, dies)
            table.commit(merge=[(1, 1, "dead"), (2, 3, "dead")], delete=[(1, 2)])
        assert self.seen(table) == bag((1, 1, "a"), (1, 2, "b"))
        dead = {path for path in self.root.rglob("*_0-0-0*") if path.is_file() and ".hoodie" not in path.parts}
        assert bool(dead) == (step != "_begin")
        if next_writer == "spark":
            self.commit_on_spark(table, [(1, 1, "alive")])
        else:
            table.commit(merge=[(1, 1, "alive")])
        assert self.seen(table) == bag((1, 1, "alive"), (1, 2, "b"))
        assert len(list(table.store.versions(table.spec.name))) == 2
        assert not any(path.exists() for path in dead)
        table.compact()
        assert self.seen(table) == bag((1, 1, "alive"), (1, 2, "b"))

    def test_a_key_that_is_null_is_refused(self) -> None:
        table = self.table(self.reopen(), spec_of("id bigint, name string", ["id"]))
        table.commit(append=[(1, "a")])
        with pytest.raises(BadInput, match="a key column is null in some rows; reject them before"):
            table.commit(merge=[(None, "b")])
        assert table.rows() == bag((1, "a"))


@pytest.mark.parametrize("number", [1, 2, 7, 256])
def test_buckets_are_those_of_hudi(number: int, spark: SparkSession) -> None:
    from headwater.adapters.hudi.local.stored_rows import BUCKET, with_buckets

    keys = ["", "1", "-9223372036854775808", "a~b", "z" * 300, "_E6_95_B0~2024-01-01"]
    hudi = java_class(spark, "org.apache.hudi.index.bucket.BucketIdentifier")
    expected = [int(hudi.getBucketId(key, KEY, number)) for key in keys]
    assert with_buckets(pl.DataFrame({KEY: keys}), number)[BUCKET].to_list() == expected


@pytest.mark.parametrize("chunks", [[[1], [], [2, 3]], [[], [], [1, 2]], [[1, 2], []], [[], []]])
def test_rows_behind_an_empty_chunk_come_to_spark(
    chunks: list[list[int]], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polars leaves such chunks where a filter or a join keeps no row of a chunk, such as those of one file."""
    from headwater.adapters.hudi.local.exchange import to_spark

    arrow = pa.table({"id": pa.chunked_array(chunks, pa.int64())})
    monkeypatch.setattr(pl.DataFrame, "to_arrow", lambda *_, **__: arrow)
    found = to_spark(spark, pl.DataFrame(), Schema.parse("id bigint"))
    assert [row["id"] for row in found.collect()] == [id_ for chunk in chunks for id_ in chunk]
