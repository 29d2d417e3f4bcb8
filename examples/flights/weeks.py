"""The year week by week: send it, run the pipelines, and hold tables and versions against the batch join."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import polars as pl
from attrs import asdict, define, field, frozen

from headwater.app.progress import moment

from .demo import polars
from .join import RANKINGS, joined, mismatches, told_of
from .topics import KEY, by, messages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from headwater import Headwater
    from headwater.testing.kafka_broker import KafkaBroker

FLOWN, RANKED = "flown", "rankings"
"""The pipelines: one row a flight, and what is made of it."""

KEYS = {"carrier_days": ("day", "carrier"), "carriers": ("carrier",)}
_HAPPENED = {"flights": "updated_at", "weather": "reported_at", "planes": "assigned_at"}
_WEEKS_BETWEEN_CHECKS = 4


@frozen
class Checked:
    """How many of the batch's rows are not the same in a table, or the other way round.

    Args:
        month: as of which they were.
        what: `versions` or `flights`.
        rows: how many the batch has.
        mismatches: how many differ.
    """

    month: str
    what: str
    rows: int
    mismatches: int


@define(eq=False)
class Weeks:
    """Sends the year, and checks what becomes of it.

    Args:
        headwater: runs the pipelines.
        broker: where the records go.
        topics: all that is sent.
        seconds: how long the pipelines have run.
        checked: what was found.
    """

    headwater: Headwater
    broker: KafkaBroker
    topics: dict[str, pl.DataFrame]
    seconds: float = field(init=False, default=0.0)
    checked: list[Checked] = field(init=False, factory=list)
    _versions: int = field(init=False, default=0)

    @property
    def last(self) -> int:
        """The week in which the last record is sent."""
        weeks = pl.concat([records["week"] for records in self.topics.values()])
        return int(weeks.max())  # type: ignore[arg-type]

    def run(self, week: int) -> None:
        """Send a week's records, let the pipelines run, and check what they made of it."""
        for name, records in self.topics.items():
            self.broker.produce(name, messages(records.filter(pl.col("week") == week)), partition=0)
        began = perf_counter()
        self.headwater.run(until_idle=True)
        self.seconds += perf_counter() - began
        for version in range(self._versions, self.headwater.epoch(RANKED) + 1):
            self._check_version(version)
            self._versions = version + 1
        if week == self.last or (week + 1) % _WEEKS_BETWEEN_CHECKS == 0:
            self._check_rows(week)

    def by_month(self) -> pl.DataFrame:
        """What was checked: how often, the rows of the batch, and how many were not the same."""
        checked = pl.DataFrame([asdict(each) for each in self.checked])
        sums = [pl.len().alias("checks"), pl.col("rows").sum(), pl.col("mismatches").sum()]
        return checked.group_by("month", "what", maintain_order=True).agg(sums).sort("month", "what")

    def check_reported(self) -> int:
        """Hold it against the records of how many flights each topic has told: how many of these counts are wrong."""
        told = {f"{name}_reported": flights for name, flights in told_of(self.topics).items()}
        counted = polars(self.headwater.view(f"{FLOWN}.completeness")).select(*told).sum().row(0, named=True)
        wrong = sum(counted[name] != told[name] for name in told)
        print(f"flights that each topic has told of: {counted}: {wrong} of these numbers are not those of the topics")
        return wrong

    def _check_version(self, version: int) -> None:
        """Hold a version against the batch query over the records that its inputs had read, its label too."""
        publication = self.headwater.snapshot(RANKED, version).publication
        assert publication
        read = self._read_by(publication.offsets["inputs"][FLOWN])
        batch, label = joined(read), _label(read)
        expected = {table: query(batch) for table, query in RANKINGS.items()}
        wrong = [self._differing(table, version, rows) for table, rows in expected.items()]
        rows = sum(each.height for each in expected.values())
        self._note(
            "versions", f"version {version} ({label})", rows, sum(wrong) + (publication.offsets["label"] != label)
        )

    def _differing(self, table: str, version: int, expected: pl.DataFrame) -> int:
        return mismatches(polars(self.headwater.view(f"{RANKED}.{table}", at=version)), expected, *KEYS[table])

    def _check_rows(self, week: int) -> None:
        """Hold every row against the batch join over all that was sent."""
        batch = joined(by(week, self.topics))
        wrong = mismatches(polars(self.headwater.view(f"{FLOWN}.rows")), batch, KEY)
        self._note("flights", f"flights by week {week}", batch.height, wrong)

    def _note(self, what: str, which: str, rows: int, wrong: int) -> None:
        latest = self.headwater.snapshot(RANKED).publication
        assert latest
        self.checked.append(Checked(latest.offsets["label"][: len("2013-01")], what, rows, wrong))
        print(f"{which}: {wrong:,} mismatches of {rows:,} rows against the batch", flush=True)

    def _read_by(self, epoch: int) -> dict[str, pl.DataFrame]:
        """The records that the wide table had read by an epoch."""
        publication = self.headwater.snapshot(FLOWN, epoch).publication
        assert publication
        return {name: records[: publication.offsets[name][name]["0"]] for name, records in self.topics.items()}


def _label(read: Mapping[str, pl.DataFrame]) -> str:
    """Up to when all topics have told what happened: the earliest of their newest records."""
    newest: Iterator[datetime] = (read[name].select(pl.col(when).max()).item() for name, when in _HAPPENED.items())
    return moment(min(newest))
