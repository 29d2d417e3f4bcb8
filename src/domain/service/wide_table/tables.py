"""The tables of a wide-table pipeline, and the columns of each topic."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from ...source import dead_letter
from ...table.merge import Latest
from ...table.schema import Column, Schema, column
from ...table.spec import TableSpec
from ..segments import SEGMENT
from .settings import TopicSettings, WideTableSettings


@frozen
class TopicColumns:
    """The columns of one topic in the wide table: a sequence group for the topic, and maybe one for each column."""

    topic: TopicSettings
    key: tuple[str, ...]

    @property
    def sequence(self) -> tuple[str, ...]:
        """The columns with the sequence of the newest record."""
        return self.topic.stored_sequence

    @property
    def epoch(self) -> str:
        """bigint: the number of the epoch in which the newest record arrived."""
        return f"_{self.topic.name}_epoch"

    @property
    def deleted(self) -> str:
        """boolean: whether the newest record is a delete."""
        return f"_{self.topic.name}_deleted"

    def sequence_of(self, name: str) -> tuple[str, ...]:
        """The columns with the sequence of a column; see `TopicSettings.stored_sequence_of`."""
        return self.topic.stored_sequence_of(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The topic's columns besides the key."""
        return tuple(each.name for each in self.topic.own(self.key))

    @property
    def groups(self) -> Iterator[Latest]:
        shared = () if self.topic.by_column else self.names
        yield Latest(self.sequence, (self.epoch, self.deleted, *shared))
        if self.topic.by_column:
            for name in self.names:
                yield Latest(self.sequence_of(name), (name,))

    @property
    def columns(self) -> Iterator[Column]:
        """All columns of the topic in the wide table, without the key."""
        types = [each.type for each in self.topic.sequence]
        yield from (Column(name, type_) for name, type_ in zip(self.sequence, types, strict=True))
        yield column(self.epoch, "bigint")
        yield column(self.deleted, "boolean")
        for each in self.topic.own(self.key):
            if self.topic.by_column:
                sequence = zip(self.sequence_of(each.name), types, strict=True)
                yield from (Column(name, type_) for name, type_ in sequence)
            yield Column(each.name, each.type)


@frozen
class WideTables:
    """The tables of one wide table.

    Args:
        dead_letters: see `dead_letter.spec`.
        wide: one row per key, including deleted rows.
        tombstones: the keys of the owner's deletes, by day (see `Horizon`); None if deletes never expire.
        topics: the columns of each topic in `wide`.
    """

    dead_letters: TableSpec
    wide: TableSpec
    tombstones: TableSpec | None
    topics: tuple[TopicColumns, ...]

    @classmethod
    def of(cls, settings: WideTableSettings) -> WideTables:
        topics = tuple(TopicColumns(topic, settings.key) for topic in settings.topics)
        schema = Schema((*settings.key_columns, *(each for topic in topics for each in topic.columns)))
        groups = tuple(group for topic in topics for group in topic.groups)
        wide = TableSpec(f"{settings.pipeline}.wide", schema, key=settings.key, groups=groups)
        day = Schema((*settings.key_columns, column(SEGMENT, "bigint")))
        tombstones = TableSpec(f"{settings.pipeline}.tombstones", day, key=day.names, partition_by=(SEGMENT,))
        expires = settings.tombstones is not None
        return cls(dead_letter.spec(settings.pipeline), wide, tombstones if expires else None, topics)

    @property
    def in_order(self) -> tuple[TableSpec, ...]:
        """All tables in the order of their commits."""
        return (self.dead_letters, *([self.tombstones] if self.tombstones else []), self.wide)
