"""Settings that Spark was not started with."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headwater.adapters.spark.own_session import _warn_if_late


@pytest.mark.parametrize("name", ["spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"])
def test_java_options_before_which_spark_has_put_its_own_are_in_use(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    wanted, there = {name: "-XX:+UseSerialGC"}, "--add-opens=java.base/java.nio=ALL-UNNAMED -XX:+UseSerialGC"
    with caplog.at_level(logging.WARNING):
        _warn_if_late(wanted, {name: there})
        assert not caplog.text
        for other in ({name: "-XX:+UseG1GC"}, {name: "-D-XX:+UseSerialGC"}, {}):
            _warn_if_late(wanted, other)
        assert caplog.text.count(name) == 3


@pytest.mark.parametrize("folder", ["/data/w", "/data/w/", "file:/data/w", "file:///data/w"])
def test_the_warehouse_is_the_same_folder_however_it_is_written(folder: str, caplog: pytest.LogCaptureFixture) -> None:
    """Spark writes `file:` in front of it."""
    name = "spark.sql.warehouse.dir"
    with caplog.at_level(logging.WARNING):
        _warn_if_late({name: folder}, {name: "file:/data/w"})
        _warn_if_late({name: "w"}, {name: f"file:{Path.cwd()}/w"})
        assert not caplog.text
        _warn_if_late({name: folder}, {name: "file:/data/x"})
        assert f"\"{name}\" = {folder!r} (it runs with 'file:/data/x')" in caplog.text
        caplog.clear()
        _warn_if_late({name: folder}, {name: "hdfs://name/data/w"})
        _warn_if_late({name: folder}, {})
        assert caplog.text.count(name) == 2
