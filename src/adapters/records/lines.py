"""Collects rows and their records into one Arrow batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field

from ...domain.epoch.batch import BATCH_COLUMNS
from ...domain.source.changelog.message import Message

Line: TypeAlias = tuple[str | None, Sequence[Any], Message | None]
"""A row as decoders make it: its kind, its values, and its message; an undecodable one has the expected kind."""

_ROWS_A_TURN = 50


@define(eq=False)
class Lines:
    """Collects rows until they become columns; the data that the rows of a record share is stored once.

    Args:
        schema: the schema of the batch, `BATCH_COLUMNS` last.
    """

    schema: pa.Schema
    _columns: list[list[Any]] = field(init=False)
    _waiting: list[Line] = field(init=False, factory=list)
    _kinds: list[str | None] = field(init=False, factory=list)
    _counts: list[int] = field(init=False, factory=list)
    _starts: list[int] = field(init=False, factory=list)
    _origins: list[str] = field(init=False, factory=list)
    _raws: list[bytes | None] = field(init=False, factory=list)
    _errors: list[str | None] = field(init=False, factory=list)
    _originals: list[bytes | None] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self._columns = [[] for _ in range(len(self.schema) - len(BATCH_COLUMNS))]

    def add(
        self,
        raw: bytes | None,
        position: int,
        origin: str,
        rows: Sequence[Line],
        error: str | None = None,
        *,
        original: bytes | None = None,
    ) -> None:
        """Add the rows of a record; the first has its position, each further row the next one.

        Args:
            raw: the record, or what is shown in its place.
            position: the position of its first row.
            origin: where it comes from.
            rows: its rows.
            error: why it cannot be used.
            original: the record, if `raw` is another text.
        """
        self._counts.append(len(rows))
        self._starts.append(position)
        self._origins.append(origin)
        self._raws.append(raw)
        self._errors.append(error)
        self._originals.append(original)
        self._waiting.extend(rows)
        # Thousands of waiting rows would make the garbage collector a third of the cost.
        if len(self._waiting) >= _ROWS_A_TURN:
            self._turn()

    def _turn(self) -> None:
        if self._waiting:
            kinds, images, _ = zip(*self._waiting, strict=True)
            self._waiting.clear()
            self._kinds.extend(kinds)
            for values, more in zip(self._columns, zip(*images, strict=True), strict=True):
                values.extend(more)

    def batch(self) -> pa.RecordBatch:
        """The batch of all added rows."""
        self._turn()
        typed = [pa.array(values, each.type) for values, each in zip(self._columns, self.schema, strict=False)]
        places = zip(self._starts, self._counts, strict=True)
        positions = [at for start, count in places for at in range(start, start + count)]
        record = pa.array([at for at, count in enumerate(self._counts) for _ in range(count)], pa.int64())
        text, bytes_ = _shown(self._raws)
        if any(self._originals):
            bytes_ = pc.coalesce(pa.array(self._originals, pa.binary()), bytes_)
        shared = (pa.array(self._origins, pa.string()), text, bytes_, pa.array(self._errors, pa.string()))
        own = (pa.array(self._kinds, pa.string()), pa.array(positions, pa.int64()))
        return pa.record_batch([*typed, *own, *(each.take(record) for each in shared)], schema=self.schema)


def _shown(raws: list[bytes | None]) -> tuple[pa.Array, pa.Array]:
    """Records as text, and as bytes if they are not UTF-8: the text then has backslash escapes for invalid bytes."""
    whole = pa.array(raws, pa.binary())
    try:
        return whole.cast(pa.string()), pa.nulls(len(raws), pa.binary())
    except pa.ArrowInvalid:  # some are not UTF-8
        pairs = [_visible(raw) for raw in raws]
        return pa.array([text for text, _ in pairs], pa.string()), pa.array([raw for _, raw in pairs], pa.binary())


def _visible(raw: bytes | None) -> tuple[str | None, bytes | None]:
    if raw is None:
        return None, None
    try:
        return raw.decode(), None
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace"), raw
