"""Checks the address of an S3 store in the environment: obstore's own errors do not name the variable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from ....domain.errors import ConfigError
from ...shared.address import host_of

_OF_S3 = ("AWS_ENDPOINT_URL_S3",)
"""It has priority over the others."""
_OF_ALL = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_ALLOW = "AWS_ALLOW_HTTP"
_TRUE = ("1", "true", "on", "yes", "y")
"""What obstore takes for true, in any case."""
_PREFIX = "AWS_"


def check_endpoint(environment: Mapping[str, str]) -> None:
    """Check the address of the object store, if one is set.

    Raises:
        ConfigError: it is not an address; it has a user or a password; or it is without TLS, which is not allowed.
    """
    settings = {name.upper(): value for name, value in environment.items() if name.startswith(_PREFIX)}
    for name, endpoint in _endpoints(settings):
        _check_address(name, endpoint)
        if urlsplit(endpoint).scheme == "http" and settings.get(_ALLOW, "").lower() not in _TRUE:
            raise ConfigError(
                f"{name} in the environment is an address without TLS (http://): set {_ALLOW}=true to allow that, or"
                " write https://"
            )


def _endpoints(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The variables that count, and their values."""
    names = next((names for names in (_OF_S3, _OF_ALL) if not settings.keys().isdisjoint(names)), ())
    return ((name, settings[name]) for name in names if name in settings)


def _check_address(name: str, endpoint: str) -> None:
    """Errors do not show the address: it may contain a password."""
    if "@" in endpoint.partition("://")[2].partition("/")[0]:
        raise ConfigError(
            f"{name} in the environment must not contain a user or a password, which errors would show: put the"
            " keys into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if not endpoint.lower().startswith(("https://", "http://")) or not host_of(endpoint):
        raise ConfigError(
            f"{name} in the environment is not an address such as https://host:9000; for Amazon's own store, unset it"
        )
