"""Several sources as one: a topic group, whose rows say which topic they came from."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field

from .collect import collect_small
from .epoch import BATCH_COLUMNS, ORIGIN, POSITION, Batch, OffsetRange
from .errors import NotSupported
from .ports import StreamSource
from .schema import Column, Schema

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .epoch import Epoch, Offsets

TOPIC = "_topic"
"""string: the topic that a row came from."""

_SEPARATOR = ": "


def column_of(at: int, name: str) -> str:
    """What the column of a topic, counted from 0, is called in the rows of the group: no two topics share one.

    >>> column_of(1, "name")
    '_1_name'
    """
    return f"_{at}_{name}"


@define(eq=False)
class TopicGroup(StreamSource):
    """Several sources, each under the name of its topic, read side by side in every epoch.

    Rows have `TOPIC`, the columns of their topic under the names of `column_of`, and `BATCH_COLUMNS`; an epoch in
    which a topic brings nothing lacks its columns. ``_origin`` begins with the topic. A topic's rows keep their order;
    ``_position`` is ``position in the topic * number of topics + place of the topic``, and so unique. Offsets are those
    of each topic, by its name: a topic without any is read from its beginning.

    Args:
        members: the sources by topic; topics are words of letters, digits and underscores.
    """

    members: Mapping[str, StreamSource]
    schema: Schema = field(init=False)
    format: str = field(init=False, default="topic group")
    rereads: Collection[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        own = (
            Column(column_of(at, each.name), each.type)
            for at, member in enumerate(self.members.values())
            for each in member.schema.columns
        )
        self.schema = Schema((Column(TOPIC, Schema.parse(f"{TOPIC} string")[TOPIC]), *own))
        self.rereads = sorted({name for member in self.members.values() for name in member.rereads})

    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """What each topic has to read; None if none has anything new."""
        so_far = after or {}
        planned = {topic: member.plan(so_far.get(topic)) for topic, member in self.members.items()}
        until = {topic: each.until for topic, each in planned.items() if each is not None}
        return OffsetRange(after, {**so_far, **until}) if until else None

    def end(self) -> Offsets:
        """Where each topic ends now; those that hold nothing are left out."""
        ends = {topic: member.end() for topic, member in self.members.items()}
        return {topic: each for topic, each in ends.items() if each is not None}

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of a range, of those topics that have some in it."""
        return nw.concat(list(self._topics(offsets).values()), how="diagonal")

    def batch(self, epoch: Epoch, offsets: OffsetRange) -> Batch:
        """As `read`, and by topic as well."""
        topics = self._topics(offsets)
        return Batch(epoch, nw.concat(list(topics.values()), how="diagonal"), offsets, self.format, topics=topics)

    def passed_over(self) -> Mapping[str, int]:
        """Of all topics."""
        return sum((Counter(member.passed_over()) for member in self.members.values()), Counter())

    def again(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Read the records of dead letters once more, each by its own topic's source.

        Raises:
            NotSupported: a letter's topic is not there any longer, or its source cannot read such a letter.
        """
        origin, found = nw.col("origin"), self._topics_of(letters)
        parts = []
        for at, (topic, member) in enumerate(self.members.items()):
            if topic in found:
                prefix = topic + _SEPARATOR
                own = letters.filter(origin.str.starts_with(prefix))
                own = own.with_columns(origin.str.slice(len(prefix)).alias("origin"))
                parts.append(self._tagged(at, topic, member.again(own), member.schema))
        return nw.concat(parts, how="diagonal")

    def lag(self, after: Offsets | None) -> str:
        """How much waits in each topic."""
        so_far = after or {}
        return ", ".join(f"{topic}: {member.lag(so_far.get(topic))}" for topic, member in self.members.items())

    def _topics(self, offsets: OffsetRange) -> dict[str, nw.LazyFrame[Any]]:
        """The rows of a range by topic."""
        after, topics = offsets.after or {}, {}
        for at, (topic, member) in enumerate(self.members.items()):
            until = offsets.until.get(topic)
            if until is not None and until != after.get(topic):
                rows = member.read(OffsetRange(after.get(topic), until))
                topics[topic] = self._tagged(at, topic, rows, member.schema)
        return topics

    def _topics_of(self, letters: nw.LazyFrame[Any]) -> set[str]:
        topic = nw.col("origin").str.replace_all(f"{_SEPARATOR}.*$", "").alias(TOPIC)
        counted = letters.select(topic, nw.col("format")).group_by(TOPIC, "format").agg(nw.len().alias("letters"))
        lines = collect_small(counted)
        for line in lines:
            member = self.members.get(line[TOPIC])
            if member is None or line["format"] not in member.rereads:
                what = f"reading {line['letters']} dead letters of topic {line[TOPIC]!r} ({line['format']}) again"
                raise NotSupported(what, "its source", "bring what was wrong once more, as new records")
        return {line[TOPIC] for line in lines}

    def _tagged(self, at: int, topic: str, rows: nw.LazyFrame[Any], schema: Schema) -> nw.LazyFrame[Any]:
        told = [nw.col(name) for name in BATCH_COLUMNS if name not in (ORIGIN, POSITION)]
        return rows.select(
            nw.lit(topic).alias(TOPIC),
            *(nw.col(name).alias(column_of(at, name)) for name in schema.names),
            (nw.col(POSITION) * len(self.members) + at).alias(POSITION),
            nw.concat_str([nw.lit(topic + _SEPARATOR), nw.col(ORIGIN)]).alias(ORIGIN),
            *told,
        )
