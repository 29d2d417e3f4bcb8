"""Read the weather of Seattle, a day a row, from 2012 to 2015.

The data is from the package vega_datasets (MIT), which took it from NOAA, where it is in the public domain. The CSV
file of the package is read, its code is not run.
"""

from __future__ import annotations

import polars as pl

from ..packages import read_file


def days() -> pl.DataFrame:
    """All days, in their order.

    Columns: day (date), rain (millimetres), high and low (the highest and lowest temperature, degrees Celsius), wind
    (metres per second), weather (drizzle, fog, rain, snow or sun).
    """
    raw = pl.read_csv(read_file("vega_datasets==0.9.0", "vega_datasets/_data/seattle-weather.csv"))
    day = pl.col("date").str.to_date("%Y/%m/%d").alias("day")
    return raw.select(
        day,
        pl.col("precipitation").alias("rain"),
        pl.col("temp_max").alias("high"),
        pl.col("temp_min").alias("low"),
        "wind",
        "weather",
    ).sort("day")
