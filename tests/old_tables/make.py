"""Write the folder of an old version, to be opened by each later one: ``python -m tests.old_tables.make COMMIT NAME``.

COMMIT is checked out and installed in an environment of its own; its ``headwater run`` reads what arrives before, epoch
by epoch, and NAME-delta.tar.xz and NAME-hudi-mor.tar.xz are written beside this file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from . import arrivals

HERE = Path(__file__).parent
BACKENDS = ("delta", "hudi-mor")


def main(commit: str, name: str) -> None:
    """Write the folders of a commit, one a backend."""
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        headwater = _install(commit, scratch)
        for backend in BACKENDS:
            folder = scratch / backend
            folder.mkdir()
            _fill(headwater, folder, backend)
            with tarfile.open(HERE / f"{name}-{backend}.tar.xz", "w:xz") as packed:
                packed.add(folder, arcname=".")


def _install(commit: str, scratch: Path) -> Path:
    checkout, environment = scratch / "checkout", scratch / "environment"
    subprocess.run(["git", "clone", "--quiet", str(HERE.parents[1]), str(checkout)], check=True)
    subprocess.run(["git", "-C", str(checkout), "checkout", "--quiet", commit], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, f"{checkout}[delta,hudi]"], check=True)
    return environment / "bin" / "headwater"


def _fill(headwater: Path, folder: Path, backend: str) -> None:
    shutil.copy(HERE / "deployment.toml", folder)
    chosen = {"HEADWATER_BACKEND__NAME": backend, "HEADWATER_BACKEND__PATH": "tables"}
    for number, rows in enumerate(arrivals.BEFORE):
        arrivals.write(folder, number, rows)
        command = [str(headwater), "run", "deployment.toml", "--until-idle"]
        subprocess.run(command, cwd=folder, env={**os.environ, **chosen}, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
