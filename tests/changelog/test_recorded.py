"""What a real Debezium wrote of a real MariaDB gives the rows that the database had in the end."""

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

from .recorded.record import DECLARED, LAST_ID, VALUES, VARIANTS

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent / "recorded"
CONFIG = f"""
[backend]
name = "memory"
[sources.log]
kind = "files"
path = "log"
format = "debezium-json"
tables = ["shop.orders"]
schema = \"\"\"{DECLARED}, file string, pos bigint, at timestamp\"\"\"
metadata = {{ file = "log_file", pos = "log_position", at = "commit_time" }}
event_time = "at"
key = ["id"]
time_unit = "us"
transactions = "counted"
files_per_epoch = 1
[pipelines.orders]
service = "bulk_merge"
key = ["id"]
columns = {json.dumps(list(VALUES))}
changelog = "log"
bulk = {{ path = "bulk", format = "json", search_ts = "2020-01-01T00:00:00Z" }}
[pipelines.states]
service = "retraction"
source = "log"
group = ["state", "mood"]
measures = {{ orders = "count(*)", amount = "sum(amount)", ids = "sum(id)" }}
updated_at = "at"
time_zone = "UTC"
identity = "none"
"""


def in_the_end() -> list[dict[str, Any]]:
    """The rows of the database, in the types of the pipeline."""
    return [typed(json.loads(line)) for line in (HERE / "rows.jsonl").read_text().splitlines()]


def typed(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the database in the types of the pipeline."""
    kinds = {
        "amount": Decimal,
        "placed": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
        "seen": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
        "day": date.fromisoformat,
        "raw": bytes.fromhex,
        "gift": bool,
    }
    return {name: value if value is None else kinds.get(name, lambda same: same)(value) for name, value in row.items()}


@pytest.fixture(params=[f"{variant}-{seed}" for variant in VARIANTS for seed in range(3)])
def ran(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Trial]:
    """The messages of a variant, in epochs that begin anywhere."""
    variant, seed = request.param.split("-")
    lines = gzip.decompress((HERE / f"{variant}.jsonl.gz").read_bytes()).decode().splitlines()
    cuts = [0, *sorted(random.Random(seed).sample(range(1, len(lines)), 4)), len(lines)]
    with ExitStack() as exits:
        trial = Trial(tmp_path, "memory", exits)
        trial.deploy(CONFIG)
        for begin, end in pairwise(cuts):
            trial.feed("log", lines[begin:end])
            trial.run()
        yield trial


def test_each_value_is_that_of_the_database(ran: Trial) -> None:
    assert ran.reader.view("orders.dead_letters").rows() == []
    # The end of the last transaction is not recorded.
    assert ran.reader.view("orders.rows").sort("id").to_dicts() == [row for row in in_the_end() if row["id"] != LAST_ID]


def test_totals_are_those_of_the_database(ran: Trial) -> None:
    rows = pl.DataFrame(in_the_end(), infer_schema_length=None)
    wanted = rows.group_by("state", "mood").agg(orders=pl.len(), amount=pl.col("amount").sum(), ids=pl.col("id").sum())
    found = ran.reader.view("states.totals").select("state", "mood", "orders", "amount", "ids")
    assert sorted(found.rows(), key=str) == sorted(wanted.rows(), key=str)
