"""Rows found by their keys, in memory: a lookup costs what it asks for, however many rows there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_GROUP, _HASH, _AT = "_group_number", "_hash", "_at"
_GROWTH = 4
"""A run has at least this many times the rows of the next one: there are few runs, and each row is moved rarely."""


class HashCollision(Exception):
    """Two keys have the same hash, so they cannot be in one index."""


@frozen(eq=False)
class KeyIndex:
    """Rows by key. Rows of the same key are folded, when they are found at the latest.

    Args:
        key: the key columns, two or more, without nulls.
        folds: by further column, the aggregate of the values of a key, such as `pl.Expr.sum`; it is associative.
        groups: the different values of all key columns but the last, numbered: they are few, and kept once.
        runs: the rows, sorted by a hash of their keys. A run has one row per hash.
    """

    key: Sequence[str]
    folds: Mapping[str, Callable[[pl.Expr], pl.Expr]]
    groups: pl.DataFrame
    runs: tuple[pl.DataFrame, ...]

    @classmethod
    def of(cls, rows: pl.DataFrame, key: Sequence[str], folds: Mapping[str, Callable[[pl.Expr], pl.Expr]]) -> KeyIndex:
        """The index of some rows; see `add`."""
        groups = rows.select(*key[:-1], pl.lit(0, pl.UInt32).alias(_GROUP)).head(0)
        return cls(key, folds, groups, ()).add(rows)

    def add(self, rows: pl.DataFrame) -> KeyIndex:
        """The index with more rows, of known keys and of new ones.

        Raises:
            HashCollision: two keys have the same hash.
        """
        if not rows.height and self.runs:
            return self
        groups = self._number_groups(rows)
        runs = [*self.runs, self._fold(self._hash(rows, groups).select(_HASH, _GROUP, self.key[-1], *self.folds))]
        while len(runs) > 1 and runs[-1].height * _GROWTH > runs[-2].height:
            runs[-2:] = [self._fold(runs[-2].merge_sorted(runs[-1], _HASH))]
        return KeyIndex(self.key, self.folds, groups, tuple(runs))

    def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """The rows of some keys, in the columns of the key and of `folds`; keys without rows are left out."""
        asked = self._hash(keys, self.groups)
        if (asked[_HASH] == asked[_HASH].shift(1)).any():
            asked = asked.unique([_HASH, _GROUP, self.key[-1]], maintain_order=True)
        found = pl.concat([self._find_in(run, asked) for run in self.runs])
        if len(self.runs) > 1:
            found = found.group_by(_AT).agg(self._folded)
        return asked[found[_AT]].select(self.key).hstack(found.select(*self.folds))

    @property
    def size(self) -> int:
        """Its size in memory, in bytes."""
        return sum(int(each.estimated_size()) for each in (self.groups, *self.runs))

    @property
    def _folded(self) -> list[pl.Expr]:
        return [fold(pl.col(name)) for name, fold in self.folds.items()]

    def _number_groups(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The groups, with those that are new."""
        group = list(self.key[:-1])
        new = rows.select(group).unique().join(self.groups, on=group, how="anti")
        return pl.concat([self.groups, new.with_row_index(_GROUP, self.groups.height).select(self.groups.columns)])

    def _hash(self, rows: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
        """The rows of known groups, with the number of the group, sorted by the hash of the key."""
        *group, name = self.key
        numbered = rows.join(groups, on=group, how="inner")
        return numbered.with_columns(numbered.select(_GROUP, name).hash_rows().alias(_HASH)).sort(_HASH)

    def _fold(self, run: pl.DataFrame) -> pl.DataFrame:
        """A run with rows of the same key folded."""
        again = (run[_HASH] == run[_HASH].shift(1)).fill_null(value=False)
        if not again.any():
            return run
        shared = again | again.shift(-1, fill_value=False)
        folded = run.filter(shared).group_by(_GROUP, self.key[-1], _HASH).agg(self._folded).sort(_HASH)
        if folded[_HASH].is_duplicated().any():
            raise HashCollision
        return run.filter(~shared).merge_sorted(folded.select(run.columns), _HASH)

    def _find_in(self, run: pl.DataFrame, asked: pl.DataFrame) -> pl.DataFrame:
        """The rows of one run, each with the number of its row in `asked`."""
        if not run.height:
            return run.select(pl.lit(0, pl.UInt32).alias(_AT), *self.folds)
        name = self.key[-1]
        there = run[run[_HASH].search_sorted(asked[_HASH]).clip(upper_bound=run.height - 1)]
        same = (there[_HASH] == asked[_HASH]) & (there[_GROUP] == asked[_GROUP]) & (there[name] == asked[name])
        return there.with_row_index(_AT).filter(same).select(_AT, *self.folds)
