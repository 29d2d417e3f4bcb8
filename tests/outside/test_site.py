"""The site of the documentation is built as `make site` builds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", site, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_no_link_leads_nowhere_and_nothing_is_fetched(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert done.returncode == 0, done.stderr
    pages = {each.relative_to(tmp_path): each.read_text() for each in tmp_path.rglob("*.html")}
    front = pages[Path("index.html")]
    fetched = [line for text in pages.values() for line in text.splitlines() if "http" in line and "src=" in line]
    assert (fetched, "fonts.googleapis" in front) == ([], False)
    assert 'id="headwater.Headwater.ranking"' in pages[Path("api.html")]
    assert 'href="checkout/features/versions.feature.html"' in pages[Path("when-to-use.html")]
    assert "Scenario" in pages[Path("checkout/features/versions.feature.html")]
