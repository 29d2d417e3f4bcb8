"""Six pipelines in a file, in a program and in a notebook: the same results, in the lines that the docs tell."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import nbformat
import polars as pl
import pytest

from headwater import Headwater

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "shop"
NOTEBOOK = ROOT / "examples" / "notebooks" / "shop.ipynb"
EXPECTED = {
    "order_rank": 7,
    "order_states": 1,
    "articles.rows": 2,
    "worth.worth": 2,
    "customers.rows": 3,
    "today.curve": 58,
}
"""The number of rows in each view."""


def test_the_program_computes_what_the_file_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SHOP)
    program = runpy.run_path("shop.py")["hw"]
    with Headwater.from_config("shop.toml") as file:
        file.run(until_idle=True)
        for view, count in EXPECTED.items():
            ours, theirs = (each.view(view).sort(pl.all()) for each in (program, file))
            assert ours.height == count, view
            assert ours.equals(theirs), view
    program.close()


@pytest.mark.parametrize("path", [SHOP / "shop.toml", SHOP / "shop.py", NOTEBOOK], ids=lambda path: path.suffix)
def test_the_docs_tell_its_lines(path: Path) -> None:
    """Lines that are neither empty nor a comment; of the notebook, those of its code."""
    if path == NOTEBOOK:
        text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    else:
        text = path.read_text()
    count = len(re.findall(r"^\s*[^\s#]", text, re.MULTILINE))
    page = (ROOT / "docs" / "programs.md").read_text()
    assert f"[{path.name}](../{path.relative_to(ROOT)}) | {count} |" in page, count
