"""Ranking, as a kind of service."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from attrs import evolve

from ...domain.errors import ConfigError
from ...domain.ports import Source
from ...domain.service.ranking import METHODS, Ranking, RankingSettings
from ...domain.service.segments import Segments
from ...domain.source.record_spec import REFUSE, WARN
from ...domain.table.schema import NUMBERS, Schema
from ..deployment.deployment import PipelineSettings, SourceSettings
from ..document.section import Section
from ..document.value_types import NUMBER_OR_TEXT, SOME_TEXTS, TEXTS, ZONE, choice, keys_of, one_text, whole
from .keys import OF_ONE_SOURCE
from .kind import Parts, ServiceKind, SourceParts
from .old_images import check_fixed


def _group(value: Any) -> tuple[str, ...]:
    if value == []:
        alone = "to rank all rows together, name a column that has the same value in all of them"
        raise ConfigError(f"the list is empty; it needs {SOME_TEXTS.expects}; {alone}")
    return tuple(SOME_TEXTS.read(value))


class RankingKind(ServiceKind[RankingSettings, Ranking]):
    """Ranks of rows in groups."""

    keys = OF_ONE_SOURCE | keys_of(
        RankingSettings,
        group=evolve(SOME_TEXTS, read=_group),
        id=SOME_TEXTS,
        order_by=one_text("the name of a column, with - before it if the highest value has rank 1"),
        method=choice(*METHODS),
        tie_break=TEXTS,
        segment=NUMBER_OR_TEXT,
        offset=NUMBER_OR_TEXT,
        time_zone=ZONE,
        nulls=choice("first", "last"),
        top=whole(1),
        repeats=choice("anywhere", "same-segment"),
    )

    def parse(self, table: Section, sources: Mapping[str, SourceSettings]) -> PipelineSettings:
        source = table.pick("source", sources)
        schema, order_by = source.records.rows, table["order_by"].removeprefix("-")
        _check_old_images(table, source)
        _check_signs(table, schema)
        table.check_columns("group", schema)
        table.check_columns("id", schema)
        check_fixed(table, source, table["id"], "id")
        _check_directions(table, schema)
        table.check_columns("order_by", schema, [order_by])
        table.check_columns("tie_break", schema, [name.removeprefix("-") for name in table["tie_break"]])
        _check_segments(table, schema, order_by)
        own = {
            **table.fields(RankingSettings),
            "order_by": order_by,
            "descending": table["order_by"].startswith("-"),
            "event_time": source.event_time,
            "records": source.records,
        }
        return PipelineSettings(source.name, table.build(lambda: RankingSettings(table.name, schema, **own)))

    def build(self, settings: RankingSettings, parts: Parts) -> Ranking:
        return Ranking(settings, parts.engine)

    def open(self, settings: RankingSettings, pipeline: PipelineSettings, parts: SourceParts) -> Source:
        """Open the source; its changes are whole and complete if a row is found by its values, not only by its id."""
        by_values = settings.repeats == "same-segment"
        return parts.open(pipeline.sources[0], needs_whole_rows=by_values, compacted=REFUSE if by_values else WARN)


def _check_signs(table: Section, schema: Schema) -> None:
    """Refuse a text that is a column's name, and also the descending order of another one."""
    for key, texts in (("order_by", [table["order_by"]]), ("tie_break", table["tie_break"])):
        for text in texts:
            if text.startswith("-") and {text, text[1:]} <= {*schema.names}:
                raise table.error(
                    f"{text!r} is a column, and {text[1:]!r} in descending order: leave one of both columns out of the"
                    " schema of the source",
                    key,
                )


def _check_directions(table: Section, schema: Schema) -> None:
    """Refuse the words of SQL for a direction, such as ``placed desc``; the message has the text to write."""
    for key, texts in (("order_by", [table["order_by"]]), ("tie_break", table["tie_break"])):
        for text in texts:
            name, _, word = text.rpartition(" ")
            if text not in schema and name in schema and word.lower() in ("asc", "desc"):
                wanted = f"-{name}" if word.lower() == "desc" else name
                raise table.error(f"{text!r}: write {wanted!r}; a leading - means descending", key)


def _check_old_images(table: Section, source: SourceSettings) -> None:
    """Refuse to look for the earlier row of an id by its old image, if updates may lack it."""
    if table["repeats"] == "same-segment" and source.records.changes.before == "optional":
        raise table.error(
            f'source {source.name!r} has before = "optional", and repeats = "same-segment" finds the earlier row of an'
            " id by its old image: an update without it would leave the row as it was. Leave `repeats` out of the"
            ' pipeline ("anywhere" finds the row by its id), or `before` out of the source',
            "repeats",
        )


def _check_segments(table: Section, schema: Schema, order_by: str) -> None:
    """Check the segment and then the offset, so that an error names the line of the wrong key."""
    if schema[order_by].name in NUMBERS and not table.has("segment"):
        raise table.error(
            f"is missing; column {order_by!r} is a {schema[order_by].ddl}, so write the length of a segment as a number"
            " in its unit, such as 1000",
            "segment",
        )
    for key, offset in (("segment", "0s"), ("offset", table["offset"])):
        cut = partial(Segments.of, order_by, schema[order_by], interval=table["segment"], offset=offset)
        table.build(partial(cut, zone=table["time_zone"], nulls_lowest=False), key)
