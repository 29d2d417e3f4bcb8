"""The settings of Kafka sources."""

from __future__ import annotations

import pytest

from headwater.adapters.kafka.settings import KafkaSettings
from headwater.domain.source.epoch_size import EpochSize

MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("rows", "size", "limit"),
    [
        (None, None, EpochSize(200_000, 64 * MEBIBYTE)),
        (500, None, EpochSize(500)),
        (None, MEBIBYTE, EpochSize(None, MEBIBYTE)),
        (500, MEBIBYTE, EpochSize(500, MEBIBYTE)),
    ],
)
def test_an_epoch_is_limited_by_what_is_set_or_else_in_records_and_bytes(
    rows: int | None, size: int | None, limit: EpochSize
) -> None:
    assert KafkaSettings("host:9092", ("orders",), rows, max_bytes_per_epoch=size).limit == limit
