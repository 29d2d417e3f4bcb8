"""The example of an outside service: a package of its own that runs in a deployment, and stays small."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .projects import register, run_pytest

LATEST = Path(__file__).parents[2] / "examples" / "latest_service"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example, taken out of this checkout."""
    return shutil.copytree(LATEST, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))


def test_it_runs_in_a_deployment(project: Path, tmp_path: Path) -> None:
    register(project, tmp_path / "site")
    assert run_pytest(project, tmp_path / "site") >= 9


def test_it_stays_small(project: Path) -> None:
    files = [project / "pyproject.toml", project / "headwater_latest.py"]
    assert sum(len(file.read_text().splitlines()) for file in files) < 150
