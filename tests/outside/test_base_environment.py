"""What `make quick` collects imports only what it installs: the base packages and those of tests."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_THERE = ("pyspark", "delta", "deltalake", "confluent_kafka", "matplotlib", "mypy")
BLOCKER = f"import sys\n\nsys.modules.update(dict.fromkeys({NOT_THERE}))\n"


def _lines_joined(makefile):
    return makefile.replace("\\\n", "")


def _paths(fast):
    """The folders of the list, and the files that each `patsubst` makes."""
    made = re.findall(r"\$\(patsubst %,([^,]+),([^)]+)\)", fast)
    folders = re.sub(r"\$\(patsubst [^)]+\)", "", fast)
    return [*folders.split(), *(pattern.replace("%", name) for pattern, names in made for name in names.split())]


def test_quick_tests_are_collected_without_extras(tmp_path):
    (tmp_path / "without_extras.py").write_text(BLOCKER)
    fast = re.search(r"^FAST := (.+)$", _lines_joined((ROOT / "Makefile").read_text()), re.MULTILINE)
    assert fast is not None
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "without_extras", "--collect-only", "-q", *_paths(fast[1])],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
