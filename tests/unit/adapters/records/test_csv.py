"""CSV in every way of writing it: what was written is read back, with the offset of each record."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.adapters.records import csv
from headwater.domain.errors import ConfigError
from headwater.domain.source.conversion import Undecodable
from headwater.domain.source.csv_format import CsvFormat

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMATS = [
    CsvFormat(),
    CsvFormat(delimiter="\t", comment="#", null_value=(r"\N", "")),
    CsvFormat(delimiter=";", quote="'", escape="\\", null_value=("NULL",)),
    CsvFormat(delimiter="|", escape="^", comment="-"),
    CsvFormat(delimiter=" ", quote="]", escape="["),
]
TEXTS = st.text(alphabet="ab\"';\\,\t\n\r#|^-[] N", max_size=6) | st.sampled_from(["NULL", r"\N", ""])
ROWS = st.lists(st.lists(st.none() | TEXTS, min_size=2, max_size=3), max_size=6)


def written(text: str | None, how: CsvFormat) -> str:
    if text is None:
        return how.null_value[0]
    quote, escape = how.quote, how.escape or how.quote
    needed = (how.delimiter, quote, "\n", "\r", how.comment or "\n")
    if text not in how.null_value and not any(each in text for each in needed) and text.strip() == text != "":
        return text
    text = text.replace(escape, escape * 2)
    return quote + (text if escape == quote else text.replace(quote, escape + quote)) + quote


def lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    for line in io.BytesIO(content):
        yield at, line
        at += len(line)


@pytest.mark.parametrize("how", FORMATS, ids=str)
@given(rows=ROWS, end=st.sampled_from(["\n", "\r\n"]), last=st.sampled_from(["\n", ""]))
@example(rows=[["a\n\n", None], ['"\\"', "\\"]], end="\n", last="")
def test_what_was_written_is_read(how: CsvFormat, rows: list[list[str | None]], end: str, last: str) -> None:
    texts = [how.delimiter.join(written(each, how) for each in row) for row in rows]
    between = end + (f"{how.comment}x{how.quote}{end}" if how.comment else "") + end
    content = between.join(texts) + last
    found = list(csv.records(lines(content.encode()), how))
    assert [csv.fields(raw.decode(), how) for _, raw in found] == rows
    assert [content.encode()[at : at + len(raw)] for at, raw in found] == [raw for _, raw in found]


def test_without_quotes_a_line_is_a_record() -> None:
    how = CsvFormat(delimiter="\t", quote="", null_value=(r"\N",))
    found = [csv.fields(raw.decode(), how) for _, raw in csv.records(lines(b'"a\t\\N\n\t\n\n'), how)]
    assert found == [['"a', None], ["", ""]]


def test_what_is_not_closed_is_one_record_and_is_refused() -> None:
    how = CsvFormat(escape="\\")
    first, rest = csv.records(lines(b'"a""b",1\n"x\\",2\n3,4\n'), how)
    assert rest == (9, b'"x\\",2\n3,4')
    for raw in (first[1], rest[1]):
        with pytest.raises(Undecodable, match="quotes of field 1 are not closed, or text follows them"):
            csv.fields(raw.decode(), how)


def test_a_long_field_costs_no_more_than_its_bytes() -> None:
    content = b'"' + b'"x"y,"\n' * 40_000
    assert len(list(csv.records(lines(content), CsvFormat()))) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"delimiter": ";;"}, "delimiter ';;' must be one ASCII character such as ';' or a tab"),
        ({"quote": "a"}, "quote 'a' must be one ASCII character that is not a letter, digit or space"),
        ({"escape": ""}, "escape '' must be one"),
        ({"delimiter": "'", "quote": "'"}, 'quote "\'" is the delimiter already'),
        ({"comment": '"'}, "comment '\"' is the quote already"),
        ({"comment": "^", "escape": "^"}, "comment '\\^' is the escape already"),
        ({"quote": "", "escape": "^"}, "escape has no effect without quote"),
    ],
)
def test_characters_that_cannot_be_told_apart(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        CsvFormat(**given)
