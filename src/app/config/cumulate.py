"""The keys of cumulate windows, and the settings that they make."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ...domain.changelog.settings import CHANGE_FORMATS
from ...domain.cumulate import LATE, TICKS, CumulateSettings
from .kinds import DURATION, LISTS, TABLE, ZONE, Key, choice
from .measures import check_old_images, measures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .document import Document
    from .lines import KeyPath
    from .values import SourceSettings

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


def cumulate(document: Document, path: KeyPath, given: Mapping[str, Any], source: SourceSettings) -> CumulateSettings:
    """The settings of cumulate windows, each key checked at its own place.

    Args:
        document: what they stand in.
        path: of the pipeline.
        given: its values.
        source: that it reads.

    Raises:
        ConfigError: with file, line and key of the first thing that is wrong, and what is allowed.
    """
    if (event_time := source.event_time) is None:
        raise document.error((*path, "source"), f"source {source.name!r} needs event_time, which places rows in time")
    check_old_images(document, path, source)
    schema = source.records.rows
    for each in given["dimensions"]:
        document.check_columns((*path, "dimensions"), schema.names, *each)
    counted = tuple(measures(document, (*path, "measures"), source, estimates=True))
    kept = {name: given[name] for name in CUMULATE if name != "measures"}
    return document.built(
        path,
        lambda: CumulateSettings(
            pipeline=str(path[-1]),
            schema=schema,
            event_time=event_time,
            measures=counted,
            watermark_delay=source.watermark_delay,
            retracts=source.records.row_kind is not None or source.records.format in CHANGE_FORMATS,
            **kept,
        ),
    )
