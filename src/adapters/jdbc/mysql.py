"""Connections to MySQL and MariaDB."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from ...domain.errors import ConfigError

_MARIADB = "mariadb"
KINDS = frozenset({"mysql", _MARIADB})
_SESSION = "sessionVariables"
_VARIABLES = {"time_zone": "'+00:00'", "sql_select_limit": str(2**64 - 1)}
"""The session's variables: a TIMESTAMP, which is an instant, is shown in UTC, and no query's result is cut short."""
_STATEMENTS = frozenset({_SESSION.lower(), "sessioninitstatement", "initsql"})
"""Options, in lower case, whose text is run at the beginning of a session."""
_REFUSED = frozenset({"timezone", "forceconnectiontimezonetosession", "maxrows"})
"""Options, in lower case, by which a driver sets these variables itself."""
_IN_ADDRESS = re.compile(rf"\b({'|'.join(sorted(_STATEMENTS | _REFUSED))})\s*=", re.IGNORECASE)
_REASON = "TIMESTAMP is read in UTC, a DATETIME is in the source's `time_zone`, and a chunk needs all its rows"
_OPTIONS = {"tinyInt1isBit": "false", "yearIsDateType": "false"}
"""Numbers are read as numbers: a 2 in a tinyint(1) would be true, and a year a date."""


def connection_options(url: str, given: Mapping[str, str]) -> dict[str, str]:
    """The options of a connection whose session is in UTC and returns all rows of a query.

    Args:
        url: the address.
        given: the options that the user has set.

    Raises:
        ConfigError: the address or the options set another zone, or limit the rows; or the address has statements.
    """
    if found := _IN_ADDRESS.search(unquote(url)):
        name = found[1]
        more = "write it under `options`" if name.lower() in _STATEMENTS else f"leave it out; {_REASON}"
        raise ConfigError(f"the address sets {name!r}: {more}")
    for name, value in given.items():
        _check_option(name, value)
    others = {name: value for name, value in given.items() if name.lower() != _SESSION.lower()}
    own = [f"{name}={value}" for name, value in _VARIABLES.items()]
    session = [value for name, value in given.items() if name not in others and value]
    return {**_OPTIONS, **others, _SESSION: ",".join([*own, *session])}


def spark_url(url: str) -> str:
    """The address by which Spark finds MySQL's dialect; MariaDB has none of its own, and its driver takes this one."""
    if not url.lower().startswith(f"jdbc:{_MARIADB}:"):
        return url
    return f"jdbc:mysql:{url.split(':', 2)[2]}{'&' if '?' in url else '?'}permitMysqlScheme"


def _check_option(name: str, value: str) -> None:
    if name.lower() in _REFUSED:
        raise ConfigError(f"option {name!r} sets the zone or the number of rows of a session: leave it out; {_REASON}")
    for variable in _VARIABLES if name.lower() in _STATEMENTS else ():
        if variable in value.lower():
            raise ConfigError(f"option {name!r} sets {variable}: leave it out; {_REASON}")
