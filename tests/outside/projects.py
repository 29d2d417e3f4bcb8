"""Projects outside Headwater: folders with their own code and tests, run by a separate pytest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import headwater

_BLOCK = re.compile(r"^```\w+\n# (?P<file>[\w./-]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def write_out(page: Path, folder: Path) -> list[str]:
    """Write the code blocks of a page that begin with the name of a file; the names."""
    blocks = {block["file"]: block["text"] for block in _BLOCK.finditer(page.read_text())}
    for name, text in blocks.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return list(blocks)


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
