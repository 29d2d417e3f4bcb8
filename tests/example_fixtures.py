"""The example backend, registered as an installed package would be."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.outside.projects import register

if TYPE_CHECKING:
    from collections.abc import Iterator

PARQUET = Path(__file__).parents[1] / "examples" / "parquet_backend"


@contextmanager
def parquet_registered(site: Path) -> Iterator[None]:
    """Backend parquet is there, by the entry point that its package declares."""
    register(PARQUET, site)
    sys.path[:0] = [str(site), str(PARQUET)]
    try:
        yield
    finally:
        sys.path.remove(str(site))
        sys.path.remove(str(PARQUET))


@pytest.fixture(scope="module")
def parquet_backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Backend parquet, for the tests of a module."""
    with parquet_registered(tmp_path_factory.mktemp("site")):
        yield
