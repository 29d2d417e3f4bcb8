"""Generations of tables in memory: what a store finds under a name, and who may write it."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

import pytest

from headwater.adapters.memory.store import MemoryStore
from headwater.domain.epoch.epoch import OffsetRange, add_beginnings
from headwater.domain.errors import EpochConflict, PipelineRebuilt, VersionNotFound
from headwater.domain.ledger.generation import Generations, read_generations, record_generations
from headwater.domain.ledger.generation_store import GenerationStore
from headwater.domain.ledger.label import Label
from headwater.domain.ledger.record import Recorder
from headwater.domain.ledger.writer import LedgerWriter
from headwater.domain.table.change import Change
from headwater.domain.table.collect import collect_small
from headwater.domain.table.lease import Lease
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import TableSpec
from headwater.testing.clock import ManualClock
from headwater.testing.frames import polars_frame

if TYPE_CHECKING:
    from headwater.domain.ports import KeptStore

SPEC = TableSpec("p.rows", Schema.parse("id bigint"), ("id",))
CLOCK = ManualClock()
WRITERS = count()


def writer(store: KeptStore, first: int = 0) -> LedgerWriter:
    """The pipeline as a process finds it that starts now."""
    ledger = LedgerWriter(store, "p", (SPEC.name,), CLOCK, lambda _: None, "", f"writer-{next(WRITERS)}", first=first)
    ledger.open()
    store.ensure(SPEC, ledger.snapshot().versions)
    return ledger


def publish(ledger: LedgerWriter, *ids: int, watermark: datetime | None = None) -> None:
    latest = ledger.latest
    ledger.begin(OffsetRange(latest.offsets if latest else {"from": 7}, {"at": ids[-1]}))
    ledger.publish(Change(merge=polars_frame([(id_,) for id_ in ids], SPEC.schema)), watermark)


def ids(ledger: LedgerWriter) -> list[int]:
    return sorted(row["id"] for row in collect_small(ledger.snapshot().read(SPEC.name)))


def record(store: MemoryStore, before: Generations, after: Generations) -> Generations:
    record_generations(Recorder(store, CLOCK, f"writer-{next(WRITERS)}"), "p", before, after)
    return after


def test_a_switch_changes_what_a_name_means_in_new_stores_only() -> None:
    store = MemoryStore()
    old = writer(GenerationStore(store))
    publish(old, 1, 2)
    snapshot = old.snapshot()
    begun = record(store, Generations(), Generations().begin("edited"))
    new = writer(GenerationStore(store).for_building("p", 2), first=1)
    publish(new, 3)
    assert (ids(writer(GenerationStore(store))), ids(new)) == ([1, 2], [3])
    assert record(store, begun, begun.switch(1)) == Generations(2, 2, built="edited", first=1)
    switched = writer(GenerationStore(store))
    assert switched.latest
    assert (ids(switched), switched.latest.epoch.number) == ([3], 1)
    assert sorted(row["id"] for row in collect_small(snapshot.read(SPEC.name))) == [1, 2]
    for refused in (old, new):
        with pytest.raises(PipelineRebuilt):
            publish(refused, 9)
        with pytest.raises(PipelineRebuilt):
            refused.open()
    assert ids(writer(GenerationStore(store))) == [3]


def test_readers_find_nothing_that_was_published_before_the_switch() -> None:
    """The epochs of a rebuild have numbers and times that the old tables have, too."""
    store = MemoryStore()
    begun = record(store, Generations(), Generations().begin("edited"))
    new = writer(GenerationStore(store).for_building("p", 2), first=3)
    for id_ in (1, 2):
        publish(new, id_, watermark=CLOCK.now())
        CLOCK.sleep(timedelta(minutes=1))
    built = new.known()
    new.begin(OffsetRange({"at": 2}, {"at": 2}), "rebuilt", at_least=8)
    first = new.publish(Change(), CLOCK.now())
    record(store, begun, begun.switch(first.epoch.number))
    ledger = writer(GenerationStore(store))
    publish(ledger, 3, watermark=CLOCK.now())
    assert [each.epoch.number for each in ledger.known()] == [9, 8, 4, 3]
    assert (ledger.as_of_epoch(8), ledger.as_of_time(first.published_at), ledger.before(first)) == (first, first, None)
    for number in (0, 3, 4, 7):
        with pytest.raises(VersionNotFound, match=f"no epoch {number}; epoch 8 is the first one since it was rebuilt"):
            ledger.as_of_epoch(number)
    with pytest.raises(VersionNotFound, match="epoch 10; the newest is 9"):
        ledger.as_of_epoch(10)
    with pytest.raises(VersionNotFound, match="before the rebuild"):
        ledger.as_of_time(built[0].published_at)
    assert built[0].watermark
    with pytest.raises(VersionNotFound, match="before the rebuild"):
        ledger.as_of_label(Label(built[0].watermark), lambda each: each.watermark and Label(each.watermark))
    assert ledger.find_epoch(4) == built[0]  # a view that reads the pipeline may have read it


def test_near_the_switch_the_old_tables_are_not_written() -> None:
    store = MemoryStore()
    old = writer(GenerationStore(store))
    publish(old, 1)
    begun = record(store, Generations(), Generations().begin("edited"))
    publish(old, 2)
    closed = record(store, begun, begun.close())
    with pytest.raises(EpochConflict, match="headwater rebuild"):
        publish(old, 3)
    assert ids(writer(GenerationStore(store))) == [1, 2]
    record(store, closed, closed.cancel())
    again = writer(GenerationStore(store))
    publish(again, 4)
    assert ids(again) == [1, 2, 4]


def test_one_process_at_a_time_records() -> None:
    store = MemoryStore()
    begun = record(store, Generations(), Generations().begin("one"))
    with pytest.raises(EpochConflict, match="rebuilt by another process"):
        record(store, Generations(), Generations().begin("two"))
    other = record(store, begun, begun.begin("two"))
    assert read_generations(store, "p") == other == Generations(1, 3, "two")
    left = GenerationStore(store).for_building("p", 2)
    with pytest.raises(PipelineRebuilt, match="another `headwater rebuild`"):
        writer(left)


def test_publications_remember_where_the_first_epoch_began() -> None:
    store = GenerationStore(MemoryStore())
    ledger = writer(store)
    publish(ledger, 1)
    publish(ledger, 2)
    assert [each.beginning for each in writer(store).publications()] == [{"from": 7}] * 2


def test_publications_remember_where_each_topic_began_that_was_added() -> None:
    ledger = writer(GenerationStore(MemoryStore()))
    ranges = [
        ({"wide": {"a": {"0": 4}}}, {"wide": {"a": {"0": 9}}}),
        ({"wide": {"a": {"0": 9}, "b": {"0": 6}}}, {"wide": {"a": {"0": 9}, "b": {"0": 8}}}),
        ({"wide": {"a": {"0": 9}, "b": {"0": 8}}, "more": {"c": {"0": 2}}}, {"wide": {"a": {"0": 10}}}),
    ]
    for after, until in ranges:
        ledger.begin(OffsetRange(after, until))
        ledger.publish(Change(), None)
    first, second, third = (each.beginning for each in reversed(list(ledger.publications())))
    assert first == {"wide": {"a": {"0": 4}}}
    assert second == {"wide": {"a": {"0": 4}, "b": {"0": 6}}}
    assert third == second | {"more": {"c": {"0": 2}}}


def test_an_old_ledger_learns_where_an_added_topic_began_and_no_more() -> None:
    assert add_beginnings(None, {"t": {"0": 9}}, {"t": {"0": 9}, "u": {"0": 6}}) == {"u": {"0": 6}}
    assert add_beginnings(None, {"t": {"0": 9}}, {"t": {"0": 9}}) is None
    assert add_beginnings(None, {"last": "b", "newest": {"b": 3}}, None) is None


def test_leases_and_expiry_go_by_the_name_of_the_pipeline() -> None:
    raw = MemoryStore()
    begun = record(raw, Generations(), Generations().begin("edited"))
    store = GenerationStore(raw).for_building("p", begun.newest)
    ledger = writer(store)
    publish(ledger, 1)
    publish(ledger, 2)
    first = list(ledger.publications())[-1].tables[SPEC.name]
    lease = Lease("p-1", SPEC.name, first, "a reader", CLOCK.now() + timedelta(hours=1))
    store.pin(lease)
    assert list(store.leases(SPEC.name)) == [lease]
    newest = ledger.snapshot().version(SPEC.name)
    assert newest is not None
    expire = {"keep": [newest], "now": CLOCK.now(), "dry_run": False}
    assert store.expire(SPEC.name, **expire).versions == ()  # type: ignore[arg-type]
    store.unpin(SPEC.name, "p-1")
    expired = store.expire(SPEC.name, **expire)  # type: ignore[arg-type]
    assert (expired.table, expired.versions, set(store.expired(SPEC.name))) == (SPEC.name, (first,), {first})
