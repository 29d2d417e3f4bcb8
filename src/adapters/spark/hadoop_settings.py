"""Leaves out of Hadoop's configuration what no scan, table or commit reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .jvm import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_CLUSTERS = ("mapred-default.xml", "yarn-default.xml")


def leave_out_defaults(session: SparkSession) -> None:
    """Forget the defaults of MapReduce and YARN, and where each setting comes from.

    Spark and Hudi send the whole configuration with each scan, table and task, and Hadoop compresses the origin of each
    setting on its own. Of a thousand settings, six hundred are these defaults. What was set to another value stays.
    """
    # They would come with the first job; from here on they are known, and do not come again.
    java_class(session, "org.apache.hadoop.mapreduce.util.ConfigUtil").loadResources()
    unread = java_class(session, "org.apache.hadoop.conf.Configuration")(False)
    for name in _OF_CLUSTERS:
        unread.addResource(name)
    configuration = session.sparkContext._jsc.hadoopConfiguration()
    _properties(configuration).entrySet().removeAll(_properties(unread).entrySet())
    _private(configuration, "updatingResource").clear()


def _properties(configuration: Any) -> Any:
    configuration.size()  # loads them
    return _private(configuration, "properties")


def _private(configuration: Any, name: str) -> Any:
    field = configuration.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(configuration)
