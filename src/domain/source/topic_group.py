"""Topic groups: several sources read as one; each row has the name of its topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import narwhals as nw
from attrs import define, field

from ..epoch.batch import BATCH_COLUMNS, ORIGIN, Batch
from ..epoch.epoch import Epoch, OffsetRange, Offsets
from ..ports import Now, Source, StreamSource
from ..table.change import POSITION
from ..table.collect import collect_small
from ..table.schema import Schema

TOPIC = "_topic"
"""string: the topic of a row."""

_SEPARATOR = ": "


def column_of(at: int, name: str) -> str:
    """The name, in the group's rows, of a column of a topic (`at`: its index, from 0). Topics share no column.

    >>> column_of(1, "name")
    '_1_name'
    """
    return f"_{at}_{name}"


def join_ranges(
    after: Offsets | None, planned: Mapping[str, OffsetRange | None], streams: Mapping[str, StreamSource]
) -> OffsetRange | None:
    """The range of a group, from those of its members; None if no member has anything to read.

    A stream that was empty so far gets the offsets of its beginning, and nothing of it is read. So it is noticed if its
    first records are removed before the next epoch.

    Args:
        after: the group's offsets, by member.
        planned: the next range of each member; None if it has nothing to read.
        streams: the members that are streams.
    """
    ranges = {member: each for member, each in planned.items() if each is not None}
    if not ranges:
        return None
    empty = [member for member in streams if member not in ranges and member not in (after or {})]
    beginnings = {member: at for member in empty if (at := streams[member].beginning()) is not None}
    starts = {member: each.after for member, each in ranges.items() if each.after is not None}
    until = {member: each.until for member, each in ranges.items()}
    so_far = {**(after or {}), **beginnings}
    return OffsetRange({**so_far, **starts} or after, {**so_far, **until})


def member_range(offsets: OffsetRange, member: str) -> OffsetRange:
    """What a member has read from its beginning on; up to no offsets if it has read nothing."""
    return OffsetRange((offsets.after or {}).get(member), offsets.until.get(member, {}))


@define(eq=False)
class TopicGroup(Source):
    """Several sources, each with the name of its topic. Each epoch reads from all of them.

    Rows have `TOPIC`, the columns of their topic under the names of `column_of`, and `BATCH_COLUMNS`. If a topic has no
    rows in an epoch, the batch lacks its columns. ``_origin`` begins with the topic. A topic's rows keep their order;
    ``_position`` is ``position in the topic * number of topics + index of the topic``, and so unique. Offsets are those
    of each topic, by its name; a topic without offsets is read from its beginning.

    Args:
        members: the sources by topic; topic names consist of letters, digits and underscores.
    """

    members: Mapping[str, StreamSource]
    format: str = field(init=False, default="topic group")
    eager: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.eager = all(member.eager for member in self.members.values())

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:
        """The next range of each topic; None if no topic has new records."""
        so_far = after or {}
        planned = {topic: member.plan(so_far.get(topic), now) for topic, member in self.members.items()}
        return join_ranges(after, planned, self.members)

    def readable(self, offsets: OffsetRange) -> bool:
        """Whether the range of each topic can be read again; see `Source.readable`."""
        return all(self.members[topic].readable(own) for topic, own in self._ranges(offsets).items())

    def check_complete(self, beginning: Offsets | None, until: Offsets) -> None:
        """See `Source.check_complete`, for each topic that has been read."""
        for topic, member in self.members.items():
            if topic in until:
                member.check_complete((beginning or {}).get(topic), until[topic])

    def check_rebuilt(self, former: OffsetRange, rebuilt: OffsetRange) -> None:
        """See `Source.check_rebuilt`, for each topic that has been read."""
        for topic, member in self.members.items():
            if topic in former.until:
                member.check_rebuilt(member_range(former, topic), member_range(rebuilt, topic))

    @contextmanager
    def open(self, epoch: Epoch, offsets: OffsetRange) -> Iterator[Batch]:
        """The rows of a range, of the topics that have rows in it, and those of each topic in `Batch.topics`."""
        self._passed_over()  # discards the counts of a try that failed
        found = {topic: self.members[topic].read_lean(own) for topic, own in self._ranges(offsets).items()}
        lean = {topic: rows for topic, rows in found.items() if rows is not None}
        topics = self._topics(offsets, lean)
        # If no topic is lean, the rows have their records: to read them again would be work in vain.
        whole = (lambda: _joined(self._topics(offsets, {}))) if lean else None
        given = (epoch, _joined(topics), offsets, self.format)
        yield Batch(*given, topics=topics, passed_over=self._passed_over, whole=whole)

    def rereadable(self) -> nw.Expr:
        """Whether the source of a dead letter's topic accepts it; false if its topic no longer exists."""
        origin = nw.col("origin")
        accepted = [
            origin.str.starts_with(name + _SEPARATOR) & each.rereadable() for name, each in self.members.items()
        ]
        return nw.any_horizontal(*accepted, ignore_nulls=True)

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Read the records of dead letters again, each with its own topic's source."""
        origin, found = nw.col("origin"), _topics_of(letters)
        parts = []
        for at, (topic, member) in enumerate(self.members.items()):
            if topic in found:
                prefix = topic + _SEPARATOR
                own = letters.filter(origin.str.starts_with(prefix))
                own = own.with_columns(origin.str.slice(len(prefix)).alias("origin"))
                parts.append(self._tagged(at, topic, member.reread(own), member.schema))
        return nw.concat(parts, how="diagonal")

    def lag(self, after: Offsets | None) -> str:
        return self._by_topic(after, lambda member, so_far: member.lag(so_far))

    def held_back(self, after: Offsets | None) -> str:
        return self._by_topic(after, lambda member, so_far: member.held_back(so_far))

    def _by_topic(self, after: Offsets | None, tell: Callable[[StreamSource, Offsets | None], str]) -> str:
        """What each member that has something to tell does, after the name of its topic."""
        told = {topic: tell(member, (after or {}).get(topic)) for topic, member in self.members.items()}
        return ", ".join(f"{topic}: {text}" for topic, text in told.items() if text)

    def _passed_over(self) -> Mapping[str, int]:
        return sum((Counter(member.passed_over()) for member in self.members.values()), Counter())

    def _ranges(self, offsets: OffsetRange) -> dict[str, OffsetRange]:
        """The range of each topic that has rows in a range of the group."""
        after, until = offsets.after or {}, offsets.until
        return {
            topic: OffsetRange(after.get(topic), until[topic])
            for topic in self.members
            if until.get(topic) is not None and until[topic] != after.get(topic)
        }

    def _topics(self, offsets: OffsetRange, lean: Mapping[str, nw.LazyFrame[Any]]) -> dict[str, nw.LazyFrame[Any]]:
        """The rows of a range by topic; those of some topics are given, as `StreamSource.read_lean` returns them."""
        ranges, topics = self._ranges(offsets), {}
        for at, (topic, member) in enumerate(self.members.items()):
            if topic in ranges:
                rows = lean[topic] if topic in lean else member.read(ranges[topic])
                topics[topic] = self._tagged(at, topic, rows, member.schema)
        return topics

    def _tagged(self, at: int, topic: str, rows: nw.LazyFrame[Any], schema: Schema) -> nw.LazyFrame[Any]:
        unchanged = [nw.col(name) for name in BATCH_COLUMNS if name not in (ORIGIN, POSITION)]
        return rows.select(
            nw.lit(topic).alias(TOPIC),
            *(nw.col(name).alias(column_of(at, name)) for name in schema.names),
            (nw.col(POSITION) * len(self.members) + at).alias(POSITION),
            nw.concat_str([nw.lit(topic + _SEPARATOR), nw.col(ORIGIN)]).alias(ORIGIN),
            *unchanged,
        )


def _topics_of(letters: nw.LazyFrame[Any]) -> set[str]:
    topic = nw.col("origin").str.replace_all(f"{_SEPARATOR}.*$", "").alias(TOPIC)
    return {line[TOPIC] for line in collect_small(letters.select(topic).unique(TOPIC))}


def _joined(topics: Mapping[str, nw.LazyFrame[Any]]) -> nw.LazyFrame[Any]:
    return nw.concat(list(topics.values()), how="diagonal")
