"""Count the table of flights through the year, and compare the totals at each month's end with a batch count.

`examples.flights.states` runs this in a separate process, which it kills. When started again, it resumes: the topic
contains what was already sent, and the tables contain what was already counted.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from headwater import Headwater
from headwater.adapters.kafka.broker import offset_bounds
from headwater.adapters.kafka.settings import KafkaSettings
from headwater.app.run.progress import progress
from headwater.testing.kafka_broker import produce

from .demo import polars
from .lives import MONTHS, counted, message, sent

if TYPE_CHECKING:
    import polars as pl

CONFIG = Path(__file__).with_name("states.toml")
PIPELINE, TOPIC = "flight_states", "flights"
_AT_ONCE = 20_000
_KEY = ["carrier", "state"]


def main() -> int:
    """Run all months of the year; return 0 if every total is right."""
    messages = sent()
    with Headwater.from_config(CONFIG, report=lambda epoch: print(progress(epoch), flush=True)) as headwater:
        done = _counted_so_far(headwater)
        wrong = sum(Month(headwater, messages[:end], name).run() for name, end in _months(messages) if end >= done)
        dead = polars(headwater.answer(f"{PIPELINE}.dead_letters").frame).height
        print(f"\nThe first totals of the year's end ({dead} dead letters):")
        print(polars(headwater.answer(PIPELINE).frame).sort(_KEY).head(9))
    return 1 if wrong or dead else 0


def _months(messages: pl.DataFrame) -> list[tuple[str, int]]:
    """The name of each month, and the number of messages sent by its end. December includes all later messages."""
    later = [(messages["mtime"] >= end).arg_true() for end in MONTHS[:-1]]
    ends = [*(each[0] for each in later), messages.height]
    return [(f"{end - timedelta(days=1):%B}", at) for end, at in zip(MONTHS, ends, strict=True)]


def _counted_so_far(headwater: Headwater) -> int:
    publication = headwater.snapshot(PIPELINE).publication
    return publication.offsets[TOPIC]["0"] if publication and publication.offsets else 0


@frozen(eq=False)
class Month:
    """One month of the year.

    Args:
        headwater: runs the pipeline.
        messages: all messages that are sent by the end of the month.
        name: the name of the month.
    """

    headwater: Headwater
    messages: pl.DataFrame
    name: str

    def run(self) -> int:
        """Send the messages that the topic lacks, run the pipeline, and return the number of wrong totals."""
        self._send()
        self.headwater.run(until_idle=True)
        ours, batch = polars(self.headwater.answer(PIPELINE).frame), counted(self.messages)
        wrong = mismatches(ours, batch)
        print(
            f"at the end of {self.name}, after {self.messages.height:,} messages: {wrong} mismatches of"
            f" {batch.height} totals against the batch count over the table as it is then",
            flush=True,
        )
        return wrong

    def _send(self) -> None:
        servers = os.environ["FLIGHTS_SERVERS"]
        before = offset_bounds(KafkaSettings(servers, (TOPIC,)))[TOPIC, 0].high
        for some in self.messages[before:].iter_slices(_AT_ONCE):
            produce(servers, TOPIC, map(message, some.iter_rows(named=True)), partition=0)


def mismatches(ours: pl.DataFrame, batch: pl.DataFrame) -> int:
    """The number of groups that differ between the two."""
    mine, theirs = (Counter(each.select(batch.columns).rows()) for each in (ours, batch))
    return len({row[: len(_KEY)] for row in (mine - theirs) + (theirs - mine)})


if __name__ == "__main__":
    sys.exit(main())
