"""The year week by week: send records, run the pipelines, and compare tables and versions with the batch join."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import polars as pl
from attrs import asdict, define, field, frozen

from headwater.app.run.progress import moment

from .demo import polars
from .join import RANKINGS, joined, mismatches, reported_flights
from .topics import KEY, by, messages

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from headwater import Headwater
    from headwater.testing.kafka_broker import KafkaBroker

FLOWN, RANKED = "flown", "rankings"
"""The pipelines: one wide row per flight, and the rankings over these rows."""

KEYS = {"carrier_days": ("day", "carrier"), "carriers": ("carrier",)}
_HAPPENED = {"flights": "updated_at", "weather": "reported_at", "planes": "assigned_at"}
_WEEKS_BETWEEN_CHECKS = 4


@frozen
class Check:
    """The result of one comparison with the batch.

    Args:
        month: the month of the newest label at the time of the check, ``2013-01`` for example.
        what: `versions` or `flights`.
        rows: the number of rows of the batch.
        mismatches: the number of rows that differ.
    """

    month: str
    what: str
    rows: int
    mismatches: int


@define(eq=False)
class Weeks:
    """Sends the records of the year, runs the pipelines, and checks their results.

    Args:
        headwater: runs the pipelines.
        broker: the broker to which the records are sent.
        topics: all records of each topic.
        seconds: how long the pipelines have run so far.
        checks: the results of all checks so far.
    """

    headwater: Headwater
    broker: KafkaBroker
    topics: dict[str, pl.DataFrame]
    seconds: float = field(init=False, default=0.0)
    checks: list[Check] = field(init=False, factory=list)
    _versions: int = field(init=False, default=0)

    @property
    def last(self) -> int:
        """The week in which the last record is sent."""
        weeks = pl.concat([records["week"] for records in self.topics.values()])
        return int(weeks.max())  # type: ignore[arg-type]

    def run(self, week: int) -> None:
        """Send the records of a week, run the pipelines, and check their results."""
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
        """The number of checks, of rows of the batch, and of mismatches, for each month and kind of check."""
        checks = pl.DataFrame([asdict(each) for each in self.checks])
        sums = [pl.len().alias("checks"), pl.col("rows").sum(), pl.col("mismatches").sum()]
        return checks.group_by("month", "what", maintain_order=True).agg(sums).sort("month", "what")

    def check_reported(self) -> int:
        """Compare the view `completeness` with the records, by the number of flights that each topic has reported.

        Returns how many of these numbers are wrong.
        """
        expected = {f"{name}_reported": flights for name, flights in reported_flights(self.topics).items()}
        counted = (
            polars(self.headwater.answer(f"{FLOWN}.completeness").frame).select(*expected).sum().row(0, named=True)
        )
        wrong = sum(counted[name] != expected[name] for name in expected)
        print(f"flights that each topic has told of: {counted}: {wrong} of these numbers are not those of the topics")
        return wrong

    def _check_version(self, version: int) -> None:
        """Compare a version and its label with the batch query over the records that its inputs had read."""
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
        return mismatches(polars(self.headwater.answer(f"{RANKED}.{table}", at=version).frame), expected, *KEYS[table])

    def _check_rows(self, week: int) -> None:
        """Compare every row with the batch join over all records sent by the end of a week."""
        batch = joined(by(week, self.topics))
        wrong = mismatches(polars(self.headwater.answer(f"{FLOWN}.rows").frame), batch, KEY)
        self._note("flights", f"flights by week {week}", batch.height, wrong)

    def _note(self, what: str, which: str, rows: int, wrong: int) -> None:
        latest = self.headwater.snapshot(RANKED).publication
        assert latest
        self.checks.append(Check(latest.offsets["label"][: len("2013-01")], what, rows, wrong))
        print(f"{which}: {wrong:,} mismatches of {rows:,} rows against the batch", flush=True)

    def _read_by(self, epoch: int) -> dict[str, pl.DataFrame]:
        """The records that the wide table had read by an epoch."""
        publication = self.headwater.snapshot(FLOWN, epoch).publication
        assert publication
        return {name: records[: publication.offsets[name][name]["0"]] for name, records in self.topics.items()}


def _label(read: Mapping[str, pl.DataFrame]) -> str:
    """The time up to which all topics have reported: the earliest of the newest event times of the topics."""
    newest: Iterator[datetime] = (read[name].select(pl.col(when).max()).item() for name, when in _HAPPENED.items())
    return moment(min(newest))
