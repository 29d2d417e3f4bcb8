"""The example backend, registered as an installed package would be."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.outside.projects import register

if TYPE_CHECKING:
    from collections.abc import Iterator

PARQUET = Path(__file__).parents[1] / "examples" / "parquet_backend"


@pytest.fixture(scope="module")
def parquet_backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Backend parquet, by the entry point that its package declares."""
    site = tmp_path_factory.mktemp("site")
    register(PARQUET, site)
    sys.path[:0] = [str(site), str(PARQUET)]
    yield
    sys.path.remove(str(site))
    sys.path.remove(str(PARQUET))
