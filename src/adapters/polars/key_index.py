"""Rows found by their keys, in memory: a lookup costs what it asks for, however many rows there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import polars as pl
from attrs import define

from .key_chains import KeyChains

_GROUP, _AT = "_group_number", "_at"


class Fold(Enum):
    """What several values of a key come to: integers, or for the last one values of any type of one size."""

    SUM = "sum"
    MAX = "max"
    LAST = "last"

    def aggregate(self, name: str) -> pl.Expr:
        """Of the rows of a group, in a column."""
        return {Fold.SUM: pl.sum, Fold.MAX: pl.max, Fold.LAST: pl.last}[self](name)

    def combine(self, values: pl.Series, more: pl.Series) -> pl.Expr:
        """Of the values of two columns."""
        if self is Fold.LAST:
            return pl.lit(more)
        return pl.lit(values) + pl.lit(more) if self is Fold.SUM else pl.max_horizontal(values, more)

    def neutral(self, column: pl.Series) -> int | None:
        """What changes no other value of a column when it is folded with it."""
        if self is Fold.MAX:
            return int(column.lower_bound()[0])
        return 0 if self is Fold.SUM else None


@define(eq=False)
class KeyIndex:
    """Rows by key, one a key: rows of a key that come later are folded into its row.

    Args:
        key: the key columns, two or more, without nulls.
        folds: by further column, what its values of a key come to.
        groups: the different values of all key columns but the last, numbered: they are few, and kept once.
        chains: the keys: the number of a group, and the last column.
        folded: the columns of `folds`, in the order of `chains`, with room for as many keys.
    """

    key: Sequence[str]
    folds: Mapping[str, Fold]
    groups: pl.DataFrame
    chains: KeyChains
    folded: list[pl.Series]

    @classmethod
    def of(cls, rows: pl.DataFrame, key: Sequence[str], folds: Mapping[str, Fold]) -> KeyIndex:
        """The index of some rows; see `add`."""
        none = rows.clear().with_columns(pl.lit(0, pl.UInt32).alias(_GROUP))
        index = cls(key, folds, none.select(*key[:-1], _GROUP), KeyChains.of(none.select(_GROUP, key[-1])), [])
        index.folded = [none[name] for name in folds]
        index.add(rows)
        return index

    def add(self, rows: pl.DataFrame) -> None:
        """Add rows, of known keys and of new ones. After an error the index must not be used again."""
        numbered = self._number(rows)
        at = self.chains.add(numbered.select(_GROUP, self.key[-1]))
        new = numbered.select(at.alias(_AT), *self.folds)
        if at.n_unique() < at.len():
            new = new.group_by(_AT).agg(fold.aggregate(name) for name, fold in self.folds.items())
        folded = zip(self.folded, self.folds.values(), strict=True)
        self.folded = [_fold(old, new[_AT], new[old.name], fold, self.chains.capacity) for old, fold in folded]

    def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The rows of some keys, in the columns of the key and of `folds`; keys without rows are left out."""
        numbered = keys.join(self.groups, on=self.key[:-1], how="inner")
        at = self.chains.find(numbered.select(_GROUP, self.key[-1])).drop_nulls().unique()
        found = self.chains.keys[at]
        groups = self.groups[found[_GROUP]].drop(_GROUP)
        return groups.hstack([found[self.key[-1]], *(column[at] for column in self.folded)])

    def attach(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The columns of `folds` for each key, in its place; null for keys without rows."""
        numbered = keys.join(self.groups, on=self.key[:-1], how="left", maintain_order="left")
        at = self.chains.find(numbered.select(_GROUP, self.key[-1]))
        return pl.DataFrame([column.gather(at) for column in self.folded])

    @property
    def size(self) -> int:
        """Its size in memory, in bytes."""
        return (
            self.chains.size
            + int(self.groups.estimated_size())
            + sum(int(each.estimated_size()) for each in self.folded)
        )

    def _number(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with the numbers of their groups; new groups are numbered."""
        group = list(self.key[:-1])
        numbered = rows.join(self.groups, on=group, how="left")
        new = numbered.filter(pl.col(_GROUP).is_null()).select(group).unique()
        if not new.height:
            return numbered
        new = new.with_row_index(_GROUP, self.groups.height).select(self.groups.columns)
        self.groups = pl.concat([self.groups, new])
        return rows.join(self.groups, on=group, how="left")


def _fold(column: pl.Series, at: pl.Series, new: pl.Series, fold: Fold, height: int) -> pl.Series:
    """A column with new values folded in, one a place; and with room for a number of rows. It is changed in place."""
    if column.len() < height:
        column = column.extend_constant(fold.neutral(column), height - column.len()).rechunk()
    return column.scatter(at, pl.select(fold.combine(column[at], new)).to_series())
