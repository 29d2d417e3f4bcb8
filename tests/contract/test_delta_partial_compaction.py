"""Compactions of some files of a partition: the rows stay what they were, whatever the other files have of their keys."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from attrs import field, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.adapters.delta.actions import by_partition
from headwater.adapters.delta.compaction_policy import CompactionPolicy, Rewrite
from headwater.adapters.delta.local import compaction
from headwater.adapters.delta.local.store import LocalDeltaStore
from headwater.domain.table.merge import Latest, Max, Min, Sum
from headwater.domain.table.spec import Layout
from headwater.testing.store_harness import TableDriver, bag, spec_of
from tests.properties.effort import examples

from .test_delta_local import LocalDelta

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from headwater.adapters.delta.actions import DataFile
    from headwater.domain.ports import KeptStore
    from headwater.domain.table.change import Matching
    from headwater.testing.store_harness import Row, StoreHarness

pytestmark = pytest.mark.contract

_COLUMNS = "id bigint, a bigint, b bigint, c bigint"
_SUMS = {"a": Sum(), "b": Max(), "c": Min()}
KINDS = {
    "newest": spec_of(_COLUMNS, ["id"]),
    "newest, partitioned": spec_of(_COLUMNS, ["id", "a"], partition_by=("a",)),
    "newest, a key without places": spec_of(_COLUMNS.replace("id bigint", "id decimal(9,2)"), ["id"]),
    "sums": spec_of(_COLUMNS, ["id"], rules=_SUMS),
    "sums, never deleted": spec_of(_COLUMNS, ["id"], rules=_SUMS),
    "sequence groups": spec_of(_COLUMNS, ["id"], groups=(Latest(["a"], ["b", "c"]),)),
    "two groups": spec_of(_COLUMNS, ["id"], groups=(Latest(["a"], ["b"]), Latest(["c"], []))),
    "sequence groups, never deleted": spec_of(_COLUMNS, ["id"], groups=(Latest(["a"], ["b", "c"]),)),
    "two groups, never deleted": spec_of(_COLUMNS, ["id"], groups=(Latest(["a", "b"], []), Latest(["c"], []))),
    "sums beside the newest": spec_of(_COLUMNS, ["id"], rules={"a": Sum()}),
    "merged": spec_of(_COLUMNS, ["id"], layout=Layout.MERGED),
    "no key": spec_of(_COLUMNS),
}


@frozen
class SomeFiles(CompactionPolicy):
    """Rewrites any files of each partition."""

    chance: Random = field(factory=Random, eq=False)

    def choose(self, files: Iterable[DataFile]) -> list[Rewrite]:
        found = by_partition(files).values()
        return [Rewrite.of(self.chance.sample(each, self.chance.randint(1, len(each))), each) for each in found]


class AllButTheFirst(CompactionPolicy):
    """Rewrites all files but the first one of each partition."""

    def choose(self, files: Iterable[DataFile]) -> list[Rewrite]:
        return [Rewrite.of(found[1:], found) for found in by_partition(files).values()]


class Twins:
    """A table whose files are compacted at random, and one with the same commits that is not."""

    def __init__(self, harness: StoreHarness, stores: tuple[KeptStore, KeptStore], kind: str, chance: Random) -> None:
        self.spec, self.chance, self.deletes = KINDS[kind], chance, not kind.endswith("never deleted")
        self.both = [TableDriver(harness, store, self.spec) for store in stores]
        for each in self.both:
            each.store.ensure(self.spec)
        self.there = set[int]()

    def commit(self) -> None:
        """Commit new rows, changes, and deletes, at most one of each key."""
        keys = self.chance.sample(range(8), self.chance.randint(1, 6))
        changed = {key for key in keys if self.spec.key and self.chance.random() < 0.6}
        gone = {key for key in changed if self.deletes and self.chance.random() < 0.3}
        new = set(keys) - changed - (self.there if self.spec.key else set())
        parts: dict[str, list[Row]] = {
            "append": [self._row(key, self._ordering) for key in sorted(new)],
            "merge": [self._row(key) for key in sorted(changed - gone)],
            "delete": [self._row(key)[: len(self.spec.key)] for key in sorted(gone)],
        }
        for each in self.both:
            each.commit(**{name: rows for name, rows in parts.items() if rows} or {"append": []})
        self.there = (self.there | new | changed) - gone

    @property
    def _ordering(self) -> set[str]:
        """The columns that order sequence groups: an appended row is nobody's change, so it has them."""
        return {name for group in self.spec.groups for name in group.by}

    def _row(self, key: int, given: Collection[str] = ()) -> Row:
        a, b, c = (self.chance.choice([0, 1, 2, 3] if name in given else [None, 0, 1, 2]) for name in "abc")
        return key, key % 2 if "a" in self.spec.key else a, b, c

    def check(self) -> None:
        """Compare reads of both: of all rows, by keys, and by another column."""
        some = [key for key in range(8) if self.chance.random() < 0.5]
        keys = [(key,) for key in some]
        for matching in (None, (keys, ["id"], {}), (None, [], {"c": (1, 2)}), (keys, ["id"], {"b": (1, 2, 3)})):
            found, right = (each.rows(_matching(each, matching)) for each in self.both)
            assert found == right, matching

    def check_changes(self, since: list[Any]) -> None:
        """Compare the changes since some versions."""
        if self.spec.key:
            found, right = (
                each.changes(then, each.newest) for each, then in zip(self.both, since, strict=True) if each.newest
            )
            assert found == right


def _matching(table: TableDriver, wanted: tuple[Any, ...] | None) -> Matching | None:
    """A filter: keys, their columns, and literals by column; None for all rows."""
    return None if wanted is None else table.matching(*wanted[:2], **wanted[2])


class TestLocal(LocalDelta):
    @pytest.mark.parametrize("kind", KINDS)
    @given(seed=st.integers(0, 2**32), is_sliced=st.booleans())
    @settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_some_files_may_be_brought_together_at_any_time(self, kind: str, seed: int, *, is_sliced: bool) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if is_sliced:
                patch.setattr(compaction, "_SLICE", 3)
                patch.setattr(compaction, "_HELD", 7)
            self._check(kind, Random(seed))

    def test_some_rows_of_a_sum_may_add_up_to_more_than_all_of_them(self) -> None:
        table = self.table(LocalDeltaStore(str(self.root), AllButTheFirst()), KINDS["sums, never deleted"])
        large = 9 * 10**18
        for value in (-large, large, large, 1):
            table.commit(merge=[(1, value, 0, 0)])
        table.compact()
        assert table.newest == "4"
        assert table.rows() == bag((1, large + 1, 0, 0))

    def _check(self, kind: str, chance: Random) -> None:
        self.runs = getattr(self, "runs", 0) + 1
        roots = [str(self.root / f"{self.runs}-{name}") for name in ("compacted", "plain")]
        stores = LocalDeltaStore(roots[0], SomeFiles(chance=chance)), LocalDeltaStore(roots[1])
        twins = Twins(self, stores, kind, chance)
        twins.commit()
        since = [each.newest for each in twins.both]
        for _ in range(8):
            twins.commit()
            if chance.random() < 0.5:
                twins.both[0].compact()
                twins.check()
            if chance.random() < 0.3:
                twins.check_changes(since)
                since = [each.newest for each in twins.both]
        stores[0].compaction = CompactionPolicy(min_files=2, min_share=0)
        twins.both[0].compact()
        twins.check()
