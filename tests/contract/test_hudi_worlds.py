"""Random commits of both engines to one table of Hudi, with upkeep, dead writers and new columns in between."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define, evolve, field

from headwater.adapters.hudi.archive import ArchivePolicy
from headwater.adapters.hudi.local.commit import LocalCommit
from headwater.adapters.spark.schema import frame_of
from headwater.domain.table.change import Change
from headwater.testing.frames import polars_frame
from headwater.testing.store_harness import bag, mark_of, spec_of
from tests.contract import test_hudi
from tests.contract.test_hudi_local import Died, LocalHudi

if TYPE_CHECKING:
    from headwater.domain.ports import KeptStore, Version
    from headwater.domain.table.spec import TableSpec
    from headwater.testing.store_harness import Row

pytestmark = [pytest.mark.hudi, pytest.mark.contract, pytest.mark.slow]

_COLUMNS = (
    "id string, p date, n int, t tinyint, a decimal(4,1), b decimal(18,3), c decimal(20,3), at timestamp,"
    " wall timestamp_ntz, day date, x binary, f float"
)
_IDS = ("", "a", "😀", "a/b", "\x01\x7f", "é~*+ %_", "k" * 60, "\0")
_DAYS = (date.min, date(1582, 10, 10), date(2024, 2, 29), date.max)
_KEYS = [(name, day) for name in _IDS for day in _DAYS]
_VALUES: tuple[tuple[Any, ...], ...] = (
    (-5, 0, None),
    (-128, 127),
    (Decimal("-999.9"), Decimal("0.1")),
    (Decimal("123456789012345.678"), Decimal("-0.001"), None),
    (Decimal("12345678901234567.123"), Decimal("-1.000")),
    (datetime(1, 1, 1, tzinfo=UTC), datetime(1883, 11, 18, 12, 3, 1, 5, tzinfo=UTC)),
    (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)),
    (date(1, 1, 1), date(1582, 10, 10), None),
    (b"", b"\0\xff"),
    (1.5, float("inf"), -0.5),
)


@define(eq=False)
class World:
    """One table, its stores by engine, and what its versions must contain."""

    test: LocalHudi
    random: Random
    spec: TableSpec
    stores: dict[str, KeptStore] = field(factory=dict)
    rows: dict[Row, Row] = field(factory=dict)
    expected: dict[Version, list[Row]] = field(factory=dict)
    sequence: int = 0

    def open(self) -> None:
        """Open both stores as new processes do; few instants stay in the timeline."""
        archiving = ArchivePolicy(min_instants=4, age=timedelta())
        opened = {"local": self.test.reopen(), "spark": test_hudi.Hudi.reopen(self.test)}
        self.stores = {name: evolve(store, archiving=archiving) for name, store in opened.items()}
        for store in self.stores.values():
            store.ensure(self.spec)

    def step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kinds = {"commit": 12, "overwrite": 1, "compact": 2, "expire": 2, "die": 2, "open": 2, "add_column": 1}
        chosen = self.random.choices([*kinds], [*kinds.values()])[0] if self.sequence else "commit"
        if chosen == "die":
            self.die(monkeypatch)
        else:
            getattr(self, chosen)()

    def commit(self) -> None:
        keys = self.random.sample(_KEYS, len(_KEYS))
        merged = [self.row(key) for key in keys[: self.random.randint(0, 6)]]
        appended = [self.row(key) for key in keys[6:14] if key not in self.rows][: self.random.randint(0, 3)]
        deleted = keys[14 : 14 + self.random.randint(0, 10)]
        change = {"merge": merged, "append": appended, "delete": deleted}
        version = self._commit(self._engine(), {name: rows for name, rows in change.items() if rows or name == "merge"})
        left = {key: row for key, row in self.rows.items() if key not in deleted}
        self._keep(version, left | {row[:2]: row for row in (*merged, *appended)})

    def overwrite(self) -> None:
        rows = [self.row(key) for key in self.random.sample(_KEYS, 3)]
        self._keep(self._commit(self._engine(), {"overwrite": rows}), {row[:2]: row for row in rows})

    def die(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def dies(*_: object) -> None:
            raise Died

        row = self.row(self.random.choice(_KEYS))
        with monkeypatch.context() as patched, pytest.raises(Died):
            patched.setattr(LocalCommit, "_complete", dies)
            self._commit("local", {"merge": [row]})

    def compact(self) -> None:
        self.stores[self._engine()].compact(self.spec.name)

    def expire(self) -> None:
        kept = [*self.expected][-2:]
        self.stores[self._engine()].expire(self.spec.name, kept, now=datetime.now(UTC), dry_run=False)
        self.expected = {version: self.expected[version] for version in kept}

    def add_column(self) -> None:
        name = f"z {len(self.spec.schema.names)}"
        self.spec = self.spec.with_schema(spec_of(f"{self.spec.schema.ddl}, `{name}` int", ["id", "p"]).schema)
        self.rows = {key: (*row, None) for key, row in self.rows.items()}
        self.expected = {version: [(*row, None) for row in rows] for version, rows in self.expected.items()}
        self.open()
        self.commit()

    def check(self) -> None:
        """Check each version that is kept, on both engines."""
        for version, rows in self.expected.items():
            for store in self.stores.values():
                assert bag(*self.test.rows(store.read(self.spec.name, version))) == bag(*rows)

    def row(self, key: Row) -> Row:
        added = len(self.spec.schema.names) - len(_VALUES) - 2
        return (*key, *map(self.random.choice, _VALUES), *(self.random.choice([1, None]) for _ in range(added)))

    def _engine(self) -> str:
        return self.random.choice(["local", "local", "local", "spark"])

    def _commit(self, engine: str, change: dict[str, list[Row]]) -> Version:
        key, schema = self.spec.schema.select(self.spec.key), self.spec.schema
        frames = {
            name: frame_of(self.test.spark, key if name == "delete" else schema, rows)  # type: ignore[attr-defined]
            if engine == "spark"
            else polars_frame(rows, key if name == "delete" else schema)
            for name, rows in change.items()
        }
        version = self.stores[engine].commit(self.spec.name, Change(**frames), mark_of(self.sequence + 1))
        self.sequence += 1
        return version

    def _keep(self, version: Version, rows: dict[Row, Row]) -> None:
        self.rows, self.expected[version] = rows, list(rows.values())


class TestWorlds(LocalHudi):
    @pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
    @pytest.mark.parametrize("partition_by", [[], ["p"], ["id"]])
    @pytest.mark.parametrize("seed", [1, 2])
    def test_both_engines_read_what_either_has_written(
        self, table_type: str, partition_by: list[str], seed: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.table_type = table_type
        world = World(self, Random(seed), spec_of(_COLUMNS, ["id", "p"], partition_by=partition_by))
        world.open()
        for _ in range(12):
            world.step(monkeypatch)
            world.check()
