"""The rows of an epoch, and the columns that are added to the source's own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import narwhals as nw
from attrs import field, frozen

from ..table.change import POSITION
from ..table.row_kind import ROW_KIND
from .epoch import Epoch, OffsetRange
from .key_range import KeyRange

ORIGIN, RAW, BYTES, ERROR = "_origin", "_raw", "_bytes", "_error"
BATCH_COLUMNS = {
    ROW_KIND: "string",
    POSITION: "bigint",
    ORIGIN: "string",
    RAW: "string",
    BYTES: "binary",
    ERROR: "string",
}
"""Name and type of the columns of `Batch.rows` that are added to the source's own."""
ABSENT = "_absent"
"""string: the columns that are missing in a record, each in backticks; null if none is missing (`RecordSpec`)."""


def lane() -> nw.Expr:
    """The log of a row, if the batch has `lanes`: its origin without the offset, ``topic/partition``.

    The names of Kafka's topics have no ``@``, and a split takes half the time of a pattern.
    """
    return nw.col(ORIGIN).str.split("@").list.get(0)


class Input(Protocol):
    """The rows of one input of an epoch; each read returns the same rows."""

    @abstractmethod
    def rows(self) -> nw.LazyFrame[Any]:
        """All rows."""


class KeyedInput(Input, Protocol):
    """An input whose rows have a key, and which can return its changes since the previous epoch."""

    @abstractmethod
    def lookup(self, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows that equal a row of `keys` in all of its columns, which are some or all of the key columns."""

    @abstractmethod
    def changes(self) -> nw.LazyFrame[Any] | None:
        """Net changes since the previous epoch, in its columns and ``_row_kind``; None if they are unknown."""


@frozen(eq=False)
class Batch:
    """The rows of one epoch.

    `rows` is lazy. In addition to the source's own columns it has:

    * ``_row_kind`` string: ``+I -U +U -D``; null if the row could not be decoded;
    * ``_position`` bigint: order of arrival inside the batch;
    * ``_origin`` string: the file that the row came from, or ``topic/partition@offset``;
    * ``_raw`` string: the original record (the row as JSON if the source is typed); readable text if it is not UTF-8;
    * ``_bytes`` binary: the original record if it is not ``_raw`` in UTF-8; else null;
    * ``_error`` string: the reason why the row could not be decoded (its own columns are null then); else null.

    Args:
        epoch: the epoch.
        rows: see above.
        offsets: the offsets that the rows were read from.
        format: the format of the records, by the source's name for it.
        replay: the rows are dead letters read again. They are late for everything, and never treated as duplicates.
        topics: in a topic group, the rows of each topic that has some. Together they are `rows`; a query on one topic
            is planned faster on these.
        inputs: in a pipeline that reads other pipelines, each input by its name; there are no `rows` then.
        lanes: several logs were read in parallel. `_position` orders the rows of one `lane` by arrival, and does not
            order rows of different lanes.
        remaining: in a bulk load, the ranges of the first key column that unread chunks may contain; None if unknown.
        ranges: in a bulk load whose chunks are not repeatable, the range of the first key column of each chunk in the
            batch, by chunk number.
        passed_over: returns the number of messages that were skipped while the rows were computed, by table.
        whole: returns the rows again, each with its ``_raw``; None if `rows` have it. If it is set, rows that could be
            decoded have null: only dead letters need their records, and records are large.
        prepared: what the pipeline's service has computed of the rows before the step; see `Service.prepare`.
    """

    epoch: Epoch
    _rows: nw.LazyFrame[Any] | None
    offsets: OffsetRange
    format: str
    replay: bool = False
    topics: Mapping[str, nw.LazyFrame[Any]] = field(factory=dict)
    inputs: Mapping[str, Input] = field(factory=dict)
    lanes: bool = False
    remaining: tuple[KeyRange, ...] | None = None
    ranges: Mapping[int, KeyRange] = field(factory=dict)
    passed_over: Callable[[], Mapping[str, int]] = dict
    whole: Callable[[], nw.LazyFrame[Any]] | None = None
    prepared: object = None

    @property
    def rows(self) -> nw.LazyFrame[Any]:
        assert self._rows is not None  # a service that reads inputs asks for these
        return self._rows
