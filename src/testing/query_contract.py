"""The contract of every query engine: the same results as Spark, with the same types and all digits."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import narwhals as nw
import pytest

from ..domain.errors import BadInput, ConfigError, NotSupported, SumOverflow
from ..domain.ports import QueryEngine
from ..domain.table.schema import Column, DataType, Schema
from . import plain_cases
from .expected import rows_of
from .expression_cases import CASTS, CONDITIONS, NUMBERS, TEXT, TIMES
from .query_cases import QUERIES, T_ROWS, U_ROWS, T, U

REFUSED = [
    ("selec id from t", "cannot read|is not a query"),
    ("select id from t where", "cannot read"),
    ("select id from t; select id from t", "2 statements"),
    ("drop table t", "is not a query"),
    ("select id from elsewhere", "no table 'elsewhere'; there are: t, u"),
    ("select id from other.t", "plain names"),
    ("select id from parquet.`some/path`", "plain names"),
    ("select zzz from t", "zzz"),
    ("select id, n + 1 as zzz from t where zzz > 1", "(?i)zzz"),
    ("select u.zzz from t join u using (id)", "zzz"),
    ("select nothing_like_it(id) as x from t", "(?i)nothing_like_it"),
    ("select count(*) from t", "has no name"),
    ("select id, id from t", "'id' occurs twice"),
    ("select t.id, u.id from t cross join u", "'id' occurs twice"),
    ("with t as (select 1 as id) select id from t", "has a WITH query with the name of its input 't'"),
    ("with x(a) as (select id, n from t) select a from x", "names 1 column, and its query has 2"),
    (
        "with x(a) as (select * from u) select a from x",
        "names 1 column, and its query has 2|[Nn]umber of column aliases",
    ),
    ("select id::string as x from t", "CAST"),
    ("select s + d as x from t", "(?i)cast|type"),
    ("select id from t where n + 1", "(?i)condition|boolean"),
]


def _cases(cases: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Parameters of a test from cases that begin with their titles."""
    return [pytest.param(*values, id=title) for title, *values in cases]


class QueryEngineContract(ABC):
    """Tests of all methods of `QueryEngine`."""

    @pytest.fixture
    @abstractmethod
    def queries(self) -> QueryEngine:
        """The engine under test."""

    def explaining(self) -> AbstractContextManager[None]:
        """The block in which frames are computed; see `FrameEngine.explaining`."""
        return nullcontext()

    @abstractmethod
    def frame(self, rows: Sequence[tuple[Any, ...]], schema: Schema) -> nw.LazyFrame[Any]:
        """A frame of the engine, from rows: tuples of values in the order of the schema's columns."""

    @pytest.fixture
    def tables(self) -> dict[str, nw.LazyFrame[Any]]:
        return {"t": self.frame(T_ROWS, T), "u": self.frame(U_ROWS, U)}

    @pytest.mark.parametrize(
        "cases", [NUMBERS, CONDITIONS, TEXT, CASTS, TIMES], ids=["numbers", "conditions", "text", "casts", "times"]
    )
    def test_expressions(
        self, queries: QueryEngine, tables: dict[str, nw.LazyFrame[Any]], cases: list[tuple[str, str, list[Any]]]
    ) -> None:
        columns = [f"{sql} as c{at}" for at, (sql, _, _) in enumerate(cases)]
        found = queries.query(f"select {', '.join(columns)} from t order by id", tables).collect(backend="polars")
        types = {sql: found.schema[f"c{at}"] for at, (sql, _, _) in enumerate(cases)}
        assert types == {sql: Schema.parse(f"c {ddl}")["c"].narwhals for sql, ddl, _ in cases}
        values = {sql: found[f"c{at}"].to_list() for at, (sql, _, _) in enumerate(cases)}
        assert values == {sql: expected for sql, _, expected in cases}

    @pytest.mark.parametrize(("sql", "ddl", "expected"), QUERIES, ids=range(len(QUERIES)))
    def test_queries(
        self,
        queries: QueryEngine,
        tables: dict[str, nw.LazyFrame[Any]],
        sql: str,
        ddl: str,
        expected: list[tuple[Any, ...]],
    ) -> None:
        found = queries.query(sql, tables).collect(backend="polars")
        assert list(found.schema.items()) == [(each.name, each.type.narwhals) for each in Schema.parse(ddl).columns]
        assert found.rows() == expected

    def test_nested_values_are_carried(self, queries: QueryEngine) -> None:
        ddl = "id int, tags array<string>, place struct<City:string,select:timestamp>, items array<struct<n:int>>"
        rows = [
            (1, ["a", None], {"City": "x", "select": datetime(2024, 1, 1, tzinfo=UTC)}, [{"n": 1}, None]),
            (2, None, None, None),
            (3, [], {"City": None, "select": None}, [{"n": None}]),
        ]
        tables = {"t": self.frame(rows, Schema.parse(ddl)), "u": self.frame([(1,), (3,)], Schema.parse("id int"))}

        def answer(sql: str) -> list[Any]:
            return rows_of(queries.query(sql, tables))

        assert answer("select * from t order by id") == rows
        joined = "select id, tags, place from t join u using (id) where place is not null order by id"
        assert answer(joined) == [rows[0][:3], rows[2][:3]]
        chosen = "select id, if(id = 1, items, null) as i, coalesce(tags, array('z')) as c from t order by id"
        assert answer(chosen) == [(1, rows[0][3], ["a", None]), (2, None, ["z"]), (3, None, [])]
        assert answer("select id, explode(items) as item from t order by id") == [
            (1, {"n": 1}),
            (1, None),
            (3, {"n": None}),
        ]
        fields = "select place.city as c, place.`select` as s from t order by id"
        assert answer(fields) == [("x", datetime(2024, 1, 1, tzinfo=UTC)), (None, None), (None, None)]
        assert answer("select count(tags) as t, count(place) as p from t") == [(2, 2)]

    def test_names_may_be_odd(self, queries: QueryEngine) -> None:
        names = ("id", "n", "n--m", "$n", "a;b", "/* c", "ÄNDERUNG", 'say "it\'s"')
        row = tuple(range(len(names)))
        schema = Schema(Column(name, DataType("int")) for name in names)
        tables = {"e--f": self.frame([row, (9,) * len(names)], schema), "$e": self.frame([row], schema)}
        found = queries.query("select * from `e--f` where `n--m` = 2 and exists (select 1 as x from `$e`)", tables)
        assert (tuple(found.collect_schema().names()), rows_of(found)) == (names, [row])
        sql = "select e.`ÄNDERUNG`, `$n`, sum(e.`a;b`) as s from `e--f` e join `$e` using (`$n`) group by 1, 2"
        found = queries.query(sql, tables)
        assert (tuple(found.collect_schema().names()), rows_of(found)) == (("ÄNDERUNG", "$n", "s"), [(6, 3, 4)])

    @pytest.mark.parametrize(("sql", "message"), REFUSED, ids=[sql for sql, _ in REFUSED])
    def test_what_cannot_be_answered_is_told_at_once(
        self, queries: QueryEngine, tables: dict[str, nw.LazyFrame[Any]], sql: str, message: str
    ) -> None:
        with pytest.raises(ConfigError, match=message):
            queries.query(sql, tables)

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT g, sum(n) AS total FROM big GROUP BY g",
            "SELECT g FROM big GROUP BY g HAVING SUM ( n ) > 0",
            "SELECT g, sum(n) FILTER (WHERE n > 0) AS total FROM big GROUP BY g",
            "SELECT g, sum(n) OVER (PARTITION BY g) + 1 AS total FROM big",
            "SELECT g, coalesce(sum(d), 0) AS total FROM big GROUP BY g",
            "SELECT g, row_number() OVER (ORDER BY sum(n)) AS place FROM big GROUP BY g",
            "SELECT g, sum(sum(n)) OVER (ORDER BY g) AS total FROM (SELECT g, max(n) AS n FROM big GROUP BY g, d) GROUP BY g",
        ],
    )
    def test_a_sum_that_does_not_fit_stops(self, queries: QueryEngine, sql: str) -> None:
        large = Decimal("999999999999999999999999999999999999.99")
        rows = [("a", 2**63 - 1, large), ("a", 1, Decimal("0.01")), ("b", 1, Decimal(1))]
        tables = {"big": self.frame(rows, Schema.parse("g string, n bigint, d decimal(38,2)"))}
        with pytest.raises(SumOverflow, match=r"(?i)sum.*does not fit"), self.explaining():
            queries.query(sql, tables).collect(backend="polars")

    def test_sums_that_fit_are_as_they_were(self, queries: QueryEngine) -> None:
        rows = [("a", 2**63 - 2, Decimal("1.50"), 0.5), ("a", 1, None, None), ("b", None, None, None)]
        tables = {"big": self.frame(rows, Schema.parse("g string, n bigint, d decimal(18,2), f double"))}
        sql = (
            "SELECT g, sum(n) AS n, sum(d) AS d, sum(f) AS f, avg(f) AS mean, sum(DISTINCT n) AS once,"
            " sum(n) FILTER (WHERE n < 9) AS few, 'sum(n)' AS word FROM big GROUP BY g"
        )
        found = queries.query(sql, tables).collect(backend="polars")
        assert sorted(found.rows()) == [
            ("a", 2**63 - 1, Decimal("1.50"), 0.5, 0.5, 2**63 - 1, 1, "sum(n)"),
            ("b", None, None, None, None, None, None, "sum(n)"),
        ]
        assert found.schema["n"] == found.schema["few"] == nw.Int64
        assert found.schema["d"] == nw.Decimal(28, 2)

    @pytest.mark.parametrize(
        "text",
        ["date_add(d, 1)", "add_months(d, 1)", "d + interval 1 day", "date_add(d, 2000000000)", "t + interval 1 hour"],
    )
    def test_a_time_beyond_the_year_9999_stops(self, queries: QueryEngine, text: str) -> None:
        rows = [(date(9999, 12, 31), datetime(9999, 12, 31, 23, tzinfo=UTC)), (None, None)]
        tables = {"f": self.frame(rows, Schema.parse("d date, t timestamp"))}
        wanted = r"column 'x' has a time outside 0001-01-01 to 9999-12-31"
        with pytest.raises(BadInput, match=wanted), self.explaining():
            queries.query(f"SELECT {text} AS x FROM f", tables).collect(backend="polars")

    def test_a_value_that_cannot_be_computed_may_be_null(self, queries: QueryEngine) -> None:
        tables = {"f": self.frame([(1, date(9999, 12, 31)), (2, date(2024, 1, 1))], Schema.parse("id int, d date"))}
        sql = (
            "SELECT id, date_add(d, 1) AS x, CAST(d AS timestamp) + interval 2 day AS y, id + 1 AS z FROM f ORDER BY id"
        )
        found = queries.query(sql, tables, lenient=True).collect(backend="polars")
        assert found.rows() == [(1, None, None, 2), (2, date(2024, 1, 2), datetime(2024, 1, 3, tzinfo=UTC), 3)]

    def test_times_within_range_are_as_they_were(self, queries: QueryEngine) -> None:
        rows = [(date(9999, 12, 31), datetime(1, 1, 1, tzinfo=UTC)), (None, None)]
        tables = {"f": self.frame(rows, Schema.parse("d date, t timestamp"))}
        found = queries.query("SELECT d, t, date_add(d, -1) AS x FROM f", tables).collect(backend="polars")
        assert set(found.rows()) == {(*rows[0], date(9999, 12, 30)), (None, None, None)}

    @pytest.mark.parametrize(
        "sql",
        [
            "select distinct x from t",
            "select x, count(*) as c from t group by x",
            "select x as y, count(*) as c from t group by 1 order by 1",
            "select x from t union select x from t",
            "select x from t intersect select x from t",
        ],
    )
    def test_a_group_has_no_zero_below_zero(self, queries: QueryEngine, sql: str) -> None:
        tables = {"t": self.frame([(-0.0,), (-0.0,)], Schema.parse("x double"))}
        ((found, *_),) = queries.query(sql, tables).collect(backend="polars").rows()
        assert math.copysign(1, found) == 1

    def test_two_queries_know_nothing_of_each_other(self, queries: QueryEngine) -> None:
        schema = Schema.parse("x bigint")
        one = queries.query("select x from t", {"t": self.frame([(1,)], schema)})
        other = queries.query("select x from t", {"t": self.frame([(2,)], schema), "Unused": self.frame([], schema)})
        both = queries.query("select a.x + b.x as x from a cross join b", {"a": one, "b": other})
        assert [each.collect(backend="polars").rows() for each in (one, other, both)] == [[(1,)], [(2,)], [(3,)]]
        with pytest.raises(ConfigError, match="no table"):
            queries.query("select x from t", {"a": one})

    def test_a_table_joined_with_itself(self, queries: QueryEngine, tables: dict[str, nw.LazyFrame[Any]]) -> None:
        sql = "select l.id, r.tag from u l join u r on l.id = r.id and l.tag = r.tag order by 2"
        assert queries.query(sql, tables).collect(backend="polars").rows() == [(1, "x"), (1, "y"), (9, "z")]

    def test_plain_tables_are_read(self, queries: QueryEngine, tmp_path: Path) -> None:
        for name in ("csv", "json"):
            (tmp_path / name).mkdir()
        (tmp_path / "csv" / "1.csv").write_text("id,Name\n1,x\n2,\n")
        (tmp_path / "csv" / "2.csv").write_text('id,Name\n3,"a, b"\n')
        (tmp_path / "json" / "1.json").write_text('{"n": 1, "a": "x"}\n{"a": null, "f": 1.5, "b": true}\n')
        texts = queries.scan(str(tmp_path / "csv"), "csv").collect(backend="polars")
        assert sorted(texts.rows()) == [("1", "x"), ("2", None), ("3", "a, b")]
        assert texts.columns == ["id", "Name"]
        objects = queries.scan(str(tmp_path / "json" / "1.json"), "json").collect(backend="polars")
        assert objects.columns == ["a", "b", "f", "n"]
        assert objects.rows() == [("x", None, None, 1), (None, True, 1.5, None)]

    @pytest.mark.parametrize(("form", "files", "rows"), _cases(plain_cases.READ))
    def test_plain_files_mean_the_same_everywhere(
        self, queries: QueryEngine, tmp_path: Path, form: str, files: dict[str, str], rows: list[tuple[Any, ...]]
    ) -> None:
        _write_texts(tmp_path, files)
        found = queries.scan(str(tmp_path), form).collect(backend="polars")
        assert sorted(found.rows(), key=repr) == sorted(rows, key=repr)

    @pytest.mark.parametrize(("form", "files", "message"), _cases(plain_cases.REFUSED))
    def test_plain_files_that_would_be_guessed_at_are_refused(
        self, queries: QueryEngine, tmp_path: Path, form: str, files: dict[str, str], message: str
    ) -> None:
        _write_texts(tmp_path, files)
        with pytest.raises(ConfigError, match=message), self.explaining():
            queries.scan(str(tmp_path), form).collect(backend="polars")

    def test_parquet_keeps_its_types(self, queries: QueryEngine, tmp_path: Path) -> None:
        import narwhals as nw
        import polars as pl

        rows = pl.DataFrame(
            {"small": [1, None], "at": [datetime(2024, 1, 1, tzinfo=UTC), None], "wall": [datetime(1969, 1, 1), None]},  # noqa: DTZ001
            schema={"small": pl.UInt8, "at": pl.Datetime("ms", "Asia/Tokyo"), "wall": pl.Datetime("us")},
        )
        rows.write_parquet(tmp_path / "rows.parquet")
        found = queries.scan(str(tmp_path / "rows.parquet"), "parquet").collect(backend="polars")
        assert found.rows() == [(1, datetime(2024, 1, 1, tzinfo=UTC), datetime(1969, 1, 1)), (None, None, None)]  # noqa: DTZ001
        assert dict(found.schema) == {"small": nw.Int16(), "at": nw.Datetime("us", "UTC"), "wall": nw.Datetime("us")}

    def test_parquet_has_the_columns_of_all_files(self, queries: QueryEngine, tmp_path: Path) -> None:
        import polars as pl

        pl.DataFrame({"a": [1], "b": [2]}).write_parquet(tmp_path / "1.parquet")
        pl.DataFrame({"c": [3], "a": [4]}).write_parquet(tmp_path / "2.parquet")
        found = queries.scan(str(tmp_path), "parquet").collect(backend="polars").select("a", "b", "c")
        assert sorted(found.rows()) == [(1, 2, None), (4, None, 3)]

    def test_a_plain_table_that_has_changed_is_told(self, queries: QueryEngine, tmp_path: Path) -> None:
        folder, file = tmp_path / "csv", tmp_path / "csv" / "1.csv"
        folder.mkdir()

        def states() -> tuple[str, str]:
            return queries.state(str(folder), "csv"), queries.state(str(file), "csv")

        file.write_text("id\n1\n")
        history = [states()]
        assert states() == history[0]
        file.write_text("id\n1\n2\n")
        history.append(states())
        os.utime(file, (0, 1_700_000_000))
        history.append(states())
        assert len({of_folder for of_folder, _ in history}) == len({of_file for _, of_file in history}) == len(history)
        (folder / "2.csv").write_text("id\n3\n")
        assert states()[0] not in {of_folder for of_folder, _ in history}
        assert states()[1] == history[-1][1]
        with pytest.raises(ConfigError, match="nowhere"):
            queries.state(str(tmp_path / "nowhere"), "csv")

    def test_days_that_the_former_calendar_lacks(self, queries: QueryEngine, tmp_path: Path) -> None:
        import polars as pl

        days = [date(1582, 10, day) for day in (4, 5, 10, 14, 15)]
        times = [datetime(day.year, day.month, day.day, 12, tzinfo=UTC) for day in days]
        pl.DataFrame({"d": days, "t": times}).write_parquet(tmp_path / "rows.parquet")
        tables = {"rows": queries.scan(str(tmp_path / "rows.parquet"), "parquet")}
        for wanted in ("d >= DATE'1582-10-10'", "t >= TIMESTAMP'1582-10-10 00:00:00'"):
            found = queries.query(f"SELECT d FROM rows WHERE {wanted}", tables).collect(backend="polars")
            assert sorted(found["d"].to_list()) == days[2:]

    def test_tables_that_are_not_there(self, queries: QueryEngine, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="nowhere"):
            queries.scan(str(tmp_path / "nowhere"), "parquet")
        with pytest.raises(ConfigError, match=r"unknown format 'orc'.*known: parquet, csv, json, delta, hudi"):
            queries.scan(str(tmp_path), "orc")

    @pytest.mark.parametrize(("form", "log"), [("delta", "_delta_log"), ("hudi", ".hoodie")])
    def test_the_files_of_a_table_are_not_its_rows(
        self, queries: QueryEngine, tmp_path: Path, form: str, log: str
    ) -> None:
        import polars as pl

        pl.DataFrame({"id": [1]}).write_parquet(tmp_path / "1.parquet")
        (tmp_path / log).mkdir()
        with pytest.raises(ConfigError, match=f"is a table of {form}: some of its Parquet files have rows of earlier"):
            queries.scan(str(tmp_path), "parquet")

    @pytest.mark.parametrize("form", ["parquet", "csv", "json"])
    def test_folders_of_partitions_are_columns_or_refused(
        self, queries: QueryEngine, tmp_path: Path, form: str
    ) -> None:
        _write_row(tmp_path / "day=2024-03-31" / f"1.{form}", form, 2)
        try:
            rows = queries.scan(str(tmp_path), form)
        except NotSupported:
            for read in (queries.scan, queries.state):
                with pytest.raises(NotSupported, match="such as 'day=2024-03-31' in "):
                    read(str(tmp_path), form)
        else:
            day = rows.collect(backend="polars").select("id", "day").rows()
            assert [(int(id_), each) for id_, each in day] == [(2, date(2024, 3, 31))]

    @pytest.mark.parametrize("folder", ["day=1", "sub/day=1"])
    def test_files_beside_folders_of_partitions_are_refused(
        self, queries: QueryEngine, tmp_path: Path, folder: str
    ) -> None:
        _write_row(tmp_path / "1.parquet", "parquet", 1)
        _write_row(tmp_path / folder / "1.parquet", "parquet", 2)
        with pytest.raises((ConfigError, NotSupported), match=f"such as '{folder}'"):
            queries.scan(str(tmp_path), "parquet")

    def test_other_folders_are_not_read(self, queries: QueryEngine, tmp_path: Path) -> None:
        _write_row(tmp_path / "day=1" / "1.parquet", "parquet", 1)
        for folder in ("sub", "_day", ".day=1", "_sub/day=1"):
            _write_row(tmp_path / "day=1" / folder / "1.parquet", "parquet", 2)
        (tmp_path / "day=1" / "empty=1").mkdir()
        rows = queries.scan(str(tmp_path / "day=1"), "parquet").collect(backend="polars")
        assert (rows.columns, rows.rows()) == (["id"], [(1,)])


def _write_texts(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content.encode(errors="surrogateescape"))


def _write_row(file: Path, form: str, id_: int) -> None:
    """Write a file with one row, which has a column `id`."""
    import polars as pl

    file.parent.mkdir(parents=True, exist_ok=True)
    rows = pl.DataFrame({"id": [id_]})
    if form == "parquet":
        rows.write_parquet(file)
    elif form == "csv":
        rows.write_csv(file)
    else:
        rows.write_ndjson(file)
