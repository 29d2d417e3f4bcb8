"""The freshness of a view: the time from a change in the database, through Kafka, to the publication with this change.

python -m benchmarks.view_freshness [--orders 100000] [--customers 10000] [--rate 300] [--seconds 120] [--backend delta]
[--engine local]

Two tables are loaded while their changes arrive, and a view joins them. Five of six changes are of orders. Measuring
begins after the load. At the end, every row of the view must match the tables at the view's time. Needs Kafka's jars,
which the first run downloads.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from bisect import bisect_right
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import process_time, sleep, time
from typing import TYPE_CHECKING, Any

import polars as pl
from attrs import asdict, define, field, frozen
from confluent_kafka import Producer

from headwater import Headwater
from headwater.domain.service.materialized_view import ViewPlan
from headwater.testing.kafka_broker import kafka_broker

from .deployment import fresh
from .sides import spark_settings, typical_and_slow, wrong_rows
from .tables import print_table

if TYPE_CHECKING:
    from headwater.app.run.report import EpochReport
    from headwater.app.run.runner import Runner
    from headwater.domain.epoch.epoch import Publication

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
    """The measurements.

    Args:
        backend, engine, rate, seconds: the options of the run.
        changes: the number of changes that were made and published in that time.
        publications: the number of publications of the view.
        p50, p95: seconds from a change to the publication of the view that contains it.
        between: median seconds from one publication of the view to the next.
        cpu: CPU seconds of this process for each publication of the view, with those of the changes' producer.
        orders, customers, view: median seconds of an epoch of each pipeline.
        rows: the number of rows of the view at the end.
        wrong: the number of these rows that differ from the tables at the view's time.
    """

    backend: str
    engine: str
    rate: int
    seconds: int
    changes: int
    publications: int
    p50: float
    p95: float
    between: float
    cpu: float
    orders: float
    customers: float
    view: float
    rows: int
    wrong: int


@frozen
class Change:
    """A change of one row."""

    table: str
    before: dict[str, Any]
    after: dict[str, Any]


@define(eq=False)
class Tables:
    """The content of the database.

    Args:
        orders, customers: the number of rows of each table.
    """

    orders: int
    customers: int
    rows: dict[str, list[dict[str, Any]]] = field(init=False)
    changes: int = 0

    def __attrs_post_init__(self) -> None:
        self.rows = {
            "orders": [
                {"id": key, "customer": key % self.customers, "amount": key % 100} for key in range(self.orders)
            ],
            "customers": [{"id": key, "name": f"customer {key}", "level": 1} for key in range(self.customers)],
        }

    def write(self, folder: Path) -> None:
        """Write the tables as they are before any change."""
        for name, rows in self.rows.items():
            (folder / name).mkdir()
            frame = pl.DataFrame(rows).with_columns(pl.lit(0, pl.Int64).alias("pos"))
            frame.write_parquet(folder / name / "all.parquet")

    def change(self) -> Change:
        """Change one row, at every run the same."""
        self.changes += 1
        of_customer = self.changes % _CUSTOMERS_EVERY == 0
        table, changed = ("customers", "level") if of_customer else ("orders", "amount")
        rows = self.rows[table]
        key = self.changes * 7_919 % len(rows)
        before = rows[key]
        rows[key] = {**before, changed: before[changed] + 1}
        return Change(table, before, rows[key])

    def view(self) -> pl.DataFrame:
        """The expected rows of the view."""
        customers = self.rows["customers"]
        return pl.DataFrame(
            {
                "id": order["id"],
                "name": customers[order["customer"]]["name"],
                "worth": order["amount"] * customers[order["customer"]]["level"],
            }
            for order in self.rows["orders"]
        )


@define(eq=False)
class Shop:
    """Changes the database, sends each change as Debezium does, and records its time.

    Args:
        tables: the content of the database.
        producer: writes to the broker.
        made: the time of each change, in milliseconds since 1970.
    """

    tables: Tables
    producer: Producer
    made: list[int] = field(factory=list)

    def run(self, rate: int, until: threading.Event) -> None:
        """Change rows at a steady pace."""
        began = time()
        while not until.is_set():
            sleep(max(0.0, began + len(self.made) / rate - time()))
            self._change()
        self.producer.flush()

    def until(self, moment: datetime) -> Tables:
        """The tables as they were at a moment."""
        tables, newest = Tables(self.tables.orders, self.tables.customers), moment.timestamp() * 1000
        while tables.changes < len(self.made) and self.made[tables.changes] <= newest:
            tables.change()
        return tables

    def _change(self) -> None:
        change, now = self.tables.change(), int(time() * 1000)
        source = {"db": "shop", "table": change.table, "ts_ms": now, "pos": self.tables.changes}
        message = {"op": "u", "before": change.before, "after": change.after, "source": source, "ts_ms": now}
        self.producer.produce(change.table, json.dumps(message))
        self.producer.poll(0)
        self.made.append(now)


def _deployment(home: Path, options: argparse.Namespace, servers: str) -> Path:
    backend = f"{options.backend}:{options.engine}" if options.engine else options.backend
    spark = None if options.engine == "local" else spark_settings(home)
    tables = (_TABLE.format(table=name, ddl=ddl, servers=servers) for name, ddl in _TABLES.items())
    work = _RUN + "".join(tables) + _JOIN
    return fresh(home, backend, upkeep="", spark=spark, work=work)


def _rows(frame: Any, folder: Path) -> pl.DataFrame:
    """The rows of a frame of either engine; Spark writes them into the folder."""
    if isinstance(frame, pl.DataFrame):
        return frame
    frame.write.parquet(str(folder.resolve()))
    return pl.read_parquet(folder / "[!_.]*")


def _moment(publication: Publication) -> datetime:
    moment = ViewPlan.of(publication.offsets).as_of
    assert moment is not None, "a view of two pipelines is of a moment"
    return moment


def _ages(publications: list[Publication], made: list[int]) -> list[float]:
    """Seconds from each change to the publication with this change, for all publications but the first."""
    ages = list[float]()
    for before, after in pairwise(publications):
        shown, newest = (_moment(each).timestamp() * 1000 for each in (before, after))
        published = after.published_at.timestamp()
        ages += [published - at / 1000 for at in made[bisect_right(made, shown) : bisect_right(made, newest)]]
    return ages


@define(eq=False)
class Trial:
    """A run with its view.

    Args:
        options: the options of the command line.
        shop: the database whose changes the pipelines read.
        home: the folder of the run.
        reports: the epochs, each with the time of its report.
        cpu: the CPU seconds of this process when measuring began, and when it ended.
    """

    options: argparse.Namespace
    shop: Shop
    home: Path
    reports: list[tuple[float, EpochReport]] = field(factory=list)
    cpu: list[float] = field(factory=list)

    def result(self, servers: str) -> Result:
        """Run, and return the measurements."""
        config = _deployment(self.home, self.options, servers)
        self.shop.tables.write(self.home / "in")
        with Headwater.from_config(config, report=lambda each: self.reports.append((time(), each))) as headwater:
            view = next(runner for runner in headwater.start() if runner.pipeline == _VIEW)
            stopping = threading.Event()
            changing = threading.Thread(target=self.shop.run, args=(self.options.rate, stopping))
            changing.start()
            try:
                began = self._run(headwater, view)
            finally:
                stopping.set()
                changing.join()
            return self._told(headwater, view, began)

    def _run(self, headwater: Headwater, view: Runner) -> float:
        """Load, warm up and run; return the time at which measuring began."""
        runners = headwater.start()
        while view.ledger.latest is None:
            for runner in runners:
                runner.advance()
        print(f"the view is there after {len(self.reports)} epochs", file=sys.stderr)
        began: float = time() + self.options.warm_up
        for seconds, act in ((0, self._note_cpu), (self.options.seconds, headwater.stop)):
            timer = threading.Timer(self.options.warm_up + seconds, act)
            timer.daemon = True
            timer.start()
        headwater.run()
        self._note_cpu()
        return began

    def _note_cpu(self) -> None:
        self.cpu.append(process_time())

    def _told(self, headwater: Headwater, view: Runner, began: float) -> Result:
        since = datetime.fromtimestamp(began, UTC)
        publications = [each for each in reversed(list(view.ledger.publications())) if each.published_at >= since]
        ages = _ages(publications, self.shop.made)
        between = [(b.published_at - a.published_at).total_seconds() for a, b in pairwise(publications)]
        found = _rows(headwater.view(f"{_VIEW}.rows"), self.home / "rows")
        right = self.shop.until(_moment(publications[-1])).view()
        p50, p95 = typical_and_slow(ages)
        return Result(
            self.options.backend,
            self.options.engine,
            self.options.rate,
            self.options.seconds,
            changes=len(ages),
            publications=len(publications),
            p50=p50,
            p95=p95,
            between=median(between),
            cpu=(self.cpu[1] - self.cpu[0]) / len(publications),
            orders=self._epoch("orders", began),
            customers=self._epoch("customers", began),
            view=self._epoch(_VIEW, began),
            rows=found.height,
            wrong=wrong_rows(found, right, "id"),
        )

    def _epoch(self, pipeline: str, began: float) -> float:
        """Median seconds of an epoch of a pipeline."""
        found = (each for at, each in self.reports if at >= began and each.epoch.pipeline == pipeline)
        return median(sum(each.seconds.values()) for each in found)


def main() -> int:
    """Measure, print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=100_000)
    parser.add_argument("--customers", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=300, help="changes a second")
    parser.add_argument("--warm-up", type=int, default=60, help="seconds after the load that are not counted")
    parser.add_argument("--seconds", type=int, default=120, help="how long, after that")
    parser.add_argument("--backend", default="delta")
    parser.add_argument("--engine", default="", help="spark, local or auto, of backend delta; spark if missing")
    options = parser.parse_args()
    side = f"{options.backend}_{options.engine}" if options.engine else options.backend
    with kafka_broker() as broker:
        for table in _TABLES:
            broker.create_topic(table)
        producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 5})
        shop = Shop(Tables(options.orders, options.customers), producer)
        result = Trial(options, shop, _FOLDER / side).result(broker.servers)
    told = asdict(result)
    print_table([list(told), [f"{each:.2f}" if isinstance(each, float) else str(each) for each in told.values()]])
    file = _FOLDER / f"{side}.json"
    file.write_text(json.dumps(told, indent=1) + "\n")
    print(f"written to {file}")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
