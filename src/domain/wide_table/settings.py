"""The topics of a wide table, and which combinations of them make sense."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

from attrs import field, frozen

from ..changelog.settings import CHANGE_FORMATS
from ..errors import ConfigError
from ..schema import TIMES, Column, Schema, check_compared, check_own_names, column, free_name

if TYPE_CHECKING:
    from datetime import timedelta

    from ..schema import DataType
    from ..sql import Expression

GENERATORS = frozenset({"explode"})
"""Table functions that a topic may use."""
NULLS = ("overwrite", "keep")
ABSENT_MEANS = ("keep", "null")

_TOPIC = re.compile(r"[A-Za-z](_?[A-Za-z0-9])*")


@frozen
class Derived:
    """A column that a topic gives.

    Args:
        name: of the column.
        type: its type.
        expression: what it is, of a record of the topic.
    """

    name: str
    type: DataType
    expression: Expression


@frozen
class TopicSettings:
    """One topic.

    Args:
        name: letters, digits and underscores.
        schema: the columns of its source's rows.
        format: of its source's records.
        columns: the columns that it gives, key columns among them, in the order in which rows show them.
        sequence: what orders its records, compared from the first to the last, nulls first.
        where: which records count; None for all.
        owner: whether its deletes remove the row.
        nulls: whether a null overwrites what stands (``overwrite``) or says nothing (``keep``).
        absent: whether a column that a record does not carry keeps what stands (``keep``), or is null (``null``).
        event_time: the column that the watermark follows; None for no watermark.
        watermark_delay: how far the newest event time runs ahead of completeness.
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

    def __attrs_post_init__(self) -> None:
        if not _TOPIC.fullmatch(self.name):
            raise ConfigError(f"topic {self.name!r}: write letters, digits and single underscores, a letter first")
        if not self.sequence:
            raise ConfigError(
                'sequence needs at least one column, such as ["updated_at"]: it tells which record is newer'
            )
        for each in self.sequence:
            check_compared(f"sequence {each.name!r}", each.type)
        check_own_names((*self.schema.names, *(each.name for each in self.columns)))
        if self.event_time and self.schema[self.event_time].name not in TIMES:
            raise ConfigError(f"event_time {self.event_time!r} must be a timestamp or date")

    @property
    def by_column(self) -> bool:
        """Whether columns are kept each by its own sequence, since a record may speak for some of them alone."""
        return self.nulls == "keep" or self.absent == "keep"

    @property
    def in_pairs(self) -> bool:
        """Whether both images of an update come in one record."""
        return self.format in CHANGE_FORMATS

    @property
    def generates(self) -> bool:
        """Whether a record may make several rows."""
        return any(each.expression.generators for each in self.columns)

    @property
    def told(self) -> tuple[Column, ...]:
        """What view completeness tells of the topic."""
        return (
            column(f"{self.name}_reported", "boolean"),
            column(f"{self.name}_deleted", "boolean"),
            *(Column(f"{self.name}_{each.name}", each.type) for each in self.sequence),
            column(f"{self.name}_epoch", "bigint"),
        )

    def own(self, key: tuple[str, ...]) -> tuple[Derived, ...]:
        """The columns beside the key."""
        return tuple(each for each in self.columns if each.name not in key)


@frozen
class WideTableSettings:
    """A wide table.

    Args:
        pipeline: the pipeline's name.
        key: columns that name a row, which every topic gives.
        topics: in the order in which rows show their columns.
        tombstones: how long the key of a deleted row is remembered behind the watermark; None for ever.
    """

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
        """The topic whose deletes remove the row."""
        return next((topic for topic in self.topics if topic.owner), None)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The key with its types, as the first topic has them."""
        given = {each.name: each.type for each in self.topics[0].columns}
        return tuple(Column(name, given[name]) for name in self.key)

    @property
    def rows(self) -> Schema:
        """The key, then the columns of each topic."""
        own = (Column(each.name, each.type) for topic in self.topics for each in topic.own(self.key))
        return Schema((*self.key_columns, *own))

    def _check_key(self, topic: TopicSettings) -> None:
        given = {each.name: each.type for each in topic.columns}
        first = {each.name: each.type for each in self.topics[0].columns}
        for name in self.key:
            if name not in given:
                raise ConfigError(
                    f"topic {topic.name!r} has no key column {name!r}: its source must have it, or select give it, as"
                    f' in select = {{ {name} = "…" }}'
                )
            check_compared(f"key column {name!r}", given[name])
            if given[name] != first[name]:
                raise ConfigError(
                    f"key column {name!r} is {given[name].ddl} in topic {topic.name!r} and {first[name].ddl} in topic"
                    f" {self.topics[0].name!r}; cast it to one type by select"
                )
        if not topic.own(self.key):
            raise ConfigError(f"topic {topic.name!r} gives no column beside the key; name some under columns or select")

    def _check_columns(self) -> None:
        given: dict[str, str] = {}
        for topic in self.topics:
            for each in topic.own(self.key):
                if (other := given.get(each.name.lower())) is not None:
                    by = f"the topics {other!r} and {topic.name!r}" if other != topic.name else f"topic {other!r} twice"
                    raise ConfigError(
                        f"column {each.name!r} is given by {by} (letters' case aside); give one of them another name by"
                        " select"
                    )
                given[each.name.lower()] = topic.name

    def _check_names(self) -> None:
        names = [*self.key, *(each.name for each in self.told)]
        seen: set[str] = set()
        for name in names:
            if name.lower() in seen:
                raise ConfigError(
                    f"view completeness would have two columns {name!r}: give the topic another name, or the sequence,"
                    " by writing it as an expression, such as CAST(seq AS bigint)"
                )
            seen.add(name.lower())

    @property
    def told(self) -> tuple[Column, ...]:
        """What view completeness shows beside the key: whether the row is there, then what is known of each topic."""
        columns = (column("present", "boolean"), *(each for topic in self.topics for each in topic.told))
        return tuple(Column(free_name(each.name, self.key), each.type) for each in columns)

    @property
    def completeness(self) -> Schema:
        """The key, whether the row is there, then what is known of each topic."""
        return Schema((*self.key_columns, *self.told))

    @property
    def fingerprint(self) -> str:
        """Tells for the key, each topic and each column what stored rows depend on."""
        parts: dict[str, tuple[object, ...]] = {"": ("key", *((each.name, each.type.ddl) for each in self.key_columns))}
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
        told = {name: hashlib.sha256(repr(part).encode()).hexdigest()[:8] for name, part in parts.items()}
        return json.dumps(told, sort_keys=True, separators=(",", ":"))

    def changed(self, fingerprint: str) -> str | None:
        """What differs from the settings of another fingerprint beside new topics and columns; None if nothing."""
        if not fingerprint.startswith("{"):
            return "service"
        now, built = json.loads(self.fingerprint), json.loads(fingerprint)
        other = [name for name, told in built.items() if now.get(name) != told]
        return ", ".join(_told(name, gone=name not in now) for name in other) or None


def _told(name: str, *, gone: bool) -> str:
    topic, _, column = name.partition(".")
    if not name:
        return "key"
    if not column:
        return (
            f"topic {topic} (it is gone)" if gone else f"sequence, key, where, owner, nulls or absent of topic {topic}"
        )
    return f"column {column} of topic {topic} (it is gone)" if gone else f"expression or type of column {column}"
