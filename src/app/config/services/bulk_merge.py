"""The keys of a bulk merge, and how they become its settings."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ....domain.service.bulk_merge import EXACT, HISTORY, MODES, BulkMergeSettings
from ....domain.source.bulk import BulkSpec
from ....domain.source.record_spec import RecordSpec
from ....domain.table.schema import column
from ...document.value_types import DURATION, SOME_TEXTS, TABLE, TEXT, TEXTS, Key, Kind, choice
from .bulk import bulk, bulk_shape

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ....domain.table.schema import Schema
    from ...deployment.deployment import BulkInput, SourceSettings
    from ...document.document import Document
    from ...document.lines import KeyPath


def _text_or_texts(value: Any) -> tuple[str, ...]:
    return (str(TEXT.read(value)),) if isinstance(value, str) else tuple(SOME_TEXTS.read(value))


BULK_MERGE = {
    "key": Key(SOME_TEXTS, required=True),
    "changelog": Key(TEXT, required=True),
    "bulk": Key(TABLE, required=True),
    "columns": Key(TEXTS, ()),
    "delay": Key(DURATION, timedelta()),
    "position": Key(Kind("a column, or a list of columns", _text_or_texts), ()),
    "mode": Key(choice(*MODES), "exact"),
    "history": Key(DURATION, HISTORY),
}


def bulk_merge(
    document: Document,
    path: KeyPath,
    values: Mapping[str, Any],
    sources: Mapping[str, SourceSettings],
) -> tuple[BulkMergeSettings, str, BulkInput]:
    """Read the settings of a bulk merge, the name of its changelog and the settings of its bulk load.

    Args:
        document: the configuration file.
        path: of the pipeline.
        values: of the pipeline's table.
        sources: of the deployment, by name.

    Raises:
        ConfigError: names file, line and key of the first mistake, and what is allowed.
    """
    if values["changelog"] not in sources:
        document.value((*path, "changelog"), Key(choice(*sources)))
    source = sources[values["changelog"]]
    schema = source.records.columns
    for name in ("key", "columns", "position"):
        document.check_columns((*path, name), schema.names, *values[name])
    loaded = bulk(document, (*path, "bulk"))
    exact = values["mode"] == EXACT and not values["position"]
    if exact and not loaded.reports_time and loaded.search_ts is None:
        raise document.error(
            (*path, "bulk"),
            "gives neither a position in the changelog nor the time of the read: add search_ts, or name the `position`"
            ' that both share; or set mode = "upsert"',
        )
    _check_time(document, (*path, "bulk", "search_ts"), schema, loaded.search_ts)
    extra = set(source.records.changes.metadata) | set(values["position"]) - set(values["key"])
    others = values["columns"] or tuple(name for name in schema.names if name not in extra)
    own = {name: values[name] for name in ("key", "delay", "position", "mode", "history")}
    settings = document.build(
        path,
        lambda: BulkMergeSettings(
            pipeline=str(path[-1]),
            columns=(*values["key"], *(name for name in others if name not in values["key"])),
            changelog=source.records,
            event_time=source.event_time,
            watermark_delay=source.watermark_delay,
            search_ts=loaded.search_ts,
            repeatable=loaded.repeatable,
            lanes=source.input.lanes,
            **own,
        ),
    )
    return settings, source.name, loaded


def bulk_spec(settings: BulkMergeSettings, loaded: BulkInput) -> BulkSpec:
    """Describe the rows of a bulk load: columns, key, position and time of the read."""
    placed = [name for name in settings.position if name not in settings.columns]
    schema = settings.schema.select((*settings.columns, *placed))
    at = loaded.search_ts
    if isinstance(at, str) and at not in schema:
        schema = schema.plus(column(at, "timestamp"))
    zone = settings.changelog.time_zone
    optional = (settings.event_time,) if settings.event_time in settings.values else ()
    records = RecordSpec(schema, loaded.records_format, time_zone=zone, optional=optional)
    waits = settings.waits and not settings.position
    return BulkSpec(records, settings.key, settings.position, at, settings.delay, waits)


def _check_time(document: Document, path: KeyPath, schema: Schema, name: datetime | str | None) -> None:
    """Refuse a `search_ts` column that is not a timestamp."""
    if isinstance(name, str) and name in schema and schema[name].name != "timestamp":
        raise document.error(path, f"column {name!r} must be a timestamp, not {schema[name].ddl}")


def bulk_merge_shape(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of the tables of a bulk merge that are in the file."""
    return {"bulk": bulk_shape(table)} if isinstance(table := pipeline.get("bulk"), dict) else {}
