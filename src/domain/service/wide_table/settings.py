"""The settings of a wide-table pipeline and its topics, and the checks of their combinations."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from datetime import timedelta
from itertools import chain
from typing import ClassVar

from attrs import field, frozen

from ...errors import ConfigError
from ...source.changelog.settings import CHANGE_FORMATS
from ...source.decoding import decoding_of, key_decoding
from ...source.record_spec import JSON_FORMATS, RecordSpec
from ...sql import Expression
from ...table.column_checks import check_compared, check_own_names, free_name
from ...table.fingerprint import (
    DECODING,
    FIXED_DECODING,
    NAMED_PARTS,
    READ_TYPES,
    changed_decoding,
    changed_types,
    join_parts,
    split_parts,
)
from ...table.schema import TIMES, Column, DataType, Schema, column

GENERATORS = frozenset({"explode"})
"""Table functions that a topic may use."""
NULLS = ("overwrite", "keep")
ABSENT_MEANS = ("keep", "null")

_KEY = ""
"""The part of a fingerprint that is for the key."""
_TOPIC = re.compile(r"[A-Za-z](_?[A-Za-z0-9])*")


@frozen
class Derived:
    """A column that is computed from a record of a topic."""

    name: str
    type: DataType
    expression: Expression


@frozen
class TopicSettings:
    """The settings of a topic.

    Args:
        name: letters, digits and underscores.
        schema: the columns of the source's rows.
        format: the format of the source's records.
        columns: the topic's columns, key columns included, in their order in views.
        sequence: the columns that order the records, compared from the first to the last, nulls first.
        where: the condition on records; None: all records.
        owner: whether a delete of this topic removes the row.
        nulls: what a null does: ``overwrite`` replaces the stored value, ``keep`` has no effect.
        absent: what a missing column of a record does: ``keep`` has no effect, ``null`` stores null.
        event_time: the column of the watermark; None for no watermark.
        watermark_delay: how late records may be.
        records: how the source's records are read; None: not on record.
    """

    name: str
    schema: Schema
    format: str
    columns: tuple[Derived, ...] = field(converter=tuple[Derived, ...])
    sequence: tuple[Derived, ...] = field(converter=tuple[Derived, ...])
    where: Expression | None = None
    owner: bool = False
    nulls: str = "overwrite"
    absent: str = "null"
    event_time: str | None = None
    watermark_delay: timedelta = field(kw_only=True)
    records: RecordSpec | None = field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if not _TOPIC.fullmatch(self.name):
            raise ConfigError(f"topic {self.name!r}: write letters, digits and single underscores, a letter first")
        if not self.sequence:
            raise ConfigError(
                'sequence needs at least one column, such as ["updated_at"]: it decides which record is newer'
            )
        for each in self.sequence:
            check_compared(f"sequence {each.name!r}", each.type)
        check_own_names((*self.schema.names, *(each.name for each in self.columns)))
        if self.event_time and self.schema[self.event_time].name not in TIMES:
            raise ConfigError(f"event_time {self.event_time!r} must be a timestamp or date")

    @property
    def by_column(self) -> bool:
        """Whether each column has its own sequence, because a record may set only some of the columns."""
        return self.nulls == "keep" or self.absent == "keep"

    @property
    def in_pairs(self) -> bool:
        """Whether a record of an update has both images."""
        return self.format in CHANGE_FORMATS

    @property
    def changes(self) -> bool:
        """Whether its records may be deletes."""
        return self.in_pairs or self.records is None or self.records.row_kind is not None

    @property
    def generates(self) -> bool:
        """Whether a record may produce several rows."""
        return any(each.expression.generators for each in self.columns)

    @property
    def state_columns(self) -> tuple[Column, ...]:
        """The topic's columns in the view `completeness`."""
        return (
            column(f"{self.name}_reported", "boolean"),
            column(f"{self.name}_deleted", "boolean"),
            *(Column(f"{self.name}_{each.name}", each.type) for each in self.sequence),
            column(f"{self.name}_epoch", "bigint"),
        )

    @property
    def read_columns(self) -> tuple[Column, ...]:
        """The columns of the source's rows that the expressions and the condition read."""
        computed = (each.expression for each in (*self.columns, *self.sequence))
        conditions = () if self.where is None else (self.where,)
        named = {name.lower() for each in (*computed, *conditions) for name in each.columns}
        return tuple(each for each in self.schema.columns if each.name.lower() in named)

    def own(self, key: tuple[str, ...]) -> tuple[Derived, ...]:
        """The columns besides the key."""
        return tuple(each for each in self.columns if each.name not in key)

    @property
    def stored_sequence(self) -> tuple[str, ...]:
        """The stored columns with the sequence of the newest record."""
        return tuple(f"_{self.name}__{each.name}" for each in self.sequence)

    def stored_sequence_of(self, name: str) -> tuple[str, ...]:
        """The stored columns with the sequence of a column: its own sequence if `by_column`, else the topic's."""
        own = tuple(f"_{self.name}__{name}__{each.name}" for each in self.sequence)
        return own if self.by_column else self.stored_sequence


@frozen
class WideTableSettings:
    """The settings of a wide-table pipeline.

    Args:
        pipeline: the pipeline's name.
        key: the key columns; every topic has them.
        topics: the topics, in the order of their columns in views.
        tombstones: how long after the day of its delete, by the watermark, a deleted row is kept; None: forever.
    """

    kind: ClassVar[str] = "wide_table"

    pipeline: str
    key: tuple[str, ...] = field(converter=tuple[str, ...])
    topics: tuple[TopicSettings, ...] = field(converter=tuple[TopicSettings, ...])
    tombstones: timedelta | None = None

    def __attrs_post_init__(self) -> None:
        if not self.topics:
            raise ConfigError("topics needs at least one: [pipelines.NAME.topics.TOPIC]")
        for topic in self.topics:
            self._check_key(topic)
        self._check_columns()
        self._check_names()
        owners = [topic.name for topic in self.topics if topic.owner]
        if len(owners) > 1:
            raise ConfigError(f"topics {' and '.join(owners)} both are the owner; one topic's deletes remove the row")
        if self.tombstones is not None and (self.owner is None or self.owner.event_time is None):
            raise ConfigError(
                "tombstones goes by the owner's event time: one topic needs owner = true, its source event_time"
            )

    @property
    def owner(self) -> TopicSettings | None:
        """The topic whose deletes remove the row; None if no topic is the owner."""
        return next((topic for topic in self.topics if topic.owner), None)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The key columns, with their types in the first topic."""
        types = {each.name: each.type for each in self.topics[0].columns}
        return tuple(Column(name, types[name]) for name in self.key)

    @property
    def rows(self) -> Schema:
        """The columns of the view `rows`: the key, then the columns of each topic."""
        own = (Column(each.name, each.type) for topic in self.topics for each in topic.own(self.key))
        return Schema((*self.key_columns, *own))

    def _check_key(self, topic: TopicSettings) -> None:
        types = {each.name: each.type for each in topic.columns}
        first = {each.name: each.type for each in self.topics[0].columns}
        for name in self.key:
            if name not in types:
                raise ConfigError(
                    f"topic {topic.name!r} has no key column {name!r}: add it to the source, or define it by select, as"
                    f' in select = {{ {name} = "…" }}'
                )
            check_compared(f"key column {name!r}", types[name])
            if types[name] != first[name]:
                raise ConfigError(
                    f"key column {name!r} is {types[name].ddl} in topic {topic.name!r} and {first[name].ddl} in topic"
                    f" {self.topics[0].name!r}; cast it to one type by select"
                )
        if not topic.own(self.key):
            raise ConfigError(
                f"topic {topic.name!r} gives no column besides the key; name some under columns or select"
            )

    def _check_columns(self) -> None:
        topic_of: dict[str, str] = {}
        for topic in self.topics:
            for each in topic.own(self.key):
                if (other := topic_of.get(each.name.lower())) is not None:
                    by = f"the topics {other!r} and {topic.name!r}" if other != topic.name else f"topic {other!r} twice"
                    raise ConfigError(
                        f"column {each.name!r} is given by {by} (upper and lower case are the same); rename one of"
                        " them by select"
                    )
                topic_of[each.name.lower()] = topic.name

    def _check_names(self) -> None:
        if name := _repeated([*self.key, *(each.name for each in self.state_columns)]):
            raise ConfigError(
                f"view completeness would have two columns {name!r}: give the topic another name, or the sequence,"
                " by writing it as an expression, such as CAST(seq AS bigint)"
            )
        for topic in self.topics:
            of_columns = (topic.stored_sequence_of(each.name) for each in topic.own(self.key) if topic.by_column)
            if name := _repeated([*topic.stored_sequence, *chain(*of_columns)]):
                raise ConfigError(
                    f"topic {topic.name!r} would store two sequences, of a record or a column, as {name!r}: give the"
                    " sequence another name, by writing it as an expression, such as CAST(seq AS bigint)"
                )

    @property
    def state_columns(self) -> tuple[Column, ...]:
        """The columns of the view `completeness` besides the key: `present`, then the columns of each topic."""
        columns = (column("present", "boolean"), *(each for topic in self.topics for each in topic.state_columns))
        return tuple(Column(free_name(each.name, self.key), each.type) for each in columns)

    @property
    def completeness(self) -> Schema:
        """The columns of the view `completeness`."""
        return Schema((*self.key_columns, *self.state_columns))

    @property
    def fingerprint(self) -> str:
        """A JSON object with a hash of each part that stored rows depend on (the key, each topic and each column).

        Besides, it has the settings by which the sources are read, and the types of the columns that expressions read:
        a cast to text, for example, has another value if its argument has another type.
        """
        key = ((each.name, each.type.ddl) for each in self.key_columns)
        parts: dict[str, tuple[object, ...]] = {_KEY: ("key", *key)}
        for topic in self.topics:
            parts[topic.name] = (
                *((each.name, each.expression.sql, each.type.ddl) for each in topic.sequence),
                *((each.name, each.expression.sql) for each in topic.columns if each.name in self.key),
                topic.where.sql if topic.where else "",
                topic.owner,
                topic.nulls,
                topic.by_column,
            )
            for each in topic.own(self.key):
                parts[f"{topic.name}.{each.name}"] = (each.expression.sql, each.type.ddl)
        hashes = {name: hashlib.sha256(repr(part).encode()).hexdigest()[:8] for name, part in parts.items()}
        return join_parts({**hashes, **self._decoding, READ_TYPES: self._read_types})

    @property
    def _decoding(self) -> dict[str, dict[str, str]]:
        """The parts of a fingerprint for the settings by which the sources are read.

        Those of key and sequence must stay. So must `absent`: the hash of a topic only has `by_column`.
        """
        all_: dict[str, str] = {}
        fixed: dict[str, str] = {}
        for topic in self.topics:
            compared = (*topic.sequence, *(each for each in topic.columns if each.name in self.key))
            columns = [name for each in compared for name in each.expression.columns]
            of_topic = f"of topic {topic.name}"
            all_ |= {f"{name} {of_topic}": value for name, value in decoding_of(topic.records).items()}
            fixed |= {f"{name} {of_topic}": value for name, value in key_decoding(topic.records, columns).items()}
            if topic.format in JSON_FORMATS:  # in others no field can be absent
                fixed[f"absent {of_topic}"] = topic.absent
        return {DECODING: all_, FIXED_DECODING: fixed}

    @property
    def _read_types(self) -> dict[str, str]:
        """The types of the columns that expressions read, by their names for messages."""
        return {
            f"type of column {each.name} in the source of topic {topic.name}": each.type.ddl
            for topic in self.topics
            for each in topic.read_columns
        }

    def changed(self, fingerprint: str) -> str | None:
        """Return the settings that differ from another fingerprint; None if there are only new topics and columns."""
        now, built = split_parts(self.fingerprint), split_parts(fingerprint)
        if _KEY not in built:
            return "service"
        hashes = ((name, value) for name, value in built.items() if name not in NAMED_PARTS)
        other = [_describe_change(name, removed=name not in now) for name, hash_ in hashes if now.get(name) != hash_]
        source = changed_decoding(fingerprint, self.fingerprint, FIXED_DECODING)
        types = changed_types(fingerprint, self.fingerprint)
        return ", ".join((*other, *filter(None, (source, types)))) or None


def _repeated(names: Iterable[str]) -> str | None:
    """The first name that occurs again, in upper or lower case; None if there is none."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            return name
        seen.add(name.lower())
    return None


def topics_of(fingerprint: str) -> frozenset[str]:
    """The names of the topics in a fingerprint of a wide table; see `WideTableSettings.fingerprint`."""
    return frozenset(name for name in split_parts(fingerprint) if "." not in name) - {_KEY} - NAMED_PARTS


def _describe_change(name: str, *, removed: bool) -> str:
    topic, _, column = name.partition(".")
    if name == _KEY:
        return "key"
    if not column:
        return (
            f"topic {topic} (it is gone)"
            if removed
            else f"sequence, key, where, owner, nulls or absent of topic {topic}"
        )
    return f"column {column} of topic {topic} (it is gone)" if removed else f"expression or type of column {column}"
