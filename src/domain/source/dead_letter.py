"""Dead letters: rows that could not be used, stored with the reason, so that nothing is lost and nothing is guessed."""

from __future__ import annotations

from typing import Any

import narwhals as nw
from attrs import frozen

from ..epoch.batch import BYTES, ERROR, ORIGIN, RAW, Batch
from ..errors import ConfigError
from ..table.change import POSITION
from ..table.collect import collect_small
from ..table.row_kind import ROW_KIND
from ..table.schema import Schema
from ..table.spec import TableSpec

TABLE = "dead_letters"
SCHEMA = Schema.parse(
    "epoch bigint, reason string, origin string, position bigint, raw string,"
    " format string, row_kind string, bytes binary"
)
_RECORD = "_record"
IN_ORDER = ("epoch", "position")
"""Columns that order dead letters by arrival."""


def table(pipeline: str) -> str:
    """The name of a pipeline's dead-letter table."""
    return f"{pipeline}.{TABLE}"


def spec(pipeline: str) -> TableSpec:
    """The dead-letter table of a pipeline.

    Columns: `epoch`, the epoch that read the row; `reason`; `origin`, the file, or topic/partition@offset; `position`
    within the epoch's batch; `raw`, the record as readable text; `format` of the record; `row_kind`, which of the
    record's rows it is (null if the whole record could not be decoded); `bytes`, the original record (null if it is
    `raw` in UTF-8).
    """
    return TableSpec(table(pipeline), SCHEMA)


@frozen
class Limit:
    """How many rows of an epoch may become dead letters without a warning.

    Args:
        text: the limit as configured.
        rows: the limit as a number of rows; None if it is a share.
        share: the limit as a share of the epoch's rows, from 0 to 1.
    """

    text: str
    rows: int | None
    share: float = 1.0

    @classmethod
    def parse(cls, value: int | str) -> Limit:
        """Parse a number of rows, or a share such as ``10%``.

        Raises:
            ConfigError: the value is neither.

        >>> Limit.parse("2.5%").share
        0.025
        """
        text = str(value).strip()
        if text.isdecimal():
            return cls(text, int(text))
        number, percent, rest = text.partition("%")
        try:
            share = float(number) / 100
        except ValueError:
            share = -1.0
        if not percent or rest or not 0 <= share <= 1:
            raise ConfigError(f"{value!r} is not {LIMIT}")
        return cls(text, None, share)

    def exceeded(self, rows: int, dead_letters: int) -> bool:
        """Whether an epoch's dead letters exceed the limit."""
        return dead_letters > (self.share * rows if self.rows is None else self.rows)


LIMIT = "a number of rows, or a share such as '10%'"
USUAL_LIMIT = Limit("10%", None, 0.1)


def reasons(found: nw.LazyFrame[Any], most: int) -> list[tuple[str, int]]:
    """The most frequent reasons of dead letters, each with the number of dead letters."""
    counts = found.group_by("reason").agg(nw.len().alias("letters"))
    listed = counts.sort("letters", "reason", descending=[True, False]).head(most)
    return [(line["reason"], line["letters"]) for line in collect_small(listed)]


def or_else(reason: nw.Expr, wrong: nw.Expr, text: str) -> nw.Expr:
    """The reason so far; if it is null and `wrong` is true, `text`."""
    return nw.when(reason.is_null() & wrong).then(nw.lit(text)).otherwise(reason)


def extract(rows: nw.LazyFrame[Any], batch: Batch, written: nw.Expr | None = None) -> nw.LazyFrame[Any]:
    """The dead letters among the rows of a batch: the rows whose `_error` is not null, in the columns of `SCHEMA`.

    Args:
        rows: rows of the batch.
        batch: the batch.
        written: the format of each row's record, if the batch has several.
    """
    letters = rows.filter(~nw.col(ERROR).is_null())
    return _with_records(letters, batch).select(
        nw.lit(batch.epoch.number).cast(nw.Int64).alias("epoch"),
        nw.col(ERROR).alias("reason"),
        nw.col(ORIGIN).alias("origin"),
        nw.col(POSITION).alias("position"),
        nw.col(RAW).alias("raw"),
        (nw.lit(batch.format) if written is None else written).alias("format"),
        nw.col(ROW_KIND).alias("row_kind"),
        nw.col(BYTES).alias("bytes"),
    )


def _with_records(letters: nw.LazyFrame[Any], batch: Batch) -> nw.LazyFrame[Any]:
    """Add the record of each dead letter that lacks it, as its row could be decoded; see `Batch.whole`."""
    if batch.whole is None:
        return letters
    records = batch.whole().select(POSITION, nw.col(RAW).alias(_RECORD))
    record = nw.when(nw.col(RAW).is_null()).then(nw.col(_RECORD)).otherwise(nw.col(RAW))
    return letters.join(records, on=POSITION, how="left").with_columns(record.alias(RAW))
