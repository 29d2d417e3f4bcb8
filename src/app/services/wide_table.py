"""Wide tables, as a kind of service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...domain.errors import ConfigError, did_you_mean
from ...domain.ports import Source
from ...domain.service.base import Service
from ...domain.service.wide_table import (
    ABSENT_MEANS,
    GENERATORS,
    NULLS,
    Derived,
    TopicSettings,
    WideTable,
    WideTableSettings,
)
from ...domain.source.topic_group import TopicGroup
from ...domain.sql import Expression, parse_row_expression
from ...domain.sql.typing import check_condition, type_expression
from ...domain.table.schema import DataType, Schema
from ..deployment.deployment import PipelineSettings, SourceSettings
from ..document.section import Section
from ..document.value_types import (
    DURATION,
    FLAG,
    OPTIONS,
    SOME_TEXTS,
    SOURCE,
    TEXT,
    TEXTS,
    Key,
    choice,
    keys_of,
    named,
    table_of,
)
from ..run.bootstrap import HistoryTable
from .histories import Histories
from .keys import ANY_STREAM
from .kind import Parts, ServiceKind, SourceParts
from .old_images import check_fixed
from .texts import Columns, Text, of_row

_TOPIC = {
    "source": Key(SOURCE, required=True),
    "columns": Key(TEXTS, ()),
    "select": Key(OPTIONS, {}),
    "where": Key(TEXT),
    "sequence": Key(SOME_TEXTS, required=True),
    **keys_of(TopicSettings, owner=FLAG, nulls=choice(*NULLS)),
    "absent": Key(choice(*ABSENT_MEANS)),
}


class WideTableKind(ServiceKind[WideTableSettings, WideTable]):
    """One row per key, with the newest values of each topic."""

    keys = ANY_STREAM | keys_of(WideTableSettings, key=SOME_TEXTS, topics=named(table_of(_TOPIC)), tombstones=DURATION)

    def parse(self, table: Section, sources: Mapping[str, SourceSettings]) -> PipelineSettings:
        name, key = table.name, table["key"]
        sections = [table.inner(_TOPIC, "topics", topic) for topic in table["topics"]]
        read = [_Topic(section, _source(section, sources), key) for section in sections]
        _check_key(table, read)
        topics: list[TopicSettings] = []
        for topic in read:
            topics.append(topic.settings())
            # Checked with the topics before it, so that an error names the topic that does not fit.
            topic.section.build(lambda: WideTableSettings(name, key, topics))
        sources_read = {topic.section.name: topic.source.name for topic in read}
        settings = table.build(lambda: WideTableSettings(name, key, topics, table["tombstones"]))
        return PipelineSettings(sources_read, settings)

    def build(self, settings: WideTableSettings, parts: Parts) -> WideTable:
        return WideTable(settings, parts.engine, parts.queries)

    def open(self, settings: WideTableSettings, pipeline: PipelineSettings, parts: SourceParts) -> Source:
        """Open a group of the topics; rows list the columns that their record did not have if that matters."""
        read = zip(settings.topics, pipeline.sources, strict=True)
        return TopicGroup({topic.name: parts.open(name, tells_absent=topic.absent == "keep") for topic, name in read})

    def history(
        self,
        settings: WideTableSettings,
        pipeline: PipelineSettings,
        tables: Mapping[str, HistoryTable],
        files: int,
        parts: SourceParts,
    ) -> tuple[Service, Source]:
        sources = {
            topic.name: parts.settings[name] for topic, name in zip(settings.topics, pipeline.sources, strict=True)
        }
        return Histories(parts.sources, parts.engine, parts.queries).open(settings, sources, tables, files)

    def texts(self, settings: WideTableSettings, service: WideTable, columns: Columns) -> Iterator[Text]:  # noqa: ARG002 - settings say all
        for topic in settings.topics:
            for each in (*topic.columns, *topic.sequence):
                yield of_row(f"topics.{topic.name}.{each.name}", each.expression, topic.schema)
            if topic.where:
                yield of_row(f"topics.{topic.name}.where", topic.where, topic.schema)

    def describe_inputs(self, settings: WideTableSettings, pipeline: PipelineSettings) -> str:
        read = zip(settings.topics, pipeline.sources, strict=True)
        return ", ".join(f"topic {topic.name} (source {source})" for topic, source in read)


def _source(topic: Section, sources: Mapping[str, SourceSettings]) -> SourceSettings:
    source = topic.pick("source", sources)
    if source.input.submitted:
        raise topic.error(
            f'{source.name!r} is of kind "{source.input.kind}", which cannot be a topic of a wide table;'
            " use files or kafka",
            "source",
        )
    return source


def _check_key(table: Section, topics: Sequence[_Topic]) -> None:
    """Refuse a key column that no topic has: its name is wrong, not a topic."""
    known = [name for topic in topics for name in (*topic.schema.names, *topic.section["select"])]
    for name in table["key"]:
        if topics and name not in known:
            raise table.error(
                f"no topic has the column {name!r}: the source of each topic must have it, or select give it, as in"
                f' select = {{ {name} = "…" }}{did_you_mean(name, known)}',
                "key",
            )


class _Topic:
    """Reads the keys of one topic of a wide table with a key."""

    def __init__(self, section: Section, source: SourceSettings, key: tuple[str, ...]) -> None:
        self.section, self.source, self.key = section, source, key
        self.schema: Schema = source.records.columns

    def settings(self) -> TopicSettings:
        columns, sequence, where = (*self._key(), *self._columns()), tuple(self._sequence()), self._where()
        self._check_key(columns)
        return self.section.build(
            lambda: TopicSettings(
                self.section.name,
                self.schema,
                self.source.records.format,
                columns,
                sequence,
                where,
                owner=self.section["owner"],
                nulls=self.section["nulls"],
                absent=self._absent(),
                event_time=self.source.event_time,
                watermark_delay=self.source.watermark_delay,
                records=self.source.records,
            )
        )

    def _key(self) -> Iterator[Derived]:
        for name in self.key:
            if name not in self.section["select"]:
                if name not in self.schema:
                    raise self.section.error(
                        f"no key column {name!r}: its source {self.source.name!r} must have it, or select give it, as"
                        f' in select = {{ {name} = "…" }}'
                    )
                yield self._bare(name)

    def _check_key(self, columns: Sequence[Derived]) -> None:
        """Refuse a key that an update without its old image may change."""
        for each in columns:
            if each.name in self.key:
                at = ("select", each.name) if each.name in self.section["select"] else ("source",)
                check_fixed(self.section, self.source, each.expression.columns, *at)

    def _columns(self) -> Iterator[Derived]:
        named, selected = self.section["columns"], self.section["select"]
        self.section.check_columns("columns", self.schema)
        for name in named:
            if name in selected:
                raise self.section.error(f"column {name!r} is given twice; name it once", "columns")
            if name not in self.key:
                yield self._bare(name)
        generators = 0
        for name, text in selected.items():
            column = self.section.build(lambda: self._selected(name, text), "select", name)  # noqa: B023 - called at once
            generators += column.expression.generates
            yield column
        if generators > 1:
            raise self.section.error("has more than one table function; use one", "select")

    def _bare(self, name: str) -> Derived:
        return Derived(name, self.schema[name], parse_row_expression(name, self.schema))

    def _selected(self, name: str, text: str) -> Derived:
        expression = parse_row_expression(text, self.schema, GENERATORS)
        return Derived(name, _type(expression, self.schema), expression)

    def _sequence(self) -> Iterator[Derived]:
        for number, text in enumerate(self.section["sequence"], 1):
            yield self.section.build(lambda: self._placed(number, text), "sequence")  # noqa: B023

    def _placed(self, number: int, text: str) -> Derived:
        expression = parse_row_expression(text, self.schema)
        return Derived(expression.bare or f"sequence_{number}", _type(expression, self.schema), expression)

    def _where(self) -> Expression | None:
        return None if self.section["where"] is None else self.section.build(self._condition, "where")

    def _condition(self) -> Expression:
        expression = parse_row_expression(self.section["where"], self.schema)
        check_condition(expression, _type(expression, self.schema))
        return expression

    def _absent(self) -> str:
        detects, absent = self.source.records.is_json, self.section["absent"]
        if absent == "keep" and not detects:
            raise ConfigError(
                f"absent: records of {self.source.records.format} contain every column; leave the key out"
            )
        return absent or ("keep" if detects else "null")


def _type(expression: Expression, schema: Schema) -> DataType:
    """The type of an expression over rows of a schema.

    Raises:
        ConfigError: the type is not known without Spark.
    """
    try:
        return type_expression(expression, schema)
    except ConfigError as error:
        raise ConfigError(
            f"the type of {expression.sql} is unknown before the run ({error}); cast it: CAST(… AS bigint)"
        ) from error
