"""The files of examples/deploy: checked, and run by Airflow and Dagster, each in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path, PurePosixPath

import pytest

from headwater.app.cli.main import main

from .environments import Environment

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
ORDERS = (
    '{"op": "+I", "order_id": 1, "state": "open", "amount": "5.00", "changed_at": "2024-03-01T09:00:00Z"}\n'
    '{"op": "+I", "order_id": 2, "state": "open", "amount": "6.00", "changed_at": "2024-03-01T09:01:00Z"}\n'
    '{"op": "+I", "order_id": 3, "state": "open", "amount": "7.00", "changed_at": "2024-03-01T09:01:30Z"}\n'
    '{"op": "-U", "order_id": 3, "state": "open", "amount": "7.00", "changed_at": "2024-03-01T09:01:30Z"}\n'
    '{"op": "+U", "order_id": 3, "state": "paid", "amount": "7.00", "changed_at": "2024-03-01T09:02:00Z"}\n'
)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "headwater.service").read_text()
    (tmp_path / "headwater.service").write_text(unit.replace("/opt/headwater/bin/headwater", sys.executable))
    command = ["systemd-analyze", "verify", tmp_path / "headwater.service"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_unit_may_write_the_tables_of_the_deployment() -> None:
    unit = ConfigParser(interpolation=None)
    unit.read(DEPLOY / "headwater.service")
    config = PurePosixPath(unit["Service"]["ExecStart"].split()[2])
    backend = tomllib.loads((DEPLOY / config.name).read_text())["backend"]
    assert (config.parent / backend["path"]).parent == PurePosixPath("/var/lib") / unit["Service"]["StateDirectory"]


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


def test_an_order_that_changes_counts_once(deployment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("deltalake")
    run = ("run", str(deployment / "deploy.toml"), "--until-idle", "--show", "order_states", "--format", "csv")
    assert main(run) == 0
    assert capsys.readouterr().out.splitlines() == ["state,orders,amount", "open,2,11.00", "paid,1,7.00"]


@pytest.mark.slow
def test_dagster_runs_the_assets(deployment: Path) -> None:
    clean = Environment(deployment, f"{ROOT}[delta-local]", "dagster")
    (deployment / "home").mkdir()
    variables = {"DAGSTER_HOME": deployment / "home", "HEADWATER_CONFIG": deployment / "deploy.toml"}
    command = ("asset", "materialize", "-f", "dagster_definitions.py", "--select", "*")
    printed = clean.run("dagster", *command, **variables)
    assert "{'open': 2, 'paid': 1}" in printed or "{'paid': 1, 'open': 2}" in printed


@pytest.mark.slow
def test_airflow_runs_the_dag(deployment: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "dags").mkdir(parents=True)
    shutil.copy(deployment / "airflow_dag.py", tmp_path / "home" / "dags")
    own, airflow = Environment(deployment, f"{ROOT}[delta-local]"), Environment(tmp_path, "apache-airflow>=3,<4")
    variables = {
        "AIRFLOW_HOME": tmp_path / "home",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "HEADWATER": own.programs / "headwater",
        "HEADWATER_CONFIG": deployment / "deploy.toml",
        "PATH": f"{airflow.programs}:{os.environ['PATH']}",
    }
    airflow.run("airflow", "db", "migrate", **variables)
    printed = airflow.run("airflow", "dags", "test", "headwater_orders", **variables)
    assert "Returned value was: {'open': 2, 'paid': 1}" in printed
    shown = own.run("headwater", "show", "deploy.toml", "order_states", "--format", "csv")
    assert shown.splitlines()[1:] == ["open,2,11.00", "paid,1,7.00"]
