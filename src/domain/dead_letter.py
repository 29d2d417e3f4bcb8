"""Rows that could not be used, kept with the reason, so that nothing is lost and nothing is guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw

from .epoch import ERROR, ORIGIN, POSITION, RAW
from .schema import Schema
from .table import TableSpec

if TYPE_CHECKING:
    from .epoch import Epoch

TABLE = "dead_letters"
SCHEMA = Schema.parse("epoch bigint, reason string, origin string, position bigint, raw string")


def spec(pipeline: str) -> TableSpec:
    """The dead-letter table of a pipeline.

    Columns: `epoch` that met the row; `reason` in words; `origin`, the file or topic and partition; `position` within
    the epoch's batch; `raw`, the record as it came.
    """
    return TableSpec(f"{pipeline}.{TABLE}", SCHEMA)


def or_else(reason: nw.Expr, wrong: nw.Expr, text: str) -> nw.Expr:
    """The reason so far, or this one where there is none yet and it applies."""
    return nw.when(reason.is_null() & wrong).then(nw.lit(text)).otherwise(reason)


def letters(rows: nw.LazyFrame[Any], epoch: Epoch) -> nw.LazyFrame[Any]:
    """The dead letters among the rows of a batch: those whose `_error` is not null."""
    return rows.filter(~nw.col(ERROR).is_null()).select(
        nw.lit(epoch.number).cast(nw.Int64).alias("epoch"),
        nw.col(ERROR).alias("reason"),
        nw.col(ORIGIN).alias("origin"),
        nw.col(POSITION).alias("position"),
        nw.col(RAW).alias("raw"),
    )
