"""A directory as a stream, on every engine."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from struct import pack
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.adapters.files import json_array, splits
from headwater.adapters.files.listing import FilesSettings, Listing
from headwater.adapters.records.shapes.decoder import ShapeDecoder
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.errors import BadInput, ConfigError, SourceChanged, SourceUnavailable
from headwater.domain.source.csv_format import CsvFormat
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing.clock import NOW

from .conftest import Engine, read_explained, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headwater.domain.epoch.epoch import Offsets
    from headwater.domain.ports import StreamSource

SCHEMA = Schema.parse("id bigint, name string, amount decimal(18,2), at timestamp")
JSON = RecordSpec(SCHEMA)
CSV = RecordSpec(SCHEMA, format="csv")
PARQUET = RecordSpec(SCHEMA, format="parquet")
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
NAIVE_NOON = NOON.replace(tzinfo=None)


def source_of(engine: Engine, path: Path, spec: RecordSpec = JSON, files_per_epoch: int = 1) -> StreamSource:
    return engine.files(FilesSettings(str(path), files_per_epoch), spec)


def read_split(path: Path, spec: RecordSpec) -> None:
    list(splits.read(splits.Split(0, str(path)), ShapeDecoder(spec)))


def planned(source: StreamSource, after: Any = None) -> OffsetRange:
    found = source.plan(after, NOW)
    assert found is not None
    return OffsetRange(*json.loads(json.dumps([found.after, found.until])))


def read(source: StreamSource, after: Any = None) -> list[dict[str, Any]]:
    return rows(source.read(planned(source, after)))


def line(number: int) -> str:
    return json.dumps({"id": number, "name": f"n{number}", "amount": 1.5, "at": "2024-05-01T12:00:00Z"}) + "\n"


def listing(path: Path, files_per_epoch: int = 1) -> Listing:
    return Listing(FilesSettings(str(path), files_per_epoch), "json")


def touch(path: Path, *names: str) -> None:
    for name in names:
        (path / name).write_text(line(1))


def test_reads_files_in_name_order_epoch_by_epoch(engine: Engine, tmp_path: Path) -> None:
    for name in ("c", "a", "b"):
        (tmp_path / f"{name}.json").write_text(line(1) + line(2))
    source, after, seen = source_of(engine, tmp_path, files_per_epoch=2), None, []
    while found := source.plan(after, NOW):
        seen.append([(row["_origin"], row["id"]) for row in rows(source.read(found))])
        after = found.until
    assert seen == [[("a.json", 1), ("a.json", 2), ("b.json", 1), ("b.json", 2)], [("c.json", 1), ("c.json", 2)]]
    assert source.lag(after) == "0 files"
    assert source.lag(None) == "3 files"


def test_reads_values_as_declared(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(line(7))
    (row,) = read(source_of(engine, tmp_path))
    assert row == {
        "id": 7,
        "name": "n7",
        "amount": Decimal("1.50"),
        "at": NOON,
        "_row_kind": "+I",
        "_position": 0,
        "_origin": "a.json",
        "_raw": line(7).strip(),
        "_bytes": None,
        "_error": None,
    }


def test_keeps_undecodable_lines_with_their_reason(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'{"id": 1}\n\n{"id": "x"}\n{oops\n"\xff"\n{"id": 2}')
    first, wrong, broken, bytes_, last = read(source_of(engine, tmp_path))
    assert (first["id"], last["id"], first["_error"], last["_error"]) == (1, 2, None, None)
    assert wrong["_error"] == "column 'id': bigint wanted, not 'x'"
    assert (wrong["id"], wrong["_row_kind"], wrong["_raw"]) == (None, None, '{"id": "x"}')
    assert broken["_error"].startswith("not JSON: ")
    assert (bytes_["_raw"], bytes_["_bytes"]) == ('"\\xff"', b'"\xff"')


def test_a_replayed_range_gives_the_same_rows(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("".join(map(line, range(100))))
    source = source_of(engine, tmp_path)
    found = planned(source)
    before = rows(source.read(found))
    touch(tmp_path, "b.json")
    assert rows(source.read(found)) == before
    assert [row["id"] for row in before] == list(range(100))


def test_reads_large_files_in_parts_without_losing_order(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").write_text("\n".join(map(line, range(50))))
    monkeypatch.setattr(splits, "BYTES_A_SPLIT", 97)
    assert [row["id"] for row in read(source_of(engine, tmp_path))] == list(range(50))


def test_many_records_of_one_form_and_one_of_another(engine: Engine, tmp_path: Path) -> None:
    lines = [line(at) for at in range(6000)]
    lines[4000] = '{"id": 4000.5}'
    (tmp_path / "a.json").write_text("\n".join(lines))
    found = read(source_of(engine, tmp_path))
    assert [row["id"] for row in found] == [*range(4000), None, *range(4001, 6000)]
    assert [row["_raw"] for row in found if row["_error"]] == [lines[4000]]
    assert found[4000]["_position"] == len("\n".join(lines[:4000])) + 1


def test_reads_gzip(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress("".join(map(line, range(3))).encode()))
    assert [row["id"] for row in read(source_of(engine, tmp_path))] == [0, 1, 2]


def zstandard(text: str) -> bytes:
    """Two frames, as tools that append write them."""
    half = text.index("\n", len(text) // 2) + 1
    return b"".join(pa.compress(part.encode(), "zstd", asbytes=True) for part in (text[:half], text[half:]))


def test_reads_zstandard(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.json.zst").write_bytes(zstandard("".join(map(line, range(5000)))))
    found = read(source_of(engine, tmp_path))
    assert [row["id"] for row in found] == [*range(5000)]
    assert found[1]["_position"] == len(line(0))


@pytest.mark.parametrize("indent", [None, 2])
def test_reads_an_array(engine: Engine, tmp_path: Path, indent: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_array, "BYTES_A_BLOCK", 1000)
    records = [{**json.loads(line(at)), "more": {"deep": ['",]', at]}} for at in range(2000)]
    text = json.dumps([*records, 7, {"id": "x"}], indent=indent)
    content = b"\xef\xbb\xbf " + text[:-1].encode() + b', {"id": 1 2} ]\n'
    (tmp_path / "a.json").write_bytes(content)
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(content))
    (tmp_path / "c.json.zst").write_bytes(pa.compress(content, "zstd", asbytes=True))
    (tmp_path / "d.json").write_text("[ ]")
    (tmp_path / "e.json").touch()
    found = read(source_of(engine, tmp_path, RecordSpec(SCHEMA, layout="array"), files_per_epoch=5))
    whole, rest = found[:2003], found[2003:]
    assert [row["id"] for row in whole] == [*range(2000), None, None, None]
    assert [(row["name"], row["amount"], row["at"]) for row in whole[:2000]] == [
        (f"n{at}", Decimal("1.50"), NOON) for at in range(2000)
    ]
    assert [row["_error"] for row in whole[2000:2002]] == [
        "a JSON object wanted, not 7",
        "column 'id': bigint wanted, not 'x'",
    ]
    assert whole[2002]["_error"].startswith("not JSON: ")
    for row in whole:
        assert content[row["_position"] :].startswith(row["_raw"].encode())
    assert json.loads(whole[3]["_raw"]) == records[3]
    assert [(row["id"], row["_position"] % 2**40, row["_error"]) for row in rest] == 2 * [
        (row["id"], row["_position"], row["_error"]) for row in whole
    ]


def test_an_empty_element_of_an_array_is_a_dead_letter_and_a_comma_at_the_end_is_ignored(
    engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('[{"id": 1},, {"id": 2}\n, ,\n{"id": 3},]')
    (tmp_path / "b.json").write_text("[,]")
    found = read(source_of(engine, tmp_path, RecordSpec(SCHEMA, layout="array"), files_per_epoch=2))
    assert [row["id"] for row in found] == [1, None, 2, None, 3, None]
    assert [row["_raw"] for row in found if row["_error"]] == ["", "", ""]
    assert all(row["_error"].startswith("not JSON: ") for row in found if row["id"] is None)
    assert len({row["_position"] for row in found}) == 6


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"id": 1}', 'is not a JSON array: it begins with .* set layout = "lines"'),
        ('[{"id": 1}, {"id": "x', "its array is not closed, .* from byte 11 on; replace the file"),
        ('[{"id": 1}]\n[{"id": 2}]', "something follows its array: "),
    ],
)
def test_refuses_an_array_that_is_not_whole(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(BadInput, match=rf"file a\.json:? {told}"):
        read_split(tmp_path / "a.json", RecordSpec(SCHEMA, layout="array"))


def test_reads_csv(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(
        b"\xef\xbb\xbfname,extra,id,amount,at\r\n"
        b'"line one\r\nline ""two""",,1,1.5,2024-05-01 12:00:00\r\n'
        b'"",x,2,,\r\n'
        b",x,3,1e1,2024-05-01T14:00:00+02:00\r\n"
        b"short,x\r\n"
        b"bad,x,4,1.555,\r\n"
        b'"open,x,5,1,\r\n'
    )
    multiline, empty, missing, short, bad, unclosed = read(source_of(engine, tmp_path, CSV))
    assert (multiline["name"], multiline["amount"], multiline["at"]) == (
        'line one\r\nline "two"',
        Decimal("1.50"),
        NOON,
    )
    assert (empty["name"], empty["amount"], empty["at"]) == ("", None, None)
    assert (missing["name"], missing["amount"], missing["at"]) == (None, Decimal("10.00"), NOON)
    assert short["_error"] == "5 fields wanted, as in the header, not 2"
    assert (bad["_error"], bad["_raw"]) == (
        "column 'amount': decimal(18,2) wanted, not 1.555 (more than 2 decimals)",
        "bad,x,4,1.555,",
    )
    assert "not closed" in unclosed["_error"]


def test_reads_csv_as_it_is_written(engine: Engine, tmp_path: Path) -> None:
    how = CsvFormat(delimiter=";", quote="'", escape="\\", header=False, null_value=("NULL", ""), comment="#")
    spec = RecordSpec(SCHEMA, format="csv", csv=how)
    (tmp_path / "a.csv").write_bytes(
        b"# id;name\n1;'it\\'s\n;\\\\';1.5;2024-05-01 12:00:00\n2;'NULL';NULL;\nno;x;1;NULL\n3;\"x;1;\n4;x\n"
    )
    found = read(source_of(engine, tmp_path, spec))
    assert [(row["id"], row["name"], row["amount"], row["_position"], row["_error"]) for row in found] == [
        (1, "it's\n;\\", Decimal("1.50"), 10, None),
        (2, "NULL", None, 48, None),
        (None, None, None, 63, "column 'id': bigint wanted, not 'no'"),
        (3, '"x', Decimal("1.00"), 75, None),
        (None, None, None, 83, "4 fields wanted, as in the schema, not 2"),
    ]


def test_reads_parquet_widening_what_is_safe(engine: Engine, tmp_path: Path) -> None:
    table = pa.table(
        {
            "at": pa.array([NAIVE_NOON], pa.timestamp("ns")),
            "id": pa.array([1], pa.int32()),
            "amount": pa.array([Decimal("1.5")], pa.decimal128(5, 1)),
            "name": pa.array(["a"]).dictionary_encode(),
            "other": pa.array([1]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    (row,) = read(source_of(engine, tmp_path, PARQUET))
    raw = json.loads(row.pop("_raw"))
    assert row == {
        "id": 1,
        "name": "a",
        "amount": Decimal("1.50"),
        "at": NOON,
        "_row_kind": "+I",
        "_position": 0,
        "_origin": "a.parquet",
        "_bytes": None,
        "_error": None,
    }
    assert raw == {"id": 1, "name": "a", "amount": 1.5, "at": "2024-05-01T12:00:00"}


@pytest.mark.parametrize(
    ("ddl", "values"),
    [
        ("array<string>", [["a", None], [], None, ["b", "a"]]),
        ("struct<name:string>", [{"name": "a"}, None, {"name": "b"}, {"name": None}]),
        ("array<struct<name:string>>", [[{"name": "a"}], [], None, [{"name": "b"}, None]]),
        ("map<string,string>", [[("x", "a")], [], None, [("x", "b"), ("y", None)]]),
    ],
)
def test_dictionaries_inside_of_nested_parquet_values(
    engine: Engine, tmp_path: Path, ddl: str, values: list[Any]
) -> None:
    text = pa.dictionary(pa.int32(), pa.string())
    kinds = {
        "array<string>": pa.list_(text),
        "struct<name:string>": pa.struct([("name", text)]),
        "array<struct<name:string>>": pa.list_(pa.struct([("name", text)])),
        "map<string,string>": pa.map_(pa.string(), text),
    }
    pq.write_table(pa.table({"x": pa.array(values, kinds[ddl])}), tmp_path / "a.parquet", row_group_size=1)
    found = read(source_of(engine, tmp_path, RecordSpec(Schema.parse(f"x {ddl}"), "parquet")))
    wanted = pa.array(values, kinds[ddl]).to_pylist()
    if ddl.startswith("map"):
        wanted = [each and [{"key": key, "value": value} for key, value in each] for each in wanted]
    assert [row["x"] for row in found] == wanted
    assert [row["_error"] for row in found] == [None] * 4


def test_parquet_times_without_a_zone_are_read_in_the_declared_one(engine: Engine, tmp_path: Path) -> None:
    spec = RecordSpec(Schema.parse("at timestamp, local timestamp_ntz, day date"), "parquet", time_zone="Asia/Shanghai")
    noon = NAIVE_NOON + timedelta(hours=8)
    pq.write_table(pa.table({"at": [noon], "local": [noon], "day": [noon.date()]}), tmp_path / "a.parquet")
    (row,) = read(source_of(engine, tmp_path, spec))
    assert (row["at"], row["local"], row["day"]) == (NOON, noon, date(2024, 5, 1))


def test_int96_holds_instants_whatever_the_zone(engine: Engine, tmp_path: Path) -> None:
    spec = RecordSpec(Schema.parse("at timestamp"), "parquet", time_zone="Asia/Shanghai")
    pq.write_table(pa.table({"at": [NAIVE_NOON]}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert [row["at"] for row in read(source_of(engine, tmp_path, spec))] == [NOON]


def int96(path: Path, micros: int, nanos: int) -> None:
    """A file with the same time in type INT96 twice, as a value and inside of a nested one; `nanos` go on top."""
    at = pa.array([None, micros], pa.timestamp("us"))
    table = pa.table({"at": at, "of": pa.array([None, [{"at": None}, {"at": micros, "not": 1}]], _OF)})
    plain: dict[str, Any] = {"use_dictionary": False, "compression": "none", "write_statistics": False}
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, **plain)
    days, of_day = divmod(micros * 1000, 86_400_000_000_000)
    written, wanted = (pack("<qi", of_day + more, days + 2_440_588) for more in (0, nanos))
    assert path.read_bytes().count(written) == 2
    path.write_bytes(path.read_bytes().replace(written, wanted))


_OF = pa.list_(pa.struct({"at": pa.timestamp("us"), "not": pa.int32()}))
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999


@pytest.mark.parametrize("micros", [_FIRST, _LAST, -1, 1_704_067_200_123_456])
@pytest.mark.parametrize("nanos", [0, 1, 999])
def test_int96_finer_than_a_microsecond_is_refused_in_all_years(tmp_path: Path, micros: int, nanos: int) -> None:
    file = tmp_path / "a.parquet"
    int96(file, micros, nanos)
    text = pa.scalar(micros, pa.timestamp("us")).cast(pa.string()).as_py()
    for ddl, name in (("at timestamp", "at"), ("of array<struct<at:timestamp>>", "of")):
        spec = RecordSpec(Schema.parse(ddl), "parquet")
        if not nanos:
            (batch,) = splits.read(splits.Split(0, str(file)), ShapeDecoder(spec))
            found = batch.column(name)[1]
            assert (found if name == "at" else found[1]["at"]).value == micros
            continue
        with pytest.raises(
            BadInput, match=f"file a\\.parquet: column '{name}' has times finer.*: {text}{nanos:03}; round"
        ):
            read_split(file, spec)


def test_int96_that_no_column_has_may_be_finer(tmp_path: Path) -> None:
    at = pa.array([1], pa.timestamp("ns"))
    of = pa.array([[{"at": 1, "not": 1}]], pa.list_(pa.struct({"at": pa.timestamp("ns"), "not": pa.int32()})))
    pq.write_table(pa.table({"at": at, "of": of}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    read_split(tmp_path / "a.parquet", RecordSpec(Schema.parse("of array<struct<not:int>>"), "parquet"))


def test_int96_finer_than_a_microsecond_stops_every_engine(engine: Engine, tmp_path: Path) -> None:
    int96(tmp_path / "a.parquet", 0, 1)
    source = source_of(engine, tmp_path, RecordSpec(Schema.parse("at timestamp"), "parquet"))
    with pytest.raises(BadInput, match="column 'at' has times finer than a microsecond"):
        read_explained(engine, source, planned(source))


def test_parquet_times_beyond_the_year_9999_make_dead_letters(engine: Engine, tmp_path: Path) -> None:
    spec = RecordSpec(
        Schema.parse("id int, at timestamp, local timestamp, day date"), "parquet", time_zone="Asia/Tokyo"
    )
    last = 253_402_300_799_999_999
    columns = {
        "id": pa.array([1, 2, 3, 4, 5, 6], pa.int32()),
        "at": pa.array([last, last + 1, 0, 0, None, -62_135_596_800_000_001], pa.timestamp("us", "UTC")),
        "local": pa.array([last // 1000, 0, -62_135_596_800_000, 0, None, 0], pa.timestamp("ms")),
        "day": pa.array([2_932_896, 0, 0, 2_932_897, None, 0], pa.date32()),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    rows = sorted(read(source_of(engine, tmp_path, spec)), key=lambda row: row["_position"])
    assert [row["id"] for row in rows if row["_error"] is None] == [1, 5]
    why = "(out of range: 0001-01-01 to 9999-12-31 in UTC)"
    assert [row["_error"] for row in rows if row["_error"]] == [
        f"column 'at': timestamp wanted, not '10000-01-01 00:00:00.000000Z' {why}",
        f"column 'local': timestamp wanted, not '0001-01-01 00:00:00.000' {why}",
        f"column 'day': date wanted, not '10000-01-01' {why}",
        f"column 'at': timestamp wanted, not '0000-12-31 23:59:59.999999Z' {why}",
    ]


def test_parquet_texts_that_are_not_utf8_make_dead_letters(engine: Engine, tmp_path: Path) -> None:
    texts = pa.array([b"ok", b"a\xff", None, "é".encode()]).view(pa.string())
    columns = {"id": pa.array([1, 2, 3, 4]), "name": texts, "tag": texts.dictionary_encode()}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    spec = RecordSpec(Schema.parse("id bigint, name string, tag string"), "parquet")
    rows = sorted(read(source_of(engine, tmp_path, spec)), key=lambda row: row["_position"])
    assert [(row["name"], row["tag"]) for row in rows] == [("ok", "ok"), (None, None), (None, None), ("é", "é")]
    assert [row["_error"] for row in rows] == [
        None,
        "column 'name': string wanted, not 'a\\\\xff' (not UTF-8)",
        None,
        None,
    ]


def test_a_parquet_text_inside_a_list_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    texts = pa.ListArray.from_arrays(pa.array([0, 2]), pa.array([b"ok", b"\xff"]).view(pa.string()))
    pq.write_table(pa.table({"names": texts}), tmp_path / "a.parquet")
    spec = RecordSpec(Schema.parse("names array<string>"), "parquet")
    with pytest.raises(BadInput, match=r"file a\.parquet: column 'names' has values that are damaged: .*UTF8"):
        [list(splits.read(part, ShapeDecoder(spec))) for part in splits.splits([tmp_path / "a.parquet"], spec)]


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_row_kinds(engine: Engine, tmp_path: Path, format_: str) -> None:
    table = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "kind": ["c", "-D", "x"]})
    match format_:
        case "json":
            (tmp_path / "a.json").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        case "csv":
            (tmp_path / "a.csv").write_text("id,kind\n1,c\n2,-D\n3,x\n")
        case _:
            pq.write_table(table, tmp_path / "a.parquet")
    spec = RecordSpec(Schema.parse("id int, kind string"), format_, row_kind="kind")
    found = read(source_of(engine, tmp_path, spec))
    assert [(row["id"], row["_row_kind"]) for row in found] == [(1, "+I"), (2, "-D"), (None, None)]
    assert found[2]["_error"] == "column 'kind': a row kind (+I -U +U -D, or c r u d) wanted, not 'x'"
    assert "kind" not in found[0]


def test_files_without_rows(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.json").touch()
    (tmp_path / "b.json").write_text("\n")
    source = source_of(engine, tmp_path, files_per_epoch=2)
    assert read(source) == []


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("id,name,at", "file a.csv: column 'amount' is missing from the header, which has: id, name, at; if the first"),
        ("id,name, Amount,at", "'amount' is missing .* id, name,  Amount, at; did you mean ' Amount'"),
        ("id,name,amuont,at", "'amount' is missing .*; did you mean 'amuont'"),
        ("1,x,2.5,2024-03-01", "; if the first line is a row, write the names above it; a source"),
        ("id,id,name,amount,at", "file a.csv: column 'id' occurs more than once"),
        ('"id,name', "file a.csv: the header cannot be read"),
        ("id,name,amount,at\r1,x,2.5,2024-03-01\r", "file a.csv: the header cannot be read: it has a carriage return"),
        ("\0i\0d\0,\0v", "file a.csv: the header cannot be read: it has NUL bytes: .* UTF-16; convert it to UTF-8"),
        ('id,name,amount,"at"\r1,x,2.5,"2024-03-01"\r', "a.csv: the header cannot be read: it has a carriage return"),
    ],
)
def test_refuses_csv_without_its_columns(engine: Engine, tmp_path: Path, header: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(header + "\n")
    source = source_of(engine, tmp_path, CSV)
    with pytest.raises(BadInput, match=message):
        source.read(planned(source))


def test_bytes_of_another_format_are_told(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("id,name,amount,at\n".encode("utf-16"))
    with pytest.raises(BadInput, match=r"file a.csv: the header cannot be read: .* UTF-16: convert it to UTF-8"):
        (source := source_of(engine, tmp_path, CSV)).read(planned(source))
    (tmp_path / "a.csv").unlink()
    (tmp_path / "a.json").write_bytes(gzip.compress(b"{}"))
    (found, *_) = read(source_of(engine, tmp_path))
    assert found["_error"] == "not JSON: it seems to be compressed by gzip: then its name must end in .gz"


@pytest.mark.parametrize(
    ("ddl", "type_", "value", "message"),
    [
        (
            "x bigint",
            pa.string(),
            "1",
            "'x' is string, which bigint cannot hold without loss; allowed: tinyint, smallint, int, bigint; or declare it as string in `schema`",
        ),
        ("x int", pa.int64(), 1, "'x' is bigint, which int cannot hold"),
        (
            "x decimal(4,2)",
            pa.decimal128(5, 2),
            Decimal(1),
            "'x' is decimal\\(5,2\\), which .*; or declare it as decimal\\(5,2\\) in `schema`",
        ),
        ("x timestamp_ntz", pa.timestamp("us", "UTC"), NOON, "allowed: timestamps without a zone"),
        ("x timestamp", pa.timestamp("ns", "UTC"), 1, "'x' has times finer than a microsecond"),
        ("x int", pa.large_string(), "1", "'x' is string, which int cannot hold"),
        ("x int", pa.uint32(), 1, "'x' is uint32, which int .*; or declare it as bigint in `schema`"),
        ("x int", pa.time64("us"), 1, r"'x' is time64\[us\], which int .*allowed: tinyint, smallint, int$"),
        ("y int", pa.int32(), 1, "column 'y' is missing; it has: x$"),
        ("X int", pa.int32(), 1, "column 'X' is missing; it has: x; did you mean 'x'"),
    ],
)
def test_refuses_parquet_of_other_types(
    tmp_path: Path, ddl: str, type_: pa.DataType, value: object, message: str
) -> None:
    pq.write_table(pa.table({"x": pa.array([value], type_)}), tmp_path / "a.parquet")
    spec = RecordSpec(Schema.parse(ddl), "parquet")
    with pytest.raises(BadInput, match=message):
        [list(splits.read(part, ShapeDecoder(spec))) for part in splits.splits([tmp_path / "a.parquet"], spec)]


NO_VALUES = {
    "x int": pa.nulls(2),
    "x timestamp": pa.nulls(2),
    "x string": pa.nulls(2),
    "x decimal(4,2)": pa.nulls(2),
    "x array<int>": pa.array([[], None], pa.list_(pa.null())),
    "x array<struct<a:int>>": pa.array([[None], None], pa.list_(pa.null())),
    "x struct<a:int,b:timestamp>": pa.array(
        [{"a": None, "b": None}, None], pa.struct([("a", pa.null()), ("b", pa.null())])
    ),
    "x map<string,int>": pa.nulls(2),
}


@pytest.mark.parametrize("ddl", NO_VALUES)
def test_a_parquet_column_without_a_value_fits_every_type(engine: Engine, tmp_path: Path, ddl: str) -> None:
    there = NO_VALUES[ddl]
    pq.write_table(pa.table({"x": there}), tmp_path / "a.parquet")
    source = source_of(engine, tmp_path, RecordSpec(Schema.parse(ddl), "parquet"))
    found = rows(source.read(planned(source)))
    assert [row["x"] for row in found] == there.to_pylist()
    assert [row["_error"] for row in found] == [None, None]


def test_refuses_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("hello")
    with pytest.raises(BadInput, match=r"a\.parquet is not Parquet"):
        splits.splits([tmp_path / "a.parquet"], PARQUET)


def test_refuses_a_damaged_gzip(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(line(1).encode())[:-6])
    with pytest.raises(BadInput, match="is damaged"):
        read_split(tmp_path / "a.json.gz", JSON)


def test_refuses_a_damaged_zstandard(tmp_path: Path) -> None:
    whole = zstandard("".join(map(line, range(100))))
    for damaged in (whole[:-6], b"junk" + whole):
        (tmp_path / "a.json.zst").write_bytes(damaged)
        with pytest.raises(BadInput, match="is damaged"):
            read_split(tmp_path / "a.json.zst", JSON)


CUT_OFF = {
    "12.csv.gz": gzip.compress(b"id,name,amount,at\n" * 99)[:12],
    "magic.csv.gz": b"\x1f\x8a" + gzip.compress(b"id,name,amount,at\n")[2:],
    "cut.csv.zst": pa.Codec("zstd").compress(b"id,name,amount,at\n", asbytes=True)[:15],
}


@pytest.mark.parametrize("name", CUT_OFF)
def test_refuses_a_csv_file_whose_header_is_damaged(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(CUT_OFF[name])
    with pytest.raises(BadInput, match=f"{name} is damaged: .*; replace it"):
        splits.splits([tmp_path / name], CSV)


def damaged_parquet(numbers: range, at: int, length: int) -> bytes:
    """A file of ids and names, with other bytes at a place; from its end if that is negative."""
    written = BytesIO()
    pq.write_table(pa.table({"id": numbers, "name": [f"n{each}" for each in numbers]}), written)
    content = bytearray(written.getvalue())
    at %= len(content)
    content[at : at + length] = b"\xff" * length
    return bytes(content)


def test_refuses_parquet_with_a_damaged_footer(tmp_path: Path) -> None:
    whole = damaged_parquet(range(9), 0, 0)
    footer = int.from_bytes(whole[-8:-4], "little")
    (tmp_path / "a.parquet").write_bytes(damaged_parquet(range(9), -8 - footer, 30))
    with pytest.raises(BadInput, match=r"a\.parquet is not Parquet: .*; replace it"):
        splits.splits([tmp_path / "a.parquet"], PARQUET)


@pytest.mark.parametrize("format_", ["parquet", "json"])
def test_damage_inside_a_file_is_told(engine: Engine, tmp_path: Path, format_: str) -> None:
    (tmp_path / "a.parquet").write_bytes(damaged_parquet(range(3000), 100, 40))
    (tmp_path / "b.json.gz").write_bytes(gzip.compress("".join(map(line, range(100))).encode())[:-6])
    source = source_of(engine, tmp_path, RecordSpec(Schema.parse("id bigint, name string"), format_))
    with pytest.raises(BadInput, match=r"is damaged: .*; replace it"):
        read_explained(engine, source, planned(source))


def test_a_missing_zstandard_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceChanged, match="was removed while it was read"):
        read_split(tmp_path / "a.json.zst", JSON)


def test_leaves_out_hidden_and_foreign_files(tmp_path: Path) -> None:
    touch(tmp_path, "_a.json", ".b.json", "c.json.tmp", "d.csv", "e.json")
    (tmp_path / "f.json").mkdir()
    assert [path.name for path in listing(tmp_path, 9).files(planned_by(listing(tmp_path, 9)))] == ["e.json"]


def planned_by(files: Listing, after: Any = None) -> OffsetRange:
    found = files.plan(after)
    assert found is not None
    return found


def test_a_missing_directory_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a directory; create it"):
        listing(tmp_path / "nowhere").plan(None)


def test_a_file_or_a_pattern_in_place_of_a_directory_is_told(tmp_path: Path) -> None:
    touch(tmp_path, "a.json")
    with pytest.raises(ConfigError, match=r"a\.json is a file; name the folder that has it"):
        listing(tmp_path / "a.json").plan(None)
    with pytest.raises(ConfigError, match=r"/\*\.json is not a directory, and patterns are not read; name the folder"):
        listing(tmp_path / "*.json").plan(None)


def test_a_directory_that_is_away_is_awaited_once_it_has_been_read(tmp_path: Path) -> None:
    there, away = tmp_path / "in", tmp_path / "away"
    there.mkdir()
    touch(there, "a.json")
    files = listing(there)
    found = planned_by(files)
    there.rename(away)
    for use in (files.plan, files.check, files.check_complete, files.waiting):
        with pytest.raises(SourceUnavailable, match="is not a directory now, though files of it have been read"):
            use(found.until)
    for read in (lambda: files.files(found), lambda: read_split(there / "a.json", JSON)):
        with pytest.raises(SourceUnavailable, match="is not a directory now"):
            read()
    away.rename(there)
    assert files.plan(found.until) is None
    assert files.files(found) == [there / "a.json"]


@pytest.mark.parametrize(("form", "log"), [("delta", "_delta_log"), ("hudi", ".hoodie")])
def test_the_files_of_a_table_are_not_its_rows(tmp_path: Path, form: str, log: str) -> None:
    touch(tmp_path, "a.parquet", "b.json")
    (tmp_path / log).mkdir()
    with pytest.raises(ConfigError, match=f"is a table of {form}: some of its Parquet files have rows of earlier"):
        Listing(FilesSettings(str(tmp_path)), "parquet").plan(None)
    assert Listing(FilesSettings(str(tmp_path)), "json").names() == ["b.json"]


def test_a_file_whose_name_is_no_text_is_told(tmp_path: Path) -> None:
    touch(tmp_path, "a.json", "b\udcff.json", "c.json")
    with pytest.raises(BadInput, match=r"the name of file 'b\\udcff\.json' is not UTF-8; rename it"):
        listing(tmp_path).plan(None)


def test_an_empty_directory_has_nothing_to_read(tmp_path: Path) -> None:
    assert listing(tmp_path).plan(None) is None


def test_a_file_behind_the_last_one_is_noticed(tmp_path: Path) -> None:
    touch(tmp_path, "b.json", "d.json")
    after = planned_by(listing(tmp_path, 2)).until
    touch(tmp_path, "c.json")
    with pytest.raises(SourceChanged, match=r"c\.json came after d\.json had been read; write late rows"):
        listing(tmp_path).plan(after)


def test_a_file_before_the_first_one_is_noticed(tmp_path: Path) -> None:
    touch(tmp_path, "b.json")
    after = planned_by(listing(tmp_path)).until
    (tmp_path / "b.json").unlink()
    touch(tmp_path, "a.json")
    with pytest.raises(SourceChanged, match=r"a\.json came after"):
        listing(tmp_path).plan(after)


def test_a_file_far_behind_is_noticed(tmp_path: Path) -> None:
    after = read_even(tmp_path, 50)
    touch(tmp_path, "001.json")
    with pytest.raises(
        SourceChanged, match=r"one of the files from 001\.json to 002\.json came after 098\.json had been read"
    ):
        listing(tmp_path).plan(after)


def read_even(path: Path, files: int) -> Offsets:
    """The offsets after this many files with even numbers, which are written here."""
    touch(path, *(f"{number:03}.json" for number in range(0, 2 * files, 2)))
    return read_all(listing(path, 5), None)


def read_all(files: Listing, after: Offsets | None) -> Offsets:
    """The offsets after all files, through JSON as a ledger keeps them."""
    while found := files.plan(after):
        after = json.loads(json.dumps(found.until))
    assert after is not None
    return after


def remove(path: Path, *names: str) -> None:
    for name in names:
        (path / name).unlink()


def test_a_file_far_behind_is_noticed_after_others_were_removed(tmp_path: Path) -> None:
    after = read_even(tmp_path, 40)
    remove(tmp_path, "002.json", "004.json")
    touch(tmp_path, "007.json")
    with pytest.raises(SourceChanged, match=r"file 007\.json came after 078\.json had been read"):
        listing(tmp_path).plan(after)


def test_a_file_before_all_that_are_left_is_noticed(tmp_path: Path) -> None:
    after = read_even(tmp_path, 40)
    remove(tmp_path, *(f"{number:03}.json" for number in range(0, 40, 2)))
    touch(tmp_path, "080.json")
    after = read_all(listing(tmp_path), after)
    touch(tmp_path, "005.json")
    with pytest.raises(SourceChanged, match=r"file 005\.json came after 080\.json had been read"):
        listing(tmp_path).plan(after)


def test_a_file_in_place_of_another_is_noticed_among_many(tmp_path: Path) -> None:
    after = read_even(tmp_path, 400)
    remove(tmp_path, "000.json", "002.json", "004.json", "304.json")
    assert listing(tmp_path).plan(after) is None
    touch(tmp_path, "307.json")
    with pytest.raises(
        SourceChanged, match=r"one of the files from 2\d\d\.json to 3\d\d\.json came after 798\.json had"
    ):
        listing(tmp_path).plan(after)


def test_while_a_run_goes_on_a_late_file_is_noticed_wherever_others_are_removed(tmp_path: Path) -> None:
    after, files = read_even(tmp_path, 400), listing(tmp_path)
    assert files.plan(after) is None
    remove(tmp_path, *(f"{number:03}.json" for number in range(0, 600, 2)))
    touch(tmp_path, "307.json")
    with pytest.raises(SourceChanged, match=r"file 307\.json came after 798\.json had been read"):
        files.plan(after)


def test_one_listing_plans_for_offsets_that_go_back(tmp_path: Path) -> None:
    before, files = read_even(tmp_path, 80), listing(tmp_path)
    touch(tmp_path, "160.json", "164.json")
    read_all(files, before)
    remove(tmp_path, "000.json", "002.json")
    touch(tmp_path, "162.json")
    assert read_all(files, before)["newest"].keys() >= {"160.json", "162.json", "164.json"}


def test_a_file_after_the_last_that_is_summarized_is_noticed(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{number:03}.json" for number in range(0, 200, 2)))
    after = read_all(listing(tmp_path, 40), None)
    remove(tmp_path, *(f"{number:03}.json" for number in range(100, 136, 2)))
    touch(tmp_path, "135.json")
    with pytest.raises(SourceChanged, match=r"file 135\.json came after 198\.json had been read"):
        listing(tmp_path).plan(after)


def test_files_that_were_removed_may_all_be_put_back(tmp_path: Path) -> None:
    after = read_even(tmp_path, 80)
    remove(tmp_path, "000.json", "002.json", "050.json")
    touch(tmp_path, "160.json")
    after = read_all(listing(tmp_path), after)
    with pytest.raises(SourceChanged, match=r"3 of the 81 files .* are gone"):
        listing(tmp_path).check_complete(after)
    touch(tmp_path, "000.json", "002.json", "050.json")
    listing(tmp_path).check_complete(after)
    touch(tmp_path, "162.json")
    assert read_all(listing(tmp_path), after)["count"] == 82


def test_offsets_of_earlier_versions_are_counted_once_and_then_known(tmp_path: Path) -> None:
    after = read_even(tmp_path, 80)
    after = {name: value for name, value in after.items() if name != "older"}
    touch(tmp_path, "001.json")
    with pytest.raises(SourceChanged, match=r"one of the files from 000\.json to 094\.json came after 158\.json"):
        listing(tmp_path).plan(after)
    remove(tmp_path, "001.json", "000.json", "002.json")
    touch(tmp_path, "160.json")
    after = read_all(listing(tmp_path), after)
    touch(tmp_path, "005.json")
    with pytest.raises(SourceChanged, match=r"came after 160\.json had been read"):
        listing(tmp_path).plan(after)


def test_the_end_knows_the_files_before_it(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{number:03}.json" for number in range(0, 100, 2)))
    end = listing(tmp_path).end()
    remove(tmp_path, "000.json")
    assert listing(tmp_path).plan(end) is None
    touch(tmp_path, "003.json")
    with pytest.raises(
        SourceChanged, match=r"one of the files from 002\.json to 003\.json came after 098\.json had been read"
    ):
        listing(tmp_path).plan(end)


def test_offsets_stay_small(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{number:03}.json" for number in range(200)))
    few = read_all(listing(tmp_path, 40), None)
    touch(tmp_path, *(f"{number:03}.json" for number in range(200, 1000)))
    many = read_all(listing(tmp_path, 40), few)
    assert (few["count"], many["count"]) == (200, 1000)
    assert max(len(json.dumps(offsets)) for offsets in (few, many)) < 1500


def test_old_files_may_be_removed(tmp_path: Path) -> None:
    after = read_even(tmp_path, 80)
    for number in range(0, 60, 2):
        remove(tmp_path, f"{2 * number:03}.json", f"{2 * number + 2:03}.json")
        touch(tmp_path, f"{160 + number}.json")
        after = read_all(listing(tmp_path), after)
    assert after["count"] == 110


@pytest.mark.parametrize(
    ("call", "format_"), [("read", "json"), ("read", "csv"), ("read", "parquet"), ("read_lean", "parquet")]
)
def test_a_file_that_goes_after_its_size_was_checked_is_noticed(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, format_: str
) -> None:
    for name in "ab":
        pq.write_table(pa.table({"id": [1]}), tmp_path / f"{name}.parquet")
        (tmp_path / f"{name}.csv").write_text("id\n1\n")
        (tmp_path / f"{name}.json").write_text(line(1))
    source = source_of(engine, tmp_path, RecordSpec(Schema.parse("id bigint"), format_), files_per_epoch=2)
    found, files = planned(source), Listing.files

    def check_and_remove(listed: Listing, offsets: OffsetRange) -> list[Path]:
        checked = files(listed, offsets)
        (tmp_path / f"b.{format_}").unlink(missing_ok=True)
        return checked

    monkeypatch.setattr(Listing, "files", check_and_remove)
    with pytest.raises(SourceChanged, match=rf"b\.{format_} was removed while it was read; put it back"):
        getattr(source, call)(found)


def after_listing(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Change something each time after the files were listed, before their sizes are looked up."""
    names = Listing.names

    def list_and_change(files: Listing, *, read: bool = False) -> list[str]:
        found = names(files, read=read)
        change()
        return found

    monkeypatch.setattr(Listing, "names", list_and_change)


def test_files_that_were_read_may_be_removed_while_they_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after, left = read_even(tmp_path, 4), ["006.json", "004.json", "002.json", "000.json"]
    after_listing(monkeypatch, lambda: remove(tmp_path, left.pop()))
    listing(tmp_path).check(after)
    assert listing(tmp_path).plan(after) is None
    touch(tmp_path, "100.json")
    assert planned_by(listing(tmp_path), after).until["count"] == 5
    (tmp_path / "006.json").write_text(line(1) + line(2))
    left.append("100.json")
    with pytest.raises(SourceChanged, match=r"006\.json had \d+ bytes when it was planned"):
        listing(tmp_path).plan(after)


def test_a_directory_that_goes_away_while_its_files_are_checked_is_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "in"
    there.mkdir()
    after = read_even(there, 4)
    after_listing(monkeypatch, lambda: there.rename(tmp_path / "away"))
    with pytest.raises(SourceUnavailable, match="is not a directory now"):
        listing(there).plan(after)


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    touch(tmp_path, "a.json")
    found = planned_by(listing(tmp_path))
    (tmp_path / "a.json").write_text(line(1) + line(2))
    with pytest.raises(SourceChanged, match="files must not change"):
        listing(tmp_path).plan(found.until)
    with pytest.raises(SourceChanged, match="files must not change"):
        listing(tmp_path).files(found)


def test_a_file_gone_before_a_replay_is_noticed(tmp_path: Path) -> None:
    touch(tmp_path, "a.json")
    found = planned_by(listing(tmp_path))
    (tmp_path / "a.json").unlink()
    with pytest.raises(SourceChanged, match="put it back"):
        listing(tmp_path).files(found)
