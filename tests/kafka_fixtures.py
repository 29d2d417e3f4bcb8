"""One Kafka broker for all tests of a process, started by the first test that asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.testing.kafka_broker import KafkaBroker


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A real broker on loopback."""
    from headwater.testing.kafka_broker import kafka_broker

    with kafka_broker() as broker:
        yield broker
