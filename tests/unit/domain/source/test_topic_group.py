"""Several sources as one: offsets by topic, rows that say where they are from, the same ones at every reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headwater.domain.epoch.epoch import Epoch, OffsetRange
from headwater.domain.errors import SourceChanged
from headwater.domain.source.dead_letter import SCHEMA as LETTERS
from headwater.domain.source.topic_group import TopicGroup
from headwater.domain.table.schema import Schema
from headwater.testing.clock import NOW
from headwater.testing.frames import polars_frame
from tests.rows_source import ExpiringRows, RowsSource

if TYPE_CHECKING:
    from headwater.domain.epoch.epoch import Offsets

INFO, STOCK = Schema.parse("id bigint, name string"), Schema.parse("id bigint, items int")


def source(schema: Schema, *rows: tuple[Any, ...], limit: int = 2) -> RowsSource:
    return RowsSource(schema, polars_frame, limit, [dict(zip(schema.names, row, strict=True)) for row in rows])


@pytest.fixture
def group() -> TopicGroup:
    return TopicGroup({"info": source(INFO, (1, "a"), (2, "b"), (3, "c")), "stock": source(STOCK, (1, 7))})


def read(group: TopicGroup, after: Offsets | None) -> tuple[list[dict[str, Any]], Offsets]:
    planned = group.plan(after, NOW)
    assert planned is not None
    return rows_of(group, planned), planned.until


def rows_of(group: TopicGroup, offsets: OffsetRange) -> list[dict[str, Any]]:
    with group.open(Epoch("p", 0), offsets) as batch:
        return batch.rows.collect(backend="polars").rows(named=True)


def test_an_epoch_reads_what_each_topic_has_up_to_its_own_limit(group: TopicGroup) -> None:
    rows, until = read(group, None)
    assert until == {"info": {"rows": 2}, "stock": {"rows": 1}}
    assert [(row["_topic"], row["_0_name"], row["_1_items"]) for row in rows] == [
        ("info", "a", None),
        ("info", "b", None),
        ("stock", None, 7),
    ]


def test_each_topic_is_asked_whether_a_rebuild_has_read_what_was_read_of_it(group: TopicGroup) -> None:
    asked = []
    for topic, member in group.members.items():
        member.check_rebuilt = lambda *given, topic=topic: asked.append((topic, *given))  # type: ignore[method-assign]
    former = OffsetRange({"info": {"rows": 1}}, {"info": {"rows": 2}})
    group.check_rebuilt(former, OffsetRange(None, {"stock": {"rows": 1}}))
    group.check_rebuilt(former, former)
    read = OffsetRange({"rows": 1}, {"rows": 2})
    assert asked == [("info", read, OffsetRange(None, {})), ("info", read, read)]


def test_a_range_is_read_again_if_each_topic_can_read_its_own(group: TopicGroup) -> None:
    planned = group.plan(None, NOW)
    assert planned is not None
    assert group.readable(planned)
    group.members["stock"].readable = lambda offsets: offsets.until != {"rows": 1}  # type: ignore[method-assign]
    assert not group.readable(planned)
    assert group.readable(OffsetRange({"stock": {"rows": 1}}, planned.until))


def test_topics_whose_rows_have_their_records_are_not_read_for_them_again(group: TopicGroup) -> None:
    planned = group.plan(None, NOW)
    assert planned is not None
    with group.open(Epoch("p", 0), planned) as batch:
        assert batch.whole is None


def test_a_topic_that_has_nothing_new_stays_where_it_is_and_is_not_read(group: TopicGroup) -> None:
    _, after = read(group, None)
    rows, until = read(group, after)
    assert until == {"info": {"rows": 3}, "stock": {"rows": 1}}
    assert [(row["_topic"], row["_0_name"]) for row in rows] == [("info", "c")]
    assert "_1_items" not in rows[0]
    assert group.plan(until, NOW) is None


def test_a_topic_without_offsets_is_read_from_its_beginning(group: TopicGroup) -> None:
    after = {"info": {"rows": 3}}
    rows, until = read(group, after)
    assert (len(rows), rows[0]["_topic"], until) == (1, "stock", {"info": {"rows": 3}, "stock": {"rows": 1}})


def test_an_empty_topic_has_its_beginning_recorded_with_the_rows_of_others() -> None:
    stock = ExpiringRows(STOCK, polars_frame)
    group = TopicGroup({"info": source(INFO, (1, "a"), (2, "b"), (3, "c")), "stock": stock})
    planned = group.plan(None, NOW)
    assert planned == OffsetRange({"stock": {"rows": 0}}, {"info": {"rows": 2}, "stock": {"rows": 0}})
    assert {row["_topic"] for row in rows_of(group, planned)} == {"info"}
    assert group.lag(planned.until) == "info: 1 rows, stock: 0 rows"
    stock.give([{"id": 1, "items": 7}])
    rows, _ = read(group, planned.until)
    assert [row["_topic"] for row in rows] == ["info", "stock"]
    stock.first = 1
    with pytest.raises(SourceChanged, match="rows 0 to 0 were removed"):
        group.plan(planned.until, NOW)


def test_the_beginning_of_an_empty_topic_is_recorded_in_offsets_of_former_versions() -> None:
    group = TopicGroup({"info": source(INFO, (1, "a")), "stock": ExpiringRows(STOCK, polars_frame, first=3)})
    assert group.plan({"info": {"rows": 1}}, NOW) is None
    info = group.members["info"]
    assert isinstance(info, RowsSource)
    info.give([{"id": 2, "name": "b"}])
    after = {"info": {"rows": 1}, "stock": {"rows": 3}}
    assert group.plan({"info": {"rows": 1}}, NOW) == OffsetRange(after, after | {"info": {"rows": 2}})


def test_a_range_gives_the_same_rows_though_more_have_come(group: TopicGroup) -> None:
    first, until = read(group, None)
    stock = group.members["stock"]
    assert isinstance(stock, RowsSource)
    stock.give([{"id": 9, "items": 9}])
    again = rows_of(group, OffsetRange(None, until))
    assert again == first


def test_positions_are_unique_and_follow_the_order_of_each_topic(group: TopicGroup) -> None:
    rows, _ = read(group, None)
    assert [row["_position"] for row in rows if row["_topic"] == "info"] == [0, 2]
    assert [row["_position"] for row in rows if row["_topic"] == "stock"] == [1]


def test_what_waits_is_told_by_topic(group: TopicGroup) -> None:
    assert group.lag({"info": {"rows": 1}}) == "info: 2 rows, stock: 1 rows"


def test_what_is_held_back_is_told_by_topic(group: TopicGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    assert group.held_back(None) == ""
    monkeypatch.setattr(RowsSource, "held_back", lambda _source, after: f"after {after['rows']}" if after else "")
    assert group.held_back({"info": {"rows": 1}}) == "info: after 1"


def letters(*origins: str | None) -> Any:
    rows = [(0, "no key", origin, at, "0 {}", "rows", None, None) for at, origin in enumerate(origins)]
    return polars_frame(rows, LETTERS)


def test_letters_are_read_again_by_the_source_of_their_topic(group: TopicGroup) -> None:
    rows = group.reread(letters("stock: 0")).collect(backend="polars").rows(named=True)
    assert [(row["_topic"], row["_1_items"]) for row in rows] == [("stock", 7)]


def test_a_letter_is_read_again_if_the_source_of_its_own_topic_can_read_it(group: TopicGroup) -> None:
    group.members["info"].reread_formats = ("json",)
    found = letters("stock: 0", "score: 0", "info: 0", None).with_columns(accepted=group.rereadable())
    lines = found.collect(backend="polars").rows(named=True)
    assert [(row["origin"], row["accepted"]) for row in lines] == [
        ("stock: 0", True),
        ("score: 0", False),
        ("info: 0", False),
        (None, False),
    ]
