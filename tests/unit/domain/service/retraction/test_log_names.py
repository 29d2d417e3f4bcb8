"""Tables in which an earlier version may have stored two logs under one name."""

from __future__ import annotations

import narwhals as nw
import polars as pl
import pytest

from headwater.domain.errors import ConfigError
from headwater.domain.service.retraction.log_names import check_log_names, is_listed
from headwater.domain.service.retraction.tables import PARTITION, PLACE

LISTED = '["bin #0", null, null]'


def check(read: list[str | None], stored: dict[str, str | None]) -> None:
    rows, places = pl.LazyFrame({PARTITION: read}), {PARTITION: list(stored), PLACE: list(stored.values())}
    types = {PARTITION: pl.String, PLACE: pl.String}
    check_log_names("states", nw.from_native(rows), nw.from_native(pl.LazyFrame(places, types)))


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"bin": "1", "bin #0": None},  # the beginning of the log `bin`
        {"bin #0": None, LISTED: "1"},
        {"orders/0 bin #0": None},
    ],
)
@pytest.mark.parametrize("name", [LISTED, f"{LISTED}\x1f12", f"orders/0 {LISTED}", "bin", None])
def test_a_log_of_its_own_is_no_other(name: str | None, stored: dict[str, str | None]) -> None:
    check([name, "bin"], stored)


def test_a_plain_name_is_that_of_another_log_once_the_list_is_stored_too() -> None:
    name = '["a 5", null, null]'
    check([name], {name: "1", "a 5": "1"})
    with pytest.raises(ConfigError, match="the log 'a 5', which may be two logs"):
        check([name], {"a 5": "1"})
    with pytest.raises(ConfigError, match="the log 'orders/0 a 5'"):
        check([f"orders/0 {name}\x1f1"], {"orders/0 a 5": "1", name: "1"})


def test_the_name_of_a_beginning_has_no_place() -> None:
    with pytest.raises(ConfigError, match=r"pipeline 'states': .* 'bin #0'"):
        check(["bin"], {"bin #0": "1"})


def test_a_row_without_a_log_has_no_list() -> None:
    rows = nw.from_native(pl.DataFrame({PARTITION: ["bin", LISTED, None, f"t/0 {LISTED}"]}))
    assert rows.filter(is_listed())[PARTITION].to_list() == [LISTED, f"t/0 {LISTED}"]
