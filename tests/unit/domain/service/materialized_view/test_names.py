"""The names of a view's indexes, which become names of tables."""

from __future__ import annotations

import pytest

from headwater.adapters.shared.path import folder_of
from headwater.domain.service.materialized_view.derivation import SourceExpr
from headwater.domain.service.materialized_view.names import identify, index_names


def _name(*columns: str) -> str:
    lookup = ("items", tuple(SourceExpr(0, f"`{name}`", name) for name in columns))
    return index_names([lookup])[identify(lookup)]


def test_a_name_has_the_columns() -> None:
    assert _name("id", "day") == "items_by_id__day"


@pytest.mark.parametrize(
    "columns", [["größe"], ["ﬁ"], ["my key"], ["n" * 260], ["a" * 62, "b" * 62, "c" * 62, "d" * 62]]
)
def test_each_name_can_be_a_folder(columns: list[str]) -> None:
    name = _name(*columns)
    assert folder_of("/lake", f"view.{name}") == f"/lake/view/{name}"
    assert len(name) < 250
    assert _name(*columns, "id") != name
