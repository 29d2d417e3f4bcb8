"""Whether a topic still has all that a pipeline has read, from offsets alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from headwater.adapters.kafka.plan import OffsetBounds, check_complete, check_rebuilt, is_held, plan, start_at
from headwater.domain.epoch.epoch import OffsetRange, add_beginnings
from headwater.domain.errors import ConfigError, SourceChanged
from headwater.domain.source.topic_group import join_ranges

if TYPE_CHECKING:
    from headwater.domain.epoch.epoch import Offsets

READ = {"t": {"0": 30, "1": 5}}


def held(low: int, high: int = 40) -> dict[tuple[str, int], OffsetBounds]:
    return {("t", 0): OffsetBounds(low, high), ("t", 1): OffsetBounds(0, 5)}


@pytest.mark.parametrize(("beginning", "low"), [(None, 0), ({"t": {"0": 10, "1": 0}}, 10), ({"t": {"0": 10}}, 4)])
def test_all_records_are_there(beginning: Offsets | None, low: int) -> None:
    check_complete(beginning, READ, held(low))


@pytest.mark.parametrize(("beginning", "low"), [(None, 1), ({"t": {"0": 10, "1": 0}}, 11), ({"t": {"1": 0}}, 1)])
def test_the_first_records_are_gone(beginning: Offsets | None, low: int) -> None:
    with pytest.raises(SourceChanged, match=f"topic 't' partition 0: .* begins at {low} now"):
        check_complete(beginning, READ, held(low))


FORMER = OffsetRange({"t": {"0": 10}}, READ)
"""What the old tables have read; where partition 1 began was not recorded."""


@pytest.mark.parametrize("first", [{"t": {"0": 10, "1": 0}}, {"t": {"0": 4, "1": 0}}, None])
def test_a_rebuild_began_where_the_old_tables_did(first: Offsets | None) -> None:
    check_rebuilt(FORMER, OffsetRange(first, READ))


@pytest.mark.parametrize(("partition", "began", "first"), [("0", 10, 16), ("1", 0, 5)])
def test_records_were_removed_before_a_rebuild_read_them(partition: str, began: int, first: int) -> None:
    again = OffsetRange({"t": {"0": 10, "1": 0} | {partition: first}}, READ)
    message = f"partition {partition}: the old tables were read from offset {began} on, and the new ones from {first}"
    with pytest.raises(SourceChanged, match=message):
        check_rebuilt(FORMER, again)


def test_records_that_the_old_tables_never_read_may_be_removed() -> None:
    nothing = OffsetRange({"t": {"0": 30}}, {"t": {"0": 30}})
    check_rebuilt(nothing, OffsetRange({"t": {"0": 35}}, {"t": {"0": 40}}))


def test_the_topic_was_created_again() -> None:
    with pytest.raises(SourceChanged, match="read up to offset 30 but it ends at 20"):
        check_complete(None, READ, held(0, 20))
    with pytest.raises(SourceChanged, match="partition 1 of topic 't' is gone"):
        check_complete(None, READ, {("t", 0): OffsetBounds(0, 40)})


def of_topic(topic_id: str | None) -> dict[tuple[str, int], OffsetBounds]:
    return {each: evolve(bounds, topic_id=topic_id) for each, bounds in held(0).items()}


def test_a_topic_of_another_id_is_refused() -> None:
    found = plan(READ, of_topic("first"), None)
    assert found
    assert found.until == {"t": {"0": 40, "1": 5, "id": "first"}}
    check_complete(None, found.until, of_topic("first"))
    for call in (
        lambda: plan(found.until, of_topic("second"), None),
        lambda: check_complete(None, found.until, of_topic("second")),
    ):
        with pytest.raises(SourceChanged, match="topic 't' has another id"):
            call()


def test_ids_that_are_not_compared_are_forgotten() -> None:
    found = plan({"t": {"0": 30, "1": 5, "id": "first"}}, of_topic(None), None)
    assert found
    assert found.until == {"t": {"0": 40, "1": 5}}


def test_a_topic_that_is_not_read_keeps_its_id() -> None:
    former = {"former": {"0": 9, "id": "old"}}
    found = plan(READ | former, of_topic("first"), None)
    assert found
    assert found.until["former"] == former["former"]


def test_a_partition_that_was_added_is_read_from_its_very_first_record() -> None:
    added = held(0) | {("t", 2): OffsetBounds(0, 7)}
    found = plan(READ, added, None)
    assert found
    assert (found.after, found.until) == (READ | {"t": {**READ["t"], "2": 0}}, {"t": {"0": 40, "1": 5, "2": 7}})
    gone = held(0) | {("t", 2): OffsetBounds(5, 7)}
    with pytest.raises(SourceChanged, match="topic 't' partition 2: offsets 0 to 4 were removed before they were read"):
        plan(READ, gone, None)


def test_a_topic_that_was_added_is_read_from_what_it_holds() -> None:
    both = held(0) | {("more", 0): OffsetBounds(5, 7)}
    found = plan(READ, both, None)
    assert found
    assert found.after == READ | {"more": {"0": 5}}
    check_complete(add_beginnings({"t": {"0": 0, "1": 0}}, READ, found.after), found.until, both)


def test_offsets_that_a_user_gives_get_the_ids_of_their_topics_and_the_beginnings_of_others() -> None:
    both = of_topic("first") | {("more", 0): OffsetBounds(5, 7, "other")}
    started = start_at({"t": {"0": 40}}, both)
    assert started == {"t": {"0": 40, "id": "first"}, "more": {"0": 5, "id": "other"}}
    assert start_at({"t": {"0": 0, "1": 5, "id": "mine"}}, of_topic("first"))["t"]["id"] == "mine"
    assert start_at({"t": {0: 3}}, held(0)) == {"t": {"0": 3}}  # in a program, partitions may be numbers


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": {"0": 3}}, "topic 'x' is not one of the source; its topics are: t"),
        ({"t": 1200}, "topic 't': 1200 are not offsets by partition"),
        ({"t": None}, "topic 't': None are not offsets by partition"),
        ({"t": {}}, "topic 't': {} are not offsets by partition"),
        ({"t": {"id": "first"}}, "are not offsets by partition"),
        ({"t": {"zero": 1}}, "topic 't' has no partition 'zero'; its partitions are: 0, 1"),
        ({"t": {"7": 3}}, "topic 't' has no partition '7'"),
        ({"t": {"0": "12"}}, "topic 't' partition 0: '12' is not an offset"),
        ({"t": {"0": 2.0}}, "topic 't' partition 0: 2.0 is not an offset"),
        ({"t": {"0": True}}, "topic 't' partition 0: True is not an offset"),
        ({"t": {"0": None}}, "topic 't' partition 0: None is not an offset"),
        ({"t": {"0": -1}}, "topic 't' partition 0: -1 is not an offset"),
        ({"t": {"0": 3, "1": 99}}, "topic 't' partition 1: offset 99 is after its end; write one up to 5"),
    ],
)
def test_what_is_not_an_offset_of_the_topics_is_refused(given: Offsets, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        start_at(given, held(0))


def test_a_topic_that_was_read_and_is_not_named_any_more_is_missed() -> None:
    for beginning in (None, {"former": {"0": 4}}):
        with pytest.raises(
            SourceChanged, match="topic 'former' was read and is not among the source's topics any more"
        ):
            check_complete(beginning, READ | {"former": {"0": 9}}, held(0))


def test_a_topic_of_which_nothing_was_read_may_be_gone() -> None:
    check_complete({"former": {"0": 9}}, READ | {"former": {"0": 9, "id": "old"}}, held(0))


def test_the_first_range_of_a_group_has_the_starts_of_its_topics() -> None:
    found = join_ranges(None, {"a": plan(None, held(10), None), "b": None}, {})
    assert found
    assert (found.after, found.until) == ({"a": {"t": {"0": 10, "1": 0}}}, {"a": {"t": {"0": 40, "1": 5}}})
    assert join_ranges(found.until, {"a": None, "b": None}, {}) is None


@pytest.mark.parametrize(("start", "low", "readable"), [(10, 10, True), (10, 11, False), (40, 50, True)])
def test_an_unfinished_epoch_is_repeated_if_its_records_are_there(start: int, low: int, *, readable: bool) -> None:
    """Partition 0 may have nothing to be read again; topic u has left the source."""
    begun = OffsetRange({"t": {"0": start, "1": 0}, "u": {"0": 0}}, {"t": {"0": 40, "1": 5}, "u": {"0": 1}})
    assert is_held(begun, held(low)) is readable


def test_a_limit_below_the_number_of_partitions_leaves_none_out() -> None:
    waiting = {("t", number): OffsetBounds(0, high) for number, high in enumerate([1, 1000, 0, 1000])}
    found = plan(None, waiting, 2)
    assert found is not None
    assert found.until == {"t": {"0": 1, "1": 1, "2": 0, "3": 1}}
