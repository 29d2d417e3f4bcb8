"""An installation contains the whole package."""

import doctest
import pkgutil
import re
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import headwater

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"


def extras():
    """What each extra of Headwater installs."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    own = re.compile(r"headwater\[([\w-]+)\]")
    names = {extra: {re.match(r"[\w.-]+", one)[0] for one in needs} for extra, needs in found.items()}
    return {
        extra: names[extra].union(*(names[each] for one in needs for each in own.findall(one)))
        for extra, needs in found.items()
    }


def texts(*patterns):
    return [file.read_text(encoding="utf-8") for pattern in patterns for file in ROOT.glob(pattern)]


def test_remedies_name_extras_that_exist():
    asked = re.compile(r"['\"](?:headwater|\.)\[([\w,-]+)\]['\"]")
    pages = texts("src/**/*.py", "*.md", "docs/**/*.md", "examples/*/pyproject.toml", "Makefile")
    named = {extra for text in pages for found in asked.findall(text) for extra in found.split(",")}
    assert {"delta", "jdk", "kafka", "testing", "web"} <= named <= set(extras())


def test_remedies_install_the_package_that_is_missing():
    given = extras()
    code = "\n".join(texts("src/**/*.py"))
    listed = "".join(re.findall(r"packages = MappingProxyType\((.+)\)", code))
    found = {*re.findall(r'"(\w+)": "([\w-]+)"', listed), *re.findall(r'require\("(\w+)", extra="([\w-]+)"', code)}
    assert {
        ("pyspark", "hudi"),
        ("confluent_kafka", "kafka"),
        ("deltalake", "delta-local"),
        ("matplotlib", "plot"),
    } <= found
    of_package = {"delta": "delta-spark"}
    assert not [each for each in found if of_package.get(each[0], each[0].replace("_", "-")) not in given[each[1]]]


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
