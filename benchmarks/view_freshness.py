"""How fresh a view is: from the moment of a change in the database, over Kafka, to the publication that has it.

python -m benchmarks.view_freshness [--orders 100000] [--customers 10000] [--rate 300] [--seconds 120] [--backend delta]

Two tables are loaded first; then their changes come, five of six of orders, and a view joins them. Needs Kafka's jars,
which the first run fetches.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import sleep, time
from typing import TYPE_CHECKING, Any

import polars as pl
from attrs import asdict, define, field, frozen
from confluent_kafka import Producer

from headwater import Headwater
from headwater.domain.materialized_view import ViewPlan
from headwater.testing.kafka_broker import kafka_broker

from .deployment import fresh
from .sides import spark_settings, typical_and_slow
from .tables import print_table

if TYPE_CHECKING:
    from headwater.app.runner import Runner
    from headwater.testing.kafka_broker import KafkaBroker

_FOLDER = Path("var/bench/view_freshness")
_VIEW = "order_worth"
_TABLES = {"orders": "id bigint, customer bigint, amount bigint", "customers": "id bigint, name string, level bigint"}
_CUSTOMERS_EVERY = 6
_RUN = """
[run]
poll = "50ms"
"""
_TABLE = """
[sources.{table}_log]
kind = "kafka"
servers = "{servers}"
topics = ["{table}"]
format = "debezium-json"
tables = ["shop.{table}"]
schema = "{ddl}, pos bigint, at timestamp"
metadata = {{ pos = "log_position", at = "commit_time" }}
event_time = "at"

[pipelines.{table}]
service = "bulk_merge"
key = ["id"]
changelog = "{table}_log"
bulk = {{ path = "in/{table}", format = "parquet" }}
position = "pos"
"""
_JOIN = f"""
[pipelines.{_VIEW}]
service = "materialized_view"
inputs = {{ o = "orders.rows", c = "customers.rows" }}
key = ["id"]
sql = "SELECT o.id, c.name, o.amount * c.level AS worth FROM o JOIN c ON o.customer = c.id"
"""


@frozen
class Result:
    """What was measured.

    Args:
        backend, rate, seconds: as it was asked for.
        changes: how many were visible when the run ended.
        publications: of the view.
        p50, p95: seconds from a change to the publication that has it.
        between: median seconds from one publication of the view to the next.
    """

    backend: str
    rate: int
    seconds: int
    changes: int
    publications: int
    p50: float
    p95: float
    between: float


@define(eq=False)
class Shop:
    """The database: it tells of each change as Debezium does, and remembers when it was made.

    Args:
        orders, customers: how many there are.
        producer: writes to the broker.
        made: milliseconds since 1970 of each change.
    """

    orders: int
    customers: int
    producer: Producer
    made: list[int] = field(factory=list)
    _rows: dict[tuple[str, int], dict[str, Any]] = field(init=False, factory=dict)

    def write(self, folder: Path) -> None:
        """Write both tables as they are before any change."""
        tables = {"orders": [self.order(key) for key in range(self.orders)]}
        tables["customers"] = [self.customer(key) for key in range(self.customers)]
        for name, rows in tables.items():
            (folder / name).mkdir()
            frame = pl.DataFrame(rows).with_columns(pl.lit(0, pl.Int64).alias("pos"))
            frame.write_parquet(folder / name / "all.parquet")

    def order(self, key: int) -> dict[str, Any]:
        return {"id": key, "customer": key % self.customers, "amount": key % 100}

    def customer(self, key: int) -> dict[str, Any]:
        return {"id": key, "name": f"customer {key}", "level": 1}

    def change(self) -> None:
        """Change one row."""
        number = len(self.made) + 1
        of_customer = number % _CUSTOMERS_EVERY == 0
        table = "customers" if of_customer else "orders"
        key = number * 7_919 % (self.customers if of_customer else self.orders)
        before = self._rows.get((table, key)) or (self.customer(key) if of_customer else self.order(key))
        changed = "level" if of_customer else "amount"
        after = self._rows[table, key] = {**before, changed: before[changed] + 1}
        now = int(time() * 1000)
        source = {"db": "shop", "table": table, "ts_ms": now, "pos": number}
        message = {"op": "u", "before": before, "after": after, "source": source, "ts_ms": now}
        self.producer.produce(table, json.dumps(message))
        self.producer.poll(0)
        self.made.append(now)

    def run(self, rate: int, until: threading.Event) -> None:
        """Change rows at a steady pace."""
        began = time()
        while not until.is_set():
            sleep(max(0.0, began + len(self.made) / rate - time()))
            self.change()
        self.producer.flush()


def _deployment(home: Path, backend: str, servers: str) -> Path:
    tables = (_TABLE.format(table=name, ddl=ddl, servers=servers) for name, ddl in _TABLES.items())
    work = _RUN + "".join(tables) + _JOIN
    return fresh(home, backend, upkeep="", spark=spark_settings(home), work=work)


def _result(options: argparse.Namespace, shop: Shop, view: Runner, began: datetime) -> Result:
    """Ages of the changes that each publication of the view brought, those before `began` left out."""
    publications = [each for each in reversed(list(view.ledger.publications())) if each.published_at >= began]
    ages, shown = list[float](), None
    for publication in publications:
        until = ViewPlan.of(publication.offsets).as_of
        assert until is not None, "a view of two pipelines is of a moment"
        newest = until.timestamp() * 1000
        if shown is not None:
            published = publication.published_at.timestamp()
            ages += [published - each / 1000 for each in shop.made if shown < each <= newest]
        shown = newest
    between = [(b.published_at - a.published_at).total_seconds() for a, b in pairwise(publications)]
    asked = (options.backend, options.rate, options.seconds)
    return Result(*asked, len(ages), len(publications), *typical_and_slow(ages), median(between))


def _measure(options: argparse.Namespace, broker: KafkaBroker) -> Result:
    home = _FOLDER / options.backend
    config = _deployment(home, options.backend, broker.servers)
    for table in _TABLES:
        broker.create_topic(table)
    shop = Shop(options.orders, options.customers, Producer({"bootstrap.servers": broker.servers, "linger.ms": 5}))
    shop.write(home / "in")
    with Headwater.from_config(config, report=lambda _report: None) as headwater:
        runners = {runner.pipeline: runner for runner in headwater.start()}
        stopping = threading.Event()
        changing = threading.Thread(target=shop.run, args=(options.rate, stopping))
        changing.start()
        try:
            while not runners[_VIEW].advance():  # until the load is done and the view is there
                for table in _TABLES:
                    runners[table].advance()
            began = datetime.now(UTC)
            timer = threading.Timer(options.seconds, headwater.stop)
            timer.start()
            headwater.run()
        finally:
            stopping.set()
            changing.join()
        return _result(options, shop, runners[_VIEW], began)


def main() -> int:
    """Measure, print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=100_000)
    parser.add_argument("--customers", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=300, help="changes a second")
    parser.add_argument("--seconds", type=int, default=120, help="how long, after the load")
    parser.add_argument("--backend", default="delta")
    options = parser.parse_args()
    with kafka_broker() as broker:
        result = _measure(options, broker)
    told = asdict(result)
    print_table([list(told), [f"{each:.2f}" if isinstance(each, float) else str(each) for each in told.values()]])
    file = _FOLDER / f"{options.backend}.json"
    file.write_text(json.dumps(told, indent=1) + "\n")
    print(f"written to {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
