"""Views over merged tables, whose logs come by sources that lag: each publication is the database at its moment.

Every batch is cut anywhere, so one may change a row several times; runs die at any commit, and sources are behind others.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import polars as pl
import pytest
from attrs import define, field, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.domain.service.materialized_view import ViewPlan
from headwater.testing.failing_store import Crash, Fault
from headwater.testing.trial import Trial
from tests.spark_fixtures import compact_few_files

from .effort import examples
from .simulated_database import KEY, START, Database, Message, Write, cuts, debezium, histories, maxwell
from .test_bulk_merge_properties import faults, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from .simulated_database import Row, Rows, Tell

_TABLE = """
[sources.TABLE_log]
kind = "files"
path = "TABLE_log"
format = "FORMAT"
tables = ["shop.TABLE"]
schema = "COLUMNS, pos bigint, at timestamp"
metadata = { pos = "log_position", at = "commit_time" }
event_time = "at"
MARKS

[pipelines.TABLE]
service = "bulk_merge"
key = ["id"]
changelog = "TABLE_log"
bulk = { path = "bulk_TABLE", format = "parquet", chunk_rows = 1SEARCH }
PLACED
"""
_VIEW = """
[pipelines.$VIEW]
service = "materialized_view"
inputs = { $INPUTS }
key = ["$KEY"]
sql = "$SQL"
"""
_POLARS = {"bigint": pl.Int64, "int": pl.Int32, "string": pl.String}
_LOGS: dict[str, Tell] = {"maxwell-json": maxwell, "debezium-json": debezium}

_TICK = timedelta(microseconds=1)

States = dict[str, "Rows"]
"""The rows of each table of the database."""


@frozen
class View:
    """A view under test.

    Args:
        inputs: what the SQL calls them, and the pipelines they are of.
        key: the column that names a row.
        sql: what the user writes.
        oracle: the same over the tables of the database, in plain Python.
    """

    inputs: Mapping[str, str]
    key: str
    sql: str
    oracle: Callable[[States], list[Row]]

    def rows(self, states: States) -> dict[Any, Row]:
        """What it should show, by key."""
        return {row[self.key]: row for row in self.oracle(states)}


@frozen
class World:
    """Tables with their columns, and the views over them."""

    tables: Mapping[str, str]
    views: Mapping[str, View]

    def deployment(self, format_: str, *, position: bool) -> str:
        """As TOML; bulk rows and changes share a position, or the bulk says when it was read."""
        marks = 'transactions = "counted"' if format_ == "debezium-json" else ""
        search, placed = ("", 'position = "pos"') if position else (', search_ts = "read_at"', 'delay = "1s"')
        text = '[backend]\nname = "memory"\ncompact_every = 3\n'
        for name, columns in self.tables.items():
            text += (
                _TABLE.replace("TABLE", name)
                .replace("FORMAT", format_)
                .replace("COLUMNS", columns)
                .replace("MARKS", marks)
                .replace("SEARCH", search)
                .replace("PLACED", placed)
            )
        for name, view in self.views.items():
            inputs = ", ".join(f'{alias} = "{of}.rows"' for alias, of in view.inputs.items())
            told = _VIEW
            for word, value in {"$VIEW": name, "$INPUTS": inputs, "$KEY": view.key, "$SQL": view.sql}.items():
                told = told.replace(word, value)
            text += told
        return text


@frozen
class Turn:
    """How many batches arrive at each source, and a run that may die."""

    batches: Mapping[str, int]
    fault: Fault | None


@frozen
class Schedule:
    """A history, the moment each table was read in bulk, its log in batches by table, and what runs when."""

    format: str
    position: bool
    database: Database
    read_after: Mapping[str, int]
    batches: Mapping[str, list[list[Message]]]
    turns: list[Turn]
    final: datetime
    """The moment before which all transactions count in the end."""


def _closed(database: Database, tables: Iterable[str], touch: Callable[[str, Row], Row]) -> datetime:
    """Touch a row of each table twice more, much later; all before the second time counts in the end."""
    tables = list(tables)
    first = database.now + timedelta(hours=1)
    for moment in (first, first + timedelta(hours=1), first + timedelta(hours=2)):
        for table in tables:
            row = next(iter(database.rows(table, database.transactions).values()))
            database.commit(moment, [Write(table, row[KEY], touch(table, row))])
    return first + timedelta(hours=2)


def _delivered(
    draw: st.DrawFn, database: Database, format_: str, final: datetime, behind: Mapping[str, timedelta]
) -> Schedule:
    """A schedule of a history, some of whose sources are behind the others."""
    batches = {}
    for table in database.tables:
        log = _LOGS[format_](database, [table])
        last = [message for message in log if message.transaction == log[-1].transaction]
        batches[table] = [*draw(cuts(log[: -len(last)], most=8)), last]
    told = len(database.commits) - 3 * len(database.tables)
    read_after = {table: draw(st.integers(database.loaded, told)) for table in database.tables}
    turns = [
        Turn(_due(draw, database, batches, draw(st.integers(max(1, database.loaded), told)), behind), draw(faults()))
        for _ in range(draw(st.integers(1, 4)))
    ]
    return Schedule(format_, draw(st.booleans()), database, read_after, batches, turns, final)


def _due(
    draw: st.DrawFn,
    database: Database,
    batches: Mapping[str, list[list[Message]]],
    until: int,
    behind: Mapping[str, timedelta],
) -> dict[str, int]:
    """How many batches of each source have come, more or less, when the database has committed `until` transactions."""
    found = {}
    for table, parts in batches.items():
        limit = database.commits[until - 1] - behind.get(table, timedelta())
        ready = sum(database.commits[part[-1].transaction - 1] <= limit for part in parts)
        found[table] = max(0, ready - draw(st.integers(0, 2)))
    return found


@define(eq=False)
class ViewTrial:
    """A deployment of merged tables and views over them, each publication held against the database."""

    trial: Trial
    world: World
    schedule: Schedule
    delivered: dict[str, int] = field(factory=lambda: defaultdict(int))

    def run(self) -> None:
        """Take the whole schedule."""
        self.trial.deploy(self.world.deployment(self.schedule.format, position=self.schedule.position))
        for table in self.world.tables:
            self._write_bulk(table)
        for turn in self.schedule.turns:
            self._deliver(turn.batches)
            with suppress(Crash):
                self.trial.run(fault=turn.fault)
        # A chunk is exact from the newest event time on that has come when it settles: the last comes after it.
        for left in (1, 0):
            self._deliver({table: len(parts) - left for table, parts in self.schedule.batches.items()})
            self.trial.run()
            self.trial.run()

    def _deliver(self, until: Mapping[str, int]) -> None:
        for table, count in until.items():
            for batch in self.schedule.batches[table][self.delivered[table] : count]:
                self.trial.feed(f"{table}_log", [message.text for message in batch])
            self.delivered[table] = max(self.delivered[table], count)

    def _write_bulk(self, table: str) -> None:
        """Two chunks of a table as it stood at a moment, each row with the position and the moment."""
        folder = self.trial.folder / f"bulk_{table}"
        folder.mkdir()
        after = self.schedule.read_after[table]
        database = self.schedule.database
        read = {"pos": database.position(after), "read_at": max(database.commits[:after], default=START)}
        rows = [{**row, **read} for row in database.rows(table, after).values()]
        columns = [each.split() for each in self.world.tables[table].split(", ")]
        types: dict[str, Any] = {name: _POLARS[type_] for name, type_ in columns}
        types |= {"pos": pl.Int64, "read_at": pl.Datetime("us", "UTC")}
        half = len(rows) // 2
        for number, part in enumerate((rows[:half], rows[half:])):
            pl.DataFrame(part, schema=types).write_parquet(folder / f"{number}.parquet")

    def check(self) -> None:
        """Each publication of a view is what its SQL is of the database at its moment, which never goes back."""
        for name, view in self.world.views.items():
            moments = list(self._checked_moments(name, view))
            assert moments == sorted(moments), name
            assert moments[-1] >= self.schedule.final - _TICK, (name, moments)

    def _checked_moments(self, name: str, view: View) -> Iterator[datetime]:
        """The moment of each publication of a view, oldest first."""
        replayed: dict[Any, Row] = {}
        for publication in self.trial.publications(name)[::-1]:
            number, moment = publication.epoch.number, ViewPlan.of(publication.offsets).as_of
            assert moment is not None
            shown = self.shown(name, view, number)
            changes = self.trial.reader.difference(f"{name}.rows", after=number - 1, until=number).frame
            replay(replayed, changes.collect(backend="polars").rows(named=True), view.key)
            assert replayed == shown, f"{name}, epoch {number}: its row kinds lead elsewhere"
            due = view.rows(self._state(moment))
            assert shown == due, f"{name}, epoch {number}, at {moment}: {shown}, and in the database {due}"
            yield moment

    def _state(self, moment: datetime) -> States:
        """The database with all that was committed up to a moment."""
        database = self.schedule.database
        return {table: database.rows_before(table, moment + _TICK) for table in database.tables}

    def shown(self, name: str, view: View, epoch: int | None) -> dict[Any, Row]:
        """What a view shows at an epoch, the newest if none is given, by key."""
        frame = self.trial.reader.answer(f"{name}.rows", at=epoch).frame
        rows = frame.collect(backend="polars").rows(named=True)
        found = {row[view.key]: row for row in rows}
        assert len(found) == len(rows), "a key stands twice"
        return found


# ---- the bank: money moves between accounts of two tables, and is never made or lost

_ACCOUNTS = "id bigint, bank string, balance int, note string"
_BANKS = ("north", "south")
_EACH = 4
_PAID_IN = 100


def _total(states: States) -> list[Row]:
    totals: dict[str, int] = defaultdict(int)
    for rows in states.values():
        for row in rows.values():
            totals[row["bank"]] += row["balance"]
    return [{"bank": bank, "total": total} for bank, total in totals.items()]


def _by_account(states: States) -> list[Row]:
    checking, saving = states["checking"], states["saving"]
    return [{"id": key, "total": checking[key]["balance"] + saving[key]["balance"]} for key in checking.keys() & saving]


_BANK = World(
    {"checking": _ACCOUNTS, "saving": _ACCOUNTS},
    {
        "total": View(
            {"a": "checking", "b": "saving"},
            "bank",
            "SELECT bank, CAST(sum(balance) AS bigint) AS total FROM (SELECT bank, balance FROM a UNION ALL"
            " SELECT bank, balance FROM b) AS both GROUP BY bank",
            _total,
        ),
        "by_account": View(
            {"a": "checking", "b": "saving"},
            "id",
            "SELECT a.id, a.balance + b.balance AS total FROM a JOIN b ON a.id = b.id",
            _by_account,
        ),
    },
)


@st.composite
def transfers(draw: st.DrawFn, most: int) -> Schedule:
    """Money that moves inside a bank, and between the two accounts of one customer; one source is two hours behind."""
    database = Database(tuple(_BANK.tables))
    opened = [
        Write(table, key, {KEY: key, "bank": _BANKS[key % 2], "balance": _PAID_IN, "note": ""})
        for table in _BANK.tables
        for key in range(1, _EACH + 1)
    ]
    moment = START
    database.commit(moment, opened)
    database.loaded = 1
    for _ in range(draw(st.integers(3, most))):
        moment += timedelta(minutes=draw(st.sampled_from([0, 0, 1, 20, 45, 90])))
        payer, payee = (draw(st.tuples(st.sampled_from(sorted(_BANK.tables)), st.integers(1, _EACH))) for _ in "ab")
        payee = (payee[0], payee[1] if payee[1] % 2 == payer[1] % 2 else payer[1])
        if payer != payee:
            database.commit(moment, _moved(database, payer, payee, draw(st.integers(1, 30))))
    final = _closed(database, database.tables, lambda _table, row: {**row, "note": row["note"] + "x"})
    behind = draw(st.sampled_from([{}, {"saving": timedelta(hours=2)}, {"checking": timedelta(hours=2)}]))
    return _delivered(draw, database, draw(st.sampled_from(sorted(_LOGS))), final, behind)


def _moved(database: Database, payer: tuple[str, int], payee: tuple[str, int], amount: int) -> list[Write]:
    found = []
    for (table, key), change in ((payer, -amount), (payee, amount)):
        row = database.rows(table, database.transactions)[key]
        found.append(Write(table, key, {**row, "balance": row["balance"] + change}))
    return found


# ---- a shop: orders, whose customers and products change

_SHOP = World(
    {
        "orders": "id bigint, customer bigint, product bigint, amount int",
        "customers": "id bigint, name string",
        "products": "id bigint, price int",
    },
    {
        "lines": View(
            {"o": "orders", "c": "customers", "p": "products"},
            "id",
            "SELECT o.id, c.name, o.amount * p.price AS worth FROM o JOIN c ON o.customer = c.id"
            " JOIN p ON o.product = p.id",
            lambda states: list(_lines(states)),
        ),
        "per_customer": View(
            {"o": "orders", "c": "customers"},
            "customer",
            "SELECT c.id AS customer, c.name, count(o.id) AS orders, CAST(sum(o.amount) AS bigint) AS amount"
            " FROM c LEFT JOIN o ON o.customer = c.id GROUP BY c.id, c.name",
            lambda states: list(_per_customer(states)),
        ),
        "per_name": View(
            {"l": "lines"},
            "name",
            "SELECT name, CAST(sum(worth) AS bigint) AS worth FROM l GROUP BY name",
            lambda states: list(_per_name(states)),
        ),
    },
)
_SMALL = st.integers(1, 3)
_SHOP_TABLES: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "orders": {"customer": _SMALL, "product": _SMALL, "amount": st.integers(0, 5)},
    "customers": {"name": st.sampled_from(["ann", "bob", "cat"])},
    "products": {"price": st.integers(1, 4)},
}


def _lines(states: States) -> Iterator[Row]:
    for row in states["orders"].values():
        customer, product = states["customers"].get(row["customer"]), states["products"].get(row["product"])
        if customer and product:
            yield {"id": row[KEY], "name": customer["name"], "worth": row["amount"] * product["price"]}


def _per_customer(states: States) -> Iterator[Row]:
    for customer in states["customers"].values():
        amounts = [row["amount"] for row in states["orders"].values() if row["customer"] == customer[KEY]]
        yield {
            "customer": customer[KEY],
            "name": customer["name"],
            "orders": len(amounts),
            "amount": sum(amounts) if amounts else None,
        }


def _per_name(states: States) -> Iterator[Row]:
    worth: dict[str, int] = defaultdict(int)
    for line in _lines(states):
        worth[line["name"]] += line["worth"]
    for name, total in worth.items():
        yield {"name": name, "worth": total}


@st.composite
def trades(draw: st.DrawFn, most: int) -> Schedule:
    """Any history of the shop."""
    database = draw(histories(_SHOP_TABLES, keys=4, most=most))
    first: dict[str, Row] = {
        "orders": {"customer": 1, "product": 1, "amount": 1},
        "customers": {"name": "ann"},
        "products": {"price": 1},
    }
    moment = database.now
    database.commit(moment, [Write(table, 4, {KEY: 4, **row}) for table, row in first.items()])

    def touch(table: str, row: Row) -> Row:
        name = next(iter(first[table]))
        return {**row, name: row[name] + ("x" if isinstance(row[name], str) else 1)}

    final = _closed(database, database.tables, touch)
    lags = st.sampled_from([0, 0, 3, 8]).map(lambda seconds: timedelta(seconds=seconds))
    behind = {table: draw(lags) for table in database.tables}
    return _delivered(draw, database, draw(st.sampled_from(sorted(_LOGS))), final, behind)


# ---- the tests


def _hold(trial: Trial, world: World, schedule: Schedule) -> ViewTrial:
    held = ViewTrial(trial, world, schedule)
    held.run()
    held.check()
    return held


def _hold_bank(trial: Trial, schedule: Schedule) -> None:
    held = _hold(trial, _BANK, schedule)
    constant = {bank: {"bank": bank, "total": 2 * 2 * _PAID_IN} for bank in _BANKS}
    for publication in held.trial.publications("total"):
        shown = held.shown("total", _BANK.views["total"], publication.epoch.number)
        assert shown in ({}, constant), publication


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / uuid4().hex
    folder.mkdir()
    return folder


_HURRIED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@given(schedule=transfers(8))
@settings(max_examples=examples(15), suppress_health_check=_HURRIED, derandomize=True)
def test_money_is_never_made_or_lost_on_memory(tmp_path: Path, exits: ExitStack, schedule: Schedule) -> None:
    _hold_bank(Trial(_folder(tmp_path), "memory", exits), schedule)


@given(schedule=trades(8))
@settings(max_examples=examples(15), suppress_health_check=_HURRIED, derandomize=True)
def test_views_are_of_one_state_on_memory(tmp_path: Path, exits: ExitStack, schedule: Schedule) -> None:
    _hold(Trial(_folder(tmp_path), "memory", exits), _SHOP, schedule)


_ON_SPARK = pytest.mark.parametrize(
    "backend",
    [
        pytest.param("delta", marks=pytest.mark.delta),
        pytest.param("hudi-mor:local", marks=pytest.mark.hudi),
        pytest.param("hudi-cow:local", marks=pytest.mark.hudi),
    ],
)


@pytest.mark.slow
@_ON_SPARK
@given(schedule=transfers(5))
@settings(max_examples=4, suppress_health_check=_HURRIED, derandomize=True)
def test_money_is_never_made_or_lost_on_spark(
    spark: SparkSession, tmp_path: Path, exits: ExitStack, backend: str, schedule: Schedule
) -> None:
    _hold_bank(Trial(_folder(tmp_path), backend, exits, compact_few_files), schedule)


@pytest.mark.slow
@_ON_SPARK
@given(schedule=trades(4))
@settings(max_examples=3, suppress_health_check=_HURRIED, derandomize=True)
def test_views_are_of_one_state_on_spark(
    spark: SparkSession, tmp_path: Path, exits: ExitStack, backend: str, schedule: Schedule
) -> None:
    _hold(Trial(_folder(tmp_path), backend, exits, compact_few_files), _SHOP, schedule)
