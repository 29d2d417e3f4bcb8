"""SQL means the same with the first and the last version of sqlglot that Headwater allows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRIED = (
    "tests/unit/domain/sql",
    "tests/unit/domain/service/materialized_view",
    "tests/contract/test_memory.py",
    "tests/reading/test_streaming_sql.py",
    "tests/cli/test_explain.py",
)


def bounds() -> tuple[str, str]:
    """The versions that pip is asked for: the first, and the last."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (asked,) = (each for each in declared if each.startswith("sqlglot"))
    found = re.fullmatch(r"sqlglot>=(?P<first>[\d.]+),(?P<last><[\d.]+)", asked)
    assert found, f"{asked} needs both bounds"
    return f"=={found['first']}", found["last"]


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1], ids=["first", "last"])
def test_sql_means_the_same(tmp_path: Path, which: int) -> None:
    site = tmp_path / "site"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        site,
        f"sqlglot{bounds()[which]}",
    ]
    subprocess.run(pip, check=True)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    origin = [sys.executable, "-c", "import sqlglot; print(sqlglot.__file__)"]
    assert subprocess.run(origin, env=environ, capture_output=True, text=True, check=True).stdout.startswith(str(site))
    # Only what SQL has a part in; stores know none.
    chosen = ["-m", "not delta and not hudi and not slow", "-k", "not Store"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *TRIED, *chosen]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
