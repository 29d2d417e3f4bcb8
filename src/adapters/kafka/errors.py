"""Translates errors of a Kafka sink into Headwater's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from ...domain.errors import ConfigError, EpochConflict, SinkUnavailable
from .settings import SinkSettings

_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


@contextmanager
def translate_errors(settings: SinkSettings) -> Iterator[None]:
    """Translate the errors of a client of the sink's cluster."""
    try:
        yield
    except KafkaException as error:
        raise _translate(error.args[0], settings) from error


def _translate(cause: KafkaError, settings: SinkSettings) -> Exception:
    if cause.code() in _FENCED:
        return EpochConflict(
            f"another run publishes to topic {settings.topic!r} by now (or this epoch took longer than"
            " transaction.timeout.ms): stop one of the two, or raise that option"
        )
    if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return ConfigError(
            f"a record is larger than Kafka topic {settings.topic!r} takes: raise max.message.bytes of the topic and,"
            " for records above 1000000 bytes, message.max.bytes in `options` under publish"
        )
    return SinkUnavailable(
        f"Kafka at {settings.servers} does not accept records for topic {settings.topic!r} now ({cause.str()});"
        " is the broker up, and the address right?"
    )
