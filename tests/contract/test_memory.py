"""The memory backend under the contract, and what it alone refuses."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import narwhals as nw
import polars as pl
import pytest

from headwater.adapters.memory.queries import DuckQueries
from headwater.adapters.memory.store import MemoryStore
from headwater.adapters.polars.engine import PolarsEngine
from headwater.domain.errors import BadInput, ConfigError, NotSupported
from headwater.domain.table.change import Change
from headwater.testing.engine_contract import FrameEngineContract
from headwater.testing.frames import PolarsFrames
from headwater.testing.query_cases import T_ROWS, T
from headwater.testing.query_contract import QueryEngineContract
from headwater.testing.store_contract import StoreContract
from headwater.testing.store_harness import StoreHarness, bag, spec_of

if TYPE_CHECKING:
    from pathlib import Path

NAMES = spec_of("id bigint, name string", ["id"])


class Memory(PolarsFrames, StoreHarness):
    @pytest.fixture(autouse=True)
    def _fresh(self) -> None:
        self.only = MemoryStore()

    def reopen(self) -> MemoryStore:
        return self.only


class TestMemoryKeys(Memory):
    def test_a_key_that_is_not_a_number_is_found_in_a_run_of_one_row(self, store: MemoryStore) -> None:
        table = self.table(store, spec_of("key double, n bigint", ["key"]))
        for n in range(3):
            table.commit(merge=[(float("nan"), n)])
        assert [n for _, n in table.rows().elements()] == [2]
        table.commit(delete=[(float("nan"),)])
        assert table.rows() == bag()


class TestMemoryStore(Memory, StoreContract):
    pass


class TestPolarsEngine(PolarsFrames, FrameEngineContract):
    @pytest.fixture
    def engine(self) -> PolarsEngine:
        return PolarsEngine()


class TestDuckQueries(PolarsFrames, QueryEngineContract):
    @pytest.fixture
    def queries(self) -> DuckQueries:
        return DuckQueries()


class TestDuckQueriesRefuse(PolarsFrames):
    """What Spark answers in a way of its own."""

    @pytest.mark.parametrize(
        ("expression", "told"),
        [
            ("amt / 2", "divides decimals"),
            ("avg(amt)", "divides decimals"),
            ("amt % 1", "whole number is wanted"),
            ("cast(f as string)", "cast from double to string"),
            ("cast(cast(f as decimal(18,7)) as string)", "cast from decimal"),
            ("s = 1", "string meets int"),
            ("n + s", "counts with string"),
            ("coalesce(s, 1)", "string meets int"),
            ("b and n", "a condition is wanted"),
            ("null", "cast it to a type"),
            ("rand()", "not known"),
            ("current_timestamp()", "not known"),
            ("posexplode(array(1))", "not known"),
            ("upper(explode(split(s, ',')))", "a column of its own"),
            ("array(1) = array(1)", "nested values are carried"),
            ("explode(s)", "an array is wanted"),
            ("explode(split(s, t))", "written out"),
            ("first(n)", "not known"),
            ("count(distinct n, m)", "several columns"),
            ("row_number() over (partition by b)", "ORDER BY"),
            ("interval 1 day", "interval"),
            ("date_trunc('century', at)", "unknown unit"),
            ("extract(century from d)", "unknown part; known: year"),
            ("date_part(s, d)", "write the part as text"),
            ("round(f, -1)", "places"),
            ("try_cast(s as int)", "other rules than CAST; write CAST"),
            ("at > 'epoch'", "write it in digits"),
            ("cast(' Today' as date)", "write it in digits"),
            ("s rlike '(?m)^a'", r"has '\(\?m', which finds something else"),
            ("explode(split(s, '|'))", "has a match that may be empty"),
            ("datediff(day, d, at)", r"write datediff\(end, start\)"),
            ("99999999999999999999", "beyond a bigint"),
            ("cast(amt as decimal(38,20)) * cast(amt as decimal(38,20))", "smaller decimals"),
        ],
    )
    def test_what_would_come_out_otherwise(self, expression: str, told: str) -> None:
        with pytest.raises(ConfigError, match=told):
            DuckQueries().query(f"select {expression} as x from t", {"t": self.frame(T_ROWS, T)})

    @pytest.mark.parametrize(
        "sql",
        [
            "select t.id from t left semi join t u on t.id = u.id",
            "select id from t lateral view explode(array(1)) e as x",
            "select id from t tablesample (1 rows)",
            "select id from t natural join (select 1 as id)",
            "select id, sum(n) over w as x from t window w as (partition by id)",
            "select t.id from (t join u on t.id = u.id)",
            "select id from t group by rollup (id)",
            "select id from t where exists (select u.id + 1 as n from u where n > 1 and u.id = t.id)",
            "select id from t union all select n from t",
            "select id from t where id in (select n from t)",
            "select id from t distribute by id",
        ],
    )
    def test_parts_of_queries(self, sql: str) -> None:
        with pytest.raises(ConfigError):
            DuckQueries().query(sql, {"t": self.frame(T_ROWS, T)})

    @pytest.mark.parametrize(
        ("expression", "told"),
        [
            ("cast(2147483647 as int) + n", "Overflow"),
            ("cast('2024-01-01 10:00:00 Asia/Tokyo' as timestamp)", "a zone by name"),
            ("cast('12:30' as timestamp)", "today"),
            ("cast('T12' as timestamp)", "today"),
            ("cast('12024-01-01' as date)", "a year outside 1 to 9999"),
            ("cast('-2024-01-01 10:00' as timestamp)", "a year outside 1 to 9999"),
            ("cast('0x1p3' as double)", "a hexadecimal number"),
            ("cast('5e-1000' as decimal(3,1))", "an exponent below -999"),
            ("cast('٣.5' as decimal(3,1))", "digits other than 0 to 9"),
            ("upper('ﬁ')", "another upper case on Spark"),
            ("lower('ΑΣ')", "another lower case on Spark"),
            ("rank() over (partition by upper(concat(s, 'ﬁ')) order by id)", "value: upper: a letter of .* on Spark$"),
            (
                "rank() over (order by cast(concat(substring(t, 1, 0), '12024-01-01') as date))",
                "a year outside 1 to 9999",
            ),
        ],
    )
    def test_values_that_have_no_same_answer(self, expression: str, told: str) -> None:
        with pytest.raises(BadInput, match=told):
            DuckQueries().query(f"select {expression} as x from t", {"t": self.frame(T_ROWS, T)})

    def test_values_that_have_no_same_answer_may_be_null(self) -> None:
        sql = "select id, upper(concat(s, 'ﬁ')) as x, n + 2147483640 as y, id + 1 as z from t order by id"
        found = DuckQueries().query(sql, {"t": self.frame(T_ROWS, T)}, lenient=True).collect(backend="polars")
        assert found.rows() == [
            (1, None, 2147483647, 2),
            (2, None, None, 3),
            (3, None, 2147483633, 4),
            (4, None, None, 5),
        ]

    def test_nothing_beside_the_frames_can_be_read(self, tmp_path: Path) -> None:
        pl.DataFrame({"id": [1]}).write_parquet(tmp_path / "secret.parquet")
        with pytest.raises(ConfigError, match="no table"):
            DuckQueries().query(f"select id from `{tmp_path}/secret.parquet`", {"t": self.frame(T_ROWS, T)})

    def test_the_zone_of_the_machine_does_not_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        try:
            sql = "select cast('2024-01-01 00:00:00' as timestamp) as x, date_trunc('day', at) as y from t where id = 1"
            found = DuckQueries().query(sql, {"t": self.frame(T_ROWS, T)}).collect()
        finally:
            monkeypatch.undo()
            time.tzset()
        assert found.rows() == [(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 3, 10, tzinfo=UTC))]

    @pytest.mark.parametrize("table_format", ["delta", "hudi"])
    def test_tables_that_polars_does_not_read(self, table_format: str, tmp_path: Path) -> None:
        with pytest.raises(NotSupported, match="use a backend on Spark"):
            DuckQueries().scan(str(tmp_path), table_format)


class TestMemoryRefuses(Memory):
    """Breaches of the contract by a caller, which other backends may not notice."""

    @pytest.mark.parametrize(
        "parts",
        [
            {"append": [(None, "x")]},
            {"merge": [(None, "x")]},
            {"delete": [(None,)]},
            {"append": [(1, "stored")]},
            {"append": [(2, "x"), (2, "y")]},
            {"append": [(2, "x")], "merge": [(2, "y")]},
            {"merge": [(1, "x")], "delete": [(1,)]},
            {"overwrite": [(3, "x"), (3, "y")]},
        ],
        ids=str,
    )
    def test_keys_where_they_must_not_be(self, store: MemoryStore, parts: dict[str, Any]) -> None:
        table = self.table(store, NAMES)
        table.commit(append=[(1, "a")])
        with pytest.raises(BadInput, match="key"):
            table.commit(**parts)
        assert len(list(store.versions(NAMES.name))) == 1

    def test_merging_without_a_key(self, store: MemoryStore) -> None:
        table = self.table(store, spec_of("id bigint, name string"))
        with pytest.raises(ConfigError, match="no key"):
            table.commit(merge=[(1, "a")])
        version = table.commit()
        with pytest.raises(ConfigError, match="no key"):
            store.changes(table.spec.name, None, version)

    def test_rows_that_lack_a_column_or_do_not_fit(self, store: MemoryStore) -> None:
        table = self.table(store, NAMES)
        with pytest.raises(BadInput, match="lack column name"):
            table.commit_change(Change(append=self.frame([(1,)], NAMES.schema.select(["id"]))))
        with pytest.raises(BadInput, match="do not fit"):
            table.commit_change(Change(append=self.frame([("a", "b")], spec_of("id string, name string").schema)))

    def test_a_frame_that_fails_changes_nothing(self, store: MemoryStore) -> None:
        table = self.table(store, NAMES)
        table.commit(append=[(1, "a")])
        native: pl.LazyFrame = nw.to_native(self.frame([("2",), ("x",)], spec_of("id string").schema))
        failing = nw.from_native(native.select(pl.col("id").cast(pl.Int64), pl.lit("b").alias("name")))
        with pytest.raises(nw.exceptions.InvalidOperationError):
            table.commit_change(Change(append=self.frame([(3, "c")], NAMES.schema), merge=failing))
        assert table.rows() == bag((1, "a"))
        assert len(list(store.versions(NAMES.name))) == 1

    def test_a_table_that_was_not_ensured(self, store: MemoryStore) -> None:
        with pytest.raises(ConfigError, match="ensure"):
            store.read("pipeline.unknown", None)
