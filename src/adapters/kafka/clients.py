"""Creates Kafka clients, which check their options when they are created."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ...domain.errors import ConfigError
from .settings import KafkaSettings, SinkSettings

_T = TypeVar("_T")
_LOGIN = (KafkaError._AUTHENTICATION, KafkaError._SSL)


class Admin(AdminClient):
    """A client for administration that tells why it cannot log in.

    Args:
        options: all its options.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        failures = self._failures = list[KafkaError]()
        keeping: dict[str, Any] = {**options, "error_cb": failures.append}
        super().__init__(keeping)

    @contextmanager
    def logged_in(self) -> Iterator[None]:
        """Ask the cluster; if the login failed, the error is that of the login, not the time-out that it ends in."""
        try:
            yield
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT and (failed := self._login_failure()):
                raise KafkaException(failed) from error
            raise
        self.poll(0)
        self._failures.clear()

    def _login_failure(self) -> KafkaError | None:
        """The last error of a login since the cluster answered: the client does not tell each one."""
        self.poll(0)
        logins = (each for each in self._failures if each.code() in _LOGIN or "SSL " in each.str())
        self._failures[:] = [*logins][-1:]
        return next(iter(self._failures), None)


def create_client(
    make: Callable[[dict[str, Any]], _T], options: dict[str, Any], settings: KafkaSettings | SinkSettings
) -> _T:
    """Create a client; it does not wait for the cluster.

    Args:
        make: the class of the client.
        options: all its options.
        settings: those of the user.

    Raises:
        ConfigError: an option of the user has no meaning, or not this value, or does not fit the others, or it is set
            here to another value.
    """
    given = settings.options.items()
    if fixed := sorted(name for name, value in given if f"{options[name]}".lower() != value.lower()):
        raise ConfigError(
            f"{settings.title}: Headwater sets {', '.join(fixed)} itself, so what `options` says would have no effect:"
            " remove it there"
        )
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
