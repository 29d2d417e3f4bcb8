"""An installation contains the whole package."""

import doctest
import pkgutil
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import headwater

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"


def as_installed(file):
    return str("headwater" / file.relative_to(SRC))


def test_every_package_is_listed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {as_installed(file.parent).replace("/", ".") for file in SRC.rglob("*.py")}
    assert set(listed) == folders


@pytest.mark.slow
def test_a_wheel_holds_every_module(tmp_path):
    # Built from a copy: setuptools leaves a build folder behind, which would feed the next wheel.
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path / "dist", tmp_path]
    subprocess.run(command, check=True)
    (wheel,) = (tmp_path / "dist").glob("headwater-*.whl")
    with zipfile.ZipFile(wheel) as content:
        assert {as_installed(file) for file in [*SRC.rglob("*.py"), SRC / "py.typed", *SRC.rglob("page.*")]} <= set(
            content.namelist()
        )


def test_built_in_backends_are_entry_points():
    backends = {entry.name: entry.load() for entry in entry_points(group="headwater.backends")}
    needing = {name for name, backend in backends.items() if backend.needs_path}
    assert (needing, set(backends) - needing) == ({"delta", "hudi-mor", "hudi-cow"}, {"memory"})


def modules_with_examples():
    for found in pkgutil.walk_packages(headwater.__path__, "headwater."):
        name = found.name.removeprefix("headwater.").replace(".", "/")
        file = SRC / name / "__init__.py" if found.ispkg else SRC / f"{name}.py"
        if ">>> " in file.read_text(encoding="utf-8"):
            yield found.name


@pytest.mark.parametrize("module", list(modules_with_examples()))
def test_examples_in_docstrings_hold(module):
    results = doctest.testmod(pytest.importorskip(module))
    assert results.attempted
    assert not results.failed
