"""The example of a third backend: a package of its own that passes the contract and the features, and stays small."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.example_fixtures import PARQUET

from .projects import register, run_pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example, taken out of this checkout."""
    return shutil.copytree(PARQUET, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))


def test_it_passes_the_contract_and_its_own_specification(project: Path, tmp_path: Path) -> None:
    register(project, tmp_path / "site")
    assert run_pytest(project, tmp_path / "site") >= 79


def test_it_stays_small(project: Path) -> None:
    files = [project / "pyproject.toml", *(project / "headwater_parquet").glob("*.py")]
    assert sum(len(file.read_text().splitlines()) for file in files) < 330
