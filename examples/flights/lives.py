"""The changes of the table `air.flights` in 2013, Maxwell's messages for them, and the final table.

A flight is inserted as `scheduled` a day ahead. It is updated when it departs, arrives, is cancelled, or lands
elsewhere (`diverted`). Departures and arrivals set their delays. Now and then Maxwell crashes and sends its last
messages again: each time about a day of flights.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from .prepare import table

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEDULED, DEPARTED, ARRIVED, CANCELLED, DIVERTED = "scheduled", "departed", "arrived", "cancelled", "diverted"
MONTHS = [datetime(2013 + month // 12, month % 12 + 1, 1, tzinfo=UTC) for month in range(1, 13)]
"""When the months of the year end."""

_KNOWN = ("flight_id", "carrier", "flight", "tailnum", "origin", "dest", "scheduled")
_COLUMNS = (*_KNOWN, "state", "dep_delay", "arr_delay", "mtime")
_LEARNT = {DEPARTED: "dep_delay", ARRIVED: "arr_delay"}
_MESSAGES_BETWEEN_CRASHES = 50_000
_RESENT = 3_000
_BYTES_OF_A_TRANSACTION = 400
_HOURS_TO_ANOTHER_AIRPORT = 6


def sent() -> pl.DataFrame:
    """What Maxwell sends in a year: the changes in order, including those that it sends again after a crash.

    Columns: those of the table, with `mtime`, the time of the change; `change`, its number; its position in the
    binlog; and `old_state` and `old_mtime` of the old image, which are null if the flight is new.
    """
    return with_resent(_in_the_binlog(_changes()).with_row_index("change"))


def with_resent(messages: pl.DataFrame) -> pl.DataFrame:
    """The messages in order, as sent by a producer that crashes now and then and sends its last messages again."""
    parts, start = [], 0
    for crash in range(_MESSAGES_BETWEEN_CRASHES, messages.height, _MESSAGES_BETWEEN_CRASHES):
        parts += [messages[start:crash], messages[crash - _RESENT : crash]]
        start = crash
    return pl.concat([*parts, messages[start:]])


def message(change: Mapping[str, Any]) -> str:
    """A change as a Maxwell message in JSON."""
    state, old_state = change["state"], change["old_state"]
    fields = {"database": "air", "table": "flights", "type": "insert" if old_state is None else "update"}
    fields |= {name: change[name] for name in ("ts", "xid", "position")}
    fields |= {"commit": True} if change["commit"] else {"xoffset": change["xoffset"]}
    fields["data"] = {name: change[name] for name in _COLUMNS} | {
        name: _wall(change[name]) for name in ("scheduled", "mtime")
    }
    if old_state is not None:
        fields["old"] = {"state": old_state, "mtime": _wall(change["old_mtime"])}
        fields["old"] |= {_LEARNT[state]: None} if state in _LEARNT else {}
    return json.dumps(fields)


def counted(messages: pl.DataFrame) -> pl.DataFrame:
    """Totals of the table by carrier and state after these messages, counted in one batch."""
    flights = messages.sort("change").unique("flight_id", keep="last")
    known = pl.col("arr_delay").count() > 0
    return flights.group_by("carrier", "state").agg(
        pl.len().cast(pl.Int64).alias("flights"),
        pl.when(known).then(pl.col("arr_delay").sum()).alias("arr_delay"),
        pl.col("tailnum").drop_nulls().n_unique().cast(pl.Int64).alias("aircraft"),
    )


def _changes() -> pl.DataFrame:
    """Every image of every flight, in the order of the changes."""
    flights = table().with_columns(departed=_later("scheduled", pl.col("dep_delay")))
    flew, landed = pl.col("dep_delay").is_not_null(), pl.col("air_time").is_not_null()
    elsewhere = pl.lit(60 * _HOURS_TO_ANOTHER_AIRPORT)
    images = [
        _images(flights, SCHEDULED, _later("scheduled", pl.lit(-24 * 60)), None, "dep_delay", "arr_delay"),
        _images(flights.filter(~flew), CANCELLED, pl.col("scheduled"), SCHEDULED),
        _images(flights.filter(flew), DEPARTED, pl.col("departed"), SCHEDULED, "arr_delay"),
        _images(flights.filter(flew, landed), ARRIVED, _later("departed", pl.col("air_time")), DEPARTED),
        _images(flights.filter(flew, ~landed), DIVERTED, _later("departed", elsewhere), DEPARTED),
    ]
    return pl.concat(images).sort("mtime", "flight_id", maintain_order=True)


def _later(column: str, minutes: pl.Expr) -> pl.Expr:
    return pl.col(column) + pl.duration(minutes=minutes)


def _images(flights: pl.DataFrame, state: str, when: pl.Expr, before: str | None, *unknown: str) -> pl.DataFrame:
    """The image of each flight when it enters a state; the columns in `unknown` are still null then."""
    blank = [pl.lit(None, pl.Int64).alias(name) for name in unknown]
    states = [pl.lit(state).alias("state"), pl.lit(before, pl.String).alias("old_state")]
    return flights.with_columns(*blank, *states, when.alias("mtime")).select(*_COLUMNS, "old_state")


def _in_the_binlog(changes: pl.DataFrame) -> pl.DataFrame:
    """Add the binlog position of each change: a file per month, a transaction per minute, an `xoffset` per row."""
    row = pl.int_range(pl.len())
    placed = changes.with_columns(
        pl.col("mtime").shift(1).over("flight_id").alias("old_mtime"),
        pl.col("mtime").dt.epoch("s").alias("ts"),
        pl.col("mtime").rank("dense").cast(pl.Int64).alias("xid"),
        row.over("mtime").alias("xoffset"),
        (row == pl.len() - 1).over("mtime").alias("commit"),
    )
    file = pl.col("mtime").dt.strftime("binlog.%y%m")
    at = (pl.col("xid") - pl.col("xid").min().over(file)) * _BYTES_OF_A_TRANSACTION + 4
    return placed.with_columns(pl.format("{}:{}", file, at).alias("position"))


def _wall(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}"
