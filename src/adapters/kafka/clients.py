"""Creates Kafka clients, which check their options when they are created."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from ...domain.errors import ConfigError
from .settings import KafkaSettings, SinkSettings

_T = TypeVar("_T")


def create_client(
    make: Callable[[dict[str, Any]], _T], options: dict[str, Any], settings: KafkaSettings | SinkSettings
) -> _T:
    """Create a client; it does not wait for the cluster.

    Args:
        make: the class of the client.
        options: all its options.
        settings: those of the user.

    Raises:
        ConfigError: an option of the user has no meaning, or not this value, or does not fit the others.
    """
    try:
        return make(options)
    except KafkaException as error:
        reason = _without_values(error.args[0].str(), settings.options)
        # The client's own exception has the values, and a stack trace would show it.
        raise ConfigError(f"{settings.title}: Kafka's client refuses the options: {reason}") from None


def _without_values(text: str, options: Mapping[str, str]) -> str:
    """What the client says of its options, without their values, which may be secrets."""
    for value in options.values():
        text = text.replace(f' "{value}"', "").removesuffix(f": {value}")
    return text
