"""The tables that a wide table keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from .. import dead_letter
from ..merge import Latest
from ..schema import Column, Schema, column
from ..segments import SEGMENT
from ..table import TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .settings import TopicSettings, WideTableSettings


@frozen
class Kept:
    """How the columns of one topic are kept: a sequence group for the topic, or one more for each of its columns.

    Args:
        topic: which.
        key: columns that name a row.
    """

    topic: TopicSettings
    key: tuple[str, ...]

    @property
    def sequence(self) -> tuple[str, ...]:
        """Columns of the newest record's sequence."""
        return self._sequence(f"_{self.topic.name}__")

    @property
    def epoch(self) -> str:
        """bigint: the number of the epoch in which the newest record arrived."""
        return f"_{self.topic.name}_epoch"

    @property
    def deleted(self) -> str:
        """boolean: whether the newest record is a delete."""
        return f"_{self.topic.name}_deleted"

    def sequence_of(self, name: str) -> tuple[str, ...]:
        """Columns of the sequence by which a column is kept."""
        return self._sequence(f"_{self.topic.name}__{name}__") if self.topic.by_column else self.sequence

    def _sequence(self, prefix: str) -> tuple[str, ...]:
        return tuple(f"{prefix}{each.name}" for each in self.topic.sequence)

    @property
    def names(self) -> tuple[str, ...]:
        """The topic's columns beside the key."""
        return tuple(each.name for each in self.topic.own(self.key))

    @property
    def groups(self) -> Iterator[Latest]:
        """The sequence groups."""
        together = () if self.topic.by_column else self.names
        yield Latest(self.sequence, (self.epoch, self.deleted, *together))
        if self.topic.by_column:
            for name in self.names:
                yield Latest(self.sequence_of(name), (name,))

    @property
    def columns(self) -> Iterator[Column]:
        """All columns, as the table has them."""
        types = [each.type for each in self.topic.sequence]
        yield from (Column(name, type_) for name, type_ in zip(self.sequence, types, strict=True))
        yield column(self.epoch, "bigint")
        yield column(self.deleted, "boolean")
        for each in self.topic.own(self.key):
            if self.topic.by_column:
                places = zip(self.sequence_of(each.name), types, strict=True)
                yield from (Column(name, type_) for name, type_ in places)
            yield Column(each.name, each.type)


@frozen
class WideTables:
    """The tables of one wide table.

    Args:
        letters: see `dead_letter.spec`.
        wide: a row a key, those that are gone among them.
        tombstones: the keys of the owner's deletes by day, where these are to be forgotten one day.
        kept: how each topic is kept in `wide`.
    """

    letters: TableSpec
    wide: TableSpec
    tombstones: TableSpec | None
    kept: tuple[Kept, ...]

    @classmethod
    def of(cls, settings: WideTableSettings) -> WideTables:
        """The tables for these settings."""
        kept = tuple(Kept(topic, settings.key) for topic in settings.topics)
        schema = Schema((*settings.key_columns, *(each for topic in kept for each in topic.columns)))
        groups = tuple(group for topic in kept for group in topic.groups)
        wide = TableSpec(f"{settings.pipeline}.wide", schema, key=settings.key, groups=groups)
        day = Schema((*settings.key_columns, column(SEGMENT, "bigint")))
        tombstones = TableSpec(f"{settings.pipeline}.tombstones", day, key=day.names, partition_by=(SEGMENT,))
        forgets = settings.tombstones is not None
        return cls(dead_letter.spec(settings.pipeline), wide, tombstones if forgets else None, kept)

    @property
    def in_order(self) -> tuple[TableSpec, ...]:
        """All tables in the order of their commits."""
        return (self.letters, *([self.tombstones] if self.tombstones else []), self.wide)
