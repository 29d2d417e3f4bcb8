"""Compiled code finds the records and texts that regular expressions find."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import polars as pl
import pytest

from headwater.adapters.records.decoder import Record
from headwater.adapters.records.shapes import native
from headwater.adapters.records.shapes.cell import INTEGER, SCALAR
from headwater.adapters.records.shapes.chunk import Chunk
from headwater.adapters.records.shapes.decoder import _numbered
from headwater.adapters.records.shapes.sample import ESCAPED_TEXT
from headwater.adapters.records.shapes.template import Hole, Template

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SAMPLE = '{"id":1,"name":"a","more":true,"at":"x"}'
PATTERNS = {"1": f"({INTEGER})", '"a"': f'(?:null|"({ESCAPED_TEXT})")', "true": SCALAR, '"x"': '"([a-z]*)"'}
RECORDS = [
    SAMPLE,
    '{"id":-12345678901234567890,"name":null,"more":"é\\n","at":""}',
    '{"id":0,"name":"twelve bytes","more":-0.5,"at":"thirteenletters"}',
    '{"id":7,"name":"more than twelve bytes: é中😀","more":null,"at":"z"}',
    '{"id":01,"name":"a","more":true,"at":"x"}',
    '{"id":1,"name":"a,"more":true,"at":"x"}',
    '{"id":1,"name":"a","more":tru,"at":"x"}',
    '{"id":1,"name":"a","more":true,"at":"x"} ',
    '{"id":1,"name":"a","more":true,"at":"x"',
    '{"id":1,"name":"a","more":true,"at":"X"}',
    '{"id":1,"name":nul',
    '{"id":',
    "{",
    "",
]

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="without a C compiler nothing is compiled")


@pytest.fixture
def template() -> Template:
    holes = [Hole(at := SAMPLE.index(text), at + len(text), pattern) for text, pattern in PATTERNS.items()]
    return Template(SAMPLE, holes)


@pytest.fixture(autouse=True)
def _looked_for_again() -> Iterator[None]:
    native.find_library.cache_clear()
    yield
    native.find_library.cache_clear()


def records_of(texts: list[str]) -> tuple[pl.DataFrame, Chunk]:
    chunk = Chunk.of([Record(text.encode(), at, "") for at, text in enumerate(texts)])
    return _numbered(chunk), chunk


@pytest.mark.parametrize("repeats", [1, 3])
def test_it_finds_what_patterns_find(template: Template, repeats: int) -> None:
    records, chunk = records_of(RECORDS * repeats)
    found = template.match(records, chunk.data)
    assert template.native is not None
    assert found.equals(template.match_by_patterns(records, chunk.data).select(found.columns))
    assert found.height == 4 * repeats
    assert found["@group 1"].to_list()[:4] == ["a", None, "twelve bytes", "more than twelve bytes: é中😀"]


def test_some_of_the_records(template: Template) -> None:
    records, chunk = records_of(RECORDS)
    some = records.filter(pl.Series([at % 2 == 1 for at in range(records.height)]))
    found = template.match(some, chunk.data)
    assert found.equals(template.match_by_patterns(some, chunk.data).select(found.columns))
    assert found.height == 2


def test_no_records(template: Template) -> None:
    records, chunk = records_of(RECORDS)
    found = template.match(records.clear(), chunk.data)
    assert found.columns == [*records.columns, "@group 0", "@group 1", "@group 2"]
    assert found.is_empty()


def test_a_record_that_is_cut_anywhere_does_not_match(template: Template) -> None:
    records, chunk = records_of([SAMPLE[:at] for at in range(len(SAMPLE))])
    assert template.match(records, chunk.data).is_empty()


def test_patterns_that_automata_do_not_read_are_left_to_regular_expressions() -> None:
    template = Template("[1]", [Hole(1, 2, r"(\d)")])
    records, chunk = records_of(["[5]", "[x]"])
    assert template.native is None
    assert template.match(records, chunk.data)["@group 0"].to_list() == ["5"]


def test_data_beyond_places_of_32_bits_is_left_too(template: Template, monkeypatch: pytest.MonkeyPatch) -> None:
    records, chunk = records_of(RECORDS)
    monkeypatch.setattr(native, "_MOST_BYTES", 10)
    assert template.native is not None
    assert template.native.match(records["@start"], records["@end"], chunk.data) is None
    assert template.match(records, chunk.data).height == 4


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_NATIVE", "0")
    assert native.find_library() is None


def test_code_of_another_version_is_not_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    library = tmp_path / "match.lib"
    library.write_bytes(native.LIBRARY.read_bytes())
    library.with_name("match.c").write_text("/* edited */")
    monkeypatch.setattr(native, "LIBRARY", library)
    assert native.find_library() is None
    assert "install headwater again" in caplog.text


def test_a_file_that_is_no_library_of_this_machine_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "match.lib"
    library.write_bytes(b"of another machine")
    monkeypatch.setattr(native, "LIBRARY", library)
    assert native.find_library() is None
