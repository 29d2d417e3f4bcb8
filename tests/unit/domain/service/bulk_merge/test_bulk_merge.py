"""What a bulk merge refuses, stores and drops, and its answers as of a time."""

from __future__ import annotations

import gzip
import json
import re
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pandas as pd
import polars as pl
import pytest

from headwater import Headwater
from headwater.app.cli.main import main
from headwater.app.run.progress import kept as kept_in_words
from headwater.domain.epoch.watermark import format_time
from headwater.domain.errors import BadInput, ConfigError
from headwater.domain.service.base import PendingRows, ReadAt, Service
from headwater.domain.table.row_kind import ROW_KIND
from headwater.testing.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ACCOUNTS = """
[backend]
name = "memory"
[sources.log]
kind = "files"
path = "log"
schema = "kind string, id bigint, owner string, balance bigint, at timestamp"
row_kind = "kind"
event_time = "at"
[sources.maxwell]
kind = "files"
path = "maxwell"
format = "maxwell-json"
schema = "id bigint, owner string, balance bigint, at timestamp, pos bigint"
metadata = { at = "commit_time", pos = "log_position" }
event_time = "at"
[sources.debezium]
kind = "files"
path = "debezium"
format = "debezium-json"
tables = ["bank.accounts"]
schema = "id bigint, owner string, balance bigint"
transactions = "counted"

[pipelines.accounts]
service = "bulk_merge"
key = ["id"]
columns = ["owner", "balance"]
changelog = "log"
bulk = { path = "bulk", format = "json", search_ts = "2024-03-01T09:00:00Z" }
delay = "10s"
"""
HEAD = ["kind", "id", "owner", "balance", "at"]
DAY = date(2024, 1, 1)


def at(seconds: int) -> datetime:
    """So many seconds after nine."""
    return datetime(2024, 3, 1, 9, tzinfo=UTC) + timedelta(seconds=seconds)


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with ExitStack() as exits:
        found = Trial(tmp_path, "memory", exits)
        found.deploy(ACCOUNTS)
        yield found


def fill(trial: Trial, *rows: tuple[int, str, int]) -> None:
    trial.fill("accounts", [["id", "owner", "balance"], *([str(cell) for cell in row] for row in rows)])


def feed(trial: Trial, *changes: tuple[str, int, str, int, int]) -> None:
    lines = [dict(zip(HEAD, (*change[:4], at(change[4]).isoformat()), strict=True)) for change in changes]
    trial.feed("log", map(json.dumps, lines))


def rows(trial: Trial, view: str = "rows", **how: Any) -> list[tuple[Any, ...]]:
    return sorted(trial.reader.view(f"accounts.{view}", **how).rows())


def kept(trial: Trial) -> dict[str, int]:
    (status,) = trial.reader.status()
    return {name: kept.rows for name, kept in status.bookkeeping.items()}


@pytest.fixture
def loaded(trial: Trial) -> Trial:
    """A load that has settled by second 20, and changes of five moments."""
    fill(trial, (1, "ann", 10), (2, "bob", 20), (3, "cat", 30))
    feed(trial, ("+U", 1, "ann", 11, 5), ("+I", 9, "ian", 90, 20))
    trial.run()
    trial.run()
    feed(trial, ("-U", 1, "ann", 11, 30), ("+U", 1, "ann", 12, 30), ("-D", 2, "bob", 20, 40))
    feed(trial, ("-U", 3, "cat", 30, 50), ("+U", 4, "cat", 30, 50), ("+I", 2, "bea", 5, 60))
    trial.run()
    return trial


AS_OF = {
    20: [(1, "ann", 11), (2, "bob", 20), (3, "cat", 30), (9, "ian", 90)],
    29: [(1, "ann", 11), (2, "bob", 20), (3, "cat", 30), (9, "ian", 90)],
    30: [(1, "ann", 12), (2, "bob", 20), (3, "cat", 30), (9, "ian", 90)],
    40: [(1, "ann", 12), (3, "cat", 30), (9, "ian", 90)],
    50: [(1, "ann", 12), (4, "cat", 30), (9, "ian", 90)],
    60: [(1, "ann", 12), (2, "bea", 5), (4, "cat", 30), (9, "ian", 90)],
    99: [(1, "ann", 12), (2, "bea", 5), (4, "cat", 30), (9, "ian", 90)],
}


@pytest.mark.parametrize("second", AS_OF)
def test_rows_as_of_a_time(loaded: Trial, second: int) -> None:
    assert rows(loaded, as_of=at(second)) == AS_OF[second]


def test_rows_are_not_told_as_of_a_time_before_the_load_ended(loaded: Trial) -> None:
    with pytest.raises(ConfigError, match="read later; the earliest possible time is 2024-03-01T09:00:20Z"):
        loaded.reader.view("accounts.rows", as_of=at(19))


def test_rows_are_not_told_as_of_a_time_while_chunks_are_unread(trial: Trial) -> None:
    fill(trial, (1, "ann", 10))
    feed(trial, ("+I", 9, "ian", 90, 5))
    trial.run()
    assert rows(trial) == [(9, "ian", 90)]
    with pytest.raises(ConfigError, match="still being loaded"):
        trial.reader.view("accounts.rows", as_of=at(5))


@pytest.mark.parametrize("until", [None, 30, 45, 60])
@pytest.mark.parametrize("after", [None, 20, 30, 40])
def test_changes_between_two_moments_are_those_of_the_two_answers(
    loaded: Trial, after: int | None, until: int | None
) -> None:
    (runner,) = loaded.open().start(["accounts"])
    service, publications = runner.service, list(runner.ledger.publications())
    before, now = (runner.ledger.snapshot(each) for each in (publications[2], publications[0]))
    places = (ReadAt(before, after and at(after)), ReadAt(now, until and at(until)))
    if after is not None and until is not None and after > until:
        return
    told = service.changes_between("rows", *places).collect(backend="polars").rows()
    expected = Service.changes_between(service, "rows", *places).collect(backend="polars").rows()
    assert sorted(told) == sorted(expected)


def test_keys_are_looked_up_as_of_a_time(loaded: Trial) -> None:
    (runner,) = loaded.open().start(["accounts"])
    keys = nw.from_native(pl.LazyFrame({"id": [2, 3, 7]}))
    place = ReadAt(runner.ledger.snapshot(), at(30))
    found = runner.service.lookup("rows", place, keys).collect(backend="polars").rows()
    assert sorted(found) == [(2, "bob", 20), (3, "cat", 30)]


def test_history_that_is_over_is_forgotten(loaded: Trial) -> None:
    loaded.set("pipelines.accounts.history", '"1d"')
    feed(loaded, ("+I", 5, "eve", 1, 26 * 3600))
    loaded.run()
    _, recent = loaded.stored("accounts.recent")
    assert recent.collect(backend="polars").get_column("id").to_list() == [5]
    with pytest.raises(ConfigError, match="its history reaches back to 2024-03-01T11:00:00Z; make `history` longer"):
        loaded.reader.view("accounts.rows", as_of=at(60))


def test_history_may_begin_with_the_first_of_all_times(trial: Trial) -> None:
    """The first segment begins before it, as segments of 7 hours / 24 do not divide the time up to 1970."""
    trial.set("pipelines.accounts.history", '"7h"')
    bulk = '{ path = "bulk", format = "json", search_ts = "0001-01-01T00:00:00Z" }'
    trial.set("pipelines.accounts.bulk", bulk)
    first = {"kind": "+I", "id": 1, "owner": "ann", "balance": 1, "at": "0001-01-01T00:00:00Z"}
    trial.feed("log", [json.dumps(first)])
    trial.run()
    assert rows(trial, as_of=datetime(1, 1, 1, tzinfo=UTC)) == [(1, "ann", 1)]


def test_a_chunk_that_was_read_at_the_last_of_all_times_waits_for_its_position(trial: Trial) -> None:
    trial.set("pipelines.accounts.position", '"pos"')
    trial.set("sources.log.schema", '"kind string, id bigint, owner string, balance bigint, at timestamp, pos bigint"')
    bulk = '{ path = "bulk", format = "json", search_ts = "9999-12-31T23:59:59Z" }'
    trial.set("pipelines.accounts.bulk", bulk)
    trial.fill("accounts", [["id", "owner", "balance", "pos"], ["1", "x", "1", "7"]])
    change(trial, "+I", 9, 6)
    trial.run()
    assert [row[0] for row in rows(trial)] == [9]
    change(trial, "+I", 8, 7)
    trial.run()
    assert [row[0] for row in rows(trial)] == [1, 8, 9]


def test_an_upsert_of_a_chunk_that_was_read_at_the_last_of_all_times(trial: Trial) -> None:
    trial.set("pipelines.accounts.mode", '"upsert"')
    trial.set("pipelines.accounts.changelog", '"maxwell"')
    bulk = '{ path = "bulk", format = "json", search_ts = "9999-12-31T23:59:59Z" }'
    trial.set("pipelines.accounts.bulk", bulk)
    trial.feed("maxwell", [maxwell(1, 1, 10, 1, 100, commit=True)])
    fill(trial, (3, "cat", 30))
    trial.run()
    assert [row[0] for row in rows(trial)] == [1, 3]


def test_a_chunk_after_the_load_that_was_read_at_the_first_of_all_times_is_refused(loaded: Trial) -> None:
    bulk = '{ path = "bulk", format = "json", search_ts = "0001-01-01T00:00:00Z" }'
    loaded.set("pipelines.accounts.bulk", bulk)
    fill(loaded, (3, "cat", 30))
    with pytest.raises(BadInput, match=r"came after the load was done"):
        loaded.run()


@pytest.mark.parametrize(("second", "is_known"), [(69, False), (70, True), (75, True)])
def test_a_chunk_after_the_load_must_be_younger_than_all_changes(loaded: Trial, second: int, *, is_known: bool) -> None:
    """The newest change is of second 60, and the delay is 10 seconds."""
    loaded.set(
        "pipelines.accounts.bulk", f'{{ path = "bulk", format = "json", search_ts = "{at(second).isoformat()}" }}'
    )
    fill(loaded, (3, "cat", 30), (7, "gus", 70))
    feed(loaded, ("-D", 7, "gus", 70, 80), ("+I", 8, "hal", 80, 90))
    if is_known:
        loaded.run()
        assert [row[0] for row in rows(loaded)] == [1, 2, 3, 4, 8, 9]
        return
    with pytest.raises(BadInput, match=r"came after the load was done.+ after 2024-03-01T09:01:00Z are known"):
        loaded.run()


@pytest.mark.parametrize("second", [80, 90])
def test_a_chunk_after_the_load_is_refused_after_the_delete_of_an_unknown_key(loaded: Trial, second: int) -> None:
    """No row of the key was stored, so only the delete tells that its row in the chunk is gone."""
    feed(loaded, ("-D", 7, "gus", 70, second))
    loaded.run()
    assert all(rows(loaded, as_of=at(moment)) == AS_OF[60] for moment in (60, second - 1, second))
    read_at = at(second + 9).isoformat()
    loaded.set("pipelines.accounts.bulk", f'{{ path = "bulk", format = "json", search_ts = "{read_at}" }}')
    fill(loaded, (7, "gus", 70))
    feed(loaded, ("+I", 8, "hal", 80, second + 30))
    with pytest.raises(BadInput, match=rf"only deletes after {re.escape(format_time(at(second)))} are known"):
        loaded.run()


def write_dated(trial: Trial, *found: tuple[int, int]) -> None:
    """Write a chunk of rows, each of an id and the second at which it was read."""
    lines = ([str(id_), "x", "1", at(second).isoformat()] for id_, second in found)
    trial.fill("accounts", [["id", "owner", "balance", "read_at"], *lines])


def test_a_file_that_is_added_while_another_one_waits_does_not_bring_back_a_deleted_row(trial: Trial) -> None:
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json", search_ts = "read_at" }')
    write_dated(trial, (1, 0), (2, 0))
    feed(trial, ("+I", 9, "ian", 90, 5))
    trial.run()
    feed(trial, ("-D", 5, "eve", 50, 7))
    trial.run()
    write_dated(trial, (5, 6), (6, 6))
    trial.run()
    feed(trial, ("+I", 8, "hal", 80, 60))
    trial.run()
    assert [row[0] for row in rows(trial)] == [1, 2, 6, 8, 9]
    assert kept(trial) == {}


def test_a_second_file_after_the_load_does_not_bring_back_a_deleted_row(trial: Trial) -> None:
    trial.set("sources.log.watermark_delay", '"60s"')
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json", search_ts = "read_at" }')
    write_dated(trial, (1, 0), (5, 0))
    feed(trial, ("+I", 9, "ian", 90, 100))
    trial.run()
    trial.run()
    write_dated(trial, (3, 170))
    trial.run()
    feed(trial, ("-D", 5, "eve", 50, 190))
    trial.run()
    write_dated(trial, (5, 180))
    trial.run()
    feed(trial, ("+I", 8, "hal", 80, 600))
    trial.run()
    assert [row[0] for row in rows(trial)] == [1, 3, 8, 9]


def test_the_oldest_row_of_a_chunk_after_the_load_counts(trial: Trial) -> None:
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json", search_ts = "read_at" }')
    write_dated(trial, (1, 0))
    feed(trial, ("+I", 9, "ian", 90, 20))
    trial.run()
    feed(trial, ("-D", 5, "eve", 50, 40))
    trial.run()
    write_dated(trial, (5, 30), (6, 60))
    with pytest.raises(BadInput, match=r"\(of 2024-03-01T09:00:30Z\) came after the load was done"):
        trial.run()


@pytest.fixture
def positioned(trial: Trial) -> Trial:
    """A load by position that is done when the changelog is at 10, the second of its newest change."""
    trial.set("pipelines.accounts.position", '"pos"')
    trial.set("sources.log.schema", '"kind string, id bigint, owner string, balance bigint, at timestamp, pos bigint"')
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json", search_ts = "read_at" }')
    write(trial, (1, 1))
    change(trial, "+I", 9, 10)
    trial.run()
    return trial


def write(trial: Trial, *found: tuple[int, int], second: int = 0) -> None:
    """Write a chunk of rows, read at a second, each of an id and the position at which it was read."""
    lines = ([str(id_), "x", "1", str(pos), at(second).isoformat()] for id_, pos in found)
    trial.fill("accounts", [["id", "owner", "balance", "pos", "read_at"], *lines])


def change(trial: Trial, kind: str, id_: int, second: int) -> None:
    """Feed a change whose position is its second."""
    line = {"kind": kind, "id": id_, "owner": "x", "balance": 1, "at": at(second).isoformat(), "pos": second}
    trial.feed("log", [json.dumps(line)])


def test_a_chunk_after_the_load_must_be_younger_than_the_deletes_that_are_kept(positioned: Trial) -> None:
    trial = positioned
    change(trial, "-D", 5, 20)
    trial.run()
    write(trial, (5, 15), (6, 15))
    trial.run()
    assert [row[0] for row in rows(trial)] == [1, 6, 9]
    change(trial, "+I", 7, 26 * 3600)
    trial.run()
    write(trial, (4, 15))
    with pytest.raises(BadInput, match=r"only deletes after 2024-03-01T11:00:00Z are known"):
        trial.run()


@pytest.mark.parametrize("is_known", [True, False])
def test_the_mark_of_a_deleted_row_expires_with_history(positioned: Trial, *, is_known: bool) -> None:
    trial, day = positioned, 86_400
    change(trial, "-D", 9 if is_known else 5, 20)
    for second in (30, 2 * day, 4 * day):
        change(trial, "+U", 7, second)
        trial.run()
    _, stored = trial.stored("accounts.current")
    assert [row["id"] for row in stored.filter(nw.col("_deleted")).collect(backend="polars").rows(named=True)] == []
    assert [row[0] for row in rows(trial)] == ([1, 7] if is_known else [1, 7, 9])


@pytest.mark.parametrize("files", [1, 2])
def test_deletes_by_which_a_chunk_was_accepted_do_not_expire_with_it(positioned: Trial, files: int) -> None:
    trial = positioned
    change(trial, "+I", 5, 12)
    trial.run()
    change(trial, "-D", 5, 20)
    trial.run()
    for found in ((5,), (6,)) if files == 2 else ((5, 6),):
        write(trial, *((each, 15) for each in found), second=30)
    change(trial, "+I", 7, 26 * 3600)
    trial.run()
    trial.run()
    assert [row[0] for row in rows(trial)] == [1, 6, 7, 9]


def test_a_chunk_after_the_load_needs_a_time_of_its_read(positioned: Trial) -> None:
    """The position alone does not tell whether the deletes since then are still known."""
    trial = positioned
    write(trial, (6, 10))
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json" }')
    with pytest.raises(BadInput, match=r"\(without a search_ts\).+ Remove its file.+ set `search_ts` in `bulk`"):
        trial.run()
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json", search_ts = "read_at" }')
    trial.run()
    assert [row[0] for row in rows(trial)] == [1, 6, 9]


def test_a_chunk_after_the_load_is_exact_from_the_newest_change_of_then(positioned: Trial) -> None:
    trial = positioned
    change(trial, "+U", 6, 20)
    change(trial, "-D", 5, 30)
    trial.run()
    write(trial, (6, 25))
    trial.run()
    assert [(row[0], *row[-2:]) for row in rows(trial, "settled")] == [(0, True, at(10)), (1, True, at(30))]
    with pytest.raises(ConfigError, match="the earliest possible time is 2024-03-01T09:00:30Z"):
        trial.reader.view("accounts.rows", as_of=at(15))
    assert [row[0] for row in rows(trial, as_of=at(30))] == [1, 6, 9]


def test_a_chunk_after_the_load_waits_for_the_changelog_not_for_other_bulk_rows(positioned: Trial) -> None:
    """The chunk with position 500 is shown because of its time. That says nothing of the changelog, which is at 12."""
    write(positioned, (2, 500))
    change(positioned, "+I", 8, 12)
    positioned.run()
    write(positioned, (3, 11), second=60)
    write(positioned, (4, 13), second=60)
    positioned.run()
    assert [row[0] for row in rows(positioned)] == [1, 2, 3, 8, 9]


def test_deletes_are_remembered_until_no_chunk_can_bring_the_row(trial: Trial) -> None:
    fill(trial, (1, "ann", 10), (2, "bob", 20))
    fill(trial, (3, "cat", 30))
    feed(trial, ("-D", 2, "bob", 20, 5), ("-D", 3, "cat", 30, 6))
    feed(trial, ("+I", 9, "ian", 90, 20))
    trial.advance("accounts")
    assert kept(trial) == {"tombstones": 2}
    trial.run()
    assert rows(trial) == [(1, "ann", 10), (9, "ian", 90)]
    assert kept(trial) == {}
    assert [row[0] for row in rows(trial, "current")] == [1, 9]


def test_what_waits_is_told_with_its_size_and_freed_as_chunks_settle(trial: Trial) -> None:
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json", search_ts = "read_at" }')
    head = ["id", "owner", "balance", "read_at"]
    for first, second in ((0, 30), (1000, 60)):
        rows_ = ([str(first + each), "a long name", "10", at(second).isoformat()] for each in range(700))
        trial.fill("accounts", [head, *rows_])
    feed(trial, ("-D", 3, "a long name", 10, 5), ("+I", 9000, "ian", 90, 20))
    trial.run()
    (both,) = trial.reader.status()
    waiting, tombstones = (both.bookkeeping[name] for name in ("waiting", "tombstones"))
    assert (waiting.rows, waiting.chunks, tombstones.rows, tombstones.chunks) == (1400, 2, 1, None)
    assert waiting.size > 1400 * 8 > tombstones.size > 0
    feed(trial, ("+I", 9001, "ian", 90, 45))
    trial.run()
    (one,) = trial.reader.status()
    assert list(one.bookkeeping) == ["waiting", "tombstones"]  # another file may still bring the row
    assert (one.bookkeeping["waiting"].rows, one.bookkeeping["waiting"].chunks) == (700, 1)
    assert 0 < one.bookkeeping["waiting"].size < waiting.size
    feed(trial, ("+I", 9002, "ian", 90, 75))
    trial.run()
    (none,) = trial.reader.status()
    assert none.bookkeeping == {}
    assert trial.reader.snapshot("accounts").size("accounts.waiting") == 0


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (PendingRows(1200, 35_400, chunks=3), "1,200 rows of 3 chunks, 35 kB"),
        (PendingRows(1, 999, chunks=1), "1 row of 1 chunk, 999 B"),
        (PendingRows(12, 999_499), "12 rows, 999 kB"),
        (PendingRows(12, 999_500), "12 rows, 1 MB"),
        (PendingRows(5, 4_200_000_000_000), "5 rows, 4,200 GB"),
        (PendingRows(2, 1000, oldest=at(1)), "2 rows, 1 kB, the oldest of 2024-03-01T09:00:01Z"),
    ],
)
def test_what_is_kept_in_words(found: PendingRows, told: str) -> None:
    assert kept_in_words(found) == told


def test_upserts_show_bulk_rows_at_once_unless_a_change_came_first(trial: Trial) -> None:
    trial.set("pipelines.accounts.mode", '"upsert"')
    fill(trial, (1, "ann", 10), (2, "bob", 20))
    fill(trial, (3, "cat", 30), (4, "dan", 40))
    feed(trial, ("+U", 1, "ann", 11, -5), ("-D", 4, "dan", 40, -4))
    trial.advance("accounts")
    assert rows(trial) == [(1, "ann", 11), (2, "bob", 20)]
    assert kept(trial) == {"tombstones": 1}
    trial.run()
    assert rows(trial) == [(1, "ann", 11), (2, "bob", 20), (3, "cat", 30)]
    assert kept(trial) == {}
    assert [row[0] for row in rows(trial, "current")] == [1, 2, 3]
    with pytest.raises(ConfigError, match='it needs mode = "exact"'):
        trial.reader.view("accounts.rows", as_of=at(5))


def test_an_idle_changelog_lets_chunks_show_by_the_clock(trial: Trial) -> None:
    trial.set("sources.log.idle_after", '"1m"')
    fill(trial, (1, "ann", 10))
    feed(trial, ("+I", 9, "ian", 90, 0))
    trial.clock.moment = at(0)
    headwater = trial.open()
    headwater.run(until_idle=True)
    assert rows(trial) == [(9, "ian", 90)]
    trial.clock.sleep(timedelta(minutes=2))
    headwater.run(until_idle=True)
    assert rows(trial) == [(1, "ann", 10), (9, "ian", 90)]


@pytest.mark.parametrize("search_ts", ['"2024-03-01T09:00:00Z"', '"read_at"'])
def test_an_idle_changelog_publishes_little_until_a_chunk_is_due(trial: Trial, search_ts: str) -> None:
    trial.set("sources.log.idle_after", '"1m"')
    trial.set("pipelines.accounts.delay", '"10m"')
    trial.set("pipelines.accounts.bulk", f'{{ path = "bulk", format = "json", search_ts = {search_ts} }}')
    own = (("read_at", at(0).isoformat()),) if search_ts == '"read_at"' else ()
    trial.fill("accounts", [*zip(("id", "1"), ("owner", "ann"), ("balance", "10"), *own, strict=True)])
    feed(trial, ("+I", 9, "ian", 90, 0))
    trial.clock.moment = at(0)
    headwater = trial.open()
    headwater.run(until_idle=True)
    first = headwater.epoch("accounts")
    trial.clock.sleep(timedelta(minutes=2))
    headwater.run(until_idle=True)
    assert headwater.epoch("accounts") == first + 1
    trial.clock.moment = at(11 * 60 - 9)
    headwater.run(until_idle=True)
    assert rows(trial) == [(9, "ian", 90)]
    trial.clock.moment = at(11 * 60)
    headwater.run(until_idle=True)
    assert rows(trial) == [(1, "ann", 10), (9, "ian", 90)]


def test_which_keys_are_exact(trial: Trial) -> None:
    fill(trial, (1, "ann", 10), (2, "bob", 20))
    fill(trial, (5, "eve", 50))
    keys = pl.DataFrame({"id": [1, 4, 5]})
    assert trial.reader.settled("accounts", keys)["settled"].to_list() == [False] * 3
    feed(trial, ("+I", 9, "ian", 90, 20))
    trial.run()
    assert trial.reader.settled("accounts", keys)["settled"].to_list() == [True] * 3
    assert trial.reader.settled("accounts", keys, as_of=at(5))["settled"].to_list() == [False] * 3
    assert [(row[0], row[5]) for row in rows(trial, "settled")] == [(0, True), (1, True)]


def test_a_key_beside_the_chunks_is_exact_once_those_around_it_are(trial: Trial) -> None:
    """A row that was deleted after the changelog's position and before the read of the bulk is in no chunk."""
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json", search_ts = "read_at" }')
    for low, high, second in ((1, 3, 0), (6, 7, 0), (11, 15, 60)):
        cells = [[str(each), "ann", "10", at(second).isoformat()] for each in (low, high)]
        trial.fill("accounts", [["id", "owner", "balance", "read_at"], *cells])
    keys = pl.DataFrame({"id": [0, 2, 5, 7, 9, 11, 16]})

    def exact(**how: Any) -> list[int]:
        answer = trial.reader.settled("accounts", keys, **how)
        return answer.filter("settled")["id"].to_list()

    assert exact() == []
    feed(trial, ("+I", 99, "ian", 90, -20))
    trial.run()
    assert exact() == []
    feed(trial, ("+I", 98, "ian", 90, 20))
    trial.run()
    assert exact() == [2, 5, 7]
    feed(trial, ("+I", 97, "ian", 90, 80))
    trial.run()
    assert exact() == exact(as_of=at(80)) == keys["id"].to_list()
    assert exact(as_of=at(40)) == [2, 5, 7]


def test_keys_of_another_type_are_refused(trial: Trial) -> None:
    fill(trial, (1, "ann", 10))
    trial.run()
    assert trial.reader.settled("accounts", pl.DataFrame({"id": [1]}, {"id": pl.UInt8})).rows() == [(1, False)]
    for column in ("1", 1.0):
        kind = "string" if column == "1" else "double"
        with pytest.raises(ConfigError, match=f"'accounts': column 'id' of the frame is {kind}, but the key is bigint"):
            trial.reader.settled("accounts", pl.DataFrame({"id": [column]}))
    with pytest.raises(ConfigError, match="'accounts': the frame needs column 'id' of the key; it has: owner"):
        trial.reader.settled("accounts", pl.DataFrame({"owner": ["ann"]}))


@pytest.mark.parametrize("backend", ["memory", "delta:local"])
@pytest.mark.parametrize(
    ("kind", "key", "keys", "answer"),
    [
        ("string", "a", pl.DataFrame({"id": ["a"]}, {"id": pl.Categorical}), [("a", True)]),
        ("string", "a", pl.DataFrame({"id": ["a"]}, {"id": pl.Enum(["a"])}), [("a", True)]),
        ("date", DAY, pd.DataFrame({"id": [DAY]}), [(DAY, True)]),
        ("date", DAY, pl.DataFrame({"id": []}), []),
        ("bigint", 1, pd.DataFrame({"id": []}), []),
        ("bigint", 1, pl.LazyFrame({"id": [1]}), [(1, True)]),
    ],
)
def test_keys_that_fit(tmp_path: Path, backend: str, *, kind: str, key: Any, keys: Any, answer: list[Any]) -> None:
    bulk = tmp_path / "bulk" / "0.json"
    bulk.parent.mkdir()
    bulk.write_text(json.dumps({"id": key, "v": 1}, default=str))
    lake = {"path": tmp_path / "lake", "engine": "local"} if backend == "delta:local" else {}
    with Headwater(backend=backend.partition(":")[0], **lake) as headwater:
        headwater.stream("log", schema=f"id {kind}, v bigint, at timestamp", event_time="at")
        settings = {"path": bulk.parent, "format": "json", "search_ts": "2024-03-01T00:00:00Z"}
        headwater.bulk_merge("accounts", changelog="log", key=["id"], columns=["v"], bulk=settings)
        headwater.push("log", pl.DataFrame({"id": [key], "v": [1], "at": [at(0)]}))
        headwater.run(until_idle=True)
        assert headwater.settled("accounts", keys).rows() == answer


def test_other_pipelines_are_always_exact(trial: Trial) -> None:
    trial.deploy(
        ACCOUNTS + '[pipelines.ids]\nservice = "ranking"\nsource = "log"\ngroup = ["owner"]\nid = ["id"]\n'
        'order_by = "at"\n'
    )
    with pytest.raises(ConfigError, match="is not a bulk merge"):
        trial.reader.settled("ids", pl.DataFrame({"id": [1]}))


def test_rows_that_cannot_be_used_are_dead_letters(trial: Trial) -> None:
    fill(trial, (1, "ann", 10))
    (bulk,) = trial.folder.glob("**/bulk*/**/000001.json")
    bulk.write_text(bulk.read_text() + '{"id": null, "owner": "x"}\n{"id": "word"}\n')
    trial.feed("log", ['{"kind": "+I", "id": null, "at": "2024-03-01T09:00:30Z"}', '{"kind": "+I", "id": 7}'])
    feed(trial, ("+I", 9, "ian", 90, 30))
    trial.run()
    assert rows(trial) == [(1, "ann", 10), (9, "ian", 90)]
    letters = [(row[5], row[1]) for row in rows(trial, "dead_letters")]
    assert min(letters)[0] == "bulk"
    assert {(kind, reason) for kind, reason in letters if "null" in reason} == {
        ("json", "key column id is null"),
        ("json", "event time at is null: it is unknown when it was made"),
        ("bulk", "key column id is null"),
    }
    assert len(letters) == 4


def maxwell(id_: int, balance: int, second: int, xid: int, position: int, **marks: Any) -> str:
    data = {"id": id_, "owner": "ann", "balance": balance}
    ts = int(at(second).timestamp())
    place = {"xid": xid, "position": f"binlog.000001:{position}"}
    return json.dumps({"database": "d", "table": "t", "type": "insert", "ts": ts, "data": data, **place, **marks})


def feed_noted(trial: Trial, *changes: tuple[str, int, str, int, int]) -> None:
    """Feed changes that are dead letters until `replay` declares notes as texts."""
    trial.set("sources.log.schema", f'"{LOG} int"')
    lines = [dict(zip(HEAD, (*change[:4], at(change[4]).isoformat()), strict=True)) for change in changes]
    trial.feed("log", [json.dumps({**line, "note": "text"}) for line in lines])


def dated(trial: Trial) -> None:
    """Let a changelog of Debezium be followed by commit times, without transactions; the load is done."""
    trial.set("pipelines.accounts.changelog", '"debezium"')
    trial.set("sources.debezium.transactions", '"none"')
    trial.set("sources.debezium.schema", '"id bigint, owner string, balance bigint, at timestamp"')
    trial.set("sources.debezium.metadata", '{ at = "commit_time" }')
    trial.set("sources.debezium.event_time", '"at"')


LOG = "kind string, id bigint, owner string, balance bigint, at timestamp, note"


def test_letters_read_again_are_placed_by_their_time_and_after_the_bulk(trial: Trial) -> None:
    fill(trial, (1, "ann", 10), (2, "bob", 20), (4, "dan", 40))
    feed_noted(
        trial, ("+U", 1, "eve", 11, 3), ("+U", 2, "eve", 11, 3), ("+I", 3, "eve", 11, 3), ("+U", 4, "eve", 11, 25)
    )
    feed(trial, ("+U", 2, "bob", 22, 20), ("-D", 3, "eve", 11, 20), ("+U", 4, "dan", 41, 20))
    trial.run()
    assert rows(trial) == [(1, "ann", 10), (2, "bob", 22), (4, "dan", 41)]
    assert replay(trial, "log") == (2, 2)
    assert rows(trial) == [(1, "eve", 11), (2, "bob", 22), (4, "eve", 11)]
    assert rows(trial, as_of=at(24)) == [(1, "eve", 11), (2, "bob", 22), (4, "dan", 41)]
    assert all("a later change of its key has been read" in reason for reason in reasons(trial))


def noted_change(trial: Trial, kind: str, id_: int, second: int) -> None:
    """Feed a change whose position is its second, and whose note is a text."""
    line = {"kind": kind, "id": id_, "owner": "x", "balance": 2, "at": at(second).isoformat(), "pos": second}
    trial.feed("log", [json.dumps({**line, "note": "text"})])


POSITIONED = '"kind string, id bigint, owner string, balance bigint, at timestamp, pos bigint, note {}"'


def test_a_letter_that_is_older_by_its_position_comes_before_later_changes(positioned: Trial) -> None:
    trial = positioned
    trial.set("sources.log.schema", POSITIONED.format("int"))
    change(trial, "+I", 5, 50)
    trial.run()
    noted_change(trial, "+U", 5, 70)
    noted_change(trial, "-D", 5, 80)
    noted_change(trial, "+U", 6, 95)
    change(trial, "+U", 5, 90)
    trial.run()
    now = rows(trial)
    trial.set("sources.log.schema", POSITIONED.format("string"))
    result = trial.open().replay("accounts")
    assert (result.rows, result.left) == (3, 0)
    assert sorted([*now, (6, "x", 2)]) == rows(trial)
    of_5 = {
        second: [row[1:] for row in rows(trial, as_of=at(second)) if row[0] == 5] for second in (45, 55, 75, 85, 94)
    }
    assert of_5 == {45: [], 55: [("x", 1)], 75: [("x", 2)], 85: [], 94: [("x", 1)]}


def test_a_change_from_before_the_read_of_its_row_leaves_the_history(trial: Trial) -> None:
    """The row of key 1 was read at position 30, so the change at 20 was in it."""
    at_pos = '"kind string, id bigint, owner string, balance bigint, at timestamp, pos bigint"'
    trial.set("pipelines.accounts.position", '"pos"')
    trial.set("sources.log.schema", at_pos)
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json", search_ts = "read_at" }')
    write(trial, (1, 30))
    change(trial, "+I", 9, 50)
    trial.run()
    change(trial, "-D", 1, 100)
    trial.run()
    change(trial, "+U", 1, 20)
    change(trial, "+U", 9, 60)
    trial.run()
    then = {second: [row[0] for row in rows(trial, as_of=at(second))] for second in (55, 99, 100)}
    assert then == {55: [1, 9], 99: [1, 9], 100: [9]}


def test_a_change_that_comes_again_after_it_has_expired_leaves_the_history(positioned: Trial) -> None:
    trial, day = positioned, 86_400
    for kind, second in (("+I", 100), ("-D", 200)):
        change(trial, kind, 5, second)
        trial.run()
    for second in (2 * day, 3 * day):
        change(trial, "+U", 9, second)
        trial.run()
    change(trial, "+I", 5, 3 * day + 10)
    trial.run()
    change(trial, "+I", 5, 100)
    trial.run()
    assert [row[0] for row in rows(trial, as_of=at(3 * day))] == [1, 9]
    assert [row[0] for row in rows(trial)] == [1, 5, 9]


def test_a_letter_from_before_the_history_does_not_bring_back_a_row_whose_delete_is_forgotten(
    positioned: Trial,
) -> None:
    trial, day = positioned, 86_400
    trial.set("sources.log.schema", POSITIONED.format("int"))
    change(trial, "+I", 5, 15)
    trial.run()
    noted_change(trial, "+U", 5, 20)
    noted_change(trial, "+U", 9, 20)
    change(trial, "-D", 5, 30)
    trial.run()
    for second in (2 * day, 2 * day + 1):
        change(trial, "+U", 9, second)
        trial.run()
    trial.set("sources.log.schema", POSITIONED.format("string"))
    result = trial.open().replay("accounts")
    assert (result.rows, result.left) == (1, 1)
    assert [row[0] for row in rows(trial)] == [1, 9]
    assert ["where the history begins" in reason for reason in reasons(trial)] == [True]


def test_an_insert_that_is_older_by_its_position_stays_a_letter_beside_before_images(trial: Trial) -> None:
    """A connector's snapshot sends rows that are there as inserts, without the image before."""
    trial.set("pipelines.accounts.changelog", '"maxwell"')
    trial.set("pipelines.accounts.position", '"pos"')
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json", search_ts = "read_at" }')
    schema = '"id bigint, owner string, balance bigint, at timestamp, pos bigint, note {}"'
    trial.set("sources.maxwell.schema", schema.format("int"))
    old = json.loads(maxwell(1, 1, 10, 1, 10, commit=True))
    old["data"]["note"] = "text"
    trial.feed("maxwell", [json.dumps(old)])
    trial.feed("maxwell", [maxwell(1, 2, 20, 2, 20, commit=True)])
    trial.run()
    trial.set("sources.maxwell.schema", schema.format("string"))
    result = trial.open().replay("accounts")
    assert (result.rows, result.left) == (0, 1)
    assert ["may be of a row that was there before" in reason for reason in reasons(trial)] == [True]


def test_several_letters_of_a_key_take_effect_in_their_order(trial: Trial) -> None:
    feed(trial, ("+I", 1, "ann", 1, 20))
    feed_noted(trial, ("+U", 1, "ann", 2, 30), ("-D", 1, "ann", 2, 40), ("+I", 1, "eve", 3, 50), ("+I", 2, "x", 1, 50))
    feed_noted(trial, ("-D", 2, "x", 1, 60))
    trial.run()
    assert rows(trial) == [(1, "ann", 1)]
    assert replay(trial, "log") == (5, 0)
    assert rows(trial) == [(1, "eve", 3)]
    assert [rows(trial, as_of=at(second)) for second in (20, 30, 40)] == [[(1, "ann", 1)], [(1, "ann", 2)], []]


def test_the_old_image_of_an_update_has_the_time_of_the_new_one(trial: Trial) -> None:
    """It is of the row as it was, and so is its time, where this is one of the row's columns."""
    feed(trial, ("+I", 1, "ann", 10, 0), ("-U", 1, "ann", 10, 0), ("+U", 1, "ann", 20, 20), ("+I", 2, "bob", 5, 40))
    fill(trial)
    trial.run()
    trial.run()
    feed(trial, ("-U", 1, "ann", 20, 20), ("+U", 1, "ann", 30, 50), ("+I", 3, "cat", 1, 60))
    trial.run()
    assert rows(trial, as_of=at(45)) == [(1, "ann", 20), (2, "bob", 5)]
    assert rows(trial, as_of=at(50)) == [(1, "ann", 30), (2, "bob", 5)]


UNDATED = "event_time at is a column of the row, so a deleted row has the time of an earlier change: read the time of"


@pytest.fixture
def undated(trial: Trial) -> Trial:
    """Two tables with changelogs of Maxwell, whose times are columns of the rows, and a view over them."""
    of_rows = ACCOUNTS.replace('metadata = { at = "commit_time", pos', 'transactions = "none"\nmetadata = { pos')
    of_rows = of_rows.replace('changelog = "log"', 'changelog = "maxwell"')
    others = of_rows.partition("[pipelines.accounts]")[2]
    trial.deploy(f"{of_rows}\n[pipelines.others]{others}\n{BOTH}")
    return trial


BOTH = """
[pipelines.both]
service = "materialized_view"
inputs = { a = "accounts.rows", b = "others.rows" }
key = ["id"]
sql = "SELECT a.id FROM a JOIN b ON a.id = b.id"
align = "newest"
"""


def test_rows_are_not_told_as_of_a_time_that_deletes_do_not_have(undated: Trial) -> None:
    fill(undated, (1, "ann", 10))
    undated.run()
    assert rows(undated) == []
    with pytest.raises(ConfigError, match=UNDATED):
        undated.reader.view("accounts.rows", as_of=at(30))


def test_an_aligned_view_of_rows_whose_deletes_have_no_time_is_refused(undated: Trial) -> None:
    undated.set("pipelines.both.align", '"before"')
    with pytest.raises(ConfigError, match=f'inputs.a: .*{UNDATED}.*; or set align = "newest" here'):
        undated.run()


def test_a_row_that_a_connector_reads_again_was_there_before(trial: Trial) -> None:
    """Its snapshots send rows that are there as inserts, which have no image of before."""
    dated(trial)
    take(trial, debezium("", 1, 10, 1, (None, 1)), debezium("", 1, 12, 2, (None, 5)))
    again = [debezium("", 1, 30, 1, (None, 2)), debezium("", 1, 30, 2, (None, 5)), debezium("", 1, 30, 3, (None, 7))]
    take(trial, debezium("", 1, 20, 1, (1, 2)), *again)
    take(trial, debezium("", 1, 40, 2, (5, None)), debezium("", 1, 50, 2, (None, 6)), debezium("", 1, 60, 3, (7, 8)))
    assert rows(trial, as_of=at(15)) == [(1, "ann", 1), (2, "ann", 5)]
    assert rows(trial, as_of=at(25)) == [(1, "ann", 2), (2, "ann", 5)]
    assert rows(trial, as_of=at(35)) == [(1, "ann", 2), (2, "ann", 5), (3, "ann", 7)]
    assert rows(trial, as_of=at(45)) == [(1, "ann", 2), (3, "ann", 7)]
    assert rows(trial, as_of=at(55)) == [(1, "ann", 2), (2, "ann", 6), (3, "ann", 7)]


def test_a_replayed_change_is_what_a_row_read_again_was_before(trial: Trial) -> None:
    dated(trial)
    trial.set("sources.debezium.schema", '"id bigint, owner string, balance bigint, at timestamp, note int"')
    take(trial, debezium("", 1, 10, 1, (None, 1)), noted(debezium("", 1, 20, 1, (1, 2))))
    take(trial, debezium("", 1, 30, 1, (None, 2)), debezium("", 1, 40, 1, (2, 3)))
    assert rows(trial, as_of=at(25)) == [(1, "ann", 1)]
    trial.set("sources.debezium.schema", '"id bigint, owner string, balance bigint, at timestamp, note string"')
    assert trial.open().replay("accounts").left == 0
    assert [rows(trial, as_of=at(moment)) for moment in (15, 25, 35)] == [[(1, "ann", n)] for n in (1, 2, 2)]


def test_rows_as_of_a_time_have_replayed_changes_at_their_times(trial: Trial) -> None:
    """Accounts 1 and 2 have changes before and after their letters. Account 3 came with its letter."""
    dated(trial)
    columns = "id bigint, owner string, balance bigint, at timestamp, note"
    trial.set("sources.debezium.schema", f'"{columns} int"')
    changes = [
        (10, 1, (None, 1)),
        (10, 2, (None, 1)),
        (20, 1, (1, 2)),
        (30, 1, (2, 3)),
        (30, 2, (1, None)),
        (30, 3, (None, 5)),
        (40, 1, (3, 4)),
        (50, 2, (None, 6)),
        (50, 3, (5, 7)),
        (60, 1, (4, 5)),
    ]
    unusable = {(30, 1), (40, 1), (30, 2), (30, 3)}
    lines = [debezium("", 1, second, key, balances) for second, key, balances in changes]
    lines = [line.replace('"owner"', '"note": null, "owner"') for line in lines]
    lines = [
        line.replace('"note": null', '"note": "text"') if (second, key) in unusable else line
        for (second, key, _), line in zip(changes, lines, strict=True)
    ]
    take(trial, *lines[:6])
    take(trial, *lines[6:])
    trial.set("sources.debezium.schema", f'"{columns} string"')
    assert trial.open().replay("accounts").left == 0
    for moment in range(5, 70, 5):
        balances: dict[int, int | None] = {}
        balances |= {key: after for second, key, (_, after) in changes if second <= moment}
        expected = [(key, "ann", after) for key, after in sorted(balances.items()) if after is not None]
        assert rows(trial, as_of=at(moment)) == expected, moment
    assert rows(trial) == expected


@pytest.mark.parametrize("kind", ["+I", "+U", "-D"])
def test_a_letter_with_the_time_of_another_change_of_its_key_stays(trial: Trial, kind: str) -> None:
    feed(trial, ("+I", 1, "ann", 1, 20))
    feed_noted(trial, (kind, 1, "ann", 2, 20))
    trial.run()
    assert replay(trial, "log") == (0, 1)
    assert rows(trial) == [(1, "ann", 1)]
    assert "a change of its key at the same time has been read" in reasons(trial)[0]


def test_a_letter_that_is_older_than_the_history_stays(trial: Trial) -> None:
    feed_noted(trial, ("+I", 3, "eve", 1, 30), ("+I", 4, "eve", 1, 3 * 3600))
    feed(trial, ("-D", 3, "eve", 1, 40), ("+I", 1, "ann", 1, 26 * 3600), ("+I", 2, "bob", 1, 27 * 3600))
    trial.run()
    assert replay(trial, "log") == (1, 1)
    assert [row[0] for row in rows(trial)] == [1, 2, 4]
    assert "its time is before 2024-03-01T12:00:00Z, where the history begins" in reasons(trial)[0]


def test_upserts_without_position_leave_letters_as_they_are(trial: Trial) -> None:
    trial.set("pipelines.accounts.mode", '"upsert"')
    feed_noted(trial, ("+I", 1, "ann", 1, 20))
    feed(trial, ("-D", 1, "ann", 1, 30))
    trial.run()
    assert replay(trial, "log") == (0, 1)
    assert rows(trial) == []
    assert "it is unknown whether a later change of its key has been read" in reasons(trial)[0]


def test_no_row_shows_before_its_transaction_is_whole(trial: Trial) -> None:
    trial.set("pipelines.accounts.changelog", '"maxwell"')
    trial.feed("maxwell", [maxwell(1, 1, 10, 1, 100, commit=True), maxwell(2, 2, 20, 2, 200, xoffset=0)])
    trial.run()
    assert rows(trial) == [(1, "ann", 1)]
    assert kept(trial) == {"pending": 1}
    (status,) = trial.reader.status()
    assert status.publication is not None
    assert status.publication.watermark == at(20) - timedelta(microseconds=1)
    trial.feed("maxwell", [maxwell(3, 3, 25, 2, 210, commit=True)])
    trial.run()
    assert rows(trial) == [(1, "ann", 1), (2, "ann", 2), (3, "ann", 3)]
    assert kept(trial) == {}
    assert rows(trial, as_of=at(24)) == [(1, "ann", 1)]
    assert len(rows(trial, as_of=at(25))) == 3


def debezium(name: str, event: int, second: int, key: int, balances: tuple[int | None, int | None]) -> str:
    """An event of a counted transaction: the balance of an account before and after."""
    before, after = balances

    def image(balance: int | None) -> dict[str, Any] | None:
        return None if balance is None else {"id": key, "owner": "ann", "balance": balance}

    change = {"op": "c" if before is None else "d" if after is None else "u", "before": image(before)}
    source = {"db": "bank", "table": "accounts", "ts_ms": int(at(second).timestamp()) * 1000}
    transaction = {"id": name, "total_order": event, "data_collection_order": event}
    return json.dumps({**change, "after": image(after), "source": source, "transaction": transaction})


def ended(name: str, events: int, second: int) -> str:
    counts = [{"data_collection": "bank.accounts", "event_count": events}]
    end = {"status": "END", "id": name, "event_count": events, "data_collections": counts}
    return json.dumps({**end, "ts_ms": int(at(second).timestamp()) * 1000})


def take(trial: Trial, *lines: str) -> list[tuple[Any, ...]]:
    """The rows after one more epoch of a counted changelog."""
    trial.feed("debezium", lines)
    trial.run()
    return rows(trial)


@pytest.mark.parametrize("later", [True, False])
@pytest.mark.parametrize(("after", "told"), [(6, [(1, "ann", 6), (2, "ann", 7)]), (None, [(2, "ann", 7)])])
def test_a_change_waits_for_an_older_transaction_of_its_key(
    trial: Trial, after: int | None, told: list[tuple[Any, ...]], *, later: bool
) -> None:
    trial.set("pipelines.accounts.changelog", '"debezium"')
    first = [debezium("a", 1, 1, 1, (None, 5)), ended("a", 2, 1)]
    second = [debezium("b", 1, 2, 1, (5, after)), ended("b", 1, 2)]
    for batch in [first, second] if later else [[*first, *second]]:
        assert take(trial, *batch) == []
    assert take(trial, debezium("a", 2, 1, 2, (None, 7))) == told
    assert rows(trial, as_of=at(1)) == [(1, "ann", 5), (2, "ann", 7)]
    assert kept(trial) == {}


@pytest.fixture
def counted(trial: Trial) -> Trial:
    """Two chunks by position, read before and after a transaction at 200 and 201 that moves 10 from 1 to 2."""
    trial.set("pipelines.accounts.changelog", '"debezium"')
    trial.set("pipelines.accounts.position", '["file", "pos"]')
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json" }')
    trial.set("sources.debezium.schema", '"id bigint, owner string, balance bigint, file string, pos bigint"')
    trial.set("sources.debezium.metadata", '{ file = "log_file", pos = "log_position" }')
    for line in (["1", "ann", "100", "bin.999999", "100"], ["2", "ann", "110", "bin.999999", "300"]):
        trial.fill("accounts", [["id", "owner", "balance", "file", "pos"], line])
    return trial


def placed(line: str, pos: int, file: str = "bin.999999") -> str:
    """A message of Debezium with a position in the log."""
    message = json.loads(line)
    message["source"] |= {"file": file, "pos": pos}
    return json.dumps(message)


EARLIER = (placed(debezium("a", 1, 10, 5, (None, 1)), 150), ended("a", 1, 10))
MOVED = (
    placed(debezium("b", 1, 20, 1, (100, 90)), 200),
    ended("b", 2, 20),
    placed(debezium("b", 2, 20, 2, (100, 110)), 201),
)
LATER = (placed(debezium("c", 1, 30, 5, (1, 2)), 400), ended("c", 1, 30))


@pytest.mark.parametrize(
    "batches",
    [
        (MOVED[:2], LATER),
        ((*LATER, *MOVED[:2]),),
        ((*LATER, MOVED[0]),),
        # Only the end of the transaction has come. The positions of its rows are unknown.
        ((*LATER, MOVED[1]),),
        # A later transaction waits because of its key.
        ((*LATER, *MOVED[:2], placed(debezium("d", 1, 40, 1, (90, 91)), 500), ended("d", 1, 40)),),
    ],
)
def test_a_chunk_by_position_waits_for_transactions_from_before_its_read(
    counted: Trial, batches: tuple[tuple[str, ...], ...]
) -> None:
    take(counted, *EARLIER)
    for batch in batches:
        assert [row for row in take(counted, *batch) if row[0] != 5] == [(1, "ann", 100)]
    assert [row[-2] for row in rows(counted, "settled")] == [True, False]
    fed = [line for batch in batches for line in batch]
    _, second, _ = take(counted, *(line for line in MOVED if line not in fed))
    assert second == (2, "ann", 110)
    assert [row[-2] for row in rows(counted, "settled")] == [True, True]


@pytest.mark.parametrize(("file", "pos"), [("bin.999999", 301), ("bin.1000000", 4)])
def test_a_chunk_by_position_does_not_wait_for_transactions_from_after_its_read(
    counted: Trial, file: str, pos: int
) -> None:
    take(counted, placed(debezium("b", 1, 20, 1, (100, 90)), pos, file), ended("b", 2, 20))
    assert [row[-2] for row in rows(counted, "settled")] == [True, True]
    assert rows(counted) == [(1, "ann", 100), (2, "ann", 110)]


def test_a_chunk_by_position_waits_for_half_a_transaction_of_a_silent_changelog(trial: Trial) -> None:
    trial.set("pipelines.accounts.changelog", '"maxwell"')
    trial.set("pipelines.accounts.position", '"pos"')
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json" }')
    trial.set("sources.maxwell.idle_after", '"1m"')
    trial.set("sources.maxwell.watermark_delay", '"5s"')
    for line in (["1", "ann", "100", "100"], ["2", "ann", "110", "300"]):
        trial.fill("accounts", [["id", "owner", "balance", "pos"], line])
    trial.feed("maxwell", [maxwell(5, 1, 10, 1, 150, commit=True), maxwell(1, 90, 20, 2, 200, xoffset=0)])
    trial.clock.moment = at(30)
    trial.run()
    trial.clock.sleep(timedelta(hours=1))
    trial.run()
    assert rows(trial) == [(1, "ann", 100), (5, "ann", 1)]
    trial.feed("maxwell", [maxwell(2, 110, 20, 2, 201, commit=True)])
    trial.run()
    assert rows(trial) == [(1, "ann", 90), (2, "ann", 110), (5, "ann", 1)]
    trial.clock.sleep(timedelta(hours=1))
    trial.run()
    assert [row[-2] for row in rows(trial, "settled")] == [True, True]


@pytest.mark.parametrize("mode", ["exact", "upsert"])
def test_a_position_of_changes_decides_nothing(trial: Trial, mode: str) -> None:
    """The chunk was read at 250, before the commit of the change, which is older than 250 in the log of PostgreSQL."""
    trial.set("pipelines.accounts.mode", f'"{mode}"')
    trial.set("pipelines.accounts.changelog", '"debezium"')
    trial.set("pipelines.accounts.position", '"pos"')
    trial.set("sources.debezium.schema", '"id bigint, owner string, balance bigint, pos bigint"')
    trial.set("sources.debezium.metadata", '{ pos = "log_position" }')
    trial.set("sources.debezium.transactions", '"none"')
    trial.fill("accounts", [["id", "owner", "balance", "pos"], ["1", "ann", "10", "250"], ["2", "bob", "20", "250"]])
    assert mode == "upsert" or rows(trial) == []
    change = json.loads(debezium("", 1, 5, 1, (10, 11)))
    change["source"]["lsn"] = 100
    assert (1, "ann", 11) not in take(trial, json.dumps(change))
    (reason,) = reasons(trial)
    assert reason.startswith(
        "source.lsn: the position of a change, which does not increase in the order of the commits"
    )
    change["source"] = {**change["source"], "lsn": None, "pos": 300}
    assert (1, "ann", 11) in take(trial, json.dumps(change))


def deploy_with_note(trial: Trial, source: str, kind: str) -> None:
    """Declare one more column, which no view has. A row whose note is not of that type is a dead letter."""
    columns = LOG if source == "log" else "id bigint, owner string, balance bigint, note"
    columns = columns.replace("note", "at timestamp, pos bigint, note") if source == "maxwell" else columns
    trial.set(f"sources.{source}.schema", f'"{columns} {kind}"')


def replay(trial: Trial, source: str) -> tuple[int, int]:
    """Replay the dead letters, now that notes are texts: the rows that are used, and the letters that are left."""
    deploy_with_note(trial, source, "string")
    result = trial.open().replay("accounts")
    return result.rows, result.left


def noted(line: str) -> str:
    """A message whose note is a text."""
    message = json.loads(line)
    for image in (message.get("data"), message.get("before"), message.get("after")):
        if image:
            image["note"] = "text"
    return json.dumps(message)


def reasons(trial: Trial) -> list[str]:
    return sorted(row[1] for row in rows(trial, "dead_letters"))


def test_letters_of_a_transaction_that_waits_stay_until_it_is_whole(trial: Trial) -> None:
    trial.set("pipelines.accounts.changelog", '"maxwell"')
    deploy_with_note(trial, "maxwell", "int")
    trial.feed("maxwell", [maxwell(1, 1, 10, 1, 100, commit=True), noted(maxwell(2, 2, 20, 2, 200, xoffset=0))])
    trial.run()
    assert replay(trial, "maxwell") == (0, 1)
    assert rows(trial) == [(1, "ann", 1)]
    (reason,) = reasons(trial)
    assert "its transaction, or an earlier one with its key, still waits for other rows" in reason
    trial.feed("maxwell", [maxwell(3, 3, 20, 2, 210, commit=True)])
    trial.run()
    assert rows(trial) == [(1, "ann", 1), (3, "ann", 3)]
    assert replay(trial, "maxwell") == (1, 0)
    assert rows(trial) == [(1, "ann", 1), (2, "ann", 2), (3, "ann", 3)]


def test_letters_stay_while_an_earlier_transaction_of_their_key_waits(trial: Trial) -> None:
    trial.set("pipelines.accounts.changelog", '"debezium"')
    deploy_with_note(trial, "debezium", "int")
    take(trial, debezium("a", 1, 1, 1, (None, 5)), ended("a", 2, 1))
    assert take(trial, noted(debezium("b", 1, 2, 1, (5, 6))), ended("b", 1, 2)) == []
    assert take(trial, noted(debezium("c", 1, 3, 3, (None, 8))), ended("c", 1, 3)) == []
    assert replay(trial, "debezium") == (1, 2)
    assert rows(trial) == [(3, "ann", 8)]
    assert take(trial, debezium("a", 2, 1, 2, (None, 7))) == [(1, "ann", 5), (2, "ann", 7), (3, "ann", 8)]
    assert replay(trial, "debezium") == (2, 0)
    assert rows(trial) == [(1, "ann", 6), (2, "ann", 7), (3, "ann", 8)]


def test_letters_of_a_transaction_have_the_time_of_its_commit(trial: Trial) -> None:
    """The last change of account 2 is of the transaction of the letters, so it is unknown which of the two is later."""
    trial.set("pipelines.accounts.changelog", '"debezium"')
    deploy_with_note(trial, "debezium", "int")
    lines = [noted(debezium("a", each, each, each, (None, 5))) for each in (1, 2)]
    take(trial, *lines, debezium("a", 3, 3, 2, (None, 6)), debezium("a", 4, 4, 3, (None, 7)), ended("a", 4, 4))
    take(trial, debezium("b", 1, 5, 4, (None, 8)), ended("b", 1, 5))
    assert replay(trial, "debezium") == (1, 1)
    assert rows(trial) == [(1, "ann", 5), (2, "ann", 6), (3, "ann", 7), (4, "ann", 8)]
    assert rows(trial, as_of=at(3)) == []
    assert "a change of its key at the same time has been read" in reasons(trial)[0]


@pytest.mark.parametrize("commit", [True, False])
def test_letters_whose_commit_time_is_unknown_stay_if_their_key_changed_later(trial: Trial, *, commit: bool) -> None:
    trial.set("pipelines.accounts.changelog", '"maxwell"')
    deploy_with_note(trial, "maxwell", "int")
    trial.feed("maxwell", [noted(maxwell(1, 1, 20, 1, 100, commit=commit)), maxwell(1, 2, 30, 2, 200, commit=True)])
    trial.run()
    assert replay(trial, "maxwell") == ((1, 0) if commit else (0, 1))
    assert rows(trial) == [(1, "ann", 2)]


def test_the_watermark_stays_before_transactions_that_wait_while_letters_are_replayed(trial: Trial) -> None:
    trial.set("pipelines.accounts.changelog", '"debezium"')
    deploy_with_note(trial, "debezium", "int")
    take(trial, debezium("a", 1, 1, 1, (None, 5)), ended("a", 2, 1))
    take(trial, noted(debezium("c", 1, 3, 3, (None, 8))), ended("c", 1, 3))
    assert replay(trial, "debezium") == (1, 0)
    (status,) = trial.reader.status()
    assert status.publication is not None
    assert status.publication.watermark == at(1) - timedelta(microseconds=1)


def test_events_of_applied_transactions_are_skipped(trial: Trial) -> None:
    trial.set("pipelines.accounts.changelog", '"debezium"')
    one, two, end = debezium("a", 1, 1, 1, (None, 5)), debezium("a", 2, 1, 2, (None, 7)), ended("a", 2, 1)
    assert take(trial, one, one, end) == []
    assert take(trial, two) == [(1, "ann", 5), (2, "ann", 7)]
    newer = [(1, "ann", 5), (2, "ann", 8)]
    assert take(trial, debezium("b", 1, 2, 2, (7, 8)), ended("b", 1, 2)) == newer
    assert take(trial, two, ended("a", 2, 9)) == newer  # the end may have the time at which it was sent again
    assert kept(trial) == {}
    assert take(trial, debezium("c", 1, 3600, 3, (None, 1)), ended("c", 1, 3600)) == [*newer, (3, "ann", 1)]
    (status,) = trial.reader.status()
    assert status.publication is not None
    assert status.publication.watermark == at(3600)


def test_a_transaction_whose_name_is_used_again_after_a_reset_of_the_log_is_another_one(trial: Trial) -> None:
    trial.set("pipelines.accounts.changelog", '"debezium"')
    assert take(trial, debezium("a", 1, 1, 1, (None, 5)), ended("a", 1, 1)) == [(1, "ann", 5)]
    assert take(trial, debezium("a", 1, 2, 1, (5, 6)), ended("a", 1, 2)) == [(1, "ann", 6)]
    assert take(trial, debezium("a", 1, 1, 1, (None, 5)), ended("a", 1, 1)) == [(1, "ann", 6)]


def test_names_of_applied_transactions_expire_with_history(trial: Trial) -> None:
    trial.set("pipelines.accounts.changelog", '"debezium"')
    trial.set("pipelines.accounts.history", '"24s"')
    for number in range(1, 6):
        take(trial, debezium(f"t{number}", 1, number * 20, number, (None, 5)), ended(f"t{number}", 1, number * 20))
    _, stored = trial.stored("accounts.applied")
    assert sorted(stored.collect(backend="polars")["_transaction"].to_list()) == ["t4", "t5"]


def test_a_transaction_that_waits_for_long_is_warned_of(trial: Trial, caplog: pytest.LogCaptureFixture) -> None:
    trial.set("pipelines.accounts.changelog", '"debezium"')
    take(trial, debezium("lost", 1, 1, 1, (None, 5)), ended("lost", 2, 1))
    take(trial, debezium("b", 1, 3601, 2, (None, 5)), ended("b", 1, 3601))
    assert not caplog.records
    take(trial, debezium("c", 1, 3602, 3, (None, 5)), ended("c", 1, 3602))
    assert "transaction lost of 2024-03-01T09:00:01Z still waits for its other rows" in caplog.text
    (status,) = trial.reader.status()
    assert status.bookkeeping["pending"].oldest == at(1)


def test_the_warning_names_the_transaction_that_others_wait_for(trial: Trial, caplog: pytest.LogCaptureFixture) -> None:
    trial.set("pipelines.accounts.changelog", '"debezium"')
    take(trial, debezium("t9", 1, 1, 1, (None, 5)), ended("t9", 2, 1))
    take(trial, debezium("t10", 1, 1, 1, (5, 6)), ended("t10", 1, 1))
    take(trial, debezium("c", 1, 3602, 3, (None, 5)), ended("c", 1, 3602))
    assert "transaction t9 of" in caplog.text


def test_rows_that_waited_are_dropped_together_when_none_or_few_are_left(trial: Trial) -> None:
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json", search_ts = "read_at" }')
    head = ["id", "owner", "balance", "read_at"]
    for moment, ids in ((40, (1, 2)), (60, (3,)), (80, (4, 5, 6))):
        trial.fill("accounts", [head, *([str(each), "ann", "10", at(moment).isoformat()] for each in ids)])
    waiting, written, (runner,) = "accounts.waiting", [], trial.open().start(["accounts"])
    for second in (5, 10, 15, 50, 70, 90):
        feed(trial, ("+I", 100 + second, "ian", 90, second))
        runner.advance()
        version = runner.ledger.snapshot().version(waiting)
        assert version is not None
        left = runner.ledger.snapshot().read(waiting).select("id").collect().rows()
        written.append((sorted(each for (each,) in left), runner.store.version(waiting, version).written))
    assert written == [
        ([1, 2], 2),
        ([1, 2, 3], 1),
        ([1, 2, 3, 4, 5, 6], 3),
        ([3, 4, 5, 6], 2),  # more stay than go: those that go are deleted
        ([4, 5, 6], 1),
        ([], 0),
    ]


def test_rows_that_stay_are_written_once_more_where_they_are_fewer(trial: Trial) -> None:
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json", search_ts = "read_at" }')
    head = ["id", "owner", "balance", "read_at"]
    for moment, ids in ((40, (1, 2, 3)), (60, (4,)), (80, (5,))):
        trial.fill("accounts", [head, *([str(each), "ann", "10", at(moment).isoformat()] for each in ids)])
    waiting, (runner,) = "accounts.waiting", trial.open().start(["accounts"])
    for second in (5, 10, 50):
        feed(trial, ("+I", 100 + second, "ian", 90, second))
        runner.advance()
    version, left = runner.ledger.snapshot().version(waiting), runner.ledger.snapshot().read(waiting)
    assert version is not None
    assert runner.store.version(waiting, version).written == 2
    assert sorted(left.select("id", "balance").collect().rows()) == [(4, 10), (5, 10)]
    assert [row[0] for row in rows(trial)] == [1, 2, 3, 105, 110, 150]


def test_net_changes_are_complete(loaded: Trial) -> None:
    changes = loaded.reader.diff("accounts.rows", after=loaded.reader.epoch("accounts") - 2)
    assert sorted(changes.select(ROW_KIND, "id", "balance").rows()) == [
        ("+I", 4, 30),
        ("+U", 1, 12),
        ("+U", 2, 5),
        ("-D", 3, 30),
        ("-U", 1, 11),
        ("-U", 2, 20),
    ]


def test_check_tells_where_the_bulk_is(trial: Trial, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(trial.file)]) == 0
    assert f"accounts, from source log and, in bulk, json files at {trial.folder}/bulk\n" in capsys.readouterr().out


def test_status_tells_which_chunk_fails_and_the_others_go_on(trial: Trial, caplog: pytest.LogCaptureFixture) -> None:
    moment = "search_ts = '2024-03-01T09:00:00Z'"
    trial.set("pipelines.accounts.bulk", f'{{ path = "parquet", chunk_rows = 1, {moment} }}')
    folder = trial.folder / "parquet"
    folder.mkdir()
    (folder / "1.parquet").write_bytes(b"no Parquet")
    pl.DataFrame({"id": [1], "owner": ["ann"], "balance": [10]}).write_parquet(folder / "2.parquet")
    feed(trial, ("+I", 9, "ian", 90, 20))
    (runner,) = trial.open().start()
    while runner.advance():
        pass
    (warning,) = caplog.records
    assert warning.getMessage().startswith("accounts: chunk 0: file 1.parquet is not Parquet")
    assert rows(trial) == [(1, "ann", 10), (9, "ian", 90)]
    (status,) = trial.open().status()
    assert [alarm for alarm in status.alarms if "chunk 0: file 1.parquet is not Parquet" in alarm]
    pl.DataFrame({"id": [2], "owner": ["bob"], "balance": [20]}).write_parquet(folder / "1.parquet")
    feed(trial, ("-U", 9, "ian", 90, 21), ("+U", 9, "ian", 91, 21))
    trial.run()
    assert rows(trial) == [(1, "ann", 10), (2, "bob", 20), (9, "ian", 91)]
    assert trial.open().status()[0].alarms == ()


def test_a_chunk_with_damage_inside_is_left_while_the_others_go_on_and_read_once_it_is_whole(trial: Trial) -> None:
    moment = "search_ts = '2024-03-01T09:00:00Z'"
    trial.set("pipelines.accounts.bulk", f'{{ path = "csv", format = "csv", {moment} }}')
    folder = trial.folder / "csv"
    folder.mkdir()
    whole = gzip.compress(b"id,owner,balance\n" + b"".join(b"%d,ann,10\n" % each for each in range(100, 2000)))
    for name in ("1.csv.gz", "3.csv.gz"):
        (folder / name).write_bytes(whole[:-6])
    (folder / "2.csv").write_text("id,owner,balance\n2,bob,20\n")
    (folder / "4.csv").write_text("id,owner,balance\n4,dan,40\n")
    feed(trial, ("+I", 9, "ian", 90, 20))
    trial.run()
    assert rows(trial) == [(2, "bob", 20), (4, "dan", 40), (9, "ian", 90)]
    (status,) = trial.open().status()
    assert len([alarm for alarm in status.alarms if re.search(r"chunk [02]: file .*csv\.gz is damaged", alarm)]) == 2
    (folder / "1.csv.gz").write_bytes(whole)
    (folder / "3.csv.gz").unlink()
    feed(trial, ("+I", 10, "joe", 1, 21))
    trial.run()
    assert len(rows(trial)) == 1904


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("changelog", '"nothing"', "changelog: 'nothing' is unknown; allowed: log, maxwell"),
        ("key", '["name"]', "key: no such column: 'name' is unknown"),
        ("position", '"place"', "position: no such column: 'place' is unknown"),
        ("mode", '"quick"', "mode: 'quick' is unknown; allowed: exact, upsert"),
        ("columns", '["id"]', "columns must contain the key and at least one other column"),
        ("history", '"0s"', "history must be longer than 0"),
        ("delay", '"soon"', "delay: "),
        ("bulk", '{ format = "json" }', "path"),
        ("bulk", '{ path = "b", format = "xml" }', "format: 'xml' is unknown"),
        ("key", '["balance", "balance"]', "key"),
    ],
)
def test_what_is_refused(trial: Trial, key: str, value: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        trial.set(f"pipelines.accounts.{key}", value)
        trial.open()
    assert told in str(refused.value)


def test_exactness_needs_a_position_or_a_time(trial: Trial) -> None:
    trial.unset("sources.log.event_time")
    with pytest.raises(ConfigError, match="the bulk and the changelog share, or set event_time"):
        trial.open()


def test_exactness_without_position_needs_to_know_when_the_bulk_was_read(trial: Trial) -> None:
    trial.set("pipelines.accounts.bulk", '{ path = "bulk", format = "json" }')
    with pytest.raises(ConfigError, match="search_ts"):
        trial.open()
