"""Cumulate windows, as a kind of service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...domain.ports import Source
from ...domain.service.cumulate import LATE, TICKS, Cumulate, CumulateSettings
from ...domain.source.changelog.settings import CHANGE_FORMATS
from ...domain.source.record_spec import REFUSE
from ..deployment.deployment import PipelineSettings, SourceSettings
from ..document.section import Section
from ..document.value_types import DURATION, LISTS, ZONE, choice, keys_of
from .keys import OF_ONE_SOURCE
from .kind import Parts, ServiceKind, SourceParts
from .measures import MEASURES, measures
from .old_images import check_subtracted
from .texts import Columns, Text, of_measures


class CumulateKind(ServiceKind[CumulateSettings, Cumulate]):
    """Measures of windows so far, at each step."""

    keys = OF_ONE_SOURCE | keys_of(
        CumulateSettings,
        step=DURATION,
        size=DURATION,
        offset=DURATION,
        time_zone=ZONE,
        dimensions=LISTS,
        measures=MEASURES,
        late=choice(*LATE),
        ticks=choice(*TICKS),
    )
    uses_idle = True

    def parse(self, table: Section, sources: Mapping[str, SourceSettings]) -> PipelineSettings:
        source = table.pick("source", sources)
        if (event_time := source.event_time) is None:
            raise table.error(f"source {source.name!r} needs an event_time: it decides the window of a row", "source")
        check_subtracted(table, source)
        schema = source.records.rows
        for each in table["dimensions"]:
            table.check_columns("dimensions", schema, each)
        own = {
            **table.fields(CumulateSettings),
            "measures": tuple(measures(table, source, estimates=True)),
            "watermark_delay": source.watermark_delay,
            "records": source.records,
            "retracts": source.records.row_kind is not None or source.records.format in CHANGE_FORMATS,
        }
        settings = table.build(lambda: CumulateSettings(table.name, schema, event_time, **own))
        return PipelineSettings(source.name, settings)

    def build(self, settings: CumulateSettings, parts: Parts) -> Cumulate:
        return Cumulate(settings, parts.engine, parts.queries)

    def open(self, settings: CumulateSettings, pipeline: PipelineSettings, parts: SourceParts) -> Source:  # noqa: ARG002 - they do not matter
        """Open the source; its deletes are whole, because their rows are subtracted."""
        return parts.open(pipeline.sources[0], needs_whole_rows=True, needs_old_rows=True, compacted=REFUSE)

    def texts(self, settings: CumulateSettings, service: Cumulate, columns: Columns) -> Iterator[Text]:  # noqa: ARG002 - it has no inputs
        yield from of_measures(settings.measures, settings.schema)
