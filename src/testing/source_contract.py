"""The contract of stream sources, for any kind of source on any engine."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import pytest

from ..domain.epoch.batch import BATCH_COLUMNS, ERROR, ORIGIN, RAW, Batch
from ..domain.epoch.epoch import Epoch, OffsetRange, Offsets
from ..domain.errors import NotSupported
from ..domain.ports import StreamSource
from ..domain.source import dead_letter
from ..domain.source.record_spec import RecordSpec
from ..domain.table.change import POSITION
from ..domain.table.row_kind import INSERT, ROW_KIND
from ..domain.table.schema import Schema
from .clock import NOW

_NAMED = RecordSpec(Schema.parse("id bigint, name string"))
_TEXTS = RecordSpec(Schema.parse("id string, name string"))
"""Reads every record that `_NAMED` reads, and those whose `id` is a text."""


def _record(number: Any) -> bytes:
    return json.dumps({"id": number, "name": f"n{number}"}).encode()


def _rows(frame: nw.LazyFrame[Any]) -> list[dict[str, Any]]:
    table = frame.collect("pyarrow").to_arrow()
    return sorted(table.to_pylist(), key=lambda row: row[POSITION])


class SourceContract:
    """What every stream source of JSON records promises. Subclass it, and define how to open and fill a source.

    The tests do not depend on what an epoch counts (rows, files): each record is added alone, so it counts as one.
    """

    @abstractmethod
    def open(self, records: RecordSpec, size: int) -> StreamSource:
        """A new object over the source of this test, which reads at most `size` records in an epoch."""

    @abstractmethod
    def bring(self, records: Sequence[bytes]) -> None:
        """Append JSON records to the source of this test, each as a separate piece."""

    def plan(self, source: StreamSource, after: Offsets | None = None) -> OffsetRange:
        """The next range, which is there; as it is after it was stored as JSON."""
        found = source.plan(after, NOW)
        assert found is not None
        return OffsetRange(*json.loads(json.dumps([found.after, found.until])))

    def test_nothing_new_is_none(self) -> None:
        source = self.open(_NAMED, 3)
        assert source.plan(None, NOW) is None
        assert source.lag(None).split()[0] == "0"

    def test_a_plan_keeps_to_its_limit_and_every_record_is_read_once_in_order(self) -> None:
        self.bring([_record(number) for number in range(7)])
        source, after, epochs = self.open(_NAMED, 3), None, []
        while found := source.plan(after, NOW):
            epochs.append([row["id"] for row in _rows(source.read(found))])
            after = found.until
        assert [id_ for epoch in epochs for id_ in epoch] == list(range(7))
        assert [len(epoch) for epoch in epochs] == [3, 3, 1]
        assert source.lag(after).split()[0] == "0"

    def test_an_epoch_starts_where_the_last_one_ended(self) -> None:
        self.bring([_record(number) for number in range(4)])
        first = self.plan(self.open(_NAMED, 2))
        second = self.plan(self.open(_NAMED, 2), first.until)
        assert second.after == first.until
        assert [row["id"] for row in _rows(self.open(_NAMED, 2).read(second))] == [2, 3]

    def test_a_replayed_range_gives_the_same_rows(self) -> None:
        self.bring([_record(0), b"{oops", _record(2)])
        source = self.open(_NAMED, 3)
        found = self.plan(source)
        before = _rows(source.read(found))
        self.bring([_record(3)])
        assert _rows(source.read(found)) == before
        assert _rows(self.open(_NAMED, 100).read(found)) == before

    def test_rows_have_the_columns_of_a_batch(self) -> None:
        self.bring([_record(0), _record(1)])
        source = self.open(_NAMED, 2)
        rows = _rows(source.read(self.plan(source)))
        assert list(rows[0]) == [*source.schema.names, *BATCH_COLUMNS]
        assert [(row[ROW_KIND], row[RAW], row[ERROR]) for row in rows] == [
            (INSERT, _record(number).decode(), None) for number in range(2)
        ]
        assert rows[0][POSITION] < rows[1][POSITION]
        assert len({row[ORIGIN] for row in rows} - {None}) == 2

    def test_from_the_beginning_everything_is_read(self) -> None:
        source = self.open(_NAMED, 3)
        before = source.beginning()
        self.bring([_record(number) for number in range(3)])
        for beginning in (before, source.beginning()):
            assert [row["id"] for row in _rows(source.read(self.plan(source, beginning)))] == [0, 1, 2]

    def test_what_comes_after_the_end_is_planned_after_it(self) -> None:
        self.bring([_record(number) for number in range(3)])
        source = self.open(_NAMED, 2)
        end = source.end()
        assert source.plan(end, NOW) is None
        self.bring([_record(3)])
        assert [row["id"] for row in _rows(source.read(self.plan(source, end)))] == [3]

    def test_the_lag_counts_what_is_unread(self) -> None:
        self.bring([_record(number) for number in range(5)])
        source = self.open(_NAMED, 2)
        read = self.plan(source).until
        assert [source.lag(after).split()[0] for after in (None, read, source.end())] == ["5", "3", "0"]

    def test_what_is_still_there_is_complete_or_that_is_not_known(self) -> None:
        self.bring([_record(number) for number in range(3)])
        source = self.open(_NAMED, 2)
        first = self.plan(source)
        try:
            source.check_complete(first.after, first.until)
        except NotSupported:
            return
        self.bring([_record(3)])
        further = self.plan(source, first.until)
        source.check_complete(first.after, further.until)
        source.check_rebuilt(first, OffsetRange(first.after, further.until))

    def test_undecodable_records_are_read_again_or_refused(self) -> None:
        self.bring([_record("a"), _record(1), _record("b")])
        source = self.open(_NAMED, 3)
        offsets = self.plan(source)
        batch = Batch(Epoch("p", 0), source.read(offsets), offsets, source.format)
        assert [row["id"] for row in _rows(batch.rows) if row[ERROR] is None] == [1]
        letters = dead_letter.extract(batch.rows, batch)
        fixed = self.open(_TEXTS, 3)
        if source.format not in source.reread_formats:
            with pytest.raises(NotSupported):
                fixed.reread(letters)
            return
        again = _rows(fixed.reread(letters))
        assert [(row["id"], row["name"], row[ERROR]) for row in again] == [("a", "na", None), ("b", "nb", None)]
        assert len({row[POSITION] for row in again}) == 2
