"""A hash table of keys, made of columns: it looks up many keys at once."""

from __future__ import annotations

from functools import reduce
from operator import and_

import polars as pl
from attrs import define

_NONE = 0
"""In place of the number of a row, which is counted from 1 here: no row."""
_MOST_CHUNKS = 8
"""Rows are fetched from up to this number of chunks without a copy of them all."""
_FEWEST_SLOTS = 64


@define(eq=False)
class KeyChains:
    """Different keys, numbered in the order in which they came.

    Keys whose hashes share a slot are a chain: the slot has the number of the last one, and each key that of the one
    before it. Long columns are changed in place: a copy would cost what is there, not what comes.

    Args:
        keys: the keys.
        before: for each slot there is a place here; the first ones have, for each key, the number of the key before it.
        slots: for each slot, the number of the last key of its chain. Their count is a power of 2, and at least that of
            the keys.
    """

    keys: pl.DataFrame
    before: pl.Series
    slots: pl.Series

    @classmethod
    def of(cls, keys: pl.DataFrame, slots: int = 0) -> KeyChains:
        """Chains of different keys, with at least a number of slots."""
        count = 1 << (max(slots, keys.height, _FEWEST_SLOTS) - 1).bit_length()
        chains = cls(keys.clear(), _zeros(count), _zeros(count))
        chains._link(keys)
        return chains

    @property
    def capacity(self) -> int:
        """The number of keys that there is room for."""
        return self.slots.len()

    @property
    def size(self) -> int:
        """Its size in memory, in bytes."""
        return int(self.keys.estimated_size() + self.before.estimated_size() + self.slots.estimated_size())

    def find(self, keys: pl.DataFrame) -> pl.Series:
        """The row of each key, null for an unknown one."""
        found = pl.repeat(None, keys.height, dtype=pl.UInt32, eager=True)
        pairs = [(keys[name], self.keys[name]) for name in keys.columns]
        asked, numbers = _count_up(0, keys.height), self.slots[self._slots_of(keys)]
        # Column by column: each operation on a frame is planned as a query, which takes longer than a few keys do.
        while (is_linked := numbers != _NONE).any():
            asked, at = asked.filter(is_linked), numbers.filter(is_linked) - 1
            same = reduce(and_, (mine[asked] == there[at] for mine, there in pairs))
            found.scatter(asked.filter(same), at.filter(same))
            asked, numbers = asked.filter(~same), self.before[at.filter(~same)]
        return found

    def add(self, keys: pl.DataFrame) -> pl.Series:
        """The row of each key, after the unknown ones were added."""
        found = self.find(keys)
        unknown = found.is_null()
        if unknown.any():
            new = keys.filter(unknown)
            different, first = new.unique(), self.keys.height
            self._make_room(different.height)
            if different.height < new.height:
                self._link(different)
                found.scatter(unknown.arg_true(), self.find(new))
            else:
                self._link(new)
                found.scatter(unknown.arg_true(), _count_up(first, new.height))
        return found

    def _slots_of(self, keys: pl.DataFrame) -> pl.Series:
        return (keys.hash_rows() & (self.capacity - 1)).cast(pl.UInt32)

    def _make_room(self, more: int) -> None:
        if self.keys.height + more > self.capacity:
            grown = KeyChains.of(self.keys, self.keys.height + more)
            self.before, self.slots = grown.before, grown.slots

    def _link(self, new: pl.DataFrame) -> None:
        """Add keys that differ from those that are there, and from one another."""
        first = self.keys.height
        rows, slots = _count_up(first, new.height), self._slots_of(new)
        while rows.len():
            last = self.slots[slots]
            # Of several keys in a slot the last one is written; the others come after it.
            self.slots.scatter(slots, rows + 1)
            is_written = self.slots[slots] == rows + 1
            self.before.scatter(rows.filter(is_written), last.filter(is_written))
            rows, slots = rows.filter(~is_written), slots.filter(~is_written)
        self.keys = pl.concat([self.keys, new])
        if self.keys.n_chunks() > _MOST_CHUNKS:
            self.keys = self.keys.rechunk()


def _zeros(count: int) -> pl.Series:
    return pl.zeros(count, pl.UInt32, eager=True)


def _count_up(first: int, count: int) -> pl.Series:
    return pl.int_range(first, first + count, dtype=pl.UInt32, eager=True)
