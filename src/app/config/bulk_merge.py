"""The keys of a bulk merge, and the settings that they make."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ...domain.bulk import BulkSpec
from ...domain.bulk_merge import EXACT, HISTORY, MODES, BulkMergeSettings
from ...domain.schema import column
from ...domain.source import PLAIN_FORMATS, RecordSpec
from .bulk import bulk, bulk_shape
from .kinds import DURATION, SOME_TEXTS, TABLE, TEXT, TEXTS, Key, Kind, choice
from .values import BulkFiles, KafkaInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from ...domain.schema import Schema
    from .document import Document
    from .lines import KeyPath
    from .values import BulkInput, SourceSettings


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
    given: Mapping[str, Any],
    sources: Mapping[str, SourceSettings],
    resolved: Callable[[str], str],
) -> tuple[BulkMergeSettings, str, BulkInput]:
    """The settings of a bulk merge, the name of its changelog and what its bulk reads.

    Args:
        document: what they stand in.
        path: of the pipeline.
        given: its values.
        sources: those of the deployment.
        resolved: a path of the file as seen from anywhere.

    Raises:
        ConfigError: with file, line and key of the first thing that is wrong, and what is allowed.
    """
    if given["changelog"] not in sources:
        document.value((*path, "changelog"), Key(choice(*sources)))
    source = sources[given["changelog"]]
    schema = source.records.columns
    for name in ("key", "columns", "position"):
        document.check_columns((*path, name), schema.names, *given[name])
    loaded = bulk(document, (*path, "bulk"), resolved)
    if isinstance(loaded, BulkFiles) and given["mode"] == EXACT and not given["position"] and loaded.search_ts is None:
        raise document.error(
            (*path, "bulk"),
            "says neither where in the changelog nor when it was read: add search_ts, or name the `position` that both"
            ' share; or choose mode = "upsert"',
        )
    _check_time(document, (*path, "bulk", "search_ts"), schema, _search_ts(loaded))
    said = set(source.records.changes.metadata) | set(given["position"]) - set(given["key"])
    others = given["columns"] or tuple(name for name in schema.names if name not in said)
    own = {name: given[name] for name in ("key", "delay", "position", "mode", "history")}
    settings = document.built(
        path,
        lambda: BulkMergeSettings(
            pipeline=str(path[-1]),
            columns=(*given["key"], *(name for name in others if name not in given["key"])),
            changelog=source.records,
            event_time=source.event_time,
            watermark_delay=source.watermark_delay,
            search_ts=_search_ts(loaded),
            repeatable=isinstance(loaded, BulkFiles),
            lanes=isinstance(source.input, KafkaInput),
            **own,
        ),
    )
    return settings, source.name, loaded


def bulk_spec(settings: BulkMergeSettings, loaded: BulkInput) -> BulkSpec:
    """What the rows of a bulk load hold."""
    placed = [name for name in settings.position if name not in settings.columns]
    schema = settings.schema.select((*settings.columns, *placed))
    at = _search_ts(loaded)
    if isinstance(at, str) and at not in schema:
        schema = schema.plus(column(at, "timestamp"))
    zone = settings.changelog.time_zone
    optional = (settings.event_time,) if settings.event_time in settings.values else ()
    # Rows of tables are typed, as those of Parquet are.
    format_ = loaded.format if isinstance(loaded, BulkFiles) and loaded.format in PLAIN_FORMATS else "parquet"
    records = RecordSpec(schema, format_, time_zone=zone, optional=optional)
    waits = settings.waits and not settings.position
    return BulkSpec(records, settings.key, settings.position, at, settings.delay, waits)


def _check_time(document: Document, path: KeyPath, schema: Schema, name: datetime | str | None) -> None:
    """Refuse a column of another type than timestamp to say when rows were read."""
    if isinstance(name, str) and name in schema and schema[name].name != "timestamp":
        raise document.error(path, f"column {name!r} must be a timestamp, not {schema[name].ddl}")


def _search_ts(loaded: BulkInput) -> datetime | str | None:
    """When the rows were read; a database says that itself."""
    return loaded.search_ts if isinstance(loaded, BulkFiles) else None


def bulk_merge_shape(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a bulk merge's tables, as far as a pipeline has them."""
    return {"bulk": bulk_shape(table)} if isinstance(table := pipeline.get("bulk"), dict) else {}
