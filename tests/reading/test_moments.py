"""Times, durations and publications as programs may give them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from headwater import Headwater
from headwater.domain.errors import ConfigError, HeadwaterError
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINES = [
    '{"project": 1, "contract": 11, "signed": "2024-03-01T09:00:00Z"}',
    '{"project": 1, "contract": 12, "signed": "2024-03-02T09:00:00Z"}',
]


@pytest.fixture(params=["memory", pytest.param("delta", marks=[pytest.mark.delta, pytest.mark.core])])
def headwater(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Headwater]:
    backend = 'name = "memory"\n'
    if request.param == "delta":
        request.getfixturevalue("spark")
        backend = 'name = "delta"\npath = "lake"\nengine = "spark"\n'
    (tmp_path / "in").mkdir()
    for at, line in enumerate(LINES):
        (tmp_path / "in" / f"{at}.json").write_text(line + "\n")
    (tmp_path / "deploy.toml").write_text(ranked_contracts(backend=backend))
    with Headwater.from_config(tmp_path / "deploy.toml") as headwater:
        headwater.run(until_idle=True)
        yield headwater


@pytest.mark.parametrize(
    "as_of",
    [
        "2024-03-01T09:00:00Z",
        "2024-03-01T10:00:00+01:00",
        "2024-03-02",
        date(2024, 3, 2),
        datetime(2024, 3, 1, 9),
        datetime(2024, 3, 1, 9, tzinfo=UTC),
    ],
)
def test_an_event_time_is_text_date_or_datetime_and_in_utc(headwater: Headwater, as_of: str | date | datetime) -> None:
    assert len(headwater.answer("ranked", as_of=as_of).frame.collect()) == 1


def test_a_publication_is_named_by_number_time_or_text(headwater: Headwater) -> None:
    for at in (0, "0"):
        assert len(headwater.answer("ranked", at=at).frame.collect()) == 1
    for at in ("2100-01-01", date(2100, 1, 1), datetime(2100, 1, 1), datetime(2100, 1, 1, tzinfo=UTC)):
        assert len(headwater.answer("ranked", at=at).frame.collect()) == 2
    for at in ("2024-01-01", datetime(2024, 1, 1)):
        with pytest.raises(HeadwaterError, match="had published nothing by 2024-01-01T00:00:00Z"):
            headwater.view("ranked", at=at)


def test_a_duration_is_text_or_timedelta(headwater: Headwater) -> None:
    for hold in ("2h", timedelta(hours=2)):
        with headwater.pin("ranked", hold=hold) as pin:
            assert pin.epoch == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"at": "yesterday"}, "'yesterday' is not an ISO-8601 time such as"),
        ({"as_of": "1.3.2024"}, "'1.3.2024' is not an ISO-8601 time such as"),
        ({"as_of": 5}, "5 is not a time; give a datetime, or ISO-8601 text"),
        ({"longest": 5}, "5 is not a duration; give a timedelta, or a text such as '2h'"),
    ],
)
def test_what_is_neither_is_refused(headwater: Headwater, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        headwater.view("ranked", **arguments)
