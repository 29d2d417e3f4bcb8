"""The keys of cumulate windows, and how they become their settings."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ....domain.service.cumulate import LATE, TICKS, CumulateSettings
from ....domain.source.changelog.settings import CHANGE_FORMATS
from ...document.value_types import DURATION, LISTS, TABLE, ZONE, Key, choice
from .measures import check_old_images, measures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...deployment.deployment import SourceSettings
    from ...document.document import Document
    from ...document.lines import KeyPath

CUMULATE = {
    "step": Key(DURATION, required=True),
    "size": Key(DURATION, timedelta(days=1)),
    "offset": Key(DURATION, timedelta()),
    "time_zone": Key(ZONE, "UTC"),
    "dimensions": Key(LISTS, ((),)),
    "measures": Key(TABLE, required=True),
    "late": Key(choice(*LATE), "drop"),
    "ticks": Key(choice(*TICKS), "sparse"),
}


def cumulate(document: Document, path: KeyPath, values: Mapping[str, Any], source: SourceSettings) -> CumulateSettings:
    """Read the settings of cumulate windows; errors name the line of each key.

    Args:
        document: the configuration file.
        path: of the pipeline.
        values: of the pipeline's table.
        source: the source that the pipeline reads.

    Raises:
        ConfigError: names file, line and key of the first mistake, and what is allowed.
    """
    if (event_time := source.event_time) is None:
        raise document.error(
            (*path, "source"), f"source {source.name!r} needs an event_time: it decides the window of a row"
        )
    check_old_images(document, path, source)
    schema = source.records.rows
    for each in values["dimensions"]:
        document.check_columns((*path, "dimensions"), schema.names, *each)
    counted = tuple(measures(document, (*path, "measures"), source, estimates=True))
    options = {name: values[name] for name in CUMULATE if name != "measures"}
    return document.build(
        path,
        lambda: CumulateSettings(
            pipeline=str(path[-1]),
            schema=schema,
            event_time=event_time,
            measures=counted,
            watermark_delay=source.watermark_delay,
            retracts=source.records.row_kind is not None or source.records.format in CHANGE_FORMATS,
            **options,
        ),
    )
