"""The site of the documentation is built as `make site` builds it."""

from __future__ import annotations

import json
import os
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


@pytest.mark.slow
def test_each_version_keeps_its_docs_and_readers_choose(tmp_path: Path) -> None:
    clone, there = tmp_path / "clone", Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{there}{os.pathsep}{os.environ['PATH']}"}  # mike calls mkdocs

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    for name, value in (("user.name", "Test"), ("user.email", "test@localhost")):
        run("git", "config", name, value)
    run("mike", "deploy", "--update-aliases", "0.1", "latest")
    (clone / "docs" / "index.md").write_text("# Another front page\n")
    run("mike", "deploy", "dev")
    run("mike", "set-default", "latest")
    versions = json.loads(run("git", "show", "gh-pages:versions.json"))
    assert [(each["version"], each["aliases"]) for each in versions] == [("dev", []), ("0.1", ["latest"])]
    old, new = (run("git", "show", f"gh-pages:{name}/index.html") for name in ("0.1", "dev"))
    assert ("Another front page" in new, "Another front page" in old) == (True, False)
    assert all('"version":{"default":"latest","provider":"mike"}' in page.replace(" ", "") for page in (old, new))
    assert "latest/" in run("git", "show", "gh-pages:index.html")
