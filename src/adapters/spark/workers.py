"""Equips Python workers: sends them this package, and names the packages that must be installed there."""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import sys
import zipfile
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from ...domain.errors import BadInput, ConfigError, HeadwaterError, NotInstalled, SourceChanged, SourceUnavailable
from .master import is_local, master_of
from .start_settings import DAEMON, MASTER, WORKER_PYTHON

if TYPE_CHECKING:
    from pyspark import SparkContext

WORKER_PACKAGES = ("attrs", "msgspec", "narwhals", "polars", "pyarrow", "tzdata")
"""The packages that a worker's Python must have; PySpark comes with Spark itself."""

_PACKAGE = Path(__file__).parents[2]
_NAME = __package__.split(".", 1)[0]
_NOT_FOR_WORKERS = frozenset({"app", "testing"})
_ROOT = '"""Headwater, as far as workers need it."""\n'
_ENVIRONMENT = "PYSPARK_PYTHON"
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_UNFIT = re.compile(r"\bImportError: ([^\n]+)")
_ERRORS: dict[str, type[HeadwaterError]] = {
    each.__name__: each for each in (BadInput, ConfigError, SourceChanged, SourceUnavailable)
}
_RAISED = re.compile(rf"^[\w.]+\.errors\.({'|'.join(_ERRORS)}): ([^\n]+)", re.MULTILINE)
_VERSIONS = re.compile(r"Python in worker has different version:? \(?([\d., ]+)\)? than that in driver:? ([\d.]+)")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_WHERE = re.compile(r"\((\S+ executor \S+)\)")


def choose_python(settings: dict[str, str]) -> dict[str, str]:
    """Choose the workers' Python: from the settings, else from ``PYSPARK_PYTHON``, else a default.

    With a local master that is this process's Python. In a cluster nobody knows its path, so Spark's own default
    applies: the first ``python3`` on a worker's PATH.

    Returns:
        Further default settings for this choice.
    """
    local = is_local(settings[MASTER])
    if named := settings.get(WORKER_PYTHON):  # PySpark reads this setting itself only under spark-submit
        os.environ[_ENVIRONMENT] = named
    elif local:
        os.environ.setdefault(_ENVIRONMENT, sys.executable)
    ours = local and os.environ[_ENVIRONMENT] == sys.executable
    return {DAEMON: f"{__package__}.worker_daemon"} if ours else {}


def send_package(context: SparkContext) -> None:
    """Send this package to the workers, unless they run this process's Python, which has it."""
    if is_local(master_of(context)) and context.pythonExec == sys.executable:
        return
    if _PACKAGE.is_dir():  # else it came as an archive, with the program
        context.addPyFile(str(_archive()))


def read_error(text: str) -> HeadwaterError | None:
    """The error that a worker raised because of a source that it reads; None if there is none in a text."""
    found = _RAISED.search(text)
    return _ERRORS[found[1]](found[2]) if found else None


def explain(text: str) -> NotInstalled | None:
    """The error for a worker that cannot run Headwater's functions; None for any other exception.

    Args:
        text: a Spark exception with its causes.
    """
    if found := _NO_PROGRAM.search(text):
        return _unfit(text, f"there is no Python at {found[1]}")
    if found := _VERSIONS.search(text):
        return _unfit(text, f"it runs Python {found[1].replace(', ', '.')}, the driver Python {found[2]}")
    if found := _MISSING.search(text):
        return _unfit(text, f"its Python has no {found[1]}")
    if found := _UNFIT.search(text):
        return _unfit(text, f"its Python says {found[1].rstrip('.')!r}")
    return None


def _unfit(text: str, reason: str) -> NotInstalled:
    where = f" ({found[1]})" if (found := _WHERE.search(text)) else ""
    driver = ".".join(map(str, sys.version_info[:2]))
    return NotInstalled(
        f"a Python worker of Spark{where} cannot read records: {reason}. Workers run"
        f" {os.environ.get(_ENVIRONMENT, 'python3')!r}; let {WORKER_PYTHON} or {_ENVIRONMENT} name a Python {driver}"
        f" that each of them has, with: pip install {' '.join(WORKER_PACKAGES)}"
    )


@cache
def _archive() -> Path:
    """This package as a zip file named by its content: a session accepts one file per name, from one place."""
    sources = {
        path.relative_to(_PACKAGE).as_posix(): path.read_bytes()
        for path in sorted(_PACKAGE.rglob("*.py"))
        if path.relative_to(_PACKAGE).parts[0] not in _NOT_FOR_WORKERS
    }
    # The real root module imports everything that a driver needs.
    sources["__init__.py"] = _ROOT.encode()
    named = hashlib.sha256(repr(sorted(sources.items())).encode()).hexdigest()[:16]
    folder = mkdtemp(prefix=_NAME)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, f"{_NAME}-{named}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sources.items():
            archive.writestr(f"{_NAME}/{name}", source)
    return path
