"""CSV (RFC 4180) as records and fields: an empty field differs from an empty string, quotes may hold line breaks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from ...domain.source.decode import Undecodable, shown
from ...domain.source.record_spec import COMMA

# Possessive quantifiers keep both linear, however odd the input; `~` stands for the delimiter.
_WHOLE = r'(?:"(?:[^"]++|"")*+"[^~]*+|[^"~][^~]*+|)(?:~(?:"(?:[^"]++|"")*+"[^~]*+|[^"~][^~]*+|))*+'
_FIELD = r'(?:"((?:[^"]++|"")*+)"|([^"~][^~]*+|))(?:~|\Z)'


@lru_cache
def _whole_record(delimiter: str) -> re.Pattern[bytes]:
    return re.compile(_WHOLE.replace("~", re.escape(delimiter)).encode())


@lru_cache
def _one_field(delimiter: str) -> re.Pattern[str]:
    return re.compile(_FIELD.replace("~", re.escape(delimiter)))


def records(lines: Iterable[tuple[int, bytes]], delimiter: str = COMMA) -> Iterator[tuple[int, bytes]]:
    """Join the lines of each record; blank lines are skipped.

    Args:
        lines: offset and bytes of each line, its line break included.
        delimiter: one ASCII character between fields.

    Yields:
        Offset and bytes of each record, without the last line break. If a quote is never closed, all that follows is
        one record, which `fields` then refuses.
    """
    first, held, whole = 0, bytearray(), _whole_record(delimiter)
    for at, line in lines:
        first, inside = (first, True) if held else (at, False)
        held += line
        # Inside quotes, only an odd number of further quotes can end the record; other lines need no look.
        if (inside and line.count(b'"') % 2 == 0) or (b'"' in held and not whole.fullmatch(held)):
            continue
        if held.strip():
            yield first, bytes(held).rstrip(b"\r\n")
        held.clear()
    if held:
        yield first, bytes(held).rstrip(b"\r\n")


def fields(record: str, delimiter: str = COMMA) -> list[str | None]:
    """The fields of one record; None for an empty one without quotes.

    Raises:
        Undecodable: quotes are not closed, or text follows a closing quote.

    >>> fields('a,,"","say ""x"" to b"')
    ['a', None, '', 'say "x" to b']
    """
    if '"' not in record:
        return [text or None for text in record.split(delimiter)]
    found: list[str | None] = []
    at, field = 0, _one_field(delimiter)
    while match := field.match(record, at):
        found.append(match[2] or None if match[1] is None else match[1].replace('""', '"'))
        at = match.end()
        if match[0][-1:] != delimiter:
            break
    if match is None:
        raise Undecodable(
            f"quotes of field {len(found) + 1} are not closed, or text follows them: {shown(record[at:])}"
        )
    return found
