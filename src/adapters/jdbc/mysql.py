"""Connections to MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Mapping

from ...domain.errors import ConfigError

_MARIADB = "mariadb"
KINDS = frozenset({"mysql", _MARIADB})
_SESSION = "sessionVariables"
_ZONE = "time_zone"
_OPTIONS = {"tinyInt1isBit": "false", "yearIsDateType": "false"}
"""Numbers are read as numbers: a 2 in a tinyint(1) would be true, and a year a date."""


def connection_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options of a connection whose session is in UTC: then a TIMESTAMP, which is an instant, is shown in UTC.

    Raises:
        ConfigError: the given options set another zone.
    """
    session = given.get(_SESSION, "")
    if _ZONE in session.lower():
        raise ConfigError(
            f"option {_SESSION!r} sets {_ZONE}: leave it out; TIMESTAMP is read in UTC, and a DATETIME is in the"
            " source's `time_zone`"
        )
    zone = f"{_ZONE}='+00:00'"
    return {**_OPTIONS, **given, _SESSION: f"{zone},{session}" if session else zone}


def spark_url(url: str) -> str:
    """The address by which Spark finds MySQL's dialect; MariaDB has none of its own, and its driver takes this one."""
    if not url.lower().startswith(f"jdbc:{_MARIADB}:"):
        return url
    return f"jdbc:mysql:{url.split(':', 2)[2]}{'&' if '?' in url else '?'}permitMysqlScheme"
