"""Files as the chunks of a bulk load: how they are cut, what their rows carry, and what becomes of one that is broken."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.adapters.files.parquet import read
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.epoch.key_range import KeyRange
from headwater.domain.errors import ConfigError, SourceChanged, SourceUnavailable
from headwater.domain.source.bulk import BulkSpec
from headwater.domain.source.csv_format import CsvFormat
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema

from .conftest import rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.domain.epoch.epoch import Offsets
    from headwater.domain.ports import BulkSource

READ_AT = datetime(2024, 1, 1, tzinfo=UTC)
DUE = READ_AT + timedelta(seconds=5)
ACCOUNTS = Schema.parse("id bigint, balance decimal(18,2), at timestamp")


def spec(format_: str = "parquet", **more: Any) -> BulkSpec:
    optional = more.pop("optional", ())
    csv = CsvFormat(delimiter=";") if format_ == "csv" else CsvFormat()
    given = {"key": ("id",), "position": (), "search_ts": READ_AT, "delay": timedelta(seconds=5)} | more
    schema = more.pop("schema", ACCOUNTS)
    given.pop("schema", None)
    return BulkSpec(RecordSpec(schema, format_, optional=optional, csv=csv), **given)


def _polars() -> Callable[..., BulkSource]:
    from headwater.adapters.files.polars_bulk import PolarsFileBulk

    return PolarsFileBulk


def _spark(request: pytest.FixtureRequest) -> Callable[..., BulkSource]:
    from headwater.adapters.files.spark_bulk import SparkFileBulk

    session = request.getfixturevalue("spark")
    return lambda *given: SparkFileBulk(*given, spark=session)


@pytest.fixture(params=["polars", pytest.param("spark", marks=[pytest.mark.delta, pytest.mark.contract])])
def bulk(request: pytest.FixtureRequest) -> Callable[..., BulkSource]:
    """What opens the files of a folder, on one engine after the other."""
    return _polars() if request.param == "polars" else _spark(request)


def parquet(path: Path, ids: range, group: int = 1_000, **more: Any) -> None:
    columns = {
        "id": pa.array(ids, pa.int64()),
        "balance": pa.array([f"{each}.50" for each in ids]).cast(pa.decimal128(18, 2)),
        "at": pa.array([READ_AT + timedelta(seconds=each) for each in ids], pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(columns | more), path, row_group_size=group)


class Loaded:
    """Reads a bulk load to its end, offsets through JSON as a ledger keeps them."""

    def __init__(self, source: BulkSource) -> None:
        self.source = source
        self.after: Offsets | None = None
        self.chunks: list[list[int]] = []

    def read(self) -> list[dict[str, Any]]:
        planned = self.source.plan(self.after, READ_AT + timedelta(seconds=5))
        if planned is None:
            return []
        offsets = OffsetRange(*json.loads(json.dumps([planned.after, planned.until])))
        lines = rows(self._checked(self.source.read(offsets).rows))
        assert len({line["_position"] for line in lines}) == len(lines)
        for number in sorted({line["_chunk"] for line in lines}):
            self.chunks.append([line["id"] for line in lines if line["_chunk"] == number])
        self.after = offsets.until
        return lines

    def all(self) -> list[dict[str, Any]]:
        lines = []
        while more := self.read():
            lines += more
        return lines

    @staticmethod
    def _checked(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        names = frame.collect_schema().names()
        assert names[-8:] == ["_chunk", "_search_ts", "_row_kind", "_position", "_origin", "_raw", "_bytes", "_error"]
        return frame


def test_small_files_share_a_chunk_and_a_large_one_is_cut_by_its_row_groups(
    bulk: Callable[..., BulkSource], tmp_path: Path
) -> None:
    for name, ids in (("a", range(3)), ("b", range(3, 5)), ("c", range(5, 15))):
        parquet(tmp_path / f"{name}.parquet", ids, group=2)
    load = Loaded(bulk(str(tmp_path), spec(), 5, 1))
    lines = load.all()
    assert load.chunks == [[0, 1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14]]
    assert load.after is not None
    assert load.after["chunks"] == 4
    assert len(json.dumps(load.after)) < 300
    first = lines[0]
    assert (first["balance"], first["at"]) == (pytest.approx(0.5), READ_AT)
    assert (first["_search_ts"], first["_row_kind"], first["_error"], first["_origin"]) == (
        READ_AT,
        "+I",
        None,
        "a.parquet",
    )
    assert json.loads(first["_raw"])["id"] == 0


def test_a_few_rows_of_several_files_have_their_own_texts_and_files(
    bulk: Callable[..., BulkSource], tmp_path: Path
) -> None:
    for name, ids in (("a", range(5)), ("b", range(5, 10)), ("c", range(10, 15))):
        parquet(tmp_path / f"{name}.parquet", ids, group=2)
    source = bulk(str(tmp_path), spec(), 15, 1)
    planned = source.plan(None, READ_AT + timedelta(seconds=5))
    assert planned is not None
    found = rows(source.read(planned).rows.filter(nw.col("id").is_in([12, 3, 4, 9])))
    told = sorted((line["id"], json.loads(line["_raw"])["id"], line["_origin"]) for line in found)
    assert told == [(3, 3, "a.parquet"), (4, 4, "a.parquet"), (9, 9, "b.parquet"), (12, 12, "c.parquet")]


def test_several_chunks_make_an_epoch(bulk: Callable[..., BulkSource], tmp_path: Path) -> None:
    for name in "abcd":
        parquet(tmp_path / f"{name}.parquet", range(ord(name), ord(name) + 2))
    load = Loaded(bulk(str(tmp_path), spec(), 2, 3))
    assert [len(load.read()), len(load.read()), len(load.read())] == [6, 2, 0]
    assert load.source.lag(load.after) == ""


def test_a_folder_without_files_is_told(bulk: Callable[..., BulkSource], tmp_path: Path) -> None:
    load = Loaded(bulk(str(tmp_path), spec(), 2, 3))
    assert (load.source.lag(None), load.source.remaining(None)) == ("no file yet", ())
    parquet(tmp_path / "a.parquet", range(2))
    assert (load.source.lag(None), len(load.read())) == ("1 file", 2)
    (tmp_path / "a.parquet").unlink()
    assert load.source.lag(load.after) == ""


def test_other_files_and_folders_beside_are_told_once(
    bulk: Callable[..., BulkSource], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("1.json", "2.JSON", "3.json.bz2", "4.json.tmp", "_SUCCESS"):
        (tmp_path / name).write_text('{"id": 1, "balance": "1.00"}\n')
    for name in ("more", "empty", "_old"):
        (tmp_path / name).mkdir()
    (tmp_path / "more" / "5.json").write_text("")
    load = Loaded(bulk(str(tmp_path), spec("json", optional=("at",)), 20, 1))
    assert [line["id"] for line in load.all()] == [1]
    assert [each for each in caplog.messages if str(tmp_path) in each] == [
        f"{tmp_path}: 2 files with other endings were skipped (2.JSON, 3.json.bz2): format json reads names that end in"
        " .json, .json.gz, .json.zst, .jsonl, .jsonl.gz, .jsonl.zst, .ndjson, .ndjson.gz, .ndjson.zst",
        f"{tmp_path}: sub-folders are not read (more): put the files into one folder",
    ]


@pytest.mark.parametrize("unread", ["1.csv", "day=1/1.parquet"])
def test_a_folder_of_other_files_or_folders_is_not_an_empty_table(
    bulk: Callable[..., BulkSource], tmp_path: Path, unread: str
) -> None:
    path = tmp_path / unread
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    message = re.escape(
        f"{tmp_path}: there are no files to read, only {path.relative_to(tmp_path).parts[0]}: format parquet reads names"
        " that end in .parquet, and no sub-folders; put the files into this folder, or correct `path` or `format`."
    )
    source = bulk(str(tmp_path), spec(), 2, 3)
    with pytest.raises(ConfigError, match=message):
        source.plan(None, DUE)
    path.unlink()
    assert source.plan(None, DUE) is None


def test_a_folder_is_checked_when_it_is_due_and_once(bulk: Callable[..., BulkSource], tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    source = bulk(str(folder), spec(), 2, 3)
    assert source.plan(None, READ_AT) is None
    folder.mkdir()
    (folder / "part.parquet.inprogress").touch()
    assert source.plan(None, READ_AT) is None
    (folder / "part.parquet.inprogress").unlink()
    assert source.plan(None, DUE) is None
    (folder / "README").touch()
    assert source.plan(None, DUE) is None
    parquet(folder / "a.parquet", range(2))
    assert source.plan(None, DUE) is not None


@pytest.mark.parametrize("name", ["a.tmp/1.parquet", "a/_SUCCESS", "a/.1.crc"])
def test_a_folder_with_nothing_that_counts_is_empty(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir()
    path.touch()
    assert _polars()(str(tmp_path), spec(), 2, 3).plan(None, DUE) is None


@pytest.mark.parametrize("name", ["balance", "balanse"])
def test_a_column_that_no_record_of_the_first_chunk_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    for number in range(2):
        (tmp_path / f"{number}.json").write_text(json.dumps({"id": number, name: "1.00"}))
    assert len(Loaded(_polars()(str(tmp_path), spec("json", optional=("at",)), 1, 1)).all()) == 2
    warning = (
        f"{tmp_path}: no record of the first epoch has these columns of `schema`, so they are null in all its rows:"
        " 'balance' (did you mean 'balanse'?); correct a name that is wrong"
    )
    assert caplog.messages == ([warning] if name == "balanse" else [])


def test_lines_are_cut_by_about_so_many_and_each_is_read_once(bulk: Callable[..., BulkSource], tmp_path: Path) -> None:
    text = "".join(json.dumps({"id": each, "balance": "1.00"}) + "\n" for each in range(100, 150))
    (tmp_path / "1.json").write_text(text)
    (tmp_path / "2.json").write_text('{"id": 7, "balance": "x"}\n')
    load = Loaded(bulk(str(tmp_path), spec("json"), 20, 1))
    lines = load.all()
    assert [len(chunk) for chunk in load.chunks] == [20, 20, 10, 1]
    assert [line["id"] for line in lines[:-1]] == list(range(100, 150))
    assert "decimal(18,2) wanted" in lines[-1]["_error"]


def test_files_of_a_constant_moment_are_left_until_the_watermark_has_passed_it(
    bulk: Callable[..., BulkSource], tmp_path: Path
) -> None:
    parquet(tmp_path / "a.parquet", range(3))
    source = bulk(str(tmp_path), spec(), 5, 1)
    assert source.plan(None, None) is None
    assert source.plan(None, READ_AT + timedelta(seconds=4)) is None
    assert source.plan(None, READ_AT + timedelta(seconds=5)) is not None


def test_rows_carry_the_moment_or_the_position_that_their_columns_say(
    bulk: Callable[..., BulkSource], tmp_path: Path
) -> None:
    parquet(tmp_path / "a.parquet", range(2))
    (line, *_) = Loaded(bulk(str(tmp_path), spec(search_ts="at"), 5, 1)).all()
    assert line["_search_ts"] == READ_AT
    pos = Schema.parse("id bigint, balance decimal(18,2), pos bigint")
    parquet(tmp_path / "a.parquet", range(2), pos=pa.array([40, 41]))
    placed = spec(search_ts=None, position=("pos",), schema=pos)
    lines = rows((source := bulk(str(tmp_path), placed, 5, 1)).read(source.plan(None, None)).rows)  # type: ignore[arg-type]
    assert [(line["pos"], line["_reach_0"], line["_search_ts"]) for line in lines] == [(40, 40, None), (41, 41, None)]


def test_footers_tell_which_keys_remain(bulk: Callable[..., BulkSource], tmp_path: Path) -> None:
    for name, ids in (("a", range(10)), ("b", range(10, 20)), ("c", range(15, 30)), ("d", range(90, 95))):
        parquet(tmp_path / f"{name}.parquet", ids)
    load = Loaded(bulk(str(tmp_path), spec(), 10, 1))
    assert load.source.remaining(None) == (KeyRange(0, 9), KeyRange(10, 29), KeyRange(90, 94))
    load.read()
    assert load.source.remaining(load.after) == (KeyRange(10, 29), KeyRange(90, 94))
    assert load.source.lag(load.after) == "3 files"
    load.all()
    assert load.source.remaining(load.after) == ()


def test_a_broken_file_is_told_of_and_left_while_the_others_go_on(
    bulk: Callable[..., BulkSource], tmp_path: Path
) -> None:
    parquet(tmp_path / "a.parquet", range(2))
    (tmp_path / "b.parquet").write_bytes(b"PAR1 cut off")
    parquet(tmp_path / "c.parquet", range(4, 6))
    load = Loaded(bulk(str(tmp_path), spec(), 2, 1))
    assert len(load.all()) == 4
    assert load.chunks == [[0, 1], [4, 5]]
    (told,) = load.source.trouble
    assert told.startswith("chunk 1: file b.parquet is not Parquet")
    assert load.source.lag(load.after) == "1 failed"
    assert load.source.remaining(load.after) == (KeyRange(),)
    parquet(tmp_path / "b.parquet", range(2, 4))
    while not load.chunks[2:]:
        load.read()
    assert load.chunks[2:] == [[2, 3]]
    assert load.source.trouble == ()
    assert load.source.remaining(load.after) == ()
    assert load.after is not None
    assert load.after["chunks"] == 3


def test_a_file_with_damage_inside_is_set_aside_and_read_once_it_is_replaced(
    bulk: Callable[..., BulkSource], tmp_path: Path
) -> None:
    whole = "".join(json.dumps({"id": each, "balance": "1.00"}) + "\n" for each in range(1000)).encode()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(whole)[:-6])
    (tmp_path / "b.json").write_bytes(b'{"id": 1000, "balance": "1.00"}')
    load = Loaded(bulk(str(tmp_path), spec("json"), 5000, 1))
    planned = load.source.plan(None, READ_AT + timedelta(seconds=5))
    assert planned is not None
    assert load.source.readable(planned)
    (problem,) = load.source.set_aside(planned)
    assert re.fullmatch(r"chunk 0: file .*a\.json\.gz is damaged: .*; replace it", problem)
    assert not load.source.readable(planned)
    load.all()
    assert load.chunks == [[1000]]
    assert load.source.trouble == (problem,)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(whole))
    while not load.chunks[1:]:
        load.read()
    assert load.chunks[1:] == [[*range(1000)]]


def test_a_file_that_changed_since_it_was_planned_stops_the_epoch(
    bulk: Callable[..., BulkSource], tmp_path: Path
) -> None:
    parquet(tmp_path / "a.parquet", range(3))
    source = bulk(str(tmp_path), spec(search_ts="at"), 5, 1)
    planned = source.plan(None, None)
    assert planned is not None
    parquet(tmp_path / "a.parquet", range(300))
    with pytest.raises(SourceChanged, match="files must not change"):
        source.read(planned)


def test_a_file_that_comes_before_those_that_were_read_stops_the_load(
    bulk: Callable[..., BulkSource], tmp_path: Path
) -> None:
    parquet(tmp_path / "b.parquet", range(3))
    load = Loaded(bulk(str(tmp_path), spec(), 5, 1))
    load.all()
    parquet(tmp_path / "c.parquet", range(3, 5))
    assert len(load.all()) == 2
    parquet(tmp_path / "a.parquet", range(5, 7))
    with pytest.raises(SourceChanged, match=r"file a\.parquet came after c\.parquet had been read"):
        load.read()


def loaded(bulk: Callable[..., BulkSource], path: Path, *names: str, rows: int = 3, chunk: int = 3) -> Loaded:
    """Files of these names, and a load that has read a chunk of each."""
    for at, name in enumerate(names):
        parquet(path / f"{name}.parquet", range(rows * at, rows * at + rows), group=1)
    load = Loaded(bulk(str(path), spec(), chunk, 1))
    for _ in names:
        load.read()
    return load


def test_a_file_that_comes_late_after_another_was_removed_stops_the_load(
    bulk: Callable[..., BulkSource], tmp_path: Path
) -> None:
    load = loaded(bulk, tmp_path, "a", "c", "e")
    (tmp_path / "a.parquet").unlink()
    parquet(tmp_path / "d.parquet", range(9, 12))
    again = Loaded(bulk(str(tmp_path), spec(), 3, 1))
    again.after = load.after
    with pytest.raises(SourceChanged, match=r"file d\.parquet came after e\.parquet had been read"):
        again.read()


def test_files_that_are_loaded_may_be_removed_and_put_back(bulk: Callable[..., BulkSource], tmp_path: Path) -> None:
    load = loaded(bulk, tmp_path, "a", "c", "e")
    (tmp_path / "a.parquet").rename(tmp_path / "a")
    parquet(tmp_path / "f.parquet", range(9, 12))
    assert len(load.all()) == 3
    with pytest.raises(SourceChanged, match=r"1 of the 4 files .* are gone"):
        load.source.check_complete(load.after)
    (tmp_path / "a").rename(tmp_path / "a.parquet")
    load.source.check_complete(load.after)
    assert load.all() == []


def test_a_folder_that_is_away_is_awaited_once_it_has_been_read(
    bulk: Callable[..., BulkSource], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    load = loaded(bulk, tmp_path / "in", "a")
    (tmp_path / "in").rename(tmp_path / "away")
    for use in (load.source.check_after, load.source.check_complete, load.source.lag):
        with pytest.raises(SourceUnavailable, match="is not a directory now, though files of it have been read"):
            use(load.after)
    with pytest.raises(ConfigError, match="is not a directory; create it"):
        load.source.plan(None, READ_AT + timedelta(hours=1))


def test_a_file_that_comes_before_one_that_is_read_in_part_stops_the_load(
    bulk: Callable[..., BulkSource], tmp_path: Path
) -> None:
    load = loaded(bulk, tmp_path, "b", rows=3, chunk=2)
    assert load.chunks == [[0, 1]]
    parquet(tmp_path / "a.parquet", range(9, 12), group=1)
    with pytest.raises(SourceChanged, match=r"file a\.parquet came after b\.parquet had been read"):
        load.read()


def test_a_file_that_goes_before_it_is_read_to_its_end_stops_the_load(
    bulk: Callable[..., BulkSource], tmp_path: Path
) -> None:
    load = loaded(bulk, tmp_path, "b", rows=3, chunk=2)
    parquet(tmp_path / "c.parquet", range(9, 12), group=1)
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(SourceChanged, match=r"b\.parquet was removed before it was read; put it back"):
        load.read()


def test_a_broken_file_may_be_gone_while_others_are_read(bulk: Callable[..., BulkSource], tmp_path: Path) -> None:
    load = loaded(bulk, tmp_path, "a")
    (tmp_path / "b.parquet").write_bytes(b"broken")
    parquet(tmp_path / "c.parquet", range(9, 12))
    load.read()
    (tmp_path / "a.parquet").unlink()
    (tmp_path / "b.parquet").unlink()
    parquet(tmp_path / "d.parquet", range(12, 15))
    load.read()
    parquet(tmp_path / "b.parquet", range(3, 6))
    again = Loaded(bulk(str(tmp_path), spec(), 3, 1))
    again.after = load.after
    assert again.source.lag(again.after) == "1 failed"
    again.read()
    assert load.chunks + again.chunks == [[0, 1, 2], [9, 10, 11], [12, 13, 14], [3, 4, 5]]


def test_a_late_file_is_noticed_in_a_load_that_an_earlier_version_has_begun(
    bulk: Callable[..., BulkSource], tmp_path: Path
) -> None:
    load = loaded(bulk, tmp_path, "b", "d")
    assert load.after is not None
    load.after["frontier"] = load.after["frontier"][:3]
    assert load.source.lag(load.after) == ""
    (tmp_path / "b.parquet").unlink()
    parquet(tmp_path / "c.parquet", range(9, 12))
    with pytest.raises(SourceChanged, match=r"file c\.parquet came after d\.parquet had been read"):
        load.read()


def test_a_load_that_an_earlier_version_has_begun_goes_on(bulk: Callable[..., BulkSource], tmp_path: Path) -> None:
    load = loaded(bulk, tmp_path, "b", "d")
    assert load.after is not None
    load.after["frontier"] = load.after["frontier"][:3]
    (tmp_path / "b.parquet").unlink()
    parquet(tmp_path / "e.parquet", range(9, 12))
    assert len(load.read()) == 3
    parquet(tmp_path / "c.parquet", range(9, 12))
    with pytest.raises(SourceChanged, match=r"file c\.parquet came after e\.parquet had been read"):
        load.read()


def test_a_column_that_typed_files_may_lack_is_null_there(bulk: Callable[..., BulkSource], tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"id": [1], "balance": pa.array(["1.00"]).cast(pa.decimal128(18, 2))}), tmp_path / "1.parquet"
    )
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "1.csv").write_text("balance;id\n1.00;1\n")
    for folder, format_ in ((tmp_path, "parquet"), (tmp_path / "csv", "csv")):
        (line,) = Loaded(bulk(str(folder), spec(format_, optional=("at",)), 5, 1)).all()
        assert (line["id"], str(line["balance"]), line["at"]) == (1, "1.00", None)


def test_wall_times_are_those_of_the_declared_zone(bulk: Callable[..., BulkSource], tmp_path: Path) -> None:
    walls = pa.array([datetime(2024, 7, 1, 12), datetime(2024, 1, 1, 12)], pa.timestamp("us"))
    parquet(tmp_path / "1.parquet", range(2), at=walls)
    records = RecordSpec(ACCOUNTS, "parquet", time_zone="Europe/Berlin")
    source = bulk(str(tmp_path), BulkSpec(records, ("id",), (), "at", timedelta()), 5, 1)
    lines = Loaded(source).all()
    assert [line["at"].hour for line in lines] == [10, 11]


@pytest.mark.parametrize("written", [{"version": "2.6"}, {"use_deprecated_int96_timestamps": True}])
def test_times_finer_than_a_microsecond_are_refused(
    bulk: Callable[..., BulkSource], tmp_path: Path, written: dict[str, Any]
) -> None:
    nanos = pa.table({"id": [1], "at": pa.array([1], pa.timestamp("ns"))})
    pq.write_table(nanos, tmp_path / "1.parquet", **written)
    source = bulk(str(tmp_path), spec(schema=Schema.parse("id bigint, at timestamp")), 5, 1)
    with pytest.raises(Exception, match=r"file 1\.parquet: column 'at' has times finer than a microsecond"):
        Loaded(source).all()


def write_int96(spark: SparkSession, query: str, path: Path) -> None:
    """Write the rows of a query to a file, as Spark does by default."""
    setting = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(setting)
    assert before is not None
    folder = path.with_suffix("")
    try:
        spark.conf.set(setting, "INT96")
        spark.sql(query).coalesce(1).write.parquet(str(folder))
    finally:
        spark.conf.set(setting, before)
    (own,) = folder.glob("*.parquet")
    own.rename(path)


@pytest.mark.delta
@pytest.mark.contract
def test_instants_and_wall_times_inside_one_column(spark: SparkSession, tmp_path: Path) -> None:
    both = "named_struct('w', timestamp_ntz'2024-07-01 12:00:00', 'n', 1, 'a', timestamp'2024-07-01 12:00:00Z')"
    nested = (
        f"array(null, {both}) AS many, map('k', {both}) AS named, array(timestamp'2024-07-01 12:00:00Z') AS instants"
    )
    write_int96(spark, f"SELECT 1L AS id, {both} AS one, {nested}", tmp_path / "1.parquet")
    one = "struct<a:timestamp,w:timestamp>"
    ddl = f"one {one}, many array<{one}>, named map<string,{one}>, instants array<timestamp>"
    records = RecordSpec(Schema.parse(ddl), "parquet", time_zone="Europe/Berlin")
    (found,) = read(tmp_path / "1.parquet", records, 0, range(1))
    (row,) = found.values.to_pylist()
    a, w = datetime(2024, 7, 1, 12, tzinfo=UTC), datetime(2024, 7, 1, 10, tzinfo=UTC)
    wanted = {"a": a, "w": w}
    assert row == {
        "one": wanted,
        "many": [None, wanted],
        "named": [{"key": "k", "value": wanted}],
        "instants": [a],
    }


@pytest.mark.delta
@pytest.mark.contract
def test_spark_reads_int96_of_its_own_files_itself(spark: SparkSession, tmp_path: Path) -> None:
    from headwater.adapters.files.spark_bulk import SparkFileBulk

    write_int96(spark, "SELECT 1L AS id, timestamp'2500-01-01 00:00:00.123456Z' AS at", tmp_path / "1.parquet")
    assert "int96" in str(pq.ParquetFile(tmp_path / "1.parquet").schema)
    of_files = spec(schema=Schema.parse("id bigint, at timestamp"))
    source = SparkFileBulk(str(tmp_path), of_files, 5, 1, spark=spark)
    planned = source.plan(None, READ_AT + timedelta(seconds=5))
    assert planned is not None
    found = source.read(planned).rows
    assert "MapInArrow" not in str(nw.to_native(found)._jdf.queryExecution().analyzed())
    (line,) = rows(found)
    assert line["at"] == datetime(2500, 1, 1, 0, 0, 0, 123_456, UTC)
