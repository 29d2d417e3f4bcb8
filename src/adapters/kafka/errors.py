"""Translates errors of Kafka's clients into Headwater's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from ...domain.errors import ConfigError, EpochConflict, SinkUnavailable, SourceChanged, SourceUnavailable
from ..shared.unanswered import add_unanswered, check_unanswered
from .settings import KafkaSettings, SinkSettings

GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
"""The errors of an offset that a partition does not have."""
_TOPIC_RIGHT = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
_REFUSED_LOGIN = ("SASL authentication error: ", "handshake failed: Broker: ")
_REFUSED_TLS = ("certificate verify failed", "wrong version number", " alert ")
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_NO_ANSWER = (
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
)


@contextmanager
def translate_errors(settings: KafkaSettings | SinkSettings, *, answered: bool = False) -> Iterator[None]:
    """Translate the errors of a client of the cluster of a source or a sink; see `remember_unanswered`, too.

    Args:
        settings: those of the source or the sink.
        answered: the cluster has just answered, so a time-out is that of one of its brokers only.
    """
    address = (settings.servers, frozenset(settings.options.items()))
    try:
        check_unanswered(address)
        yield
    except KafkaException as error:
        cause: KafkaError = error.args[0]
        if cause.code() in _NO_ANSWER and not answered:
            add_unanswered(address, error)
        if refused := _of_tls(cause, settings) or _of_login(cause, settings):
            raise refused from error
        if isinstance(settings, KafkaSettings):
            raise _of_source(cause, settings) from error
        raise _of_sink(cause, settings) from error


def _of_tls(cause: KafkaError, settings: KafkaSettings | SinkSettings) -> ConfigError | None:
    """The error of a TLS connection that one side refuses; None if this is another one.

    A connection that ends during the handshake may be that of a broker that restarts.
    """
    if "SSL routines" not in cause.str() or not any(map(cause.str().count, _REFUSED_TLS)):
        return None
    return ConfigError(
        f"Kafka at {settings.servers}: the TLS connection is refused ({cause.str()}): correct security.protocol,"
        " ssl.ca.location and the other settings of ssl in `options`, or the port"
    )


def _of_login(cause: KafkaError, settings: KafkaSettings | SinkSettings) -> ConfigError | None:
    """The error of a login that the broker refuses; None if this is another one.

    The client gives the same code to faults that pass: a token that it could not get, or a connection that broke during
    the login, which it calls ``Local``.
    """
    says = cause.str()
    if cause.code() != KafkaError._AUTHENTICATION or "Local: " in says or not any(map(says.count, _REFUSED_LOGIN)):
        return None
    return ConfigError(
        f"Kafka at {settings.servers} refuses the login ({says}): correct sasl.mechanism, sasl.username and"
        " sasl.password in `options`"
    )


def _of_source(cause: KafkaError, settings: KafkaSettings) -> Exception:
    if cause.code() in GONE:
        return SourceChanged(
            f"Kafka topics {', '.join(settings.topics)}: records to be read again are gone: {cause.str()}"
        )
    if cause.code() in _TOPIC_RIGHT:
        return ConfigError(
            f"Kafka at {settings.servers} refuses to read topics {', '.join(settings.topics)} ({cause.str()}):"
            " grant its user Describe and Read on them"
        )
    return SourceUnavailable(f"Kafka at {settings.servers} cannot be read just now ({cause.str()}); {_ask(cause)}")


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
    if cause.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return ConfigError(
            f"Kafka at {settings.servers} does not allow transactions of topic {settings.topic!r} to last so long: set"
            " transaction.timeout.ms in `options` under publish to at most the broker's transaction.max.timeout.ms"
        )
    if cause.code() in _TOPIC_RIGHT:
        return _refused(
            cause,
            settings,
            f"Describe and Write on {settings.topic!r} and '{settings.topic}.epochs', Read on the second, and Create if"
            " that does not exist",
        )
    if cause.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        id_ = f"headwater.<pipeline>.<view>.{settings.topic}"
        return _refused(cause, settings, f"Describe and Write on the transactional id '{id_}'")
    return SinkUnavailable(
        f"Kafka at {settings.servers} does not accept records for topic {settings.topic!r} now ({cause.str()});"
        f" {_ask(cause)}"
    )


def _ask(cause: KafkaError) -> str:
    """What to look at after a fault that may pass."""
    tls = ", and does its port have TLS, as security.protocol in `options` says" if "PLAINTEXT" in cause.str() else ""
    return f"is the broker up, and the address right{tls}?"


def _refused(cause: KafkaError, settings: SinkSettings, rights: str) -> ConfigError:
    return ConfigError(
        f"Kafka at {settings.servers} refuses to publish to topic {settings.topic!r} ({cause.str()}):"
        f" grant its user {rights}"
    )
