"""Hudi's own client of a table, for upkeep that its DataFrame writer does not offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..spark.jvm import java_class
from .commit import table_settings
from .path import Folder
from .spec import Definition
from .timeline import Timeline


@contextmanager
def upkeep_client(
    folder: Folder, timeline: Timeline, definition: Definition, settings: Mapping[str, str]
) -> Iterator[Any]:
    """The client, with these settings in addition to those of every write."""
    configured = java_class(folder.session, "java.util.HashMap")()
    for name, value in (table_settings(definition) | dict(settings)).items():
        configured.put(name, value)
    client = java_class(folder.session, "org.apache.hudi.DataSourceUtils").createHoodieClient(
        folder.session.sparkContext._jsc, timeline.schema(), folder.path, definition.hudi_name, configured
    )
    try:
        yield client
    finally:
        client.close()
