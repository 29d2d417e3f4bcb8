"""Rows that could not be used, kept with the reason, so that nothing is lost and nothing is guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from .collect import collect_small
from .epoch import BYTES, ERROR, ORIGIN, POSITION, RAW, ROW_KIND
from .errors import ConfigError
from .schema import Schema
from .table import TableSpec

if TYPE_CHECKING:
    from .epoch import Batch

TABLE = "dead_letters"
SCHEMA = Schema.parse(
    "epoch bigint, reason string, origin string, position bigint, raw string,"
    " format string, row_kind string, bytes binary"
)
IN_ORDER = ("epoch", "position")
"""Columns that order the letters as they came."""


def table(pipeline: str) -> str:
    """The name of a pipeline's dead-letter table."""
    return f"{pipeline}.{TABLE}"


def spec(pipeline: str) -> TableSpec:
    """The dead-letter table of a pipeline.

    Columns: `epoch` that met the row; `reason` in words; `origin`, the file or topic and partition; `position` within
    the epoch's batch; `raw`, the record as people read it; `format` of the source; `row_kind`, which of the record's
    rows it is, null where the record as a whole could not be decoded; `bytes`, the record as it came, null where it is
    `raw` in UTF-8.
    """
    return TableSpec(table(pipeline), SCHEMA)


@frozen
class Limit:
    """How many rows of an epoch may become dead letters before that is worth a warning.

    Args:
        text: as it is configured.
        rows: so many; None where a share counts.
        share: of the epoch's rows, from 0 to 1.
    """

    text: str
    rows: int | None
    share: float = 1.0

    @classmethod
    def parse(cls, value: int | str) -> Limit:
        """A number of rows, or a share such as ``10%``.

        Raises:
            ConfigError: it is neither.

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
        """Whether so many of the rows are too many."""
        return dead_letters > (self.share * rows if self.rows is None else self.rows)


LIMIT = "a number of rows, or a share such as '10%'"
USUAL_LIMIT = Limit("10%", None, 0.1)


def reasons(found: nw.LazyFrame[Any], most: int) -> list[tuple[str, int]]:
    """The most frequent reasons of dead letters, each with the number of its letters.

    Args:
        found: the letters.
        most: at most so many reasons.
    """
    counts = found.group_by("reason").agg(nw.len().alias("letters"))
    listed = counts.sort("letters", "reason", descending=[True, False]).head(most)
    return [(line["reason"], line["letters"]) for line in collect_small(listed)]


def or_else(reason: nw.Expr, wrong: nw.Expr, text: str) -> nw.Expr:
    """The reason so far, or this one where there is none yet and it applies."""
    return nw.when(reason.is_null() & wrong).then(nw.lit(text)).otherwise(reason)


def letters(rows: nw.LazyFrame[Any], batch: Batch, written: nw.Expr | None = None) -> nw.LazyFrame[Any]:
    """The dead letters among the rows of a batch: those whose `_error` is not null.

    Args:
        rows: of the batch.
        batch: which.
        written: the format of each row's record, where the batch has several.
    """
    return rows.filter(~nw.col(ERROR).is_null()).select(
        nw.lit(batch.epoch.number).cast(nw.Int64).alias("epoch"),
        nw.col(ERROR).alias("reason"),
        nw.col(ORIGIN).alias("origin"),
        nw.col(POSITION).alias("position"),
        nw.col(RAW).alias("raw"),
        (nw.lit(batch.format) if written is None else written).alias("format"),
        nw.col(ROW_KIND).alias("row_kind"),
        nw.col(BYTES).alias("bytes"),
    )
