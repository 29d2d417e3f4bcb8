"""What is built installs into a clean environment: without extras, with each of them, and in place."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .environments import Environment
from .projects import blocks

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
DEPLOYMENT = """
[backend]
name = "{backend}"
{settings}
[sources.visits]
kind = "files"
path = "in"
schema = "page string, visit bigint, at timestamp"
event_time = "at"
[pipelines.ranks]
service = "ranking"
source = "visits"
group = ["page"]
id = ["visit"]
order_by = "at"
[pipelines.pages]
service = "materialized_view"
inputs = {{ ranks = "ranks" }}
key = ["page"]
sql = "SELECT page, count(*) AS n FROM ranks GROUP BY page"
"""
IMPORT_ALL = """
import sys
from importlib.metadata import packages_distributions

for wanted in sys.argv[1:]:
    known = {name.lower().replace("_", "-"): [] for names in packages_distributions().values() for name in names}
    for module, names in packages_distributions().items():
        for name in names:
            known[name.lower().replace("_", "-")].append(module)
    for module in known[wanted]:
        if module.isidentifier() and not module.startswith("_"):
            __import__(module)
"""
READ_TYPES = """
from headwater.adapters.kafka.protobuf_schema import _built_in

assert all(map(_built_in, ("google/protobuf/struct.proto", "google/type/date.proto", "google/type/decimal.proto")))
"""
JAVA = "from headwater.adapters.spark.java import java_home; print(java_home())"
PROGRAM = """
from headwater import Headwater

hw = Headwater(backend="memory")
visits = hw.files("visits", "in", schema="page string, visit bigint, at timestamp", event_time="at")
hw.ranking("ranks", source=visits, group=["page"], id=["visit"], order_by="at")
reveal_type(hw.status())
hw.ranking("again", source=visits, group=["page"], id=["visit"], order_by="at", metod="dense_rank")
"""


def run_pipelines(clean: Environment, backend: str, settings: str = "") -> None:
    (clean.folder / "in").mkdir()
    (clean.folder / "in" / "a.json").write_text('{"page": "a", "visit": 1, "at": "2024-03-01T09:00:00Z"}\n')
    (clean.folder / "deploy.toml").write_text(DEPLOYMENT.format(backend=backend, settings=settings))
    shown = clean.run("headwater", "run", "deploy.toml", "--until-idle", "--show", "ranks", "pages")
    assert "a         1  2024-03-01T09:00:00Z     1" in shown
    assert "a     1" in shown.splitlines()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel, which is built from the source distribution, and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True, capture_output=True)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "source": source}


def test_a_wheel_holds_every_module(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as content:
        names = set(content.namelist())
    wanted = [*SRC.rglob("*.py"), SRC / "py.typed", *SRC.rglob("page.*")]
    assert {str("headwater" / file.relative_to(SRC)) for file in wanted} <= names
    assert all(name.startswith(("headwater/", "headwater-")) for name in names)


def test_links_of_the_project_page_lead_somewhere(built: dict[str, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(built["wheel"]) as content:
        (metadata,) = (name for name in content.namelist() if name.endswith(".dist-info/METADATA"))
        about = message_from_bytes(content.read(metadata))
    with tarfile.open(built["source"]) as content:
        files = {name.partition("/")[2] for name in content.getnames()}
    page = tmp_path / "page.md"
    page.write_text(about.get_payload())
    assert about["Description-Content-Type"] == "text/markdown"
    assert list(blocks(page, "toml", "sh", "python")) == list(blocks(ROOT / "README.md", "toml", "sh", "python"))
    assert [link for link in re.findall(r"\]\(([^)]*)\)", page.read_text()) if "://" not in link] == []
    links = re.findall(r"(?<!!)\[[^\]]+\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text())
    assert len(links) > 20
    assert set(links) <= files
    assert all(f"({link})" in page.read_text() for link in links if link != "LICENSE")


@pytest.mark.parametrize("kind", ["wheel", "source"])
def test_without_extras_it_runs_on_memory(built: dict[str, Path], tmp_path: Path, kind: str) -> None:
    clean = Environment(tmp_path, built[kind])
    assert clean.run("python", "-c", "import headwater; print(headwater.__version__)").strip() in built[kind].name
    assert clean.run("headwater", "--help").startswith("Usage: headwater ")
    run_pipelines(clean, "memory")


def run_locally(clean: Environment) -> None:
    run_pipelines(clean, "delta", 'path = "lake"\nengine = "local"')


def run_locally_without_spark(clean: Environment) -> None:
    clean.run("python", "-c", "import pyspark", code=1)
    run_locally(clean)


def run_outside_tests(clean: Environment) -> None:
    project = shutil.copytree(ROOT / "examples" / "latest_service", clean.folder / "project")
    clean.install(project)
    assert " passed" in clean.run("python", "-m", "pytest", "-q", project)


USES: dict[str, Callable[[Environment], object]] = {
    "delta": run_locally,
    "delta-local": run_locally_without_spark,
    # There is no other Java: neither on the path nor named.
    "jdk": lambda clean: clean.run("python", "-c", JAVA, PATH="", JAVA_HOME=""),
    "kafka": lambda clean: clean.run("python", "-c", "import headwater.adapters.kafka.broker"),
    "plot": lambda clean: clean.run("python", "-c", "import headwater.adapters.plot.files"),
    "protobuf": lambda clean: clean.run("python", "-c", READ_TYPES),
    "testing": run_outside_tests,
    "web": lambda clean: clean.run("python", "-c", "import headwater.app.serve.web"),
}


@pytest.mark.parametrize("extra", EXTRAS)
def test_each_extra_is_enough(built: dict[str, Path], tmp_path: Path, extra: str) -> None:
    clean = Environment(tmp_path, f"{built['wheel']}[{extra}]")
    named = [re.split(r"[^\w.-]", requirement)[0].lower() for requirement in EXTRAS[extra]]
    clean.run("python", "-c", IMPORT_ALL, *named)
    if use := USES.get(extra):
        use(clean)


@pytest.mark.parametrize("how", ["wheel", "in place"])
def test_type_checkers_follow_an_install(built: dict[str, Path], tmp_path: Path, how: str) -> None:
    clean = Environment(tmp_path, "mypy", *([built["wheel"]] if how == "wheel" else ["--editable", ROOT]))
    (tmp_path / "program.py").write_text(PROGRAM)
    printed = clean.run("mypy", "--strict", "program.py", code=1)
    assert '"headwater.app.api.status.StatusTable"' in printed
    assert 'Unexpected keyword argument "metod"' in printed
    assert "Found 1 error in 1 file" in printed
    shutil.copy(ROOT / "examples" / "shop" / "shop.py", tmp_path)
    assert "no issues found" in clean.run("mypy", "--strict", "shop.py")
