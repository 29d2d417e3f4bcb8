"""Texts with holes: the form of the records of a shape, and how values are taken out of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import polars as pl
from attrs import define, field, frozen

_META = re.compile(r"[\\.+*?()|\[\]{}^$#&\-~]")
_WORTH_A_SEARCH = 40
_MOST_HOLES = 10
"""Matching takes longer than in proportion in a pattern with more."""
_NO_ACCIDENT = 6
_MOST_DIGITS = 4300
"""Python refuses whole numbers with more digits, and so does the strict decoder."""


@frozen
class Hole:
    """A place in a sample whose text differs from record to record: from `start` to before `end`."""

    start: int
    end: int
    pattern: str


@frozen
class _Piece:
    """A part of a template that is matched by one pattern."""

    pattern: str

    def cut(self, texts: pl.Series) -> Iterator[tuple[str, pl.Series]]:
        """The patterns in order, each with the parts of texts that it must match."""
        yield self.pattern, texts


@frozen
class _Cut:
    """Two parts of a template, and the text between them."""

    text: str
    before: _Cut | _Piece
    after: _Cut | _Piece

    def cut(self, texts: pl.Series) -> Iterator[tuple[str, pl.Series]]:
        halves = texts.str.splitn(self.text, 2).struct
        yield from self.before.cut(halves.field("field_0"))
        yield from self.after.cut(halves.field("field_1"))


@define(eq=False)
class Template:
    """A sample's text with holes, which a record must equal in all else.

    Matching takes longer than in proportion in a long pattern. So texts are cut in halves, again and again, at texts
    between holes. Such a text may also occur inside a value; the patterns then do not match, and the strict decoder
    reads the record.

    Args:
        text: the sample.
        holes: its holes, in order, without overlaps.
    """

    text: str
    holes: Sequence[Hole]
    prefix: str = field(init=False)
    root: _Cut | _Piece = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.prefix = self.text[: self.holes[0].start] if self.holes else self.text
        self.root = self._cut(0, len(self.holes), len(self.prefix), len(self.text))

    def _cut(self, first: int, last: int, start: int, end: int) -> _Cut | _Piece:
        """The part with some of the holes, from `start` to before `end`, cut where that is possible."""
        at = self._best_cut(first, last, start)
        if at is None:
            return _Piece(self._pattern(first, last, start, end))
        left, right = self.holes[at].end, self.holes[at + 1].start
        cut = self.text[left:right]
        return _Cut(cut, self._cut(first, at + 1, start, left), self._cut(at + 1, last, right, end))

    def _best_cut(self, first: int, last: int, start: int) -> int | None:
        """The hole after which to cut: near the middle, where the text that follows does not occur before."""
        least = _NO_ACCIDENT if last - first > _MOST_HOLES else _WORTH_A_SEARCH
        found = [at for at in range(first, last - 1) if self._can_cut(at, start, least)]
        return min(found, key=lambda at: abs(2 * at + 2 - first - last), default=None)

    def _can_cut(self, at: int, start: int, least: int) -> bool:
        left, right = self.holes[at].end, self.holes[at + 1].start
        return right - left >= least and self.text.find(self.text[left:right], start) == left

    def _pattern(self, first: int, last: int, start: int, end: int) -> str:
        pattern = ""
        for hole in self.holes[first:last]:
            pattern += _META.sub(r"\\\g<0>", self.text[start : hole.start]) + hole.pattern
            start = hole.end
        return pattern + _META.sub(r"\\\g<0>", self.text[start:end])

    def match(self, raw: pl.Series) -> tuple[pl.Series, list[pl.Series]]:
        """Which texts have this form, and the texts in the groups of the holes, in order, if there are any."""
        fits, rest = raw.str.starts_with(self.prefix) & _is_short(raw), raw.str.strip_prefix(self.prefix)
        groups: list[pl.Series] = []
        for pattern, part in self.root.cut(rest):
            # A group of nothing is null where the pattern does not match.
            matched, *found = part.str.extract_groups(f"^(){pattern}$").struct.unnest().get_columns()
            fits &= matched.is_not_null()
            groups += found
            if not fits.any():
                break
        return fits.fill_null(value=False), groups

    def is_like(self, other: Template) -> bool:
        """Whether it matches the same records."""
        return self.prefix == other.prefix and self.root == other.root


def _is_short(raw: pl.Series) -> pl.Series:
    """Which texts have no number with too many digits."""
    lengths = raw.str.len_bytes()
    if (lengths < _MOST_DIGITS).all():
        return pl.Series([True]).new_from_index(0, raw.len())
    return (lengths < _MOST_DIGITS) | ~raw.str.contains("[0-9]{300}")
