"""Folders of plain tables: what is refused before they are read."""

from pathlib import Path

import pytest

from headwater.adapters.shared.table_folders import check_exists
from headwater.domain.errors import ConfigError


def test_a_path_that_exists_is_taken(tmp_path: Path) -> None:
    check_exists(str(tmp_path), "a csv file")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no", "there is nothing at no; put a csv file there"),
        ("x" * 300, "cannot be read: File name too long; correct"),
    ],
)
def test_a_path_with_nothing_is_refused(name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        check_exists(name, "a csv file")
