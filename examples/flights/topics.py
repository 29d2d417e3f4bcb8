"""Three topics of 2013 that share a flight's key, record by record as they are sent.

* `flights` has the states of a flight: scheduled a day ahead, departed, arrived or diverted. A cancelled flight is
  deleted; now and then it departs after all, and is inserted again.
* `weather` has the weather of each flight at its airport and scheduled hour. Some hours are corrected a day later. Some
  reports come days late, after their own correction. A correction contains the temperature only.
* `planes` has the aircraft assigned to each flight, with its data, from half a day to two days late. Some flights
  change aircraft: one assignment is deleted, another one inserted. A cancelled flight has none.

Records are delayed, so they do not arrive in the order of their event times. A producer that crashes sends its last
records again. All of this is the same in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from .lives import ARRIVED, CANCELLED, DEPARTED, DIVERTED, SCHEDULED, with_resent
from .prepare import planes, table, weather

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

KEY = "flight_id"
TOPICS = ("flights", "weather", "planes")
INSERT, UPDATE, DELETE = "c", "u", "d"
FLIGHT_COLUMNS = ("carrier", "flight", "origin", "dest", "scheduled", "dep_delay", "arr_delay")
_MEASURED = ("temp", "wind_speed", "precip", "visib")
_KNOWN_OF_A_PLANE = ("tailnum", "built", "model", "seats")
_CORRECTED = (KEY, "observed_at", "revision", "temp", "reported_at")


def sent(days: int) -> dict[str, pl.DataFrame]:
    """The records of each topic in the order in which they are sent, for the flights of the first `days` of the year.

    Columns: those of the records, with times in UTC, and `week`, the number of the week in which a record is sent.
    """
    flights = table().filter(pl.col("scheduled") < pl.datetime(2013, 1, 1, time_zone="UTC") + pl.duration(days=days))
    records = {"flights": _lives(flights), "weather": _weather(flights), "planes": _assignments(flights)}
    ordered = {name: with_resent(each.sort("sent_at", KEY, maintain_order=True)) for name, each in records.items()}
    start = min(_earliest(each) for each in ordered.values())
    week = ((pl.col("sent_at").cum_max() - start).dt.total_days() // 7).alias("week")
    return {name: each.with_columns(week).drop("sent_at") for name, each in ordered.items()}


def messages(records: pl.DataFrame) -> Iterator[str]:
    """The records as JSON; a correction of the weather has only the fields that it corrects."""
    names = [name for name in records.columns if name != "week"]
    times = [pl.col(name).dt.strftime("%Y-%m-%dT%H:%M:%SZ") for name in names if records.schema[name].is_temporal()]
    record = pl.struct(names).struct.json_encode()
    if "revision" in names:
        record = pl.when(corrects()).then(pl.struct(_CORRECTED).struct.json_encode()).otherwise(record)
    return iter(records.with_columns(times).select(record.alias("record"))["record"])


def corrects() -> pl.Expr:
    """Whether a report of the weather is a correction."""
    return pl.col("revision").is_not_null()


def by(week: int, topics: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The records that were sent by the end of a week."""
    return {name: records.filter(pl.col("week") <= week) for name, records in topics.items()}


def _lives(flights: pl.DataFrame) -> pl.DataFrame:
    flew, landed = pl.col("dep_delay").is_not_null(), pl.col("air_time").is_not_null()
    departed = pl.col("scheduled") + pl.duration(minutes=pl.col("dep_delay"))
    arrived = departed + pl.duration(minutes=pl.col("air_time"))
    reinstated = flew & (pl.col("dep_delay") > 60) & (_chance(1) < 0.1)
    images = [
        _life(flights, SCHEDULED, pl.col("scheduled") - pl.duration(days=1), "dep_delay", "arr_delay", op=INSERT),
        _life(flights.filter(~flew | reinstated), CANCELLED, pl.col("scheduled"), *FLIGHT_COLUMNS, op=DELETE),
        _life(flights.filter(flew), DEPARTED, departed, "arr_delay"),
        _life(flights.filter(flew, landed), ARRIVED, arrived),
        _life(flights.filter(flew, ~landed), DIVERTED, departed + pl.duration(hours=6), "arr_delay"),
    ]
    lives = pl.concat(images)
    return lives.with_columns(sent_at=_later(pl.col("updated_at"), 0, 2, behind=pl.duration(days=3)))


def _life(flights: pl.DataFrame, state: str, when: pl.Expr, *unknown: str, op: str = UPDATE) -> pl.DataFrame:
    """The record of each flight when it enters a state; the columns in `unknown` are still null then."""
    blank = [pl.lit(None, flights.schema[name]).alias(name) for name in unknown]
    records = flights.with_columns(when.alias("updated_at"), op=pl.lit(op), state=pl.lit(state)).with_columns(blank)
    return records.select("op", KEY, *FLIGHT_COLUMNS, "state", "updated_at")


def _weather(flights: pl.DataFrame) -> pl.DataFrame:
    measured = weather().with_columns(observed_at="time_hour", revision=pl.lit(None, pl.Int64))
    first = flights.join(measured, on=["origin", "time_hour"]).select(
        KEY,
        "origin",
        "observed_at",
        "revision",
        *_MEASURED,
        reported_at=pl.col("observed_at") + pl.duration(minutes=20),
    )
    hour = pl.col("observed_at").dt.epoch("s") // 3600 + pl.col("origin").str.len_bytes()
    corrected = first.filter(hour % 19 == 0).with_columns(
        pl.col("reported_at") + pl.duration(days=1),
        revision=pl.lit(1, pl.Int64),
        temp=pl.col("temp") + 1.8,
    )
    reports = pl.concat([first, corrected]).drop("origin")
    return reports.with_columns(sent_at=_later(pl.col("reported_at"), 0, 3, behind=pl.duration(days=4)))


def _assignments(flights: pl.DataFrame) -> pl.DataFrame:
    known = planes().select("tailnum", pl.col("year").alias("built"), "model", "seats")
    another = pl.col("tailnum").shift(1).over("carrier", order_by="scheduled")
    changes = (_chance(2) < 0.03) & another.is_not_null()
    planned = flights.with_columns(another=pl.when(changes).then(another)).filter(pl.col("tailnum").is_not_null())
    swapped, cancelled = pl.col("another").is_not_null(), pl.col("dep_delay").is_null()
    first = planned.with_columns(tailnum=pl.coalesce("another", "tailnum"))
    steps = [
        _assignment(first, 1, -6),
        _assignment(planned.filter(swapped), 2, -2, op=DELETE),
        _assignment(planned.filter(swapped), 3, -1),
        _assignment(planned.filter(cancelled), 4, 0, op=DELETE),
    ]
    records = pl.concat(steps).join(known, on="tailnum", how="left", maintain_order="left")
    return records.select("op", KEY, *_KNOWN_OF_A_PLANE, "assignment", "assigned_at").with_columns(
        sent_at=_later(pl.col("assigned_at"), 12, 36, behind=pl.duration(days=2))
    )


def _assignment(flights: pl.DataFrame, number: int, hours: int, op: str = UPDATE) -> pl.DataFrame:
    """The records of one step of assigning aircraft; a delete has no data of the aircraft."""
    tail = pl.lit(None, pl.String) if op == DELETE else pl.col("tailnum")
    return flights.select(
        pl.lit(op).alias("op"),
        KEY,
        tail.alias("tailnum"),
        pl.lit(number, pl.Int64).alias("assignment"),
        (pl.col("scheduled") + pl.duration(hours=hours)).alias("assigned_at"),
    )


def _later(when: pl.Expr, least: int, most: int, *, behind: pl.Expr) -> pl.Expr:
    """When a record is sent: `least` to `most` hours later; one in a hundred is late by `behind` on top."""
    lag = pl.duration(minutes=(least + _chance(3, when) * (most - least)) * 60)
    return when + lag + pl.when(_chance(4, when) < 0.01).then(behind).otherwise(pl.duration(days=0))


def _chance(salt: int, when: pl.Expr | None = None) -> pl.Expr:
    """A pseudo-random number from 0 to 1 for each flight and time, evenly distributed; the same in every run."""
    seed = pl.col(KEY) * 31 + (0 if when is None else when.dt.epoch("s") // 60)
    mixed = (seed * (2_654_435_761 + 2 * salt)) % 2**32
    return (mixed // 2**8) / 2**24


def _earliest(records: pl.DataFrame) -> datetime:
    return records.select(pl.col("sent_at").min()).item()
