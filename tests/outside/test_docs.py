"""The examples of the docs: written to separate projects and run, or followed as a reader does."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import create_autospec

import click
import pytest

from headwater import Headwater
from headwater.app.cli.main import COMMANDS
from headwater.app.config import load_tables

from .projects import blocks, follow, register, run_pytest, write_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
FOLLOWED = [ROOT / "README.md", DOCS / "index.md", DOCS / "programs.md", *sorted(DOCS.glob("tutorials/[!R]*.md"))]
ON_SPARK = DOCS / "spark-jobs.md"
STORED = {"snapshots"}
"""Tutorials whose tables are stored, by Delta without Spark."""
_NUMBER = re.compile(r"[\d,]*\d(?:\.\d+)?")
_COMMAND = re.compile(r"^\s*(?:\$ )?(headwater .*?)(?=$| [|>]| &&)", re.MULTILINE)
_TASK = re.compile(r"^\s*(?:\$ )?make ([\w-]+)", re.MULTILINE)


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.stem)
def test_a_reader_who_follows_it_gets_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if page.stem in STORED:
        pytest.importorskip("deltalake")
    monkeypatch.chdir(tmp_path)
    assert follow(page, tmp_path, capsys) > 0


@pytest.mark.delta
def test_a_reader_who_follows_it_in_a_spark_job_gets_what_it_shows(
    program_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert follow(ON_SPARK, tmp_path, capsys) > 0


@pytest.mark.parametrize("page", ["index", "deployment"])
def test_measured_numbers_are_those_of_the_benchmarks(page: str) -> None:
    measured = set(_NUMBER.findall((DOCS / "benchmarks.md").read_text()))
    rows = "\n".join(line for line in (DOCS / f"{page}.md").read_text().splitlines() if line.startswith("| "))
    shown = set(re.findall(rf"({_NUMBER.pattern})(?= s\b| MiB)", rows))
    assert len(shown) > 10
    assert shown <= measured


def test_what_a_user_expects_is_tested() -> None:
    """Each cell for Headwater links to a test or a feature."""
    (table,) = re.findall(r"## What a user expects\n\n((?:\|.*\n)+)", (DOCS / "when-to-use.md").read_text())
    _head, _line, *rows = table.splitlines()
    assert len(rows) > 15
    assert not [row for row in rows if not re.search(r"\]\(\.\./(tests|features)/", row.split(" | ")[1])]


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
class TestEachPage:
    def test_commands_can_be_read(self, page: Path) -> None:
        shell = "".join(blocks(page, "sh", "console", "text"))
        for line in _COMMAND.findall(shell):
            with COMMANDS.make_context("headwater", shlex.split(line, comments=True)[1:]) as group:
                _, command, arguments = COMMANDS.resolve_command(group, [*group._protected_args, *group.args])
                assert command is not None, line
                command.make_context(command.name, arguments, parent=group)
        tasks = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert set(_TASK.findall(shell)) <= tasks

    def test_commands_in_the_text_exist_with_their_options(self, page: Path) -> None:
        text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for name, rest in re.findall(r"`headwater\s+([a-z][\w-]*)([^`]*)`", text):
            command = COMMANDS.get_command(click.Context(COMMANDS), name)
            assert command is not None, name
            known = {option for each in command.params for option in each.opts}
            assert set(re.findall(r"(?<!\S)--[\w-]+", rest)) <= known, (name, rest)

    def test_configurations_are_accepted(self, page: Path) -> None:
        for tables in deployments(page):
            load_tables(tables, dict.fromkeys(re.findall(r"\$\{(\w+)\}", json.dumps(tables)), "http://127.0.0.1"))

    def test_entry_points_are_those_of_an_example(self, page: Path) -> None:
        examples = [entry_points(file.read_text()) for file in ROOT.glob("examples/*/pyproject.toml")]
        written = [entry_points(text) for text in blocks(page, "toml", files=False) if "project" in tomllib.loads(text)]
        assert all(each in examples for each in written)


@pytest.mark.parametrize("page", ["operations", "versions"])
def test_programs_use_what_there_is(page: str) -> None:
    """A stand-in for a deployment has the methods of the real one, with their parameters."""
    programs = list(blocks(DOCS / f"{page}.md", "python", files=False))
    assert programs
    for text in programs:
        exec(text, {"headwater": create_autospec(Headwater, instance=True)})


def test_no_program_is_left_out() -> None:
    followed = {*FOLLOWED, ON_SPARK, DOCS / "operations.md", DOCS / "versions.md"}
    assert not [page for page in PAGES if page not in followed and list(blocks(page, "python", files=False))]


def deployments(page: Path) -> Iterator[dict[str, Any]]:
    """The configurations of a page; a part is put into the deployment that the page shows before it, if any."""
    shown: Mapping[str, Any] = {"backend": {"name": "delta", "path": "lake"}}
    for text in blocks(page, "toml"):
        tables = tomllib.loads(text)
        if "project" in tables:
            continue
        if {"backend", "sources", "pipelines"} <= set(tables):
            shown = tables
        yield put_into(shown, tables, depth=2)


def put_into(whole: Mapping[str, Any], part: Mapping[str, Any], *, depth: int) -> dict[str, Any]:
    """Replace keys of a source, of a pipeline or of the backend by those of a part."""
    nested = {name for name in part if depth and name in whole and isinstance(part[name], dict)}
    return {**whole, **part, **{name: put_into(whole[name], part[name], depth=depth - 1) for name in nested}}


def entry_points(project: str) -> Any:
    return tomllib.loads(project)["project"]["entry-points"]


def test_a_program_for_spark_submit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert write_out(DOCS / "operations.md", tmp_path) == ["run.py"]
    monkeypatch.setattr(sys, "argv", ["run.py", "--help"])
    with pytest.raises(SystemExit, match=r"^0$"):
        runpy.run_path(str(tmp_path / "run.py"))
    assert capsys.readouterr().out.startswith("Usage: headwater ")


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
    program = {"program/visits.feature", "program/test_visits.py"}
    assert set(files) == {"shop.toml", "specs/orders.feature", "conftest.py", "specs/test_specs.py"} | program
    return project


def test_writing_specs(tmp_path: Path) -> None:
    assert run_pytest(specs(tmp_path), tmp_path / "site", "specs", "program") == 7


@pytest.mark.delta
@pytest.mark.slow
def test_specs_run_on_another_backend_by_an_option(tmp_path: Path) -> None:
    only = ("specs", "--headwater-backend", "delta", "-k", "late or dead_letters")
    assert run_pytest(specs(tmp_path), tmp_path / "site", *only) == 2
