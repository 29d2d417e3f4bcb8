"""A reader that reads for the rest of the year, and must finish on the version that it began with."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from attrs import frozen

from headwater.domain.errors import VersionExpired

from .demo import polars
from .join import RANKINGS, mismatches
from .weeks import KEYS, RANKED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater import Headwater
    from headwater.domain.ledger.upkeep import Pin

_HOLD = timedelta(hours=6)
_GONE_AFTER = 16  # versions; five are kept, and after every eighth version the others expire


@frozen(eq=False)
class LongReader:
    """Holds a lease on a version, and an unfinished query over each of its tables.

    Args:
        headwater: the deployment that it reads.
        pin: the version and the lease on it.
        begun: the query over each table, not computed since the beginning.
        answers: the result of each query at the beginning.
    """

    headwater: Headwater
    pin: Pin
    begun: dict[str, Any]
    answers: dict[str, pl.DataFrame]

    @classmethod
    def begin(cls, headwater: Headwater) -> LongReader:
        """Start reading the newest version."""
        pin = headwater.pin(RANKED, hold=_HOLD, holder="the long reader")
        begun = {table: headwater.view(f"{RANKED}.{table}", at=pin.epoch) for table in RANKINGS}
        return cls(headwater, pin, begun, {table: polars(frame) for table, frame in begun.items()})

    def finish(self) -> int:
        """Finish the queries, then read again; return the number of rows that differ from the first results."""
        later = self.headwater.epoch(RANKED) - self.pin.epoch
        wrong = 0
        for how, answers in self._ways():
            differing = sum(mismatches(answers[table], self.answers[table], *KEYS[table]) for table in RANKINGS)
            print(f"the reader of version {self.pin.epoch}, {later} versions later, {how}: {differing} rows differ")
            wrong += differing
        self.pin.release()
        return wrong + (self._still_there() if later >= _GONE_AFTER else 0)

    def _ways(self) -> Iterator[tuple[str, dict[str, pl.DataFrame]]]:
        yield "with the query that it began", {table: polars(frame) for table, frame in self.begun.items()}
        again = {table: self.headwater.view(f"{RANKED}.{table}", at=self.pin.epoch) for table in RANKINGS}
        yield "asking again", {table: polars(frame) for table, frame in again.items()}
        if self.headwater.deployment.backend.name == "delta":
            yield "through delta-rs", {table: self._plain(table) for table in RANKINGS}

    def _plain(self, table: str) -> pl.DataFrame:
        """The table as read by delta-rs, without Headwater, at the Delta version that the publication names."""
        from deltalake import DeltaTable

        name, root = f"{RANKED}.{table}", self.headwater.deployment.backend.path
        assert root
        version = int(self.pin.publication.tables[name])
        plain = DeltaTable(Path(root, RANKED, table), version=version)
        return pl.DataFrame(plain.to_pyarrow_table())

    def _still_there(self) -> int:
        """Check that the version before, which had no lease, has expired; return 1 if it has not."""
        try:
            self.headwater.view(RANKED, at=self.pin.epoch - 1)
        except VersionExpired as gone:
            print(f"the version before it, which nobody held: {gone}")
            return 0
        print(f"version {self.pin.epoch - 1} is still there, though nothing keeps it")
        return 1
