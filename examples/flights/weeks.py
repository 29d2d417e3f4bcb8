"""The year week by week: send it, run the pipelines, and hold tables and versions against the batch join."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from attrs import define, field, frozen

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
    """How many rows there are in the batch, and how many are not the same in both."""

    rows: int
    wrong: int


@define(eq=False)
class Weeks:
    """Sends the year, and checks what becomes of it.

    Args:
        headwater: runs the pipelines.
        broker: where the records go.
        topics: all that is sent.
    """

    headwater: Headwater
    broker: KafkaBroker
    topics: dict[str, pl.DataFrame]
    _versions: int = field(init=False, default=0)

    @property
    def last(self) -> int:
        """The week in which the last record is sent."""
        weeks = pl.concat([records["week"] for records in self.topics.values()])
        return int(weeks.max())  # type: ignore[arg-type]

    def run(self, week: int) -> int:
        """Send a week's records, let the pipelines run, and check what they made of it: how many rows are wrong."""
        for name, records in self.topics.items():
            self.broker.produce(name, messages(records.filter(pl.col("week") == week)), partition=0)
        self.headwater.run(until_idle=True)
        wrong = self._check_versions(week)
        if week == self.last or (week + 1) % _WEEKS_BETWEEN_CHECKS == 0:
            wrong += self._check_rows(week)
        return wrong

    def check_reported(self) -> int:
        """Hold it against the records of how many flights each topic has told: how many of these counts are wrong."""
        told = {f"{name}_reported": flights for name, flights in told_of(self.topics).items()}
        counted = polars(self.headwater.view(f"{FLOWN}.completeness")).select(*told).sum().row(0, named=True)
        wrong = sum(counted[name] != told[name] for name in told)
        print(f"flights that each topic has told of: {counted}: {wrong} of these numbers are not those of the topics")
        return wrong

    def _check_rows(self, week: int) -> int:
        """Hold every row against the batch join over all that was sent."""
        batch = joined(by(week, self.topics))
        wrong = mismatches(polars(self.headwater.view(f"{FLOWN}.rows")), batch, KEY)
        print(f"week {week}: {wrong:,} mismatches of {batch.height:,} flights against the batch join", flush=True)
        return wrong

    def _check_versions(self, week: int) -> int:
        """Hold each new version against the batch query over the records that its inputs had read."""
        wrong = 0
        for version in range(self._versions, self.headwater.epoch(RANKED) + 1):
            wrong += self._check_version(version, week)
            self._versions = version + 1
        return wrong

    def _check_version(self, version: int, week: int) -> int:
        publication = self.headwater.snapshot(RANKED, version).publication
        assert publication
        read = self._read_by(publication.offsets["inputs"][FLOWN])
        batch, label = joined(read), _label(read)
        found = [self._compare(table, version, batch) for table in RANKINGS]
        wrong = sum(each.wrong for each in found) + (publication.offsets["label"] != label)
        print(
            f"week {week}: version {version}, labelled {label}: {wrong} mismatches of"
            f" {sum(each.rows for each in found):,} rows against the batch query",
            flush=True,
        )
        return wrong

    def _compare(self, table: str, version: int, batch: pl.DataFrame) -> Checked:
        expected = RANKINGS[table](batch)
        ours = polars(self.headwater.view(f"{RANKED}.{table}", at=version))
        return Checked(expected.height, mismatches(ours, expected, *KEYS[table]))

    def _read_by(self, epoch: int) -> dict[str, pl.DataFrame]:
        """The records that the wide table had read by an epoch."""
        publication = self.headwater.snapshot(FLOWN, epoch).publication
        assert publication
        return {name: records[: publication.offsets[name][name]["0"]] for name, records in self.topics.items()}


def _label(read: Mapping[str, pl.DataFrame]) -> str:
    """Up to when all topics have told what happened: the earliest of their newest records."""
    newest: Iterator[datetime] = (read[name].select(pl.col(when).max()).item() for name, when in _HAPPENED.items())
    return moment(min(newest))
