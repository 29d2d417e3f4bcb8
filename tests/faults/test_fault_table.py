"""The table of survived faults: it lists the fault tests, and a run fills it in."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fault_table import entered

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "faults.md"


def test_the_page_has_every_fault_test_there_is(tmp_path):
    pytest.importorskip("pyspark", reason="fault tests of Spark's backends cannot be collected")
    listed = tmp_path / "listed.md"
    suite = ["tests/faults", "features", "-m", "faults", "--collect-only", "-q", "--faults-table", str(listed)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *suite], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert entered(PAGE.read_text()) == entered(listed.read_text()), "run make faults"


def test_nothing_on_the_page_has_failed():
    assert "FAILED" not in PAGE.read_text()
