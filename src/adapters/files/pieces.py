"""Cuts the files of a folder into chunks of about n rows, and finds the key ranges of the chunks."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import asdict, define, field, frozen

from ...domain.epoch.key_range import KeyRange, merge_ranges
from ...domain.errors import BadInput, SourceChanged, SourceUnavailable
from ...domain.source.bulk import BulkSpec
from ...domain.table.schema import INTEGERS
from ..records.shapes.decoders import ShapeDecoders
from ..shared.chunks import EVERYWHERE, Frontier, Piece
from ..shared.compressed import is_compressed
from .listing import Listing
from .names_read import LastListing, NamesRead
from .splits import Split, check, cut_lines, explain_errors, read

_SAMPLE = 2**20
_EXACT_KEYS = INTEGERS | {"date"}
"""Key types whose Parquet statistics are exact and which every engine orders as Parquet does."""


@frozen
class Part:
    """The part of a file in a chunk: lines by byte, or row groups, from `start` to before `end` (None: to the end)."""

    name: str
    size: int
    start: int
    end: int | None

    @classmethod
    def all_of(cls, piece: Piece) -> list[Part]:
        """The parts of a chunk."""
        return [cls(*each) for each in piece]

    @property
    def piece(self) -> list[Any]:
        return [self.name, self.size, self.start, self.end]

    @property
    def is_whole(self) -> bool:
        return self.start == 0 and self.end is None


@frozen
class _Reached:
    """How far the files have been passed, as the frontier of a load stores it.

    Args:
        passed: the number of files that are passed.
        last: the name of the last one.
        at: where the next chunk begins in the next file.
        names: the names of the files that are passed; None if an earlier version has written the frontier.
        begun: the name of the next file, if it has been read up to `at`.
    """

    passed: int = 0
    last: str = ""
    at: int = 0
    names: NamesRead | None = None
    begun: str | None = None

    @classmethod
    def of(cls, frontier: Frontier) -> _Reached:
        if frontier is None:
            return cls()
        passed, last, at, names, begun = [*frontier, None, None][:5]
        return cls(passed, last or "", at, names and NamesRead(**names), begun)

    @property
    def newest(self) -> str:
        """The last name of which anything has been read."""
        return self.begun or self.last

    def and_then(self, files: list[str], names: list[str], begun: str | None = None, at: int = 0) -> Frontier:
        """The frontier after these further files.

        Args:
            files: the names of the files.
            names: the names of all files that are there, in order.
            begun: the name of the file after these, if a part of it is read.
            at: where that part ends.
        """
        passed = self.split(names)[0]
        read = (self.names or NamesRead().and_then(passed, passed)).and_then(files, passed + files)
        last = (files[-1] if files else self.last) or None
        return [self.passed + len(files), last, at, asdict(read), *([begun] if begun else [])]

    def split(self, names: list[str]) -> tuple[list[str], list[str]]:
        """These sorted names: those that are passed, and those that are not."""
        at = bisect_right(names, self.last)
        return names[:at], names[at:]

    def find_late(self, names: list[str], listing: LastListing) -> list[str]:
        """The names among which one came after a later one had been read; empty if none is known to have come.

        Args:
            names: the names of all files that are there, in order.
            listing: the names that were there at the last check.
        """
        passed, waiting = self.split(names)
        if self.begun and waiting[0] < self.begun:
            return waiting[:1]
        if self.names:
            return self.names.find_late(passed, listing)
        return listing.find_late(passed, self.passed)


@frozen
class _Footer:
    """The footer of a Parquet file: the rows of each row group, and the range of the first key column."""

    rows: tuple[int, ...]
    held: KeyRange


@define(eq=False)
class Pieces:
    """Cuts chunks: whole Parquet files up to `rows` rows, or row groups or lines of a larger file.

    A CSV file, a JSON array and a compressed file are one chunk each, at any size; so is a smaller file of lines.

    Args:
        listing: lists the files; each is complete when it appears, under a later name than the files before.
        spec: the spec of their rows.
        rows: the approximate number of rows in a chunk.
        awaited: the names of files in chunks that could not be read yet. They count as present, since each may be
            replaced.
    """

    listing: Listing
    spec: BulkSpec
    rows: int
    awaited: set[str] = field(init=False, factory=set)
    _footers: dict[tuple[str, int], _Footer] = field(init=False, factory=dict)
    _whole: set[Part] = field(init=False, factory=set)
    """Parts that have been read to their end."""
    _last: LastListing = field(init=False, factory=LastListing)

    def cut(self, frontier: Frontier) -> tuple[Piece, Frontier] | None:
        """The chunk that begins at a frontier; see `chunks.Cut`.

        Raises:
            SourceChanged: a file came among those that were already read.
        """
        reached = _Reached.of(frontier)
        names = self._names(reached, self._present(reached))
        waiting = reached.split(names)[1]
        if not waiting:
            return None
        parts: list[list[Any]] = []
        at, space, done = reached.at, self.rows, 0
        for name in waiting:
            part, rows, stop = self._part(name, at, space, first=not parts)
            if part is None:
                break
            parts.append(part.piece)
            if stop is not None:
                return parts, reached.and_then(waiting[:done], names, name, stop)
            at, space, done = 0, space - rows, done + 1
            if space <= 0:
                break
        return parts, reached.and_then(waiting[:done], names)

    def attempt(self, piece: Piece) -> tuple[Piece, str | None]:
        """Check whether a chunk can be read, by its headers or footers; see `chunks.Try`.

        A file that replaces an unreadable one may have another size.
        """
        return self._try(piece, lambda part: check(self.path(part.name), self.spec.records))

    def read_through(self, piece: Piece) -> tuple[Piece, str | None]:
        """As `attempt`, but read the chunk to its end; what was read through already is not read again."""
        return self._try(piece, self._read_through)

    def splits(self, ordinal: int, part: Part) -> list[Split]:
        """The splits of a part, which can be read in parallel; parts with different ordinals share no position."""
        self.listing.check_size(part.name, part.size)
        path, end = self.path(part.name), part.end
        if self.spec.records.is_lines and not is_compressed(path):
            return cut_lines(ordinal, path, part.start, part.size if end is None else end)
        whole = Split(ordinal, str(path), part.start)
        return [whole if end is None else Split(ordinal, str(path), part.start, end)]

    def waiting(self, frontier: Frontier) -> list[str]:
        """The names of the files that are not passed, in order.

        Raises:
            SourceChanged: a file came among those that were already read.
        """
        reached = _Reached.of(frontier)
        return reached.split(self._names(reached, self._present(reached)))[1]

    def _present(self, reached: _Reached) -> list[str]:
        return self.listing.names(read=bool(reached.newest))

    def _names(self, reached: _Reached, present: list[str]) -> list[str]:
        """The names of all files, in order: of those that are present, and of those that must come back.

        Raises:
            SourceChanged: a file came among those that were already read.
        """
        gone = {*self.awaited, *filter(None, [reached.begun])}.difference(present)
        names = sorted([*present, *gone])
        self.listing.check_none_late(reached.find_late(names, self._last), reached.newest)
        self._last.remember(reached.last, names)
        return names

    def check_complete(self, frontier: Frontier) -> None:
        """Check that all files that are passed are there; see `BulkSource.check_complete`."""
        reached = _Reached.of(frontier)
        present = self._present(reached)
        self._names(reached, present)
        there = len(reached.split(present)[0])
        if there < reached.passed:
            raise SourceChanged(
                f"{self.listing.settings.path}: {reached.passed - there} of the {reached.passed} files that were loaded"
                f" up to {reached.last} are gone, so the pipeline cannot be built again from them: put them back"
            )

    def remaining(self, frontier: Frontier) -> tuple[KeyRange, ...]:
        """Ranges of the first key column that files not yet passed may hold."""
        waiting = self.waiting(frontier)
        if not waiting:
            return ()
        if self.spec.records.format != "parquet":
            return EVERYWHERE
        footers = [self._footer(name, self.listing.size(name)) for name in waiting]
        if any(footer is None or footer.held.low is None for footer in footers):
            return EVERYWHERE
        return merge_ranges([footer.held for footer in footers if footer and any(footer.rows)])

    def path(self, name: str) -> Path:
        return Path(self.listing.settings.path, name)

    def _try(self, piece: Piece, check_part: Callable[[Part], None]) -> tuple[Piece, str | None]:
        parts = Part.all_of(piece)
        try:
            there = [Part(each.name, self.listing.size(each.name), each.start, each.end) for each in parts]
            for each in there:
                check_part(each)
        except (BadInput, SourceChanged, SourceUnavailable) as error:
            return piece, str(error)
        except OSError as error:
            return piece, f"cannot read it: {error.strerror}"
        return [each.piece for each in there], None

    def _read_through(self, part: Part) -> None:
        if part in self._whole:
            return
        check(self.path(part.name), self.spec.records)
        decoder = ShapeDecoders(self.spec.records)
        for split in self.splits(0, part):
            deque(read(split, decoder, lean=True), maxlen=0)
        self._whole.add(part)

    def _part(self, name: str, at: int, space: int, *, first: bool) -> tuple[Part | None, int, int | None]:
        """The part of a file that a chunk takes from `at` on, the rows of the part, and where it stops inside the file.

        The part is None if the file is not the chunk's first and belongs to the next chunk.
        """
        size = self.listing.size(name)
        if self.spec.records.format == "parquet" and (footer := self._footer(name, size)):
            return self._groups(Part(name, size, at, None), footer, space, first=first)
        if not first:
            return None, 0, None
        stop = self._lines_end(name, size, at)
        return Part(name, size, at, stop), self.rows, stop

    def _groups(self, part: Part, footer: _Footer, space: int, *, first: bool) -> tuple[Part | None, int, int | None]:
        rows = sum(footer.rows[part.start :])
        if rows <= space:
            return part, rows, None
        if not first:
            return None, 0, None
        stop, taken = part.start, 0
        while stop < len(footer.rows) and (taken == 0 or taken + footer.rows[stop] <= self.rows):
            taken += footer.rows[stop]
            stop += 1
        return (
            (part, rows, None)
            if stop == len(footer.rows)
            else (Part(part.name, part.size, part.start, stop), taken, stop)
        )

    def _lines_end(self, name: str, size: int, at: int) -> int | None:
        """The byte before which a chunk of lines ends; None if it takes the rest of the file."""
        if not self.spec.records.is_lines or is_compressed(name):
            return None
        with explain_errors(self.path(name)), self.path(name).open("rb") as file:
            sample = file.read(_SAMPLE)
        lines = max(sample.count(b"\n"), 1)
        end = at + self.rows * max(len(sample) // lines, 1)
        return end if end < size else None

    def _footer(self, name: str, size: int) -> _Footer | None:
        """The footer of a Parquet file; None if it cannot be read."""
        if (name, size) not in self._footers:
            try:
                metadata = pq.read_metadata(self.path(name))
            except (pa.ArrowException, OSError):  # reported by `attempt`
                return None
            rows = tuple(metadata.row_group(at).num_rows for at in range(metadata.num_row_groups))
            self._footers[name, size] = _Footer(rows, self._held(metadata))
        return self._footers[name, size]

    def _held(self, metadata: pq.FileMetaData) -> KeyRange:
        key = self.spec.key[0]
        if self.spec.records.columns[key].name not in _EXACT_KEYS:
            return KeyRange()
        bounds = [_bounds(metadata.row_group(at), key) for at in range(metadata.num_row_groups)]
        known = [each for each in bounds if each is not None]
        if not known or len(known) < len(bounds):
            return KeyRange()
        return KeyRange(min(low for low, _ in known), max(high for _, high in known))


def _bounds(group: pq.RowGroupMetaData, name: str) -> tuple[Any, Any] | None:
    for column in (group.column(at) for at in range(group.num_columns)):
        if column.path_in_schema == name:
            known = column.statistics
            return (known.min, known.max) if known is not None and known.has_min_max else None
    return None
