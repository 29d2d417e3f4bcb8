"""`headwater run` on a Spark cluster, directly and by spark-submit, each in its own process."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import frozen

from headwater import __main__ as command_line
from headwater.adapters.delta import package as delta
from headwater.testing.spark_cluster import SparkCluster, spark_cluster, spark_home
from tests.configurations import FILES, ranked_contracts

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.delta, pytest.mark.slow]

RECORDS = (
    '{"project": 1, "contract": 11, "signed": "2024-03-01T09:00:00Z"}\n'
    '{"project": 1, "contract": 12, "signed": "2024-03-01T08:00:00Z"}\n'
)
RANKED = [{"project": 1, "contract": 11, "rank": 2}, {"project": 1, "contract": 12, "rank": 1}]
LOGGED = re.compile(r"[0-9]{2}/[0-9]{2}/[0-9]{2} ")
FOR_WORKERS = ("_polars_runtime_32", "attr", "attrs", "msgspec", "narwhals", "polars", "pyarrow", "tzdata")
IMPATIENT = """
import sys
from headwater.adapters.spark import executors
from headwater.app.cli.main import main
executors._AT_LEAST = 5.0
sys.exit(main())
"""
SMALL = ("--conf", "spark.driver.memory=512m", "--conf", "spark.ui.showConsoleProgress=false")


@frozen
class Project:
    """A folder with a file to rank."""

    folder: Path

    def configure(self, **spark: str) -> str:
        """Write a configuration with settings of Spark; its path. Names have ``_`` for ``.``."""
        settings = "".join(f'"{name.replace("_", ".")}" = "{value}"\n' for name, value in spark.items())
        text = ranked_contracts(
            backend='name = "delta"\npath = "lake"\nengine = "spark"\n', source=f'{FILES}format = "json"\n'
        )
        config = self.folder / "deploy.toml"
        config.write_text(f"{text}\n[backend.spark]\n{settings}")
        return str(config)

    def run(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
        return subprocess.run(
            command, cwd=self.folder, env=inherited | environ, capture_output=True, text=True, check=False, timeout=300
        )


def _rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return sorted(({name: row[name] for name in RANKED[0]} for row in rows), key=lambda row: row["contract"])


def _program(done: subprocess.CompletedProcess[str]) -> str:
    """What a submitted program has printed."""
    return "".join(line for line in done.stdout.splitlines(keepends=True) if not LOGGED.match(line))


def _run(config: str) -> list[str]:
    return ["run", config, "--until-idle", "--show", "ranked.ranks", "--format", "jsonl"]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    landings = tmp_path / "in"
    landings.mkdir()
    (landings / "1.json").write_text(RECORDS)
    return Project(tmp_path)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def _python(home: Path, *packages: str) -> Path:
    """A Python environment that has some packages and no others."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    (site,) = home.glob("lib/python*/site-packages")
    for name in packages:
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        (site / name).symlink_to(Path(found.origin).parent)
    return home


@pytest.fixture
def workers(cluster: SparkCluster) -> Iterator[SparkCluster]:
    yield cluster
    cluster.stop()


def test_what_is_submitted_holds_and_what_cannot_be_changed_is_told(project: Project) -> None:
    config = project.configure(spark_driver_memory="700m", spark_sql_ansi_enabled="false")
    submit = [str(Path(spark_home(), "bin", "spark-submit")), "--master", "local[1]", *SMALL]
    packages = ["--packages", ",".join(delta.PACKAGES)]
    script = project.folder / "submitted.py"
    script.write_text(
        "import sys\nfrom pyspark import SparkContext\nfrom headwater import Headwater\n"
        "import logging; logging.basicConfig(format='%(message)s')\n"
        "with Headwater.from_config(sys.argv[1]) as headwater:\n"
        "    headwater.run(until_idle=True)\n"
        "    conf = SparkContext._active_spark_context.getConf()\n"
        "    names = ['spark.master', 'spark.driver.memory', 'spark.sql.shuffle.partitions', 'spark.ui.enabled']\n"
        "    print(*(conf.get(name) for name in names))\n"
        "    print(len(headwater.view('ranked.ranks').collect()))\n"
    )
    more = ["--conf", "spark.sql.shuffle.partitions=3", "--conf", "spark.ui.enabled=true", "--conf", "spark.ui.port=0"]
    done = project.run(*submit, *packages, *more, str(script), config, PYSPARK_DRIVER_PYTHON=sys.executable)
    # spark-submit passes all that a program writes to its standard output, among the log lines of Spark.
    assert "local[1] 512m 3 true\n2\n" in _program(done), done.stderr[-3000:]
    assert "backend.spark: spark.driver.memory = 700m is not used" in done.stdout + done.stderr
    without = project.run(*submit, str(command_line.__file__), *_run(config), PYSPARK_DRIVER_PYTHON=sys.executable)
    assert without.returncode == 1
    assert f"start it with --packages {delta.PACKAGES[0]}" in without.stdout + without.stderr


def test_workers_are_sent_all_but_a_few_packages(project: Project, workers: SparkCluster, tmp_path: Path) -> None:
    config = project.configure(spark_master=workers.master, spark_driver_memory="512m")
    workers.add_worker("bare", _python(tmp_path / "bare", *(name for name in FOR_WORKERS if name != "msgspec")))
    done = project.run(sys.executable, "-m", "headwater", *_run(config))
    assert done.returncode == 1
    assert "its Python has no msgspec." in done.stderr
    assert "pip install attrs msgspec narwhals polars pyarrow tzdata" in done.stderr
    assert "Traceback" not in done.stderr.split("headwater: ")[-1]
    workers.stop()
    workers.add_worker("equipped", _python(tmp_path / "equipped", *FOR_WORKERS))
    assert _rows(project.run(sys.executable, "-m", "headwater", *_run(config))) == RANKED
    assert workers.executors("equipped") > 0


def test_a_cluster_without_executors_says_why(project: Project, workers: SparkCluster) -> None:
    config = project.configure(spark_master=workers.master, spark_driver_memory="512m", spark_executor_memory="3g")
    done = project.run(sys.executable, "-c", IMPATIENT, *_run(config))
    assert done.returncode == 1
    assert f"no executor has come from {workers.master} within 5 s" in done.stderr
    assert "the master has no worker that is alive" in done.stderr
    workers.add_worker("small")
    done = project.run(sys.executable, "-c", IMPATIENT, *_run(config))
    assert "an executor asks for 1 core and 3072 MiB (spark.executor.cores, spark.executor.memory)" in done.stderr
    assert "no worker has as much left: 127.0.0.1 has 1 core and 1024 MiB" in done.stderr
    # An address that nobody answers at: executors start, and end when they do not reach the driver.
    config = project.configure(
        spark_master=workers.master, spark_driver_memory="512m", spark_driver_host="192.0.2.77",
        spark_driver_bindAddress="127.0.0.1", spark_network_timeout="3s", spark_network_timeoutInterval="3s",
        spark_executor_heartbeatInterval="1s",
    )  # fmt: skip
    done = project.run(sys.executable, "-c", IMPATIENT, *_run(config))
    assert done.returncode == 1
    assert re.search(r"executors were started, and none has answered|ended this application", done.stderr)
    assert re.search(r"Executors must reach the driver at 192\.0\.2\.77:\d+ \(spark\.driver\.host\)", done.stderr)
