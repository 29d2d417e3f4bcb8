"""Decodes records by the shapes that it has learned from them; the strict decoder decodes all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import polars as pl
import pyarrow as pa
from attrs import define, field

from ....domain.epoch.batch import ORIGIN
from ....domain.source.conversion import Undecodable
from ....domain.source.record_spec import RecordSpec
from ....domain.table.change import POSITION
from ..decoder import Record, RecordDecoder, arrow_schema, batch_schema
from .chunk import Chunk
from .sample import Node, Unlearnable
from .shape import AT, ROWS, Shape, learn, learn_constants
from .template import END, START, TEXT, only

_T = TypeVar("_T")
Portion = Chunk | Sequence[Record]
"""Some of the records to decode."""

RECORDS_A_CHUNK, BYTES_A_CHUNK = 65_536, 16 * 2**20
"""A chunk ends when it has these records or bytes: in larger ones a record costs less, but they take more memory."""
_LEAST, _FEW = 1_500, 20
_MOST_SHAPES, _TRIES = 32, 12
_POOR_CHUNKS, _CHUNKS_WITHOUT = 2, 4
_SPREAD = 0.6180339887
_COMPARED = 500
_CANDIDATES = 8
_SAMPLES = 3


@define(eq=False)
class ShapeDecoder:
    """Decodes records into Arrow batches of `batch_schema`, as `RecordDecoder` does, with the same result.

    Args:
        spec: the spec of the records.
        passed_over: counts the skipped messages of tables that are not read; see `Tables`.
        views: whether texts may be views into the records, which Polars takes without a copy, and Spark does not take.
        least: the strict decoder reads chunks of fewer records, which are not worth the work.
        few: fewer records of a chunk than these are not worth a new shape.
    """

    spec: RecordSpec
    passed_over: Counter[str] = field(factory=Counter)
    views: bool = False
    least: int = _LEAST
    few: int = _FEW
    _strict: RecordDecoder = field(init=False)
    _arrow: pa.Schema = field(init=False)
    _schema: pl.Schema = field(init=False)
    _shapes: list[Shape] = field(init=False, factory=list)
    _known: dict[str, Node] = field(init=False, factory=dict)
    _poor: int = field(init=False, default=0)
    _without: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._strict = RecordDecoder(self.spec, passed_over=self.passed_over)
        self._arrow = arrow_schema(batch_schema(self.spec.rows))
        self._schema = pl.DataFrame(pl.from_arrow(self._arrow.empty_table())).schema

    def decode(self, portions: Iterable[Portion]) -> Iterator[pa.RecordBatch]:
        """Decode each portion into a batch, in order."""
        return map(self.decode_one, portions)

    def decode_one(self, portion: Portion) -> pa.RecordBatch:
        return self.chunk(portion) if isinstance(portion, Chunk) else self.batch(portion)

    def batch(self, records: Sequence[Record]) -> pa.RecordBatch:
        if len(records) < self.least or self._waits():
            return self._strict.batch(records)
        return self._decoded(Chunk.of(records))

    def chunk(self, chunk: Chunk) -> pa.RecordBatch:
        if chunk.texts.len() < self.least or self._waits():
            numbers = pl.int_range(chunk.texts.len(), eager=True)
            return self._strict.batch(chunk.records(numbers, chunk.positions))
        return self._decoded(chunk)

    def _waits(self) -> bool:
        """Whether this chunk is one of those after some of which shapes covered too little."""
        self._without = max(self._without - 1, 0)
        return self._without > 0

    def _rate(self, covered: int, all_records: int) -> None:
        """Do without shapes for a while if they covered too little of some chunks in a row."""
        self._poor = self._poor + 1 if covered * 2 < all_records else 0
        if self._poor == _POOR_CHUNKS:
            self._poor, self._without = 0, _CHUNKS_WITHOUT

    def _decoded(self, chunk: Chunk) -> pa.RecordBatch:
        records = _numbered(chunk)
        rows, rest = self._by_shapes(records, chunk.data)
        others = pl.concat([*rest, only(records, records[TEXT].is_null())[AT]])
        self._rate(records.height - others.len(), records.height)
        if others.len():
            rows.append(self._strictly(chunk, others.sort()))
        return self._batch(chunk, rows)

    def _by_shapes(self, records: pl.DataFrame, data: pa.Buffer) -> tuple[list[pl.DataFrame], list[pl.Series]]:
        """The rows of the records that have a shape, and the numbers of the other records that have a text."""
        left = records[TEXT].is_not_null()
        rest = only(records, left)
        rows: list[pl.DataFrame] = []
        unsure: list[pl.Series] = []
        whole, tries, waiting = rest.height, 0, list(self._shapes)
        while rest.height:
            if not waiting:
                if tries == _TRIES or rest.height < max(self.few, whole // 1000):
                    break
                waiting = self._learned(rest, data, tries)
                tries += 1
                continue
            shape = waiting.pop(0)
            texts = shape.match(rest, data)
            shape.hits += texts.height
            if not texts.height:
                continue
            left = left.scatter(texts[AT] // ROWS, values=False)
            rest = records.filter(left)
            typed, odd = shape.typed(texts)
            unsure.append(odd)
            if shape.draft.passed_over is None:
                rows += shape.rows(typed, self._schema)
            else:
                self.passed_over[shape.draft.passed_over] += typed.height
        self._forget()
        return rows, [rest[AT], *unsure]

    def _forget(self) -> None:
        """Keep the shapes that most records had lately, the most frequent first."""
        self._shapes.sort(key=lambda shape: -shape.hits)
        del self._shapes[_MOST_SHAPES:]
        for shape in self._shapes:
            shape.hits //= 2

    def _learned(self, rest: pl.DataFrame, data: pa.Buffer, tries: int) -> list[Shape]:
        """New shapes, from one of the records that have none."""
        text = _fullest(rest[TEXT], tries)
        try:
            shape = learn(text, self.spec, self._known)
            alone = Chunk.of([Record(text.encode(), 0, "")])
            if not self._is_new(shape) or not shape.match(_numbered(alone), alone.data).height:
                return []
        except (Unlearnable, Undecodable, pl.exceptions.ComputeError):
            return []
        found = [*self._special(shape, rest, data), shape]
        self._shapes += found
        return found

    def _is_new(self, shape: Shape) -> bool:
        return not any(each.template.is_like(shape.template) for each in self._shapes)

    def _special(self, shape: Shape, rest: pl.DataFrame, data: pa.Buffer) -> list[Shape]:
        """The shape with constants, if most records of a shape have them: it is the faster one."""
        like = shape.match(rest.gather_every(max(1, rest.height // _COMPARED)), data).select(rest.columns)
        if like.height < _SAMPLES:
            return []
        texts = like[TEXT]
        try:
            special = learn_constants([texts[0], texts[texts.len() // 2], texts[-1]], self.spec, self._known)
        except (Unlearnable, Undecodable):
            return []
        return [special] if self._is_new(special) and special.match(like, data).height * 2 > like.height else []

    def _strictly(self, chunk: Chunk, numbers: pl.Series) -> pl.DataFrame:
        """The rows of some records by the strict decoder."""
        batches = self._strict.batches(chunk.records(numbers // ROWS, numbers))
        frame = pl.concat(pl.DataFrame(pl.from_arrow(batch)) for batch in batches)
        return frame.select(pl.col(POSITION).alias(AT), *self._schema)

    def _batch(self, chunk: Chunk, frames: list[pl.DataFrame]) -> pa.RecordBatch:
        """Rows as a batch, in order, with the positions and origins of their records."""
        if not any(frame.height for frame in frames):
            return pa.RecordBatch.from_pylist([], self._arrow)
        rows = frames[0] if len(frames) == 1 else pl.concat(frames).sort(AT)
        number, row = rows[AT] // ROWS, rows[AT] % ROWS
        placed = rows.with_columns(
            (chunk.positions.gather(number) + row).alias(POSITION), chunk.origins.gather(number).alias(ORIGIN)
        )
        frame = placed.select(self._schema.names()).rechunk()
        if self.views:
            return frame.to_arrow(compat_level=pl.CompatLevel.newest()).to_batches()[0]
        return frame.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(self._arrow).to_batches()[0]


def gather_records(records: Iterable[Record]) -> Iterator[Portion]:
    """Records as portions of the size of a chunk."""
    return gather(records, lambda record: (1, len(record.raw or b"")))


def gather(items: Iterable[_T], extent: Callable[[_T], tuple[int, int]]) -> Iterator[list[_T]]:
    """Items as lists, each with the records or the bytes of a chunk; `extent` tells how many an item has of both."""
    some, records, size = list[_T](), 0, 0
    for item in items:
        some.append(item)
        more, bytes_ = extent(item)
        records, size = records + more, size + bytes_
        if records >= RECORDS_A_CHUNK or size >= BYTES_A_CHUNK:
            yield some
            some, records, size = [], 0, 0
    if some:
        yield some


def _fullest(texts: pl.Series, tries: int) -> str:
    """Of some records the one with the fewest nulls: it shows best how values are written."""
    places = (int(texts.len() * ((tries + at / _CANDIDATES) * _SPREAD % 1)) for at in range(_CANDIDATES))
    return min((str(texts[place]) for place in places), key=lambda text: text.count("null"))


def _numbered(chunk: Chunk) -> pl.DataFrame:
    """The records of a chunk as a frame."""
    count = chunk.texts.len()
    numbers = pl.int_range(0, count * ROWS, ROWS, dtype=pl.Int64, eager=True)
    columns = {AT: numbers, TEXT: chunk.texts, START: chunk.starts, END: chunk.ends}
    return pl.DataFrame([column.alias(name) for name, column in columns.items()])
