"""Whether Spark works on this machine, from settings and environment alone; nothing here starts Spark."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from headwater.adapters.spark import place

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def conf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of spark-defaults.conf; no Spark runs in the process."""
    for name in ("PYSPARK_SUBMIT_ARGS", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "here"),
    [
        ({}, True),
        ({"spark.master": "local[2]", "spark.driver.memory": "2g"}, True),
        ({"spark.master": "spark://127.0.0.1:7077"}, False),
        ({"spark.master": "yarn"}, False),
        ({"spark.hadoop.fs.defaultFS": "hdfs://name:8020"}, False),
    ],
    ids=str,
)
def test_settings(settings: dict[str, str], *, here: bool) -> None:
    assert place.works_here(settings) is here


@pytest.mark.parametrize("name", ["HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_GATEWAY_PORT"])
def test_the_environment_of_a_cluster(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "x")
    assert not place.works_here({})


def test_settings_from_elsewhere(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (conf / "spark-defaults.conf").write_text("spark.master yarn\n")
    assert not place.works_here({})
    assert place.works_here({"spark.master": "local"})
    (conf / "spark-defaults.conf").unlink()
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master yarn pyspark-shell")
    assert not place.works_here({})
