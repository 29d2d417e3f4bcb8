"""Names of columns that a query cannot have."""

from __future__ import annotations

import pytest

from headwater.domain.errors import ConfigError
from headwater.domain.table.query_columns import check_table_columns, check_view_columns


@pytest.mark.parametrize("name", ["_row_kind", "_ROW_KIND", "_headwater_side", "_Headwater_x"])
def test_what_differences_add_is_refused_everywhere(name: str) -> None:
    for check in (check_view_columns, lambda names: check_table_columns(names, keyed=True)):
        with pytest.raises(
            ConfigError, match=f"column '{name}' has the name of one that Headwater adds; name it other"
        ):
            check(["id", name])


def test_the_remedy_has_a_name_that_is_free() -> None:
    with pytest.raises(ConfigError, match=r"such as … AS row_kind$"):
        check_view_columns(["_row_kind"])


@pytest.mark.parametrize("name", ["_op", "_OP", "_sequence", "_position", "_by0", "_by12"])
def test_what_stored_rows_of_a_view_have_is_refused_in_views_only(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        check_view_columns(["id", name])
    check_table_columns(["id", name], keyed=False)


def test_the_number_of_equal_rows_is_that_of_a_table_without_a_key() -> None:
    with pytest.raises(ConfigError, match="_multiplicity"):
        check_table_columns(["_multiplicity"], keyed=False)
    check_table_columns(["_multiplicity"], keyed=True)
    check_view_columns(["_multiplicity"])


@pytest.mark.parametrize("name", ["_day", "_rank", "_by", "_byte", "_ops", "row_kind", "_", "_side", "_arrival"])
def test_other_names_are_free(name: str) -> None:
    check_view_columns([name])
    check_table_columns([name], keyed=False)
