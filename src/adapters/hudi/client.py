"""Hudi's own client of a table, for the upkeep that its writer has no word for."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..spark.jvm import java_class
from .writing import table_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .definition import Definition
    from .place import Folder
    from .timeline import Timeline


@contextmanager
def upkeep_client(
    folder: Folder, timeline: Timeline, definition: Definition, settings: Mapping[str, str]
) -> Iterator[Any]:
    """The client, with settings on top of those that every write has."""
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
