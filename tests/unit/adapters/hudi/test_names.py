"""Names of columns on Hudi."""

from __future__ import annotations

import pytest

from headwater.adapters.hudi.names import check_column_names
from headwater.domain.errors import ConfigError
from headwater.testing.store_harness import spec_of


@pytest.mark.parametrize("name", ["_hoodie_is_deleted", "_Hoodie_mine", "_headwater_key", "_headwater_GONE"])
def test_hidden_columns_and_hudis_own_have_their_names_alone(name: str) -> None:
    with pytest.raises(ConfigError, match=f"table pipeline.items: on Hudi no column may be named '{name}'"):
        check_column_names(spec_of(f"id bigint, `{name}` string", ["id"]))


def test_similar_names_may_be_used() -> None:
    check_column_names(spec_of("id bigint, hoodie_is_deleted boolean, `_headwater_mine` string, `_gone` int", ["id"]))
