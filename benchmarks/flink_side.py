"""Shared by the sides on Flink SQL: starts the JVM with its settings, times jobs, and writes the measurements.

Needs only PyFlink, in its own environment, and Paimon's jars next to it; see docs/benchmarks.md.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_JARS = Path(sys.prefix).parent / "jars"
_SETTINGS = {
    "parallelism.default": "2",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "jobmanager.bind-host": "127.0.0.1",
    "taskmanager.bind-host": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "rest.port": "0",
    "execution.checkpointing.interval": "5 s",
}
_LAKE = "CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = '{path}')"


def start(home: Path, settings: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a function that makes table environments (``batch`` or ``streaming``), in a JVM with the common heap.

    The environment variable FLINK_HEAP sets another heap.

    They share a Paimon catalog ``lake`` in the folder ``lake`` of `home`, and log to the folder ``log`` of `home`.
    """
    os.environ |= {
        "JVM_ARGS": f"-Xmx{os.environ.get('FLINK_HEAP', '2g')} -Xlog:gc:file={home / 'gc.log'}",
        "HADOOP_CLASSPATH": os.pathsep.join(map(str, sorted(_JARS.glob("*.jar")))),
        "FLINK_LOG_DIR": str(home / "log"),
    }
    (home / "log").mkdir()
    (home / "tmp").mkdir()
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration()
    places = {"execution.checkpointing.dir": (home / "checkpoints").as_uri(), "io.tmp.dirs": str(home / "tmp")}
    for name, value in (_SETTINGS | places | dict(settings)).items():
        configuration.set_string(name, value)

    def environment(mode: str) -> Any:
        builder = EnvironmentSettings.new_instance().with_configuration(configuration)
        tables = TableEnvironment.create(getattr(builder, f"in_{mode}_mode")().build())
        tables.execute_sql(_LAKE.format(path=(home / "lake").as_uri()))
        return tables

    return environment


def ran(running: Any) -> float:
    """Wait for a job to end; return the seconds that it ran, without its submission."""
    running.wait()
    return float(running.get_job_client().get_job_execution_result().result().get_net_runtime()) / 1000


def tell(home: Path, **figures: Any) -> None:
    """Write the measurements of the side; see `sides.Figures`."""
    (home / "figures.json").write_text(json.dumps(figures))
