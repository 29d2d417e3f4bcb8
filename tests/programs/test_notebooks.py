"""The notebooks run from their first cell to their last; each compares its result with a batch computation."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from headwater.adapters.spark.java import java_home

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
CORE = [pytest.mark.core]
MARKS = {"ranking": CORE, "shop": CORE, "spark_job": [pytest.mark.delta]}
OTHERS = {"shop", "spark_job", "weather"}
SERVICES = {"ranking", "retraction", "cumulate", "wide_table", "snapshots", "bulk_merge", "materialized_view"}


def test_there_is_one_for_each_service() -> None:
    assert {each.stem for each in NOTEBOOKS} == SERVICES | OTHERS


@pytest.mark.example
@pytest.mark.parametrize(
    "notebook",
    [pytest.param(each, id=each.stem, marks=MARKS.get(each.stem, [])) for each in NOTEBOOKS],
)
def test_it_runs(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if notebook.stem == "spark_job":
        monkeypatch.setenv("JAVA_HOME", java_home())
    book = nbformat.read(notebook, as_version=4)
    checks = [cell for cell in book.cells if cell.cell_type == "code" and "assert" in cell.source]
    assert checks
    # In the folder of the checkout, where a reader starts Jupyter.
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    assert all(cell.execution_count for cell in book.cells if cell.cell_type == "code")
