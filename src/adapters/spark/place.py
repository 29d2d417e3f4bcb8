"""Whether Spark works on this machine, found without starting it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from .master import is_local, master_of
from .start_settings import MASTER, given_before_launch

_DEFAULT_FILES = "fs.defaultFS"
_ELSEWHERE = frozenset({"HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_GATEWAY_PORT"})
"""Environment variables of a cluster's client, and of a program that spark-submit has started."""


def works_here(settings: Mapping[str, str]) -> bool:
    """Whether Spark runs on this machine only, and a path without a scheme names a folder of this machine.

    Args:
        settings: those of `[backend.spark]`.
    """
    running = _running()
    if running is not None:
        return running
    if os.environ.keys() & _ELSEWHERE:
        return False
    given = {**given_before_launch(), **settings}
    return is_local(given.get(MASTER, "local")) and not any(name.endswith(_DEFAULT_FILES) for name in given)


def _running() -> bool | None:
    """Whether the Spark of this process works here; None if none is running."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    if (context := SparkContext._active_spark_context) is None:
        return None
    files = context._jsc.hadoopConfiguration().get(_DEFAULT_FILES)
    return is_local(master_of(context)) and files.startswith("file:")
