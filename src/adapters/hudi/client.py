"""Hudi's own client of a table, for upkeep that its DataFrame writer does not offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..spark.jvm import java_class
from ..spark.settings import FIXED
from .clock import name_instants_in_utc
from .commit import table_settings
from .path import Folder
from .spec import Definition
from .timeline import Timeline

if TYPE_CHECKING:
    from pyspark import SparkContext

_ANY_UNFINISHED = {"hoodie.clean.failed.writes.policy": "LAZY"}
"""With its default policy, Hudi does not roll back a commit that is older than a compaction, and refuses later ones."""


@contextmanager
def upkeep_client(
    folder: Folder, timeline: Timeline, definition: Definition, settings: Mapping[str, str]
) -> Iterator[Any]:
    """The client, with these settings in addition to those of every write."""
    name_instants_in_utc(folder.session)
    configured = java_class(folder.session, "java.util.HashMap")()
    for name, value in (table_settings(definition) | dict(settings)).items():
        configured.put(name, value)
    client = java_class(folder.session, "org.apache.hudi.DataSourceUtils").createHoodieClient(
        folder.session.sparkContext._jsc, timeline.schema(), folder.path, definition.hudi_name, configured
    )
    try:
        with _fixed_in_tasks(folder.session.sparkContext):
            yield client
    finally:
        client.close()


def rollback_unfinished(folder: Folder, timeline: Timeline, definition: Definition) -> None:
    """Roll back the commits that dead writers have begun, even if they are older than a compaction.

    Call it under the table's lock: there, an unfinished commit is that of a dead writer. If the table has no version
    yet, the next commit of Hudi's writer does it.
    """
    if timeline.has_unfinished() and timeline.newest() is not None:
        with upkeep_client(folder, timeline, definition, _ANY_UNFINISHED) as client:
            client.rollbackFailedWrites(timeline.client)


@contextmanager
def _fixed_in_tasks(spark: SparkContext) -> Iterator[None]:
    """Give the tasks of Hudi's own jobs our settings: they are no queries, and would have those Spark was started with.

    Among them is how dates and times before 1900 are stored.
    """
    before = {name: spark.getLocalProperty(name) for name in FIXED}
    for name, value in FIXED.items():
        spark.setLocalProperty(name, value)
    try:
        yield
    finally:
        for name, former in before.items():
            spark._jsc.setLocalProperty(name, former)
