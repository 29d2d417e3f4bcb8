"""No module imports itself through others, imports for type checkers included."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import headwater

SRC = Path(headwater.__file__).parent


def name_of(file):
    parts = file.relative_to(SRC).with_suffix("").parts
    return ".".join(("headwater", *parts)).removesuffix(".__init__")


def imported(file, modules):
    """The modules that a file imports."""
    package = name_of(file).split(".") if file.name == "__init__.py" else name_of(file).split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            yield from (
                f"{module}.{each.name}" if f"{module}.{each.name}" in modules else module for each in node.names
            )


def check(graph):
    TopologicalSorter(graph).prepare()


def test_there_is_no_circle_of_imports():
    modules = {name_of(file): file for file in SRC.rglob("*.py")}
    graph = {name: {each for each in imported(file, modules) if each != name} for name, file in modules.items()}
    assert "headwater.domain.errors" in graph["headwater.app.api.headwater"]
    check(graph)


def test_a_circle_would_be_found():
    with pytest.raises(CycleError):
        check({"a": {"b"}, "b": {"c"}, "c": {"a"}})
