"""CSV as records and fields: an empty field differs from an empty string, quotes may hold line breaks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import AnyStr

from attrs import frozen

from ...domain.source.conversion import Undecodable, shown
from ...domain.source.csv_format import RFC_4180, CsvFormat
from .not_utf8 import explain_not_utf8
from .shapes.chunk import BLANKS

_ONLY_RETURNS = (
    "it has a carriage return inside, so the lines seem to end with it alone; convert the line ends to line feeds, as"
    " with tr '\\r' '\\n'"
)
"""About a header that is a whole file."""
_NULS = "it has NUL bytes: the file seems to be UTF-16; convert it to UTF-8"


def records(lines: Iterable[tuple[int, bytes]], csv: CsvFormat = RFC_4180) -> Iterator[tuple[int, bytes]]:
    """Join the lines of each record; blank lines and comments are skipped.

    Args:
        lines: offset and bytes of each line, its line break included.
        csv: how they are written.

    Yields:
        Offset and bytes of each record, without the last line break. If a quote is never closed, all that follows is
        one record, which `fields` then refuses.
    """
    blanks = BLANKS.replace(csv.delimiter, "").encode()  # a row of a tab-separated file may consist of tabs
    quote, comment = csv.quote.encode(), (csv.comment or "").encode()
    first, held = 0, bytearray()
    for at, line in lines:
        if not held:
            if comment and line.startswith(comment):
                continue
            first = at
        # Without a quote, a line ends where it begins: inside quotes or outside.
        closed = _patterns(csv).closes(line, inside=bool(held)) if quote and quote in line else not held
        held += line
        if not closed:
            continue
        if held.strip(blanks):
            yield first, bytes(held).rstrip(b"\r\n")
        held.clear()
    if held:
        yield first, bytes(held).rstrip(b"\r\n")


def decoded(record: bytes) -> str:
    """The text of a record.

    Raises:
        Undecodable: it is not UTF-8.
    """
    try:
        return record.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(explain_not_utf8(record, error)) from error


def header_fields(record: bytes, csv: CsvFormat = RFC_4180) -> list[str]:
    """The names of a header; one that is null is empty.

    Raises:
        Undecodable: it is not UTF-8 or has NUL bytes, a carriage return is outside of quotes, quotes are not closed, or
            text follows a closing quote.
    """
    try:
        text = decoded(record)
        _check_signs(text, csv.quote)
        return [name or "" for name in fields(text, csv)]
    except Undecodable as error:
        raise Undecodable(f"the header cannot be read: {error}") from error


def _check_signs(header: str, quote: str) -> None:
    if "\0" in header:
        raise Undecodable(_NULS)
    quote = re.escape(quote)
    if "\r" in (re.sub(f"{quote}[^{quote}]*{quote}", "", header) if quote else header):
        raise Undecodable(_ONLY_RETURNS)


def fields(record: str, csv: CsvFormat = RFC_4180) -> list[str | None]:
    r"""The fields of one record; None for a null.

    Raises:
        Undecodable: quotes are not closed, or text follows a closing quote.

    >>> fields('a,,"","say ""x"" to b"')
    ['a', None, '', 'say "x" to b']
    >>> fields(r"NULL;;'it\'s'", CsvFormat(delimiter=";", quote="'", escape="\\", null_value=("NULL",)))
    [None, '', "it's"]
    """
    null = csv.null_value
    if not csv.quote or csv.quote not in record:
        return [None if text in null else text for text in record.split(csv.delimiter)]
    patterns = _patterns(csv)
    found: list[str | None] = []
    at = 0
    while match := patterns.field.match(record, at):
        quoted, plain = match.groups()
        found.append((None if plain in null else plain) if quoted is None else patterns.escaped.sub(r"\1", quoted))
        at = match.end()
        if match[0][-1:] != csv.delimiter:
            break
    if match is None:
        raise Undecodable(
            f"quotes of field {len(found) + 1} are not closed, or text follows them: {shown(record[at:])}"
        )
    return found


@frozen
class _Patterns:
    """The patterns of one format. Possessive quantifiers keep them linear, however odd the input.

    Args:
        outside: lines that begin outside of quotes and end there.
        inside: lines that begin inside quotes and end outside.
        field: a field with the delimiter behind it, or at the end.
        escaped: an escape and the character behind it.
    """

    outside: re.Pattern[bytes]
    inside: re.Pattern[bytes]
    field: re.Pattern[str]
    escaped: re.Pattern[str]

    def closes(self, line: bytes, *, inside: bool) -> bool:
        """Whether a line ends outside of quotes."""
        return bool((self.inside if inside else self.outside).fullmatch(line))


@lru_cache
def _patterns(csv: CsvFormat) -> _Patterns:
    delimiter, quote = re.escape(csv.delimiter), re.escape(csv.quote)
    escape = re.escape(csv.escape or csv.quote)
    text = rf"(?:[^{quote}]++|{quote}{quote})*+" if escape == quote else rf"(?:[^{quote}{escape}]++|{escape}.)*+"
    plain, rest = rf"[^{quote}{delimiter}][^{delimiter}]*+|", rf"[^{delimiter}]*+"
    more = rf"(?:{delimiter}(?:{quote}{text}{quote}{rest}|{plain}))*+"
    return _Patterns(
        _compiled(f"(?:{quote}{text}{quote}{rest}|{plain}){more}".encode()),
        _compiled(f"{text}{quote}{rest}{more}".encode()),
        _compiled(f"(?:{quote}({text}){quote}|({plain}))(?:{delimiter}|\\Z)"),
        _compiled(f"{escape}([{quote}{escape}])"),
    )


def _compiled(pattern: AnyStr) -> re.Pattern[AnyStr]:
    return re.compile(pattern, re.DOTALL)
