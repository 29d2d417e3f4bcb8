"""The example of an outside source: a package of its own that passes the contract of sources, and stays small."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .projects import register, run_pytest

OUTBOX = Path(__file__).parents[2] / "examples" / "outbox_source"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example, taken out of this checkout."""
    return shutil.copytree(OUTBOX, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))


def test_it_passes_the_contract_and_runs_in_a_deployment(project: Path, tmp_path: Path) -> None:
    register(project, tmp_path / "site")
    assert run_pytest(project, tmp_path / "site") >= 14


def test_it_stays_small(project: Path) -> None:
    files = [project / "pyproject.toml", project / "headwater_outbox.py"]
    assert sum(len(file.read_text().splitlines()) for file in files) < 165
    assert len(files[1].read_text().splitlines()) < 150
