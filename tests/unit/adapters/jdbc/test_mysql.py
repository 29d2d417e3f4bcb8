"""The session of a connection to MySQL or MariaDB."""

from __future__ import annotations

import pytest

from headwater.adapters.jdbc.mysql import connection_options
from headwater.domain.errors import ConfigError

URL = "jdbc:mysql://localhost/bank"
OWN = "time_zone='+00:00',sql_select_limit=18446744073709551615"


def test_the_session_is_in_utc_and_returns_all_rows_whatever_the_server_says() -> None:
    assert connection_options(URL, {})["sessionVariables"] == OWN
    given = {"user": "reader", "sessionvariables": "sql_mode=''"}
    found = connection_options(URL + "?connectionTimeZone=Asia/Tokyo", given)
    assert {name: found[name] for name in found if name.lower() in {"user", "sessionvariables"}} == {
        "user": "reader",
        "sessionVariables": f"{OWN},sql_mode=''",
    }


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sessionVariables", "time_zone='+01:00'", "option 'sessionVariables' sets time_zone: leave it out"),
        ("sessionInitStatement", "SET @@TIME_ZONE='+01:00'", "option 'sessionInitStatement' sets time_zone"),
        ("initSql", "SET SQL_SELECT_LIMIT=5", "option 'initSql' sets sql_select_limit"),
        ("sessionvariables", "sql_select_limit=5", "option 'sessionvariables' sets sql_select_limit"),
        ("timezone", "Asia/Tokyo", "option 'timezone' sets the zone or the number of rows of a session: leave it out"),
        ("ForceConnectionTimeZoneToSession", "true", "option 'ForceConnectionTimeZoneToSession' sets the zone"),
        ("maxRows", "5", "option 'maxRows' sets the zone or the number of rows"),
    ],
)
def test_an_option_that_changes_the_zone_or_cuts_results_short_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        connection_options(URL, {name: value})


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("?connectionTimeZone=UTC&forceConnectionTimeZoneToSession=true", "sets 'forceConnection.*': leave it out"),
        ("?time%7aone=Asia/Tokyo", "the address sets 'timezone': leave it out"),
        ("?a=b&SessionVariables=sql_mode=''", "the address sets 'SessionVariables': write it under `options`"),
        ("?initSql=SET+time_zone='%2B01:00'", "the address sets 'initSql': write it under `options`"),
    ],
)
def test_an_address_with_settings_of_the_session_is_refused(end: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        connection_options(URL + end, {})
