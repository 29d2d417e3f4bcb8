"""The keys of a wide table, and how they become its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....domain.errors import ConfigError
from ....domain.service.wide_table import ABSENT_MEANS, GENERATORS, NULLS, Derived, TopicSettings, WideTableSettings
from ....domain.sql import parse_expression
from ....domain.sql.typing import type_query
from ....domain.table.schema import DataType
from ...document.value_types import DURATION, FLAG, SETTINGS, SOME_TEXTS, TABLE, TEXT, TEXTS, Key, choice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ....domain.sql import Expression
    from ....domain.table.schema import Schema
    from ...deployment.deployment import SourceSettings
    from ...document.document import Document
    from ...document.lines import KeyPath

WIDE_TABLE = {
    "key": Key(SOME_TEXTS, required=True),
    "topics": Key(TABLE, required=True),
    "tombstones": Key(DURATION),
}
_TOPIC = {
    "source": Key(TEXT, required=True),
    "columns": Key(TEXTS, ()),
    "select": Key(SETTINGS, {}),
    "where": Key(TEXT),
    "sequence": Key(SOME_TEXTS, required=True),
    "owner": Key(FLAG, default=False),
    "nulls": Key(choice(*NULLS), "overwrite"),
    "absent": Key(choice(*ABSENT_MEANS)),
}


def wide_table(
    document: Document, path: KeyPath, values: Mapping[str, Any], sources: Mapping[str, SourceSettings]
) -> tuple[WideTableSettings, dict[str, str]]:
    """Read the settings of a wide table and the source of each topic; errors name the line of each key.

    Args:
        document: the configuration file.
        path: of the pipeline.
        values: of the pipeline's table.
        sources: by name.

    Raises:
        ConfigError: names file, line and key of the first mistake, and what is allowed.
    """
    name, key = str(path[-1]), values["key"]
    topics: list[TopicSettings] = []
    read: dict[str, str] = {}
    for topic in values["topics"]:
        at = (*path, "topics", topic)
        section = document.section(at, _TOPIC)
        source = _source(document, at, section, sources)
        topics.append(_Topic(document, at, section, source, key).settings())
        # Checked with the topics before it, so that an error names the topic that does not fit.
        document.build(at, lambda: WideTableSettings(name, key, topics))
        read[topic] = source.name
    whole = document.build(path, lambda: WideTableSettings(name, key, topics, values["tombstones"]))
    return whole, read


def wide_table_shape(pipeline: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of the topics of a wide table that are in the file."""
    topics = pipeline.get("topics")
    if not isinstance(topics, dict):
        return {}
    return {"topics": {name: _topic_shape(topic) for name, topic in topics.items() if isinstance(topic, dict)}}


def _topic_shape(topic: Mapping[str, Any]) -> dict[str, Any]:
    select = topic.get("select")
    return {**_TOPIC, "select": dict.fromkeys(select, Key(TEXT))} if isinstance(select, dict) else dict(_TOPIC)


def _source(
    document: Document, path: KeyPath, section: Mapping[str, Any], sources: Mapping[str, SourceSettings]
) -> SourceSettings:
    if section["source"] not in sources:
        document.value((*path, "source"), Key(choice(*sources)))
    source = sources[section["source"]]
    if source.input.submitted:
        raise document.error(
            (*path, "source"),
            f'{source.name!r} is of kind "{source.input.kind}", which cannot be a topic of a wide table;'
            " use files or kafka",
        )
    return source


class _Topic:
    """Reads the keys of one topic.

    Args:
        document: the configuration file.
        path: of the topic.
        section: the values of its table.
        source: the source that the topic reads.
        key: of the wide table.
    """

    def __init__(
        self,
        document: Document,
        path: KeyPath,
        section: Mapping[str, Any],
        source: SourceSettings,
        key: tuple[str, ...],
    ) -> None:
        self.document, self.path, self.section, self.source, self.key = document, path, section, source, key
        self.schema: Schema = source.records.columns

    def settings(self) -> TopicSettings:
        """The topic's settings."""
        columns, sequence, where = (*self._key(), *self._columns()), tuple(self._sequence()), self._where()
        return self.document.build(
            self.path,
            lambda: TopicSettings(
                str(self.path[-1]),
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
            ),
        )

    def _key(self) -> Iterator[Derived]:
        for name in self.key:
            if name not in self.section["select"]:
                if name not in self.schema:
                    raise self._error(
                        f"no key column {name!r}: its source {self.source.name!r} must have it, or select give it, as"
                        f' in select = {{ {name} = "…" }}'
                    )
                yield self._bare(name)

    def _columns(self) -> Iterator[Derived]:
        named, selected = self.section["columns"], self.section["select"]
        self.document.check_columns((*self.path, "columns"), self.schema.names, *named)
        for name in named:
            if name in selected or named.count(name) > 1:
                raise self.document.error((*self.path, "columns"), f"column {name!r} is given twice; name it once")
            if name not in self.key:
                yield self._bare(name)
        for name, text in selected.items():
            at = (*self.path, "select", name)
            yield self.document.build(at, lambda: self._selected(name, text))  # noqa: B023 - called at once
        if sum(bool(parse_expression(text).generators) for text in selected.values()) > 1:
            raise self.document.error((*self.path, "select"), "has more than one table function; use one")

    def _bare(self, name: str) -> Derived:
        return Derived(name, self.schema[name], parse_expression(f"`{name}`"))

    def _selected(self, name: str, text: str) -> Derived:
        expression = parse_expression(text)
        expression.check_of_one_row(generators=GENERATORS)
        expression.check_columns(self.schema)
        return Derived(name, _type(expression, self.schema), expression)

    def _sequence(self) -> Iterator[Derived]:
        for number, text in enumerate(self.section["sequence"], 1):
            yield self.document.build((*self.path, "sequence"), lambda: self._placed(number, text))  # noqa: B023

    def _placed(self, number: int, text: str) -> Derived:
        expression = self._of_one_row(text)
        return Derived(expression.bare or f"sequence_{number}", _type(expression, self.schema), expression)

    def _where(self) -> Expression | None:
        return None if self.section["where"] is None else self.document.build((*self.path, "where"), self._condition)

    def _condition(self) -> Expression:
        expression = self._of_one_row(self.section["where"])
        if (kind := _type(expression, self.schema)) != DataType("boolean"):
            raise ConfigError(f"{expression.sql} is a {kind.ddl}; write a condition, such as items is not null")
        return expression

    def _of_one_row(self, text: str) -> Expression:
        expression = parse_expression(text)
        expression.check_of_one_row()
        expression.check_columns(self.schema)
        return expression

    def _absent(self) -> str:
        detects, absent = self.source.records.is_json, self.section["absent"]
        if absent == "keep" and not detects:
            raise ConfigError(
                f"absent: records of {self.source.records.format} contain every column; leave the key out"
            )
        return absent or ("keep" if detects else "null")

    def _error(self, message: str) -> ConfigError:
        return self.document.error(self.path, message)


def _type(expression: Expression, schema: Schema) -> DataType:
    """The type of an expression over rows of a schema.

    Raises:
        ConfigError: the type is not known without Spark.
    """
    if (declared := expression.declared_type(schema)) is not None:
        return declared
    columns = {each.name: each.type.ddl for each in schema.columns}
    try:
        return type_query(f"SELECT {expression.sql} AS value FROM rows", {"rows": columns}).schema["value"]  # noqa: S608
    except ConfigError as error:
        raise ConfigError(
            f"the type of {expression.sql} is unknown before the run ({error}); cast it: CAST(… AS bigint)"
        ) from error
