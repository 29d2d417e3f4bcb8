"""Records of two topics about the same items, each with its own columns; the same at every run.

Each topic has every item once, in its own order. After every 50th record comes another record of an earlier item: by
turns an older one, which must change nothing, and a newer one.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "item_id"
TOPICS = ("price", "stock")
RIGHT = "right.parquet"
_EARLIER_EVERY = 50


def sequence(topic: str) -> str:
    """The sequence column of a topic: it decides which record is newer."""
    return f"{topic}_seq"


def columns(topic: str) -> tuple[str, ...]:
    """The value columns of a topic: the number of the record in order of arrival, and three values."""
    return tuple(f"{topic}_{name}" for name in ("at", "units", "value", "note"))


def ddl(topic: str) -> str:
    """The columns of a topic's records."""
    kinds = zip(columns(topic), ("bigint", "bigint", "double", "string"), strict=True)
    return f"{KEY} bigint, {sequence(topic)} bigint, " + ", ".join(" ".join(each) for each in kinds)


def write(folder: Path, items: int, rows: int) -> int:
    """Write one file per epoch and topic, `price/0000.parquet` and so on; return the number of epochs.

    Next to them, `rows/0000.parquet` has all records of an epoch, and `right.parquet` the expected rows at the end.

    Args:
        folder: the folder to write to.
        items: the number of items.
        rows: records per epoch, one half from each topic.
    """
    records = {topic: _records(topic, items) for topic in TOPICS}
    size = rows // len(TOPICS)
    epochs = [{topic: told.slice(at, size) for topic, told in records.items()} for at in range(0, _count(items), size)]
    for name in (*TOPICS, "rows"):
        (folder / name).mkdir(parents=True)
    for number, parts in enumerate(epochs):
        for topic, told in parts.items():
            told.write_parquet(folder / topic / f"{number:04d}.parquet")
        pl.concat(parts.values(), how="diagonal").write_parquet(folder / "rows" / f"{number:04d}.parquet")
    _joined(records).write_parquet(folder / RIGHT)
    return len(epochs)


def _count(items: int) -> int:
    return items + items // _EARLIER_EVERY


def _records(topic: str, items: int) -> pl.DataFrame:
    told = pl.DataFrame(list(_arrivals(items, random.Random(topic))), schema=[KEY, sequence(topic)], orient="row")
    at, units, value, note = columns(topic)
    mixed = (pl.col(KEY) * 48_271 + pl.col(sequence(topic)) * 69_621) % 1_000_003
    return told.select(
        KEY,
        sequence(topic),
        pl.int_range(pl.len(), dtype=pl.Int64).alias(at),
        mixed.alias(units),
        (mixed / 7).alias(value),
        ("note " + (mixed % 10_007).cast(pl.String)).alias(note),
    )


def _arrivals(items: int, chance: random.Random) -> Iterator[tuple[int, int]]:
    """The item and the sequence of each record."""
    order = chance.sample(range(items), items)
    for number, item in enumerate(order, start=1):
        yield item, 2 * number
        if number % _EARLIER_EVERY == 0:
            earlier = chance.randrange(number)
            older = number % (2 * _EARLIER_EVERY) == 0
            yield order[earlier], 2 * earlier + 1 if older else 2 * number + 1


def _joined(records: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The newest record of each topic for each item, joined, without the sequences."""
    price, stock = (_newest(told, topic) for topic, told in records.items())
    return price.join(stock, on=KEY, how="full", coalesce=True)


def _newest(told: pl.DataFrame, topic: str) -> pl.DataFrame:
    newest = told.sort(sequence(topic), maintain_order=True).unique(KEY, keep="last", maintain_order=True)
    return newest.select(KEY, *columns(topic))
