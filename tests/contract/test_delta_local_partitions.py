"""Reads of large partitions, each by itself, find what a read of all of them together finds."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.adapters.delta.local import read
from headwater.adapters.delta.local.store import LocalDeltaStore
from headwater.domain.table.merge import Latest, Sum
from headwater.testing.store_harness import TableDriver, spec_of
from tests.properties.effort import examples

from .test_delta_local import LocalDelta

if TYPE_CHECKING:
    from headwater.testing.store_harness import Bag, Row

pytestmark = pytest.mark.contract

_COLUMNS, _KEY = "part int, text string, id bigint, n int", ["part", "text", "id"]
KINDS = {
    "newest": spec_of(_COLUMNS, _KEY, partition_by=("part",)),
    "two columns": spec_of(_COLUMNS, _KEY, partition_by=("part", "text")),
    "all of the key": spec_of(_COLUMNS, _KEY, partition_by=("part", "text", "id")),
    "sums": spec_of(_COLUMNS, _KEY, rules={"n": Sum()}, partition_by=("part",)),
    "groups": spec_of(_COLUMNS, _KEY, groups=(Latest(["n"], []),), partition_by=("part",)),
}
ASKED = [["n"], ["id"], ["part", "n"], ["part", "id"], ["part"], ["text", "n"], _KEY]
"""Columns by which rows are asked for."""


class Parted:
    """A table with some partitions, and changes at random."""

    def __init__(self, table: TableDriver, chance: Random) -> None:
        self.table, self.chance = table, chance
        self.table.store.ensure(table.spec)

    def row(self) -> Row:
        part, text = self.chance.choice([1, 1, 2, 3]), self.chance.choice(["x", "y"])
        return part, text, self.chance.randint(1, 4), self.chance.choice([None, 1, 2, 3])

    def rows(self) -> list[Row]:
        """Some rows, each of another key."""
        return list({row[:3]: row for row in (self.row() for _ in range(self.chance.randint(1, 6)))}.values())

    def commit(self) -> None:
        """Merge some rows, and delete others."""
        merged = self.rows()
        gone = {row[:3] for row in self.rows()} - {row[:3] for row in merged}
        self.table.commit(merge=merged, delete=sorted(gone))

    def found(self, seed: int) -> list[Bag]:
        """What is found by each of `ASKED`, alone and with literals."""
        chance, names = Random(seed), self.table.spec.schema.names
        found = []
        for columns in ASKED:
            some = [tuple(row[names.index(name)] for name in columns) for row in self.rows()]
            literals = chance.choice([{}, {"part": (1, 2)}, {"n": (2, 3)}])
            found.append(self.table.rows(self.table.matching(some, columns, **literals)))
        return found


class TestLocal(LocalDelta):
    @pytest.mark.parametrize("kind", KINDS)
    @given(seed=st.integers(0, 2**32), large=st.sampled_from([0, 3000, 5000]))
    @settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_partitions_are_read_one_by_one(self, kind: str, seed: int, large: int) -> None:
        """A file of these has about 1,500 bytes."""
        self.runs = getattr(self, "runs", 0) + 1
        store = LocalDeltaStore(str(self.root / str(self.runs)))
        parted = Parted(TableDriver(self, store, KINDS[kind]), Random(seed))
        for _ in range(5):
            parted.commit()
        again = parted.chance.getstate()
        together = parted.found(seed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(read, "_LARGE", large)
            parted.chance.setstate(again)
            assert parted.found(seed) == together
        assert any(together)
