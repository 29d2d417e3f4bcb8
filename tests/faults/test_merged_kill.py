"""`kill -9` of bulk merges and of views over them, between their commits: no reader ever sees a mixed state."""

from __future__ import annotations

import json
import random
from itertools import count
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest

from headwater import Headwater

from .broken import in_processes
from .deployments import committed, lake
from .processes import headwater, running

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Row = dict[str, Any]


def write(file: Path, rows: Iterable[Row]) -> None:
    """Let a file arrive whole."""
    draft = file.parent / "_draft"
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
    draft.rename(file)


def deploy(folder: Path, backend: str, text: str) -> Path:
    (folder / "deploy.toml").write_text(f'[backend]\n{lake(backend)}\n[run]\npoll = "100ms"\n{text}')
    return folder / "deploy.toml"


def shown(config: Path, view: str) -> list[tuple[Any, ...]]:
    """What this process, which is not the run's, can see of a view."""
    with Headwater.from_config(config) as deployment:
        return sorted(nw.from_native(deployment.view(view)).lazy().collect("pyarrow").iter_rows())


def ran(config: Path, view: str, **settings: str) -> list[tuple[Any, ...]]:
    """A view when all has been read, by a run that nobody kills."""
    done = headwater("run", str(config), "--until-idle", "--show", view, "--format", "jsonl", **settings)
    assert done.returncode == 0, done.stderr
    return sorted(tuple(json.loads(line).values()) for line in done.stdout.splitlines())


ACCOUNTS = """
[sources.log]
kind = "files"
path = "log"
files_per_epoch = 1
schema = "kind string, account bigint, balance bigint, pos bigint, at timestamp"
row_kind = "kind"
event_time = "at"

[pipelines.accounts]
service = "bulk_merge"
key = ["account"]
columns = ["balance"]
changelog = "log"
bulk = { path = "bulk", format = "json" }
position = "pos"
"""
LOG = 9


class Bank:
    """Transfers between eight accounts, and others that come and go, a file of the log each; and chunks read beside."""

    def __init__(self) -> None:
        self._positions = count(1)
        self.position = 0
        self.balances = dict.fromkeys(range(8), 100)
        self.log: list[list[Row]] = []
        self.states = [dict(self.balances)]
        self.chunks: list[list[Row]] = []
        chance = random.Random(7)
        for file in range(LOG):
            if file in {3, 5, 7}:  # so these wait for three, five and seven files of the log
                self._read()
            giver, taker = chance.sample(range(8), 2)
            rows = [*self._change(giver, self.balances[giver] - 5), *self._change(taker, self.balances[taker] + 5)]
            rows += self._change(100 + file, 0)
            if file > 1:
                rows += self._change(98 + file, None)
            self.log.append(rows)
            self.states.append(dict(self.balances))

    def shown(self, files: int) -> dict[int, int]:
        """What is known of the accounts by so many files of the log, and the chunks that settle with them."""
        chunks = (files - 1) // 2
        known = {row["account"] for each in (*self.log[:files], *self.chunks[:chunks]) for row in each}
        return {account: balance for account, balance in self.states[files].items() if account in known}

    def _change(self, account: int, balance: int | None) -> list[Row]:
        old = self.balances.pop(account, None)
        if balance is not None:
            self.balances[account] = balance
        update = old is not None and balance is not None
        images = [("-U" if update else "-D", old), ("+U" if update else "+I", balance)]
        self.position = next(self._positions)
        at = {"pos": self.position, "at": f"2024-03-01T09:{len(self.log):02}:00Z"}
        return [{"kind": kind, "account": account, "balance": each, **at} for kind, each in images if each is not None]

    def _read(self) -> None:
        low, high = ((-1, 3), (3, 6), (6, 1_000))[len(self.chunks)]
        found = {account: balance for account, balance in self.balances.items() if low <= account < high}
        rows = [{"account": each, "balance": balance, "pos": self.position} for each, balance in found.items()]
        self.chunks.append(rows)


@pytest.mark.faults("kill -9 of a bulk merge, in the middle of a chunk and before the publication")
@in_processes
@pytest.mark.usefixtures("session")
def test_a_bulk_merge_is_killed_in_a_chunk_and_between_commits(backend: str, tmp_path: Path) -> None:
    config, bank = deploy(tmp_path, backend, ACCOUNTS), Bank()
    for folder in ("log", "bulk"):
        (tmp_path / folder).mkdir()
    for chunk, rows in enumerate(bank.chunks):
        write(tmp_path / "bulk" / f"{chunk}.json", rows)
    for file in range(4):
        write(tmp_path / "log" / f"{file}.json", bank.log[file])

    def at(table: str) -> int:
        return committed(config, table, "accounts")

    with running(config) as run:  # rows of the second chunk are committed, and nothing says so
        run.kill_when(lambda: at("waiting") > at("chunks") >= 0)
    published = at("current")
    assert dict(shown(config, "accounts.rows")) == bank.shown(published + 1)
    with running(config) as run:  # the first chunk has settled, but for the publication
        run.kill_when(lambda: at("recent") > at("current") > published)
    assert dict(shown(config, "accounts.rows")) == bank.shown(at("current") + 1)

    for file in range(4, LOG):
        write(tmp_path / "log" / f"{file}.json", bank.log[file])
    found = ran(config, "accounts.rows", HEADWATER_SOURCES__LOG__FILES_PER_EPOCH="3")
    assert dict(found) == bank.states[-1]
    with Headwater.from_config(config) as deployment:
        (status,) = deployment.status()
    assert status.bookkeeping == {}


LINES = """
[sources.order_log]
kind = "files"
path = "orders"
schema = "kind string, id bigint, customer bigint, pieces bigint, at timestamp"
row_kind = "kind"
event_time = "at"
[sources.customer_log]
kind = "files"
path = "customers"
schema = "kind string, id bigint, name string, at timestamp"
row_kind = "kind"
event_time = "at"

[pipelines.orders]
service = "bulk_merge"
key = ["id"]
columns = ["customer", "pieces"]
changelog = "order_log"
bulk = { path = "bulk", format = "json", search_ts = "2024-02-01T00:00:00Z" }
[pipelines.customers]
service = "bulk_merge"
key = ["id"]
columns = ["name"]
changelog = "customer_log"
bulk = { path = "bulk", format = "json", search_ts = "2024-02-01T00:00:00Z" }

[pipelines.lines]
service = "materialized_view"
inputs = { o = "orders.rows", c = "customers.rows" }
key = ["id"]
sql = "SELECT o.id, c.name, o.pieces FROM o JOIN c ON c.id = o.customer"
[pipelines.totals]
service = "materialized_view"
inputs = { l = "lines.rows" }
key = ["name"]
sql = "SELECT name, CAST(sum(pieces) AS bigint) AS pieces FROM l GROUP BY name"
"""
NAMES = ("ann", "bob", "cat")


def bring(folder: Path, day: int) -> None:
    """A day: five orders, of which one goes to another customer, who has just got another name."""
    noon, night = (f"2024-03-{day + 1:02}T{hour}:00:00Z" for hour in (12, 23))
    orders = [_order("+I", number, number % 3, noon) for number in range(5 * day, 5 * day + 5)]
    customers = [_customer("+I", each, name, noon) for each, name in enumerate(NAMES)] if day == 0 else []
    if day:
        moved, to = 5 * day - 5, (day + 1) % 3
        orders += [_order("-U", moved, moved % 3, noon), _order("+U", moved, to, noon)]
        customers += [_customer("-U", to, NAMES[to], noon), _customer("+U", to, f"{NAMES[to]} {day}", noon)]
    # What is at the very end may come to one source only: it concerns nobody.
    write(folder / "customers" / f"{day}.json", [*customers, _customer("+I", 90 + day, "end", night)])
    write(folder / "orders" / f"{day}.json", [*orders, _order("+I", 900 + day, -1, night)])


def _order(kind: str, number: int, customer: int, at: str) -> Row:
    return {"kind": kind, "id": number, "customer": customer, "pieces": number + 1, "at": at}


def _customer(kind: str, number: int, name: str, at: str) -> Row:
    return {"kind": kind, "id": number, "name": name, "at": at}


def lines_of(days: int) -> list[tuple[int, str, int]]:
    """The lines when so many days have come; no customer gets another name twice."""
    later = {day: (day + 1) % 3 for day in range(1, days)}
    names = dict(enumerate(NAMES)) | {to: f"{NAMES[to]} {day}" for day, to in later.items()}
    of = {number: number % 3 for number in range(5 * days)} | {5 * day - 5: to for day, to in later.items()}
    return [(number, names[customer], number + 1) for number, customer in of.items()]


def totals_of(lines: list[tuple[int, str, int]]) -> list[tuple[str, int]]:
    found: dict[str, int] = {}
    for _, name, pieces in lines:
        found[name] = found.get(name, 0) + pieces
    return sorted(found.items())


@pytest.mark.faults("kill -9 of a view, and of a view over it, at each of their commits")
@in_processes
@pytest.mark.usefixtures("session")
def test_views_are_killed_at_each_commit(backend: str, tmp_path: Path) -> None:
    config = deploy(tmp_path, backend, LINES)
    for folder in ("orders", "customers", "bulk"):
        (tmp_path / folder).mkdir()
    bring(tmp_path, 0)

    def at(pipeline: str, table: str) -> int:
        return committed(config, table, pipeline)

    def check(*days: int) -> None:
        of_lines, of_totals = (lines_of(each) for each in days)
        assert shown(config, "lines.rows") == of_lines
        assert shown(config, "totals.rows") == totals_of(of_totals)

    with running(config) as run:  # orders are indexed by their customers anew, lines are as they were
        run.wait_until(lambda: at("totals", "recomputed") == 0)
        bring(tmp_path, 1)
        run.kill_when(lambda: at("lines", "o_by_customer") > at("lines", "rows"))
    check(1, 1)
    with running(config) as run:  # and lines are committed, not published
        run.kill_when(lambda: at("lines", "rows") > at("lines", "recomputed"))
    check(1, 1)
    with running(config) as run:  # lines are published, totals of them are committed, not published
        run.kill_when(lambda: at("totals", "rows") > at("totals", "recomputed"))
    check(2, 1)
    bring(tmp_path, 2)
    assert ran(config, "totals.rows") == totals_of(lines_of(3))
    check(3, 3)
