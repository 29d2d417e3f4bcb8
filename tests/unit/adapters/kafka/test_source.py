"""How far an epoch goes where it is not known how large the records are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headwater.adapters.kafka.broker import TopicReader
from headwater.adapters.kafka.plan import OffsetBounds
from headwater.adapters.kafka.polars_source import PolarsKafkaSource
from headwater.adapters.kafka.runs import Run
from headwater.adapters.kafka.settings import KafkaSettings
from headwater.domain.ports import Now, Pace
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pytest

    from headwater.adapters.kafka.plan import Slice

FIRST, END = 50_000_000, 100_000_000


def runs(_reader: TopicReader, slices: Sequence[Slice]) -> Iterator[Run]:
    """Records of a thousand bytes; a compaction has left none before the first."""
    for each in slices:
        at = range(max(each.start, FIRST), each.end)[:1000]
        if at:
            yield Run.of(each, list(at), [b"x" * 1000] * len(at))


def test_a_long_stretch_without_records_is_passed_in_few_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicReader, "offset_bounds", lambda _reader: {("t", 0): OffsetBounds(0, END)})
    monkeypatch.setattr(TopicReader, "runs", runs)
    settings = KafkaSettings("127.0.0.1:1", ("t",), max_bytes_per_epoch=10_000_000_000)
    source = PolarsKafkaSource(settings, RecordSpec(Schema.parse("k bigint")))
    found = source.plan(None, Now(datetime.now(UTC), Pace.SCHEDULE, None))
    assert found is not None
    assert found.until == {"t": {"0": 10_000_000}}


def test_a_column_that_no_record_has_is_warned_of_in_the_first_epoch_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(TopicReader, "offset_bounds", lambda _reader: {("t", 0): OffsetBounds(0, 2)})
    monkeypatch.setattr(TopicReader, "topic_ids", lambda _reader: {})
    monkeypatch.setattr(TopicReader, "check_same", lambda _reader, _read: None)
    monkeypatch.setattr(
        TopicReader, "runs", lambda _reader, slices: iter([Run.of(slices[0], [slices[0].start], [b'{"k": 1}'])])
    )
    source = PolarsKafkaSource(
        KafkaSettings("h:1", ("t",), max_rows_per_epoch=1), RecordSpec(Schema.parse("k int, v int"))
    )
    after = None
    for _ in range(2):
        planned = source.plan(after, Now(datetime.now(UTC), Pace.SCHEDULE, None))
        assert planned is not None
        source.read(planned)
        after = planned.until
    (warning,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert warning.startswith("topics t: no record of the first epoch has these columns")
    assert ": 'v'; correct" in warning
