"""Accounts that are loaded in bulk, and changes of them that come meanwhile; the same at every run.

Change number n is the n-th of the log, and its position there. In the first half of the changes some accounts get
another balance each, in the second half the same ones another: of a hundred the first is deleted. Of every hundred
changes one opens an account that no bulk has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from attrs import frozen

if TYPE_CHECKING:
    from pathlib import Path

KEY = "account"
DDL = "account bigint, owner string, balance bigint, pos bigint"
"""Of bulk rows; changes also tell when they were made."""
_STRIDE = 7_368_787  # prime: accounts are changed in no order
_START = 1_709_251_200_000
_OPERATIONS = {"+I": "c", "+U": "u", "-D": "d"}


@frozen
class Accounts:
    """What there is.

    Args:
        rows: accounts in the bulk.
        changes: how many of them come while it is loaded.
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
        """Write Debezium's messages of the changes, a file of so many at a time; how many files."""
        folder.mkdir(parents=True)
        changes = self._changes()
        files = range(0, self.changes, size)
        for number, first in enumerate(files):
            _messages(changes.slice(first, size)).write_ndjson(folder / f"{number:05d}.json")
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
