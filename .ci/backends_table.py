"""Write docs/backends.md: what each backend offers, from the gaps that the backends declare."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.app.registry.backends import GROUP, Part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headwater.app.registry.backends import Backend

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "backends.md"
INTRODUCTION = """\
# What each backend offers

This page shows which parts of Headwater each backend lacks. `make docs` writes it from the gaps that the backends
declare (`Backend.gaps`). All backends offer everything else in the same way; the [contract suite](adding-a-backend.md)
checks it. A missing part raises `NotSupported`; it is never done in another way.

"""


def shipped() -> dict[str, type[Backend]]:
    """The backends of this package, by name."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    return {name: EntryPoint(name, target, GROUP).load() for name, target in sorted(declared.items())}


def page(backends: Mapping[str, type[Backend]]) -> str:
    """The page, whole."""
    return INTRODUCTION + "\n".join([*_table(backends), "", *_remedies(backends)]) + "\n"


def _table(backends: Mapping[str, type[Backend]]) -> Iterator[str]:
    yield f"| | {' | '.join(backends)} |"
    yield "|---" * (len(backends) + 1) + "|"
    for part in Part:
        offered = ("yes" if backend.offers(part) else "no" for backend in backends.values())
        yield f"| {part.value} | {' | '.join(offered)} |"


def _remedies(backends: Mapping[str, type[Backend]]) -> Iterator[str]:
    for name, backend in backends.items():
        for gap in backend.gaps:
            yield f"- **{name}**, {gap.part.value}: {gap.remedy}."


if __name__ == "__main__":
    PAGE.write_text(page(shipped()))
