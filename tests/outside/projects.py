"""Projects outside Headwater: folders with their own code and tests, run by a separate pytest; and pages to follow."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headwater
from headwater.app.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?:# (?P<file>[\w./-]+)\n)?(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def write_out(page: Path, folder: Path) -> list[str]:
    """Write the code blocks of a page that begin with the name of a file; the names."""
    blocks = {block["file"]: block["text"] for block in _BLOCK.finditer(page.read_text()) if block["file"]}
    for name, text in blocks.items():
        _write(folder / name, text)
    return list(blocks)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def blocks(page: Path, *languages: str, files: bool = True) -> Iterator[str]:
    """The code blocks of a page in some languages, with or without those that begin with the name of a file."""
    found = (block for block in _BLOCK.finditer(page.read_text()) if block["language"] in languages)
    return (block["text"] for block in found if files or not block["file"])


def follow(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> int:
    """Do what a page says, in the current folder; how many outputs were compared.

    Files are written, and the blocks in ``sh`` and ``python`` are run. A block in ``text`` is what the last of these has
    printed on standard output, with ``…`` for anything. Blocks in ``console`` are for reading only.
    """
    names: dict[str, Any] = {}
    compared = 0
    for block in _BLOCK.finditer(page.read_text()):
        language, text = block["language"], block["text"]
        if block["file"]:
            _write(folder / block["file"], text)
        elif language == "text":
            printed = capsys.readouterr().out
            assert _fits(printed.rstrip(), text.rstrip()), f"{page.name}: this is printed:\n{printed}"
            compared += 1
        elif language in _RUN:
            capsys.readouterr()
            _RUN[language](text, names)
        else:
            assert language == "console", f"{page.name}: nothing runs a block in {language}"
    return compared


def _fits(printed: str, shown: str) -> bool:
    return re.fullmatch(re.escape(shown).replace("…", ".*?"), printed, re.DOTALL) is not None


def _run_program(text: str, names: dict[str, Any]) -> None:
    exec(text, names)


def _run_commands(text: str, _names: dict[str, Any]) -> None:
    """Run commands as a shell would; those of Headwater in this process, which saves starting one for each."""
    for part in re.split(r"^(?=headwater )", text.replace("\\\n", " "), flags=re.MULTILINE):
        line, _, rest = part.partition("\n") if part.startswith("headwater ") else ("", "", part)
        if line:
            assert main(shlex.split(line, comments=True)[1:]) == 0, line
        done = subprocess.run(["bash", "-eu", "-c", rest], capture_output=True, text=True, check=True)
        sys.stdout.write(done.stdout)


_RUN = {"sh": _run_commands, "python": _run_program}


def register(project: Path, site: Path) -> None:
    """Leave in a folder what installing a project there in place would leave: its entry points."""
    declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    info = site / f"{declared['name'].replace('-', '_')}-{declared['version']}.dist-info"
    info.mkdir(parents=True)
    about = f"Metadata-Version: 2.1\nName: {declared['name']}\nVersion: {declared['version']}\n"
    (info / "METADATA").write_text(about)
    groups = declared["entry-points"].items()
    lines = [line for group, points in groups for line in (f"[{group}]", *(f"{n} = {to}" for n, to in points.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines))


def run_pytest(project: Path, site: Path, *arguments: str) -> int:
    """Run a project's tests in a process of their own, where nothing of Headwater's checkout is set up; how many passed.

    Raises:
        AssertionError: some did not.
    """
    path = os.pathsep.join(map(str, (site, project, Path(headwater.__file__).parents[1])))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", project, *arguments]
    environ = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)
    outcomes = {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", done.stdout.splitlines()[-1])}
    assert (done.returncode, set(outcomes) - {"deselected"}) == (0, {"passed"}), done.stdout + done.stderr
    return outcomes["passed"]
