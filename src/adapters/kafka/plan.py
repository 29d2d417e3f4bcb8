"""Plans which offsets an epoch reads, from the offsets that the broker holds; it does not use the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from attrs import frozen

from ...domain.epoch.epoch import OffsetRange, Offsets
from ...domain.errors import ConfigError, SourceChanged
from ...domain.ports import other_kind

Partition: TypeAlias = tuple[str, int]
"""A topic and the number of one of its partitions."""

RECORD_POSITIONS = 2**31  # the size of a Kafka record, in bytes, has 31 bits
_ANEW = "build the pipeline again under another name, or restore the topic"
_LEFT = "restore the records, or declare the edited pipeline under another name, which begins with what is left"


_ID = "id"
"""Beside the numbers of a topic's partitions: Kafka's own id of the topic."""


@frozen
class OffsetBounds:
    """The offsets that a partition holds: from `low` to before `high`.

    `topic_id` is Kafka's own id of its topic, another one after the topic was deleted and created again; None if it is
    not known, or is not to be compared.
    """

    low: int
    high: int
    topic_id: str | None = None


@frozen
class Slice:
    """The part of a partition that a range reads: offsets from `start` to before `end`.

    `before` counts the offsets of the range's earlier slices.
    """

    before: int
    topic: str
    partition: int
    start: int
    end: int

    def position(self, offset: int) -> int:
        """The `_position` of a record's first row; there is room for as many rows as a record can have bytes."""
        return (self.before + offset - self.start) * RECORD_POSITIONS

    @property
    def place(self) -> str:
        """What the origins of its records begin with."""
        return origin(self.topic, self.partition)


def plan(after: Offsets | None, held: Mapping[Partition, OffsetBounds], limit: int | None) -> OffsetRange | None:
    """The next range, at most `limit` offsets (None: all of them), but one of each partition; None if nothing is new.

    The range has a start for every partition, so the broker need not be asked when it is read again. A partition that
    was added to a topic since the given offsets begins at offset 0.

    Raises:
        SourceChanged: records after the given offsets have been deleted, or the topic has been created again.
    """
    read = _partitions(after or {})
    _check_present(read, held)
    ids = _topic_ids(held)
    check_same(after or {}, ids)
    topics = {topic for topic, _ in held}
    ids |= {topic: each[_ID] for topic, each in (after or {}).items() if _ID in each and topic not in topics}
    starts = _starts(read, held)
    available = {each: held[each].high - start for each, start in starts.items()}
    quotas = available if limit is None else _shares(available, limit)
    if not any(quotas.values()):
        return None
    ends = {each: start + quotas[each] for each, start in starts.items()}
    # Topics that are no longer read keep their offsets, so that reading them can be resumed.
    return OffsetRange(_offsets(read | starts, ids), _offsets(read | ends, ids))


def check_kind(after: Offsets) -> None:
    """Check that offsets are those of topics; see `StreamSource.check_after`."""
    _partitions(after)


def check_same(read: Offsets, ids: Mapping[str, str]) -> None:
    """Check that offsets are those of the topics with these ids; topics whose id is not known are not compared.

    Raises:
        SourceChanged: a topic has been created again.
    """
    for topic, found in ids.items():
        if read.get(topic, {}).get(_ID, found) != found:
            raise SourceChanged(
                f"topic {topic!r} has another id than the one that was read: it was deleted and created again, or is on"
                f" another cluster, so its records need not follow those that were read; {_ANEW}. If it has the same"
                ' records at the same offsets, set topic_ids = "ignore" in its source'
            )


def check_complete(beginning: Offsets | None, until: Offsets, held: Mapping[Partition, OffsetBounds]) -> None:
    """Check that all records up to some offsets are still there; see `Source.check_complete`.

    A partition whose beginning is not recorded must have its very first record.

    Raises:
        SourceChanged: records have been deleted, or a topic has been created again or is not read any more.
    """
    began, read = _partitions(beginning or {}), _partitions(until)
    _check_named(began, read, held)
    _check_present(read, held)
    check_same(until, _topic_ids(held))
    for each, bounds in held.items():
        where = f"topic {each[0]!r} partition {each[1]}"
        first = began.get(each, 0)
        if each in read and bounds.low > first:
            raise SourceChanged(
                f"{where}: the pipeline has read from offset {first} on, and the topic begins at {bounds.low} now, so"
                f" it cannot be built again from the topic: {_LEFT}"
            )
        if read.get(each, 0) > bounds.high:
            raise SourceChanged(f"{where}: read up to offset {read[each]} but it ends at {bounds.high}; {_ANEW}")


def check_rebuilt(former: OffsetRange, rebuilt: OffsetRange) -> None:
    """Check that a rebuild has begun where the old tables have; see `Source.check_rebuilt`.

    Records that are removed later, before they are read, are noticed by `plan`.

    Raises:
        SourceChanged: the first records were removed before the rebuild read them.
    """
    began, again = _partitions(former.after or {}), _partitions(rebuilt.after or {})
    for each, read in _partitions(former.until).items():
        first, now = began.get(each, 0), again.get(each, 0)
        if first < min(now, read):
            raise SourceChanged(
                f"topic {each[0]!r} partition {each[1]}: the old tables were read from offset {first} on, and the new"
                f" ones from {now} on, because the records between were removed before the rebuild read them; so the"
                f" old tables stay. Give the rebuild up with `headwater rebuild --cancel`; then {_LEFT}"
            )


def beginning(held: Mapping[Partition, OffsetBounds]) -> Offsets:
    """The offsets before all records."""
    return _offsets({each: partition.low for each, partition in held.items()}, _topic_ids(held))


def start_at(given: Offsets, held: Mapping[Partition, OffsetBounds]) -> Offsets:
    """The offsets that a user has written, with the topics' ids. A topic that is left out starts at its beginning.

    Raises:
        ConfigError: a topic or a partition is not there, or has no such offset.
    """
    topics, ids = dict(beginning(held)), _topic_ids(held)
    if unknown := given.keys() - topics.keys():
        raise ConfigError(f"topic {min(unknown)!r} is not one of the source; its topics are: {', '.join(topics)}")
    for topic, numbers in given.items():
        ends = {str(number): each.high for (name, number), each in held.items() if name == topic}
        topics[topic] = ({_ID: ids[topic]} if topic in ids else {}) | _read_offsets(topic, numbers, ends)
    return topics


def _read_offsets(topic: str, given: Any, ends: Mapping[str, int]) -> dict[str, Any]:
    """The offsets of a topic by partition, and its id if it was written; `ends` are those of its partitions."""
    numbers = {str(number): at for number, at in given.items()} if isinstance(given, Mapping) else {}
    if not numbers.keys() - {_ID}:
        raise ConfigError(
            f'topic {topic!r}: {given!r} are not offsets by partition; write them as {{"0": 1200}}, or leave the topic'
            " out to start at its oldest record"
        )
    for number in sorted(numbers.keys() - {_ID}):
        if number not in ends:
            raise ConfigError(f"topic {topic!r} has no partition {number!r}; its partitions are: {', '.join(ends)}")
        _check_offset(f"topic {topic!r} partition {number}", numbers[number], ends[number])
    return numbers


def _check_offset(where: str, given: Any, end: int) -> None:
    if type(given) is not int or given < 0:
        raise ConfigError(f"{where}: {given!r} is not an offset; write a whole number from 0 on")
    if given > end:
        raise ConfigError(f"{where}: offset {given} is after its end; write one up to {end}")


def end(held: Mapping[Partition, OffsetBounds]) -> Offsets:
    """The offsets after all records."""
    return _offsets({each: partition.high for each, partition in held.items()}, _topic_ids(held))


def waiting(after: Offsets | None, held: Mapping[Partition, OffsetBounds]) -> int:
    """The number of offsets after the given ones."""
    read = _partitions(after or {})
    return sum(max(0, each.high - max(each.low, read.get(key, each.low))) for key, each in held.items())


def held_back(
    after: Offsets | None, every: Mapping[Partition, OffsetBounds], held: Mapping[Partition, OffsetBounds]
) -> int:
    """The number of offsets after the given ones that can only be read with those of open transactions (`every`)."""
    read = _partitions(after or {})
    return sum(max(0, each.high - max(held[key].high, read.get(key, 0))) for key, each in every.items() if key in held)


def slices(offsets: OffsetRange) -> list[Slice]:
    """The parts of partitions that a range reads; those without records are left out."""
    starts, ends = _partitions(offsets.after or {}), _partitions(offsets.until)
    found, before = [], 0
    for topic, partition in sorted(ends):
        each = Slice(before, topic, partition, starts.get((topic, partition), 0), ends[topic, partition])
        if each.start < each.end:
            found.append(each)
            before += each.end - each.start
    return found


def is_held(offsets: OffsetRange, held: Mapping[Partition, OffsetBounds]) -> bool:
    """Whether the partitions of a range begin no later than it does."""
    lows = {each: bounds.low for each, bounds in held.items()}
    return all(lows.get((each.topic, each.partition), each.start) <= each.start for each in slices(offsets))


def count(offsets: OffsetRange) -> int:
    """The number of offsets in a range."""
    return sum(each.end - each.start for each in slices(offsets))


def _check_named(
    began: Mapping[Partition, int], read: Mapping[Partition, int], held: Mapping[Partition, OffsetBounds]
) -> None:
    """Check that the source still names all topics of which records were read."""
    topics = {topic for topic, _ in held}
    for each, at in read.items():
        if each[0] not in topics and at > began.get(each, 0):
            raise SourceChanged(
                f"topic {each[0]!r} was read and is not among the source's topics any more, so its rows would be lost:"
                " put it back for the rebuild, or declare the edited pipeline under another name"
            )


def _check_present(read: Mapping[Partition, int], held: Mapping[Partition, OffsetBounds]) -> None:
    topics = {topic for topic, _ in held}
    for topic, partition in read:
        if topic in topics and (topic, partition) not in held:
            raise SourceChanged(f"partition {partition} of topic {topic!r} is gone: the topic was recreated; {_ANEW}")


def _starts(read: dict[Partition, int], held: Mapping[Partition, OffsetBounds]) -> dict[Partition, int]:
    """Where each partition is read from; one that was added to a topic begins at its very first record."""
    followed = {topic for topic, _ in read}
    known = read | {each: 0 for each in held if each[0] in followed and each not in read}
    return {each: _start(each, known.get(each), held[each]) for each in sorted(held)}


def _start(partition: Partition, read: int | None, held: OffsetBounds) -> int:
    if read is None:
        return held.low
    if held.low <= read <= held.high:
        return read
    where = f"topic {partition[0]!r} partition {partition[1]}"
    if read < held.low:
        raise SourceChanged(f"{where}: offsets {read} to {held.low - 1} were removed before they were read; {_ANEW}")
    raise SourceChanged(f"{where}: read up to offset {read} but it ends at {held.high}: it was recreated; {_ANEW}")


def _shares(available: Mapping[Partition, int], limit: int) -> dict[Partition, int]:
    """Share a limit so that no partition gets more than another one that still has records waiting.

    Each that has records waiting gets one at least, even beyond the limit: else those with few would never be read, and
    their rows would be late.
    """
    limit = max(limit, sum(map(bool, available.values())))
    shares: dict[Partition, int] = {}
    for given, each in enumerate(sorted(available, key=lambda one: available[one])):
        shares[each] = min(available[each], limit // (len(available) - given))
        limit -= shares[each]
    return shares


def _partitions(offsets: Mapping[str, Any]) -> dict[Partition, int]:
    if not all(isinstance(numbers, Mapping) for numbers in offsets.values()):
        raise other_kind("kafka")
    numbered = ((topic, *each) for topic, numbers in offsets.items() for each in numbers.items())
    return {(topic, int(number)): at for topic, number, at in numbered if number != _ID}


def _offsets(partitions: Mapping[Partition, int], ids: Mapping[str, str]) -> Offsets:
    offsets: dict[str, dict[str, Any]] = {}
    for (topic, number), at in sorted(partitions.items()):
        offsets.setdefault(topic, {})[str(number)] = at
    for topic in offsets.keys() & ids.keys():
        offsets[topic][_ID] = ids[topic]
    return offsets


def _topic_ids(held: Mapping[Partition, OffsetBounds]) -> dict[str, str]:
    return {topic: each.topic_id for (topic, _), each in held.items() if each.topic_id is not None}


def origin(topic: str, partition: int, offset: int | None = None) -> str:
    """The origin of a record, as stored in `_origin`; without an offset, what all of the partition begin with."""
    return f"{topic}/{partition}@{'' if offset is None else offset}"
