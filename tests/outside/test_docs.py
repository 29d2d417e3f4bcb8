"""The examples of the docs, written to separate projects and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from .projects import register, run_pytest, write_out

DOCS = Path(__file__).parents[2] / "docs"


def test_adding_a_backend(tmp_path: Path) -> None:
    project = tmp_path / "project"
    files = write_out(DOCS / "adding-a-backend.md", project)
    assert {"headwater_shelf.py", "pyproject.toml", "tests/test_contract.py", "tests/shelf.feature"} <= set(files)
    register(project, tmp_path / "site")
    assert run_pytest(project, tmp_path / "site") >= 77


def test_retraction(tmp_path: Path) -> None:
    project = tmp_path / "project"
    files = write_out(DOCS / "retraction.md", project)
    assert set(files) == {"orders.toml", "specs/orders.feature", "conftest.py", "specs/test_specs.py"}
    assert run_pytest(project, tmp_path / "site", "specs") == 2


def test_wide_tables(tmp_path: Path) -> None:
    project = tmp_path / "project"
    files = write_out(DOCS / "wide-tables.md", project)
    assert set(files) == {"shop.toml", "specs/shop.feature", "conftest.py", "specs/test_specs.py"}
    assert run_pytest(project, tmp_path / "site", "specs") == 2


def test_bulk_merge(tmp_path: Path) -> None:
    project = tmp_path / "project"
    files = write_out(DOCS / "bulk-merge.md", project)
    assert set(files) == {"accounts.toml", "specs/accounts.feature", "conftest.py", "specs/test_specs.py"}
    assert run_pytest(project, tmp_path / "site", "specs") == 1


def test_snapshots(tmp_path: Path) -> None:
    project = tmp_path / "project"
    files = write_out(DOCS / "snapshots.md", project)
    assert set(files) == {"shops.toml", "specs/shops.feature", "conftest.py", "specs/test_specs.py"}
    assert run_pytest(project, tmp_path / "site", "specs") == 1


def test_cumulate(tmp_path: Path) -> None:
    project = tmp_path / "project"
    files = write_out(DOCS / "cumulate.md", project)
    assert set(files) == {"views.toml", "specs/views.feature", "conftest.py", "specs/test_specs.py"}
    assert run_pytest(project, tmp_path / "site", "specs") == 2


def test_materialized_views(tmp_path: Path) -> None:
    project = tmp_path / "project"
    files = write_out(DOCS / "materialized-views.md", project)
    assert set(files) == {"lines.toml", "specs/lines.feature", "conftest.py", "specs/test_specs.py"}
    assert run_pytest(project, tmp_path / "site", "specs") == 1


def specs(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    files = write_out(DOCS / "writing-specs.md", project)
    assert set(files) == {"shop.toml", "specs/orders.feature", "conftest.py", "specs/test_specs.py"}
    return project


def test_writing_specs(tmp_path: Path) -> None:
    assert run_pytest(specs(tmp_path), tmp_path / "site", "specs") == 6


@pytest.mark.delta
@pytest.mark.slow
def test_specs_run_on_another_backend_by_an_option(tmp_path: Path) -> None:
    only = ("specs", "--headwater-backend", "delta", "-k", "late or dead_letters")
    assert run_pytest(specs(tmp_path), tmp_path / "site", *only) == 2
