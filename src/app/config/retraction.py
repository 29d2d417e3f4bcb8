"""The keys of a retraction, and the settings that they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...domain.changelog.log import PLACED_FORMATS
from ...domain.changelog.settings import CHANGE_FORMATS
from ...domain.errors import ConfigError
from ...domain.retraction import AUTO, HOLDS, LOG_RESETS, NONE, PastTable, PlainTable, RetractionSettings
from .kinds import DURATION, PATH, TABLE, TEXT, TEXTS, ZONE, Key, Kind, choice
from .measures import check_old_images, measures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .document import Document
    from .lines import KeyPath
    from .values import SourceSettings


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
    given: Mapping[str, Any],
    source: SourceSettings,
    resolved: Callable[[str], str],
) -> RetractionSettings:
    """The settings of a retraction, each key checked at its own place.

    Args:
        document: what they stand in.
        path: of the pipeline.
        given: its values.
        source: that it reads.
        resolved: a path of the file as seen from anywhere.

    Raises:
        ConfigError: with file, line and key of the first thing that is wrong, and what is allowed.
    """
    schema = source.records.rows
    check_old_images(document, path, source)
    document.check_columns((*path, "group"), schema.names, *given["group"])
    if not isinstance(given["identity"], str):
        document.check_columns((*path, "identity"), schema.names, *given["identity"])
    for key in ("updated_at", "deleted_at"):
        document.check_columns((*path, key), schema.names, given[key])
    counted = tuple(measures(document, (*path, "measures"), source))
    past = None if given["past"] is None else _past(document, (*path, "past"), resolved)
    format_ = source.records.format
    tells_log = (
        format_ in (PLACED_FORMATS if given["identity"] == AUTO else CHANGE_FORMATS) and given["identity"] != NONE
    )
    kept = {name: given[name] for name in RETRACTION if name not in {"measures", "past"}}
    return document.built(
        path,
        lambda: RetractionSettings(
            pipeline=str(path[-1]),
            schema=schema,
            measures=counted,
            past=past,
            tells_log=tells_log,
            unplaced=given["identity"] == AUTO and format_ in CHANGE_FORMATS and not tells_log,
            same_time=given["updated_at"] in source.records.changes.metadata,
            event_time=source.event_time,
            **kept,
        ),
    )


def retraction_shape(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a retraction's tables, as far as a pipeline has them."""
    shape: dict[str, Any] = {}
    if isinstance(past := pipeline.get("past"), dict):
        tables = past.get("tables")
        named = dict.fromkeys(tables, _PLAIN_TABLE) if isinstance(tables, dict) else {}
        shape["past"] = {**_PAST, **_PAST_QUERY, "tables": named}
    return shape


def _past(document: Document, path: KeyPath, resolved: Callable[[str], str]) -> PastTable:
    if "sql" not in document.table(path):
        said = document.section(path, _PAST)
        table = PlainTable(resolved(said["path"]), said["format"])
        return document.built(path, lambda: PastTable({"past": table}, holds=said["holds"]))
    said = document.section(path, _PAST_QUERY)
    tables = {name: document.section((*path, "tables", name), _PLAIN_TABLE) for name in said["tables"]}
    named = {name: PlainTable(resolved(each["path"]), each["format"]) for name, each in tables.items()}
    return document.built(path, lambda: PastTable(named, said["sql"], said["holds"]))
