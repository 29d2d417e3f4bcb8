"""Translates errors of Kafka's clients into Headwater's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from ...domain.errors import ConfigError, EpochConflict, SinkUnavailable, SourceChanged, SourceUnavailable
from .settings import KafkaSettings, SinkSettings

GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
"""The errors of an offset that a partition does not have."""
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


@contextmanager
def translate_errors(settings: KafkaSettings | SinkSettings) -> Iterator[None]:
    """Translate the errors of a client of the cluster of a source or a sink."""
    try:
        yield
    except KafkaException as error:
        of = _of_source if isinstance(settings, KafkaSettings) else _of_sink
        raise of(error.args[0], settings) from error


def _of_source(cause: KafkaError, settings: KafkaSettings) -> Exception:
    if cause.code() in GONE:
        return SourceChanged(
            f"Kafka topics {', '.join(settings.topics)}: records to be read again are gone: {cause.str()}"
        )
    return SourceUnavailable(
        f"Kafka at {settings.servers} cannot be read just now ({cause.str()}); is the broker up, and the address right?"
    )


def _of_sink(cause: KafkaError, settings: SinkSettings) -> Exception:
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
