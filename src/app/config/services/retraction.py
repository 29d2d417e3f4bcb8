"""The keys of a retraction, and how they become its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....domain.errors import ConfigError
from ....domain.service.retraction import AUTO, HOLDS, LOG_RESETS, NONE, PastTable, PlainTable, RetractionSettings
from ....domain.source.changelog.log import PLACED_FORMATS
from ....domain.source.changelog.settings import CHANGE_FORMATS
from ...document.value_types import DURATION, PATH, TABLE, TEXT, TEXTS, ZONE, Key, Kind, choice
from .measures import check_old_images, measures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...deployment.deployment import SourceSettings
    from ...document.document import Document
    from ...document.lines import KeyPath


def _identity(value: Any) -> str | tuple[str, ...]:
    if value in (AUTO, NONE):
        return str(value)
    if isinstance(value, str):
        raise ConfigError(f"{value!r} is not {IDENTITY.expects}")
    return tuple(TEXTS.read(value))


IDENTITY = Kind(f'"{AUTO}", "{NONE}" or a list of columns', _identity)


RETRACTION = {
    "group": Key(TEXTS, ()),
    "measures": Key(TABLE, required=True),
    "updated_at": Key(TEXT, required=True),
    "deleted_at": Key(TEXT),
    "time_zone": Key(ZONE, "UTC"),
    "identity": Key(IDENTITY, AUTO),
    "repeat_window": Key(DURATION),
    "log_reset": Key(choice(*LOG_RESETS), "stop"),
    "roll_after": Key(DURATION),
    "past": Key(TABLE),
}
_PLAIN_TABLE = {"path": Key(PATH, required=True), "format": Key(TEXT, "parquet")}
_ANY_PAST = {"holds": Key(choice(*HOLDS), "rows")}
_PAST = _ANY_PAST | _PLAIN_TABLE
_PAST_QUERY = _ANY_PAST | {"sql": Key(TEXT, required=True), "tables": Key(TABLE, required=True)}


def retraction(
    document: Document,
    path: KeyPath,
    values: Mapping[str, Any],
    source: SourceSettings,
    resolve: Callable[[str], str],
) -> RetractionSettings:
    """Read the settings of a retraction; errors name the line of each key.

    Args:
        document: the configuration file.
        path: of the pipeline.
        values: of the pipeline's table.
        source: the source that the pipeline reads.
        resolve: makes a path of the file absolute.

    Raises:
        ConfigError: names file, line and key of the first mistake, and what is allowed.
    """
    schema = source.records.rows
    check_old_images(document, path, source)
    document.check_columns((*path, "group"), schema.names, *values["group"])
    if not isinstance(values["identity"], str):
        document.check_columns((*path, "identity"), schema.names, *values["identity"])
    for key in ("updated_at", "deleted_at"):
        document.check_columns((*path, key), schema.names, values[key])
    counted = tuple(measures(document, (*path, "measures"), source))
    past = None if values["past"] is None else _past(document, (*path, "past"), resolve)
    format_ = source.records.format
    tells_log = (
        format_ in (PLACED_FORMATS if values["identity"] == AUTO else CHANGE_FORMATS) and values["identity"] != NONE
    )
    options = {name: values[name] for name in RETRACTION if name not in {"measures", "past"}}
    return document.build(
        path,
        lambda: RetractionSettings(
            pipeline=str(path[-1]),
            schema=schema,
            measures=counted,
            past=past,
            tells_log=tells_log,
            unplaced=values["identity"] == AUTO and format_ in CHANGE_FORMATS and not tells_log,
            same_time=values["updated_at"] in source.records.changes.metadata,
            event_time=source.event_time,
            **options,
        ),
    )


def retraction_shape(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of the tables of a retraction that are in the file."""
    shape: dict[str, Any] = {}
    if isinstance(past := pipeline.get("past"), dict):
        tables = past.get("tables")
        named = dict.fromkeys(tables, _PLAIN_TABLE) if isinstance(tables, dict) else {}
        shape["past"] = {**_PAST, **_PAST_QUERY, "tables": named}
    return shape


def _past(document: Document, path: KeyPath, resolve: Callable[[str], str]) -> PastTable:
    if "sql" not in document.table(path):
        section = document.section(path, _PAST)
        table = PlainTable(resolve(section["path"]), section["format"])
        return document.build(path, lambda: PastTable({"past": table}, holds=section["holds"]))
    section = document.section(path, _PAST_QUERY)
    tables = {name: document.section((*path, "tables", name), _PLAIN_TABLE) for name in section["tables"]}
    named = {name: PlainTable(resolve(each["path"]), each["format"]) for name, each in tables.items()}
    return document.build(path, lambda: PastTable(named, section["sql"], section["holds"]))
