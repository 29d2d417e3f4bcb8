"""Accounts that are loaded in bulk, and changes of them that come meanwhile; the same at every run.

Change number n is the n-th of the log, and its position there. In the first half of the changes some accounts get
another balance each, in the second half the same ones another: of a hundred the first is deleted. Of every hundred
changes one opens an account that no bulk has.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
from attrs import frozen

if TYPE_CHECKING:
    from pathlib import Path

KEY = "account"
DDL = "account bigint, owner string, balance bigint, pos bigint"
"""Of bulk rows; changes also have ``kind`` and ``at``."""
_STRIDE = 7_368_787  # prime: accounts are changed in no order
_START = datetime(2024, 3, 1, tzinfo=UTC)
_KINDS = ("-U", "+U", "+I", "-D")


@frozen
class Accounts:
    """What there is.

    Args:
        rows: accounts in the bulk.
        changes: how many of them come while it is loaded, the halves of an update counted as one.
    """

    rows: int
    changes: int

    def write_bulk(self, folder: Path, chunk_rows: int) -> None:
        """Write the bulk, a file a chunk: each was read when its share of the changes had been made."""
        folder.mkdir(parents=True)
        changes = self._changes()
        for low in range(0, self.rows, chunk_rows):
            high = min(low + chunk_rows, self.rows)
            position = self.changes * low // self.rows
            rows = pl.DataFrame({"account": pl.int_range(low, high, eager=True)})
            newest = changes.filter(pl.col("pos") <= position).unique("account", keep="last", maintain_order=True)
            found = rows.join(newest.select("account", "pos", "kind"), on="account", how="left")
            found = found.filter(pl.col("kind").is_null() | (pl.col("kind") != "-D"))
            balance = pl.coalesce("pos", pl.col("account") % 1000)
            found.select(
                "account", _owner(), balance.alias("balance"), pl.lit(position, pl.Int64).alias("pos")
            ).write_parquet(folder / f"{low // chunk_rows:05d}.parquet")

    def write_changes(self, folder: Path, size: int) -> int:
        """Write the changes, a file of so many at a time; how many files."""
        folder.mkdir(parents=True)
        changes = self._changes()
        files = range(0, self.changes, size)
        for number, first in enumerate(files):
            self._images(changes.slice(first, size)).write_parquet(folder / f"{number:05d}.parquet")
        return len(files)

    def right(self) -> pl.DataFrame:
        """What there is in the end: each account, its owner and balance."""
        newest = self._changes().unique("account", keep="last", maintain_order=True)
        untouched = pl.select(pl.int_range(self.rows).alias("account")).join(newest, on="account", how="anti")
        there = newest.filter(pl.col("kind") != "-D").select("account", pl.col("pos").alias("balance"))
        everyone = pl.concat([untouched.with_columns((pl.col("account") % 1000).alias("balance")), there])
        return everyone.select("account", _owner(), "balance")

    def _changes(self) -> pl.DataFrame:
        """Each change: its position, account and kind, and the position of the change before of the account."""
        half = max(self.changes // 2, 1)
        number = pl.int_range(self.changes, dtype=pl.Int64)
        turn = number % half
        opens, again = turn % 100 == 99, number >= half
        kind = (
            pl.when(~again & opens).then(pl.lit("+I")).when(again & (turn % 100 == 0)).then(pl.lit("-D"))
        ).otherwise(pl.lit("+U"))
        account = pl.when(opens).then(self.rows + turn).otherwise(turn * _STRIDE % self.rows)
        before = pl.when(again).then(number - half + 1)
        return pl.select(
            (number + 1).alias("pos"), account.alias("account"), kind.alias("kind"), before.alias("before")
        )

    def _images(self, changes: pl.DataFrame) -> pl.DataFrame:
        """The rows of changes as a log tells them, those that an update replaces too."""
        old = pl.coalesce("before", pl.col("account") % 1000)
        at = pl.lit(_START) + pl.col("pos") * timedelta(milliseconds=1)
        one = changes.with_columns(_owner(), at.cast(pl.Datetime("us", "UTC")).alias("at"))
        gone = one.filter(pl.col("kind") == "-D").with_columns(old.alias("balance"))
        replaced = one.filter(pl.col("kind") == "+U").with_columns(pl.lit("-U").alias("kind"), old.alias("balance"))
        new = one.filter(pl.col("kind").is_in(["+U", "+I"])).with_columns(pl.col("pos").alias("balance"))
        images = pl.concat([gone, replaced, new]).sort("pos", pl.col("kind").replace_strict(_KINDS, range(len(_KINDS))))
        return images.select("kind", "account", "owner", "balance", "pos", "at")


def _owner() -> pl.Expr:
    return ("owner " + (pl.col("account") % 10_007).cast(pl.String)).alias("owner")
