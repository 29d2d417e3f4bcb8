"""Old publications are found by shortcuts as by reading all newer ones, over random histories of a pipeline's tables."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.adapters.memory.store import MemoryStore
from headwater.domain.epoch.epoch import Mark, OffsetRange
from headwater.domain.errors import VersionExpired, VersionNotFound
from headwater.domain.ledger.writer import LedgerWriter
from headwater.domain.table.change import Change
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import TableSpec
from headwater.testing.clock import ManualClock

from .effort import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headwater.domain.epoch.epoch import Publication
    from headwater.domain.ledger.ledger import Ledger
    from headwater.domain.ports import Commit, Version

SPEC = Schema.parse("id bigint, n bigint")
TABLES = (("p.a", "p.b"), ("p.a", "p.b", "p.late"), ("p.a",))
WRITERS = count()


class CutStore(MemoryStore):
    """A store whose commits are not found before some version of each table, and which counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.oldest: dict[str, int] = {}
        self.read_commits = 0
        for table in TABLES[1]:
            self.ensure(TableSpec(table, SPEC, ("id",)))

    def version(self, table: str, version: Version) -> Commit:
        self.read_commits += 1
        if int(version) < self.oldest.get(table, 0):
            raise VersionExpired(f"version {version} of {table} has been cleaned away")
        return super().version(table, version)


def opened(store: MemoryStore, clock: ManualClock, tables: Sequence[str]) -> LedgerWriter:
    ledger = LedgerWriter(store, "p", tables, clock, lambda _built: None, "settings", f"writer {next(WRITERS)}")
    ledger.open()
    return ledger


def work(store: MemoryStore, ledger: LedgerWriter, *, ends: bool = True, all_tables: bool = True) -> None:
    """Make an epoch, or one that is cut off before it is published."""
    number = ledger.next_epoch.number
    ledger.begin(OffsetRange({"at": number - 1} if number else None, {"at": number}))
    for table in ledger.tables[:-1]:
        if all_tables:
            ledger.commit(table, Change())
    if ends:
        ledger.publish(Change(), None)


def walk_to_epoch(ledger: Ledger, number: int) -> Publication | None:
    return next((each for each in ledger.publications() if each.epoch.number == number), None)


def walk_to_time(ledger: Ledger, moment: datetime) -> Publication | None:
    return next((each for each in ledger.publications() if each.published_at <= moment), None)


def walk_before(ledger: Ledger, publication: Publication) -> Publication | None:
    older = ledger.publications()
    any(each.epoch == publication.epoch for each in older)
    return next(older, None)


def found(search: Callable[..., object], *given_: object) -> object:
    """What a search returns; the name of the error where it raises one, and None where nothing is found."""
    try:
        return search(*given_)
    except VersionNotFound:
        return None
    except VersionExpired as error:
        return str(error)


STEP = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 12)),
    st.tuples(st.just("clock"), st.integers(-9, 9)),
    st.tuples(st.just("crash"), st.booleans()),
    st.tuples(st.just("tables"), st.sampled_from(TABLES)),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("earlier version"), st.integers(1, 9)),
)


@settings(max_examples=examples(400))
@given(st.lists(STEP, max_size=25), st.integers(0, 2), st.integers(0, 40))
def test_a_search_finds_what_a_walk_finds(steps: list[tuple[str, Any]], first: int, cut: int) -> None:
    store, clock, tables = CutStore(), ManualClock(), TABLES[first]
    ledger = opened(store, clock, tables)
    for kind, value in steps:
        if kind in {"publish", "earlier version"}:
            with pytest.MonkeyPatch.context() as earlier:
                if kind == "earlier version":
                    earlier.setattr("headwater.domain.ledger.shortcuts.Shortcuts.find", lambda *_: None)
                for number in range(value):
                    clock.sleep(timedelta(seconds=1))
                    work(store, ledger, all_tables=number % 3 > 0)
        elif kind == "clock":
            clock.sleep(timedelta(seconds=value))
        else:
            if kind == "crash":
                work(store, ledger, ends=False, all_tables=bool(value))
            tables = value if kind == "tables" else tables
            ledger = opened(store, clock, tables)
    published = ledger.known()
    whole = list(walks(ledger, published))
    assert whole == list(searches(ledger, published))
    store.oldest = {table: min(cut, len(list(store.versions(table))) - 1) for table in TABLES[1]}
    for was, walked, searched in zip(whole, walks(ledger, published), searches(ledger, published), strict=True):
        # Shortcuts may lead past a commit that is gone from the log of a table that was the last one for a while.
        assert searched in ([walked, was] if type(walked) is str else [walked])


def moments(published: Sequence[Publication]) -> list[datetime]:
    """The times of publications, and others between them."""
    return [each.published_at + timedelta(seconds=seconds) for each in published for seconds in (-0.5, 0, 0.5)]


def searches(ledger: Ledger, published: Sequence[Publication]) -> Iterator[object]:
    """What the searches of a ledger find for each of its epochs and times."""
    yield from (found(ledger.as_of_epoch, number) for number in range(-1, len(published)))
    yield from (found(ledger.as_of_time, moment) for moment in moments(published))
    yield from (found(ledger.before, each) for each in published)


def walks(ledger: Ledger, published: Sequence[Publication]) -> Iterator[object]:
    """What a walk from the newest publication finds for the same."""
    yield from (found(walk_to_epoch, ledger, number) for number in range(-1, len(published)))
    yield from (found(walk_to_time, ledger, moment) for moment in moments(published))
    yield from (found(walk_before, ledger, each) for each in published)


def test_an_old_publication_is_found_with_few_reads() -> None:
    store, clock = CutStore(), ManualClock()
    ledger = opened(store, clock, TABLES[0])
    for number in range(2000):
        clock.sleep(timedelta(seconds=1))
        if number % 500 == 499:
            ledger = opened(store, clock, TABLES[0])
        work(store, ledger, all_tables=False)
    assert store.read_commits < 100  # a run reads only after it has started
    made = ledger.known()[::-1]
    for number in range(0, 2000, 37):
        searched: list[tuple[Callable[[Any], Publication], Any]] = [
            (ledger.as_of_epoch, number),
            (ledger.as_of_time, made[number].published_at),
        ]
        for search, wanted in searched:
            store.read_commits = 0
            assert search(wanted) == made[number]
            assert store.read_commits < 70
    store.read_commits = 0
    assert ledger.before(made[9]) == made[8]
    assert store.read_commits < 70


def test_a_mark_has_its_shortcut_as_json() -> None:
    store, clock = CutStore(), ManualClock()
    ledger = opened(store, clock, ("p.a",))
    for _ in range(13):
        work(store, ledger)
    marks = [commit.mark for commit in store.versions("p.a")][::-1]
    assert [Mark.from_json(mark.to_json()) for mark in marks if mark] == marks
    shortcuts = {mark.epoch.number: mark.shortcut.number for mark in marks if mark and mark.shortcut}
    assert shortcuts == {2: 0, 4: 0, 6: 4, 8: 0, 10: 8, 12: 8}
    assert marks[3]
    assert "shortcut" not in marks[3].to_json()
