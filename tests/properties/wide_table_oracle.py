"""A short, plain computation of a wide table, and random records of five topics to compare Headwater with it."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

Message = dict[str, Any]
"""A record as its source brings it: a JSON object."""
Key = tuple[Any, ...]
Row = dict[str, Any]

KEY = ("region", "id")
OWNER = "base"
SEEN, OLD = "2024-03-09", "2020-01-01"
"""The first day of the owner's event time; and the event time of deletes of old rows, and of late rows."""


@frozen
class Options:
    """How the pipeline is told to take records.

    Args:
        owned: whether the deletes of `base` hide the row.
        nulls: what a null of `pair` does.
        absent: what a column does that a record lacks.
    """

    owned: bool
    nulls: str
    absent: str

    def given(self, message: Message, *names: str) -> Row:
        """The columns that a message speaks for."""
        return {name: message.get(name) for name in names if name in message or self.absent == "null"}

    def whole(self, topic: str) -> bool:
        """Whether each record of a topic speaks for all of its columns."""
        return self.absent == "null" and not (topic == "pair" and self.nulls == "keep")


@frozen
class Fact:
    """What a record says of one key: values by column, none of a column that it does not speak for."""

    key: Key
    sequence: tuple[Any, ...]
    values: Mapping[str, Any]
    deletes: bool = False

    @property
    def order(self) -> tuple[tuple[bool, Any], ...]:
        """Compares as sequences do: left to right, nulls first."""
        return tuple((each is not None, 0 if each is None else each) for each in self.sequence)

    @property
    def fails(self) -> bool:
        """Whether it can be used for nothing."""
        return None in self.key or all(each is None for each in self.sequence)


@frozen
class Topic:
    """One topic of the group: its columns and sequence, what a message of it says, and any messages."""

    name: str
    columns: tuple[str, ...]
    sequence: tuple[str, ...]
    facts: Callable[[Message, Options], list[Fact]]
    messages: st.SearchStrategy[Message]


@define
class Oracle:
    """What has been read so far, by topic and key: the newest record, and for each column the newest that tells it."""

    options: Options
    letters: int = 0
    newest: dict[tuple[str, Key], tuple[Fact, int]] = field(factory=dict)
    told: dict[tuple[str, Key], tuple[Fact, int]] = field(factory=dict)

    def take(self, topic: Topic, messages: Iterable[Message], epoch: int, unknown: Collection[str] = ()) -> None:
        """Read what an epoch brings of a topic, some of whose columns may be unknown as yet."""
        for fact in (fact for message in messages for fact in topic.facts(message, self.options)):
            if fact.fails:
                self.letters += 1
                continue
            newest = _put(self.newest, topic.name, fact, epoch)
            if self.options.whole(topic.name) and not newest:
                continue
            for column in topic.columns:
                if column not in unknown and (fact.deletes or column in fact.values):
                    _put(self.told, column, fact, epoch)

    def rows(self) -> dict[Key, Row]:
        """The view `rows`, by key."""
        return {key: {column: self._value(column, key) for column in COLUMNS} for key in self._keys if self._shows(key)}

    def completeness(self) -> dict[Key, Row]:
        """The view `completeness`, by key."""
        return {
            key: {"present": self._shows(key)}
            | {name: each for topic in TOPICS for name, each in self._told(topic, key)}
            for key in self._keys
        }

    @property
    def _keys(self) -> set[Key]:
        return {key for _, key in self.newest}

    def _shows(self, key: Key) -> bool:
        return not (self.options.owned and (OWNER, key) in self.newest and self.newest[OWNER, key][0].deletes)

    def _value(self, column: str, key: Key) -> Any:
        return self.told[column, key][0].values.get(column) if (column, key) in self.told else None

    def _told(self, topic: Topic, key: Key) -> list[tuple[str, Any]]:
        fact, epoch = self.newest.get((topic.name, key), (None, None))
        sequence = fact.sequence if fact else [None] * len(topic.sequence)
        return [
            (f"{topic.name}_reported", fact is not None),
            (f"{topic.name}_deleted", fact is not None and fact.deletes),
            *((f"{topic.name}_{name}", each) for name, each in zip(topic.sequence, sequence, strict=True)),
            (f"{topic.name}_epoch", epoch),
        ]


def _put(held: dict[tuple[str, Key], tuple[Fact, int]], what: str, fact: Fact, epoch: int) -> bool:
    """Keep a fact unless a newer one is held; whether it is kept."""
    at = (what, fact.key)
    if at in held and fact.order < held[at][0].order:
        return False
    held[at] = fact, epoch
    return True


# ---- what the topics say


def _key(fields: Message) -> Key:
    return tuple(fields[name] for name in KEY)


def _base(message: Message, options: Options) -> list[Fact]:
    moment = message["at"] and datetime.fromisoformat(message["at"])
    if message["kind"] == "-D":
        return [Fact(_key(message), (moment,), {}, deletes=True)]
    return [Fact(_key(message), (moment,), options.given(message, "name"))]


def _log(message: Message, _options: Options) -> list[Fact]:
    """A change of key takes the old one away at the moment of the new image; where it was null, nothing was there."""
    data = message["data"]
    moment = (data["ver"],)
    if message["type"] == "delete":
        return [Fact(_key(data), moment, {}, deletes=True)]
    amount = data["amount"] and Decimal(data["amount"]) * 2
    new, old = Fact(_key(data), moment, {"twice": amount}), _key(data | message.get("old", {}))
    return [new] if old == new.key or None in old else [Fact(old, moment, {}, deletes=True), new]


def _pair(message: Message, options: Options) -> list[Fact]:
    values = {name: message[name] for name in ("low", "high")}
    if options.nulls == "keep":
        values = {name: value for name, value in values.items() if value is not None}
    day = message["day"] and date.fromisoformat(message["day"])
    return [Fact(_key(message), (day, message["run"]), values)]


def _sparse(message: Message, options: Options) -> list[Fact]:
    return [Fact(_key(message), (message["seq"],), options.given(message, "city", "size"))]


def _late(message: Message, _options: Options) -> list[Fact]:
    tag = message["tag"]
    return [] if tag == "none" else [Fact(_key(message), (message["seq"],), {"tag": tag and tag.upper()})]


# Most records are of one key, or hardly any two would ever meet.
_NAMED = {"region": st.sampled_from([*"aaaaaab", None]), "id": st.sampled_from([1, 1, 1, 1, 2])}
_SEQ = st.sampled_from([*range(6), *range(6), None])
_OLD = st.fixed_dictionaries({"ver": _SEQ}, optional=_NAMED | {"amount": st.just("7.00")})


def _of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Message]:
    return st.fixed_dictionaries(_NAMED | fields)


def _maxwell(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Message]:
    head = {"database": st.just("shop"), "table": st.just("log"), "ts": st.just(1), "data": _of(**fields)}
    kinds = [{"type": st.just("insert")}, {"type": st.just("update"), "old": _OLD}, {"type": st.just("delete")}]
    return st.one_of(*(st.fixed_dictionaries(head | kind) for kind in kinds))


TOPICS = (
    Topic(
        OWNER,
        ("name",),
        ("at",),
        _base,
        st.fixed_dictionaries(
            _NAMED
            | {
                "kind": st.sampled_from(["+I", "+U", "+U", "-D", "-D"]),
                "at": _SEQ.map(lambda hour: None if hour is None else f"2024-03-09T1{hour}:00:00+00:00"),
                "seen": st.just(OLD) | st.dates(date.fromisoformat(SEEN), date(2024, 12, 31)).map(date.isoformat),
            },
            optional={"name": st.sampled_from(["ann", "bob", "cid", "", None])},
        ),
    ),
    Topic(
        "log",
        ("twice",),
        ("ver",),
        _log,
        _maxwell(amount=st.sampled_from(["1.00", "2.50", "-3.25", None]), ver=_SEQ),
    ),
    Topic(
        "pair",
        ("low", "high"),
        ("day", "run"),
        _pair,
        _of(
            low=st.none() | st.integers(0, 9),
            high=st.none() | st.booleans(),
            day=st.sampled_from([None, "2024-03-01", "2024-03-02"]),
            run=st.sampled_from([None, 1, 2]),
        ),
    ),
    Topic(
        "sparse",
        ("city", "size"),
        ("seq",),
        _sparse,
        st.fixed_dictionaries(
            _NAMED | {"seq": _SEQ},
            optional={"city": st.sampled_from(["oslo", "rome", None]), "size": st.none() | st.integers(0, 9)},
        ),
    ),
    Topic(
        "late",
        ("tag",),
        ("seq",),
        _late,
        _of(tag=st.sampled_from(["new", "open", "none", None]), seq=_SEQ),
    ),
)
COLUMNS = tuple(column for topic in TOPICS for column in topic.columns)
