"""Accounts for a bulk load, and their changes during the load; the same at every run.

The number of a change is its position in the log. The first half of the changes sets a new balance for some accounts,
the second half sets another one for the same accounts. Of a hundred changes in the first half, one opens an account
that is not in the bulk; of a hundred in the second half, one deletes an account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from attrs import frozen

if TYPE_CHECKING:
    from pathlib import Path

KEY = "account"
DDL = "account bigint, owner string, balance bigint, pos bigint"
"""Columns of the bulk rows; changes also have the time at which they were made."""
_STRIDE = 7_368_787  # a prime, so that accounts are changed in no order
_START = 1_709_251_200_000
_OPERATIONS = {"+I": "c", "+U": "u", "-D": "d"}


@frozen
class Accounts:
    """The number of accounts and changes.

    Args:
        rows: accounts in the bulk.
        changes: changes that arrive during the load.
    """

    rows: int
    changes: int

    def write_bulk(self, folder: Path, chunk_rows: int) -> None:
        """Write the bulk, one file per chunk. Each is as of the time when its share of the changes had been made."""
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
        """Write the changes as Debezium messages, in files of equal size; return the number of files."""
        folder.mkdir(parents=True)
        changes = self._changes()
        files = range(0, self.changes, size)
        for number, first in enumerate(files):
            _messages(changes.slice(first, size)).write_ndjson(folder / f"{number:05d}.json")
        return len(files)

    def right(self) -> pl.DataFrame:
        """The expected rows at the end: account, owner and balance."""
        newest = self._changes().unique("account", keep="last", maintain_order=True)
        untouched = pl.select(pl.int_range(self.rows).alias("account")).join(newest, on="account", how="anti")
        there = newest.filter(pl.col("kind") != "-D").select("account", pl.col("pos").alias("balance"))
        everyone = pl.concat([untouched.with_columns((pl.col("account") % 1000).alias("balance")), there])
        return everyone.select("account", _owner(), "balance")

    def _changes(self) -> pl.DataFrame:
        """All changes: position, account, kind, and the position of the account's previous change."""
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


def _messages(changes: pl.DataFrame) -> pl.DataFrame:
    at, kind = _START + pl.col("pos"), pl.col("kind")
    source = pl.struct(db=pl.lit("bank"), table=pl.lit("accounts"), ts_ms=at, pos="pos")
    before = _row(pl.coalesce("before", pl.col("account") % 1000))
    return changes.select(
        kind.replace_strict(_OPERATIONS).alias("op"),
        pl.when(kind != "+I").then(before).alias("before"),
        pl.when(kind != "-D").then(_row(pl.col("pos"))).alias("after"),
        source.alias("source"),
        at.alias("ts_ms"),
    )


def _row(balance: pl.Expr) -> pl.Expr:
    return pl.struct("account", _owner(), balance=balance)


def _owner() -> pl.Expr:
    return ("owner " + (pl.col("account") % 10_007).cast(pl.String)).alias("owner")
