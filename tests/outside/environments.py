"""Clean environments of Python, in which packages are installed and run."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Environment:
    """A clean virtual environment, and a folder to work in."""

    def __init__(self, folder: Path, *installed: str | Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=False)
        self.programs = folder / "venv" / "bin"
        self.install(*installed)

    def install(self, *what: str | Path) -> None:
        pip = [sys.executable, "-m", "pip", "--python", self.programs / "python", "install", "--quiet"]
        subprocess.run([*pip, "--disable-pip-version-check", *what], check=True)

    def run(self, program: str, *arguments: str | Path, code: int = 0, **variables: str | Path) -> str:
        """Run one of its programs in its folder; what it prints. Nothing of this environment is set there."""
        kept = {name: os.environ[name] for name in ("HOME", "PATH", "JAVA_HOME", "TZ") if name in os.environ}
        settings = {**kept, **{name: str(value) for name, value in variables.items()}}
        command = [self.programs / program, *arguments]
        done = subprocess.run(command, cwd=self.folder, env=settings, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr
