"""Bulk merge, as a kind of service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from ...domain.errors import add_place
from ...domain.ports import BulkSource, Source
from ...domain.service.bulk_merge import EXACT, MODES, BulkMerge, BulkMergeSettings
from ...domain.source.bulk import BulkGroup, BulkSpec
from ...domain.source.record_spec import RecordSpec
from ...domain.table.schema import column
from ..deployment.deployment import BulkInput, PipelineSettings, SourceSettings
from ..document.section import Section
from ..document.value_types import DURATION, SOME_TEXTS, SOURCE, TABLE, TEXT, TEXTS, Key, Kind, choice, keys_of
from ..registry.backends import Sources
from ..registry.sources import bulk_keys, bulk_kind_of
from .keys import ANY_STREAM
from .kind import Parts, ServiceKind, SourceParts
from .old_images import check_fixed


def _text_or_texts(value: Any) -> tuple[str, ...]:
    return (str(TEXT.read(value)),) if isinstance(value, str) else tuple(SOME_TEXTS.read(value))


BULK = evolve(TABLE, inside=lambda table: bulk_kind_of(table).keys, forms=bulk_keys)


class BulkMergeKind(ServiceKind[BulkMergeSettings, BulkMerge]):
    """The newest image of each key, from a bulk load and a changelog of the same table."""

    keys = (
        ANY_STREAM
        | {
            "changelog": Key(SOURCE, required=True),
            "bulk": Key(BULK, required=True),
            "columns": Key(TEXTS, ()),
        }
        | keys_of(
            BulkMergeSettings,
            key=SOME_TEXTS,
            delay=DURATION,
            position=Kind("a column, or a list of columns", _text_or_texts),
            mode=choice(*MODES),
            history=DURATION,
        )
    )
    uses_idle = True

    def parse(self, table: Section, sources: Mapping[str, SourceSettings]) -> PipelineSettings:
        source = table.pick("changelog", sources)
        schema, key, position = source.records.columns, table["key"], table["position"]
        for name in ("key", "columns", "position"):
            table.check_columns(name, schema)
        check_fixed(table, source, key, "key")
        loaded = _bulk(table)
        _check_time_of_read(table, loaded, source)
        extra = set(source.records.changes.metadata) | set(position) - set(key)
        others = table["columns"] or tuple(name for name in schema.names if name not in extra)
        own = {
            **table.fields(BulkMergeSettings),
            "columns": (*key, *(name for name in others if name not in key)),
            "changelog": source.records,
            "event_time": source.event_time,
            "watermark_delay": source.watermark_delay,
            "search_ts": loaded.search_ts,
            "repeatable": loaded.repeatable,
            "grows": loaded.grows,
            "lanes": source.input.lanes,
        }
        settings = table.build(lambda: BulkMergeSettings(table.name, **own))
        _check_nested(table, loaded, table.build(lambda: bulk_spec(settings, loaded), "bulk"))
        return PipelineSettings(source.name, settings, bulk=loaded)

    def build(self, settings: BulkMergeSettings, parts: Parts) -> BulkMerge:
        return BulkMerge(settings, parts.engine)

    def open(self, settings: BulkMergeSettings, pipeline: PipelineSettings, parts: SourceParts) -> Source:
        """Open the changelog and the bulk.

        Changes name their transaction if the service needs whole transactions. Positions of messages that decide which
        image is newer must be in the order of the commits, unless those of the chunks are from before all transactions
        that they do not see: else a change that is committed after the read may seem to be older.
        """
        assert pipeline.bulk is not None
        loaded = self.open_bulk(settings, pipeline, parts.sources)
        positions = {settings.changelog.changes.metadata.get(name) for name in settings.position}
        changes = parts.open(
            pipeline.sources[0],
            tells_transactions=settings.transactional,
            needs_commit_order="log_position" in positions and not pipeline.bulk.precedes_open,
        )
        return BulkGroup(changes, loaded)

    def open_bulk(self, settings: BulkMergeSettings, pipeline: PipelineSettings, sources: Sources) -> BulkSource:
        assert pipeline.bulk is not None
        with add_place(pipeline.place and f"{pipeline.place}.bulk"):
            return sources.open_bulk(pipeline.bulk, bulk_spec(settings, pipeline.bulk))

    def describe_inputs(self, settings: BulkMergeSettings, pipeline: PipelineSettings) -> str:  # noqa: ARG002 - the pipeline says all
        return f"source {pipeline.source} and, in bulk, {pipeline.bulk}"


def bulk_spec(settings: BulkMergeSettings, loaded: BulkInput) -> BulkSpec:
    """Describe the rows of a bulk load: columns, key, position and time of the read."""
    placed = [name for name in settings.position if name not in settings.columns]
    schema = settings.schema.select((*settings.columns, *placed))
    at = loaded.search_ts
    if isinstance(at, str) and at not in schema:
        schema = schema.plus(column(at, "timestamp"))
    zone = settings.changelog.time_zone
    optional = (settings.event_time,) if settings.event_time in settings.values else ()
    form, csv, layout = loaded.records_format, loaded.csv, loaded.layout
    records = RecordSpec(schema, form, time_zone=zone, optional=optional, csv=csv, layout=layout)
    waits = settings.waits and not settings.position
    return BulkSpec(records, settings.key, settings.position, at, settings.delay, waits)


def _bulk(pipeline: Section) -> BulkInput:
    """What a pipeline loads in bulk, by the kind of its table."""
    kind = bulk_kind_of(pipeline["bulk"])
    loaded: BulkInput = kind.parse(pipeline.inner(kind.keys, "bulk"))
    return loaded


def _check_nested(table: Section, loaded: BulkInput, spec: BulkSpec) -> None:
    """Refuse nested columns of a load that has none."""
    nested = [each for each in spec.records.columns.columns if each.type.is_nested]
    if nested and not loaded.has_nested:
        raise table.error(
            f"column {nested[0].name!r} is {nested[0].type.ddl}, which this kind of table cannot load: declare it as"
            " string, leave it out of `columns`, or load the table from Parquet files",
            "bulk",
        )


def _check_time_of_read(table: Section, loaded: BulkInput, source: SourceSettings) -> None:
    """Refuse a load whose time of read is needed and unknown, or not a timestamp."""
    at = loaded.search_ts
    exact = table["mode"] == EXACT and not table["position"]
    if exact and not loaded.reports_time and at is None:
        raise table.error(
            "gives neither a position in the changelog nor the time of the read: add search_ts, or name the `position`"
            ' that both share; or set mode = "upsert"',
            "bulk",
        )
    schema = source.records.columns
    if isinstance(at, str) and at in schema and schema[at].name != "timestamp":
        raise table.error(f"column {at!r} must be a timestamp, not {schema[at].ddl}", "bulk", "search_ts")
