"""Transfers between accounts, as counted transactions over several partitions that are read at different speeds.

A producer that crashes sends events again from some point on. Partitions do not say in which order their events come
together, so a file has the events of all of them in any order that keeps the order of each partition.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.testing.trial import Trial

from .effort import examples
from .simulated_database import KEY, START

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

_ACCOUNTS, _BALANCE = 5, 100
_DEPLOYMENT = """
[backend]
name = "memory"
compact_every = 3

[sources.log]
kind = "files"
path = "log"
format = "debezium-json"
tables = ["bank.accounts"]
schema = "id bigint, balance bigint"
transactions = "counted"

[pipelines.accounts]
service = "bulk_merge"
key = ["id"]
changelog = "log"
bulk = { path = "bulk", format = "json", search_ts = "2024-03-01T00:00:00Z" }
"""


@frozen
class Event:
    """A message.

    Args:
        lane: its partition.
        text: JSON.
    """

    lane: int
    text: str


@frozen
class Schedule:
    """The balances in the end, and the events of all partitions, in the batches in which they arrive."""

    balances: dict[int, int]
    batches: list[list[Event]]


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Any transfers, delivered in any way; the last batch has what is left of all partitions."""
    lanes = draw(st.integers(1, 3))
    balances = dict.fromkeys(range(1, _ACCOUNTS + 1), _BALANCE)
    sent = [event for number in range(1, draw(st.integers(2, 7))) for event in _transfer(draw, balances, number, lanes)]
    for _ in range(draw(st.integers(0, 2))):
        crashed = draw(st.integers(1, len(sent)))
        sent = sent[:crashed] + sent[draw(st.integers(0, crashed - 1)) :]
    return Schedule(balances, _deliver(draw, sent, lanes))


def _transfer(draw: st.DrawFn, balances: dict[int, int], number: int, lanes: int) -> list[Event]:
    """A transaction that moves money between two accounts; one of them may close, and another one open."""
    source, target = draw(st.permutations(sorted(balances)))[:2]
    amount = draw(st.integers(1, 9))
    written: list[tuple[int, int | None, int | None]] = [
        (source, balances[source], balances[source] - amount),
        (target, balances[target], balances[target] + amount),
    ]
    if draw(st.booleans()):
        free = min(set(range(1, _ACCOUNTS + 2)) - balances.keys())
        written += [(target, balances[target] + amount, None), (free, None, balances[target] + amount)]
    for key, _, after in written:
        balances.pop(key, None)
        if after is not None:
            balances[key] = after
    events = [
        Event(key % lanes, _change(number, order, key, *images)) for order, (key, *images) in enumerate(written, 1)
    ]
    return [*events, Event(lanes, _end(number, len(events)))]


def _change(number: int, order: int, key: int, before: int | None, after: int | None) -> str:
    def image(balance: int | None) -> Any:
        return None if balance is None else {KEY: key, "balance": balance}

    return json.dumps(
        {
            "op": "c" if before is None else "d" if after is None else "u",
            "before": image(before),
            "after": image(after),
            "source": {"db": "bank", "table": "accounts", "ts_ms": _millis(number)},
            "transaction": {"id": f"t{number}", "total_order": order, "data_collection_order": order},
        }
    )


def _end(number: int, events: int) -> str:
    counts = [{"data_collection": "bank.accounts", "event_count": events}]
    end = {"status": "END", "id": f"t{number}", "event_count": events, "data_collections": counts}
    return json.dumps({**end, "ts_ms": _millis(number)})


def _millis(number: int) -> int:
    """The commit time of a transaction; two share each second."""
    return int((START + timedelta(seconds=number // 2)).timestamp()) * 1000


def _deliver(draw: st.DrawFn, sent: list[Event], lanes: int) -> list[list[Event]]:
    """Batches that read some events of each partition."""
    logs = [[event for event in sent if event.lane == lane] for lane in range(lanes + 1)]
    batches: list[list[Event]] = []
    while any(logs):
        taken = [draw(st.integers(0, 4)) for _ in logs] if len(batches) < 6 else [len(log) for log in logs]
        parts = [log[:count] for log, count in zip(logs, taken, strict=True)]
        logs = [log[count:] for log, count in zip(logs, taken, strict=True)]
        batches.append([event for part in draw(st.permutations(parts)) for event in part])
    return [batch for batch in batches if batch]


@given(schedule=schedules())
@settings(
    max_examples=examples(200),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_no_publication_creates_or_loses_money(tmp_path: Path, exits: ExitStack, schedule: Schedule) -> None:
    folder = tmp_path / uuid4().hex
    folder.mkdir()
    trial = Trial(folder, "memory", exits)
    trial.deploy(_DEPLOYMENT)
    trial.fill("accounts", [[KEY, "balance"], *([str(key), str(_BALANCE)] for key in range(1, _ACCOUNTS + 1))])
    # The load is done when the changelog is beyond the time of the bulk.
    trial.feed("log", [_change(0, 1, 1, _BALANCE, _BALANCE), _end(0, 1)])
    trial.run()
    assert sum(_balances(trial).values()) == _ACCOUNTS * _BALANCE
    for batch in schedule.batches:
        trial.feed("log", [event.text for event in batch])
        trial.run()
        assert sum(_balances(trial).values()) == _ACCOUNTS * _BALANCE
    assert _balances(trial) == schedule.balances
    (status,) = trial.reader.status()
    assert not status.bookkeeping


def _balances(trial: Trial) -> dict[int, int]:
    return dict(trial.reader.view("accounts.rows").rows())
