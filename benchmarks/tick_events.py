"""The producer of `benchmarks.tick_wait`: sends views of pages at a steady pace, each with its time.

python -m benchmarks.tick_events SERVERS TOPIC RATE SECONDS FILE

Writes into FILE how many views had been sent before each batch, with the batch's time in milliseconds since 1970.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from time import sleep, time
from typing import Any

import polars as pl
from confluent_kafka import Producer

PAGES, VISITORS = 100, 50_000
_STEP = 7_919
_BATCHES = 100
"""Batches a second."""


def page_of(number: pl.Expr) -> pl.Expr:
    """The page of a view, from its number."""
    return "page-" + (number % PAGES).cast(pl.String)


def visitor_of(number: Any) -> Any:
    """The visitor of a view, from its number or a column of numbers."""
    return number * _STEP // PAGES % VISITORS


def _send(producer: Producer, topic: str, first: int, size: int, at: int) -> None:
    moment = f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"
    for number in range(first, first + size):
        page, visitor = f"page-{number % PAGES}", visitor_of(number)
        producer.produce(topic, f'{{"at": "{moment}", "page": "{page}", "visitor": {visitor}}}')
    producer.poll(0)


def main() -> int:
    """Send the views, and write the file."""
    servers, topic, rate, seconds, file = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": 10 * rate})
    began, size, sent = time(), rate // _BATCHES, list[tuple[int, int]]()
    for batch in range(seconds * _BATCHES):
        sleep(max(0.0, began + batch / _BATCHES - time()))
        sent.append((int(time() * 1000), batch * size))
        _send(producer, topic, batch * size, size, sent[-1][0])
    producer.flush()
    Path(file).write_text(json.dumps(sent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
