"""The examples of the docs: written to separate projects and run, or followed as a reader does."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from headwater.app.cli.main import COMMANDS

from .projects import blocks, follow, register, run_pytest, write_out

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
STORED = {"snapshots"}
"""Tutorials whose tables are stored, by Delta without Spark."""
_NUMBER = re.compile(r"[\d,]*\d(?:\.\d+)?")
_COMMAND = re.compile(r"^\s*(?:\$ )?(headwater .*?)(?=$| [|>]| &&)", re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", DOCS / "index.md", *sorted(DOCS.glob("tutorials/[!R]*.md"))],
    ids=lambda page: page.stem,
)
def test_a_reader_who_follows_it_gets_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if page.stem in STORED:
        pytest.importorskip("deltalake")
    monkeypatch.chdir(tmp_path)
    assert follow(page, tmp_path, capsys) > 0


@pytest.mark.parametrize("page", ["index", "deployment"])
def test_measured_numbers_are_those_of_the_benchmarks(page: str) -> None:
    measured = set(_NUMBER.findall((DOCS / "benchmarks.md").read_text()))
    rows = "\n".join(line for line in (DOCS / f"{page}.md").read_text().splitlines() if line.startswith("| "))
    shown = set(re.findall(rf"({_NUMBER.pattern})(?= s\b| MiB)", rows))
    assert len(shown) > 10
    assert shown <= measured


def test_messages_in_troubleshooting_are_those_of_the_code() -> None:
    """A cell of the first column that quotes a message; its parts between the dots are literals of the code."""
    code = "\n".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    literals = re.sub(r"[\"']\s*\n\s*f?[\"']", "", code)
    rows = [line.split(" | ")[0] for line in (DOCS / "troubleshooting.md").read_text().splitlines()]
    quoted = [each for row in rows for each in re.findall(r"`([^`]*…[^`]*)`", row)]
    parts = {part.strip(" :;") for message in quoted for part in message.split("…")}
    assert len(quoted) > 20
    assert not [each for each in parts if len(each) > 3 and each not in literals]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_configurations_can_be_read(page: Path) -> None:
    for text in blocks(page, "toml"):
        tomllib.loads(text)
    for line in _COMMAND.findall("".join(blocks(page, "sh", "console", "text"))):
        with COMMANDS.make_context("headwater", shlex.split(line, comments=True)[1:]) as group:
            _, command, arguments = COMMANDS.resolve_command(group, [*group._protected_args, *group.args])
            assert command is not None, line
            command.make_context(command.name, arguments, parent=group)


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
