"""The files of examples/deploy: checked, and run by Airflow and Dagster, each in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.app.cli.main import main

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
ORDERS = (
    '{"order_id": 1, "state": "open", "amount": "5.00", "ordered_at": "2024-03-01T09:00:00Z"}\n'
    '{"order_id": 2, "state": "open", "amount": "6.00", "ordered_at": "2024-03-01T09:01:00Z"}\n'
    '{"order_id": 3, "state": "paid", "amount": "7.00", "ordered_at": "2024-03-01T09:02:00Z"}\n'
)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "headwater.service").read_text()
    (tmp_path / "headwater.service").write_text(unit.replace("/opt/headwater/bin/headwater", sys.executable))
    command = ["systemd-analyze", "verify", tmp_path / "headwater.service"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_deployment_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("deltalake")
    assert main(["check", str(DEPLOY / "deploy.toml")]) == 0
    assert "order_states" in capsys.readouterr().out


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    """A copy of the example with some input."""
    folder = shutil.copytree(DEPLOY, tmp_path / "deploy")
    (folder / "in").mkdir()
    (folder / "in" / "a.json").write_text(ORDERS)
    return folder


def environment(folder: Path, *packages: str) -> Path:
    """Install packages from PyPI into an environment of its own; its programs."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    command = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    subprocess.run(command, check=True)
    return folder / "bin"


def headwater(folder: Path) -> str:
    """A copy of the project to install: setuptools leaves a build folder behind."""
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    return str(folder)


def run(*command: str | Path, folder: Path, **variables: str | Path) -> str:
    """Run a command where nothing of this environment is set up; what it prints."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    settings = {**kept, **{name: str(value) for name, value in variables.items()}}
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_dagster_runs_the_assets(deployment: Path, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    programs = environment(tmp_path / "venv", headwater(tmp_path / "project"), "deltalake", "dagster")
    (tmp_path / "home").mkdir()
    variables = {"DAGSTER_HOME": tmp_path / "home", "HEADWATER_CONFIG": deployment / "deploy.toml"}
    command = (programs / "dagster", "asset", "materialize", "-f", "dagster_definitions.py", "--select", "*")
    told = run(*command, folder=deployment, **variables)
    assert "{'open': 2, 'paid': 1}" in told or "{'paid': 1, 'open': 2}" in told


@pytest.mark.slow
def test_airflow_runs_the_dag(deployment: Path, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "home" / "dags").mkdir(parents=True)
    shutil.copy(deployment / "airflow_dag.py", tmp_path / "home" / "dags")
    installed = environment(tmp_path / "venv", headwater(tmp_path / "project"), "deltalake")
    programs = environment(tmp_path / "airflow", "apache-airflow>=3,<4")
    variables = {
        "AIRFLOW_HOME": tmp_path / "home",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "HEADWATER": installed / "headwater",
        "HEADWATER_CONFIG": deployment / "deploy.toml",
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    run(programs / "airflow", "db", "migrate", folder=deployment, **variables)
    told = run(programs / "airflow", "dags", "test", "headwater_orders", folder=deployment, **variables)
    assert "Returned value was: {'open': 2, 'paid': 1}" in told
    shown = run(installed / "headwater", "show", "deploy.toml", "order_states", "--format", "csv", folder=deployment)
    assert shown.splitlines()[1:] == ["open,2,11.00", "paid,1,7.00"]
