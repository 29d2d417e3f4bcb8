"""Texts with holes: the form of the records of a shape, and how values are taken out of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl
from attrs import define, field, frozen

from .native import NativeMatcher, native_matcher
from .spans import spans, tails

if TYPE_CHECKING:
    import pyarrow as pa

TEXT, START, END = "@text", "@start", "@end"
"""The columns of records: their text, and where it begins and ends in the data; see `spans`."""
_FROM = "@from"
"""The column of where the text that is not matched yet begins."""
GROUP = "@group {}"
"""The columns of the texts in groups, by number."""
_META = re.compile(r"[\\.+*?()|\[\]{}^$#&\-~]")
_WORTH_A_SEARCH = 48
"""A pattern takes as long for so many bytes as a search for them takes."""
_MOST_HOLES = 10
"""Matching takes longer than in proportion in a pattern with more."""
_NO_ACCIDENT = 6
_NEEDLES = (12, 24, 48)
_MOST_DIGITS = 4300
"""Python refuses whole numbers with more digits, and so does the strict decoder."""


@frozen
class Hole:
    """A place in a sample whose text differs from record to record: from `start` to before `end`."""

    start: int
    end: int
    pattern: str


@frozen
class _Part:
    """A part of a template: holes and short texts between them, which are one pattern, and the long text after them.

    Args:
        pattern: the pattern.
        groups: how many groups it has.
        after: the text after it.
        needle: the beginning of that text, by which it is found; None if the template ends with the text.
    """

    pattern: str
    groups: int
    after: str
    needle: str | None


@define(eq=False)
class _Match:
    """Records that may have the form, each from where its text is not matched yet.

    Args:
        found: the records, and the texts in the groups of holes.
        data: the bytes of the records.
    """

    found: pl.DataFrame
    data: pa.Buffer
    groups: int = 0

    def begin(self, prefix: str) -> None:
        self._keep(self.found[TEXT].str.starts_with(prefix))
        self._start_at(self.found[START] + _size(prefix))

    def part(self, part: _Part) -> None:
        ends = self._last(part.after) if part.needle is None else self._next(part.after, part.needle)
        texts = spans(self.found[_FROM], ends, self.data)
        self._start_at(ends + _size(part.after))
        if not part.groups:
            self._keep(texts.str.contains(f"^{part.pattern}$"))
            return
        # A group of nothing is null where the pattern does not match.
        matched, *found = texts.str.extract_groups(f"^(){part.pattern}$").struct.unnest().get_columns()
        names = (GROUP.format(self.groups + at) for at in range(part.groups))
        self.found = self.found.with_columns(text.alias(name) for name, text in zip(names, found, strict=True))
        self.groups += part.groups
        self._keep(matched.is_not_null())

    def _next(self, after: str, needle: str) -> pl.Series:
        """Where the texts before the next `after` end."""
        at = tails(self.found[_FROM], self.data).str.find(needle, literal=True)
        ends = self.found[_FROM] + at.cast(pl.Int64)
        ends = self._kept(ends, (ends <= self.found[END] - _size(after)).fill_null(value=False))
        return ends if after == needle else self._kept(ends, tails(ends, self.data).str.starts_with(after))

    def _last(self, after: str) -> pl.Series:
        """Where the texts before the `after` at the end end."""
        if after:
            self._keep(spans(self.found[_FROM], self.found[END], self.data).str.ends_with(after))
        return self.found[END] - _size(after)

    def _kept(self, ends: pl.Series, fits: pl.Series) -> pl.Series:
        self._keep(fits)
        return ends.filter(fits)

    def _keep(self, fits: pl.Series) -> None:
        self.found = only(self.found, fits)

    def _start_at(self, starts: pl.Series) -> None:
        self.found = self.found.with_columns(starts.alias(_FROM))


@define(eq=False)
class Template:
    """A sample's text with holes, which a record must equal in all else.

    Patterns are slow, above all those with many holes. So long texts between holes are searched for, and are not part
    of a pattern. Such a text may also occur inside a value; the patterns then do not match, and the strict decoder
    reads the record.

    Args:
        text: the sample.
        holes: its holes, in order, without overlaps.
    """

    text: str
    holes: Sequence[Hole]
    prefix: str = field(init=False)
    parts: tuple[_Part, ...] = field(init=False)
    native: NativeMatcher | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.prefix = self.text[: self.holes[0].start] if self.holes else self.text
        self.parts = tuple(self._parts(len(self.prefix)))
        self.native = self._native()

    def _native(self) -> NativeMatcher | None:
        if not self.holes:
            return None
        starts = [0, *(hole.end for hole in self.holes)]
        before = zip(starts, self.holes, strict=False)  # the last start is that of the tail
        holes = [(self.text[start : hole.start], hole.pattern) for start, hole in before]
        return native_matcher(holes, self.text[starts[-1] :])

    def _parts(self, start: int) -> Iterator[_Part]:
        first, last = 0, len(self.holes)
        while (at := self._next_cut(first, last, start)) is not None:
            after = self._after(at)
            yield self._part(first, at + 1, start, after, self._needle(at, start))
            first, start = at + 1, self.holes[at].end + len(after)
        if self.holes:
            yield self._part(first, last, start, self.text[self.holes[-1].end :], None)

    def _part(self, first: int, last: int, start: int, after: str, needle: str | None) -> _Part:
        """The part with some of the holes, from `start`."""
        pattern = ""
        for hole in self.holes[first:last]:
            pattern += _escaped(self.text[start : hole.start]) + hole.pattern
            start = hole.end
        if needle is None and len(after) < _WORTH_A_SEARCH:
            pattern, after = pattern + _escaped(after), ""
        return _Part(pattern, re.compile(pattern).groups, after, needle)

    def _after(self, at: int) -> str:
        """The text between a hole and the next one."""
        return self.text[self.holes[at].end : self.holes[at + 1].start]

    def _next_cut(self, first: int, last: int, start: int) -> int | None:
        """The hole after which to cut: one whose text is worth it; of too many holes one in any case."""
        found = [at for at in range(first, min(last - 1, first + _MOST_HOLES)) if self._needle(at, start)]
        worth = next((at for at in found if len(self._after(at)) >= _WORTH_A_SEARCH), None)
        if worth is not None or last - first <= _MOST_HOLES:
            return worth
        return max(found, key=lambda at: len(self._after(at)), default=None)

    def _needle(self, at: int, start: int) -> str | None:
        """The beginning of the text after a hole that does not occur before; None if there is none."""
        after = self._after(at)
        needles = (after[:size] for size in (*_NEEDLES, len(after)) if len(after) >= _NO_ACCIDENT)
        return next((each for each in needles if self.text.find(each, start) == self.holes[at].end), None)

    def match(self, records: pl.DataFrame, data: pa.Buffer) -> pl.DataFrame:
        """The records that have this form, with the texts in the groups of the holes, in order, as `GROUP`."""
        short = only(records, _is_short(records))
        if not self.parts:
            return short.filter(pl.col(TEXT) == self.text)
        if found := self.native and self.native.match(short[START], short[END], data):
            return _with_groups(short, *found)
        return self.match_by_patterns(short, data)

    def match_by_patterns(self, short: pl.DataFrame, data: pa.Buffer) -> pl.DataFrame:
        """The same by regular expressions, without compiled code."""
        matched = _Match(short, data)
        matched.begin(self.prefix)
        for part in self.parts:
            if not matched.found.height:
                break
            matched.part(part)
        return matched.found

    def is_like(self, other: Template) -> bool:
        """Whether it matches the same records."""
        return self.prefix == other.prefix and self.parts == other.parts


def _with_groups(records: pl.DataFrame, numbers: pl.Series, texts: list[pl.Series]) -> pl.DataFrame:
    found = records if numbers.len() == records.height else records[numbers]
    return found.with_columns(text.alias(GROUP.format(at)) for at, text in enumerate(texts))


def only(rows: pl.DataFrame, wanted: pl.Series) -> pl.DataFrame:
    """Some of the rows; all of them are not copied."""
    return rows if wanted.all() else rows.filter(wanted)


def _escaped(text: str) -> str:
    return _META.sub(r"\\\g<0>", text)


def _size(text: str) -> int:
    return len(text.encode())


def _is_short(records: pl.DataFrame) -> pl.Series:
    """Which texts have no number with too many digits."""
    lengths = records[END] - records[START]
    if (lengths < _MOST_DIGITS).all():
        return pl.Series([True]).new_from_index(0, records.height)
    return (lengths < _MOST_DIGITS) | ~records[TEXT].str.contains("[0-9]{300}")
