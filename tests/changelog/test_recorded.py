"""What a real Debezium wrote of a real database gives the rows that the database had in the end."""

from __future__ import annotations

import gzip
import json
import random
from contextlib import ExitStack
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from headwater.testing.trial import Trial

from .recorded.record import LAST_ID, RECORDED

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent / "recorded"
CONFIG = """
[backend]
name = "memory"
[sources.log]
kind = "files"
path = "log"
format = "debezium-json"
tables = ["{table}"]
schema = "{declared}, at timestamp"
metadata = {{ at = "commit_time" }}
event_time = "at"
key = ["id"]
time_unit = "us"
transactions = "counted"
files_per_epoch = 1
[pipelines.orders]
service = "bulk_merge"
key = ["id"]
columns = {columns}
changelog = "log"
bulk = {{ path = "bulk", format = "json", search_ts = "2020-01-01T00:00:00Z" }}
[pipelines.states]
service = "retraction"
source = "log"
group = ["state", "small"]
measures = {{ orders = "count(*)", amount = "sum(amount)", ids = "sum(id)" }}
updated_at = "at"
time_zone = "UTC"
identity = "none"
"""
STREAMS = [f"{name}-{variant}" for name, recorded in RECORDED.items() for variant in recorded.variants]


def in_the_end(name: str) -> list[dict[str, Any]]:
    """The rows of a database, in the types of the pipeline."""
    return [typed(json.loads(line)) for line in (HERE / f"{name}-rows.jsonl").read_text().splitlines()]


def typed(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the database in the types of the pipeline."""
    kinds = {
        "amount": Decimal,
        "free": lambda text: Decimal(text).quantize(Decimal("0.000001")),
        "placed": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
        "seen": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
        "day": date.fromisoformat,
        "raw": bytes.fromhex,
        "gift": bool,
    }
    return {name: value if value is None else kinds.get(name, lambda same: same)(value) for name, value in row.items()}


@pytest.fixture(scope="module", params=[f"{stream}-{seed}" for stream in STREAMS for seed in range(2)])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Trial]]:
    """A database, and what became of its messages in epochs that begin anywhere; the tests only read."""
    stream, _, seed = request.param.rpartition("-")
    name = stream.partition("-")[0]
    recorded = RECORDED[name]
    lines = gzip.decompress((HERE / f"{stream}.jsonl.gz").read_bytes()).decode().splitlines()
    cuts = [0, *sorted(random.Random(seed).sample(range(1, len(lines)), 4)), len(lines)]
    with ExitStack() as exits:
        trial = Trial(tmp_path_factory.mktemp("recorded"), "memory", exits)
        columns = json.dumps(list(recorded.types))
        trial.deploy(CONFIG.format(table=recorded.table, declared=recorded.declared, columns=columns))
        for begin, end in pairwise(cuts):
            trial.feed("log", lines[begin:end])
            trial.run()
        yield name, trial


def test_each_value_is_that_of_the_database(ran: tuple[str, Trial]) -> None:
    name, trial = ran
    assert trial.reader.view("orders.dead_letters").rows() == []
    # The end of the last transaction is not recorded.
    wanted = [row for row in in_the_end(name) if row["id"] != LAST_ID]
    found = trial.reader.view("orders.rows").sort("id").to_dicts()
    if name == "postgresql":  # jsonb has its own order and spaces
        for row in (*found, *wanted):
            row["doc"] = row["doc"] and json.loads(row["doc"])
    assert found == wanted


def test_totals_are_those_of_the_database(ran: tuple[str, Trial]) -> None:
    name, trial = ran
    rows = pl.DataFrame(in_the_end(name), infer_schema_length=None)
    amount = pl.when(pl.col("amount").is_not_null().any()).then(pl.col("amount").sum())  # as in SQL, null of nulls
    wanted = rows.group_by("state", "small").agg(orders=pl.len(), amount=amount, ids=pl.col("id").sum())
    found = trial.reader.view("states.totals").select("state", "small", "orders", "amount", "ids")
    assert sorted(found.rows(), key=str) == sorted(wanted.rows(), key=str)
