"""Retraction, as a kind of service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from attrs import evolve, fields_dict

from ...domain.errors import ConfigError
from ...domain.ports import Source
from ...domain.service.retraction import AUTO, HOLDS, LOG_RESETS, NONE, PastTable, Retraction, RetractionSettings
from ...domain.source.changelog.log import PLACED_FORMATS
from ...domain.source.changelog.settings import CHANGE_FORMATS
from ...domain.source.record_spec import REFUSE
from ...domain.sql import with_parameters
from ..deployment.deployment import PipelineSettings, SourceSettings
from ..document.section import Section
from ..document.value_types import (
    COLUMN,
    DURATION,
    TABLE,
    TEXT,
    TEXTS,
    ZONE,
    Key,
    Kind,
    choice,
    keys_of,
    named,
    or_table,
    table_of,
)
from .keys import OF_ONE_SOURCE, PLAIN_TABLE, plain_table
from .kind import Parts, ServiceKind, SourceParts
from .measures import MEASURES, measures
from .old_images import check_subtracted
from .texts import Columns, Text, of_measures

_SOME_DAY = date(2000, 1, 1)
_NO_PLACES = 'its records have no position in a log (identity = "auto")'


def _identity(value: Any) -> str | tuple[str, ...]:
    if value in (AUTO, NONE):
        return str(value)
    if isinstance(value, str):
        raise ConfigError(f"{value!r} is not {IDENTITY.expects}")
    return tuple(TEXTS.read(value))


IDENTITY = Kind(f'"{AUTO}", "{NONE}" or a list of columns', _identity)
_ANY_PAST = keys_of(PastTable, holds=choice(*HOLDS))
_PAST = _ANY_PAST | PLAIN_TABLE
_PAST_QUERY = _ANY_PAST | {
    "sql": Key(TEXT, required=True),
    "tables": Key(named(table_of(PLAIN_TABLE)), required=True),
}


class RetractionKind(ServiceKind[RetractionSettings, Retraction]):
    """Exact measures of groups, computed from the changes of a table."""

    keys = OF_ONE_SOURCE | keys_of(
        RetractionSettings,
        group=TEXTS,
        measures=MEASURES,
        updated_at=COLUMN,
        deleted_at=COLUMN,
        time_zone=ZONE,
        identity=IDENTITY,
        repeat_window=DURATION,
        log_reset=choice(*LOG_RESETS),
        roll_after=DURATION,
        past=evolve(or_table(TABLE, _PAST | _PAST_QUERY), forms=lambda: {"sql": _PAST_QUERY, "": _PAST}),
    )

    def parse(self, table: Section, sources: Mapping[str, SourceSettings]) -> PipelineSettings:
        source = table.pick("source", sources)
        schema, format_, identity = source.records.rows, source.records.format, table["identity"]
        check_subtracted(table, source)
        table.check_columns("group", schema)
        if not isinstance(identity, str):
            table.check_columns("identity", schema)
        table.check_columns("updated_at", schema)
        table.check_columns("deleted_at", schema)
        tells_log = identity != NONE and format_ in (PLACED_FORMATS if identity == AUTO else CHANGE_FORMATS)
        own = {
            **table.fields(RetractionSettings),
            "measures": tuple(measures(table, source)),
            "past": None if table["past"] is None else _past(table),
            "tells_log": tells_log,
            "unplaced": identity == AUTO and format_ in CHANGE_FORMATS and not tells_log,
            "same_time": table["updated_at"] in source.records.changes.metadata,
            "event_time": source.event_time,
            "records": source.records,
        }
        settings = table.build(lambda: RetractionSettings(table.name, schema, **own))
        _check_repeats(table, settings)
        return PipelineSettings(source.name, settings)

    def build(self, settings: RetractionSettings, parts: Parts) -> Retraction:
        return Retraction(settings, parts.engine, parts.queries)

    def open(self, settings: RetractionSettings, pipeline: PipelineSettings, parts: SourceParts) -> Source:
        """Open the source; its rows have their position in the log if the service needs it, and deletes are whole."""
        needed = {
            "tells_log": settings.tells_log,
            "needs_whole_rows": True,
            "needs_old_rows": True,
            "compacted": REFUSE,
        }
        return parts.open(pipeline.sources[0], **needed)

    def texts(self, settings: RetractionSettings, service: Retraction, columns: Columns) -> Iterator[Text]:  # noqa: ARG002 - settings say all
        yield from of_measures(settings.measures, settings.schema)
        if past := settings.past:
            tables = {name: columns.plain(f"past.tables.{name}", each) for name, each in past.tables.items()}
            if past.sql is not None:
                yield Text("past.sql", with_parameters(past.sql, {"cut": _SOME_DAY}), tables)

    def describe(self, settings: RetractionSettings) -> Iterator[str]:
        """Yield how repeats are recognised, and whether rows are taken back; see `ServiceKind.describe`."""
        yield "  skips"
        if settings.identity == NONE:
            yield '    nothing: every row counts, a repeat too (identity = "none")'
        elif not settings.place_columns:
            yield f"    nothing: every row counts, a repeat too; {_NO_PLACES}"
        elif settings.identity == AUTO:
            yield '    repeats, by the log, file, position and row that a message names (identity = "auto");'
            yield "      a message that does not name them counts"
        else:
            yield f"    repeats, by {', '.join(settings.place_columns)} (identity)"
        if settings.records and not settings.records.row_kind and settings.records.format not in CHANGE_FORMATS:
            yield "  takes back"
            yield "    nothing: its source has no row_kind, so every row is added; wrong for rows that change"


def _check_repeats(table: Section, settings: RetractionSettings) -> None:
    """Refuse settings of repeats where every change counts."""
    defaults = fields_dict(RetractionSettings)
    unused = [key for key in ("repeat_window", "log_reset") if table[key] != defaults[key].default]
    if unused and not settings.place_columns:
        why = 'identity = "none"' if settings.identity == NONE else _NO_PLACES
        raise table.error(f"has no effect, as every change counts: {why}; leave it out, or set `identity`", unused[0])


def _past(table: Section) -> PastTable:
    if not table.has("past", "sql"):
        past = table.inner(_PAST, "past")
        return past.build(lambda: PastTable({"past": plain_table(past)}, holds=past["holds"]))
    past = table.inner(_PAST_QUERY, "past")
    tables = {name: plain_table(past.inner(PLAIN_TABLE, "tables", name)) for name in past["tables"]}
    return past.build(lambda: PastTable(tables, past["sql"], past["holds"]))
