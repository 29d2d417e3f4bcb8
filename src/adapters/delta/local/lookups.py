"""Lookups by key in tables of numbers and times, answered from memory.

The rows of a partition that lookups ask for are indexed when they are asked for again. The index follows the table's
log: it takes in the rows of each commit since. So it has the rows of exactly one version, whoever made the commits. A
commit costs what the partitions that it touches cost, however many are indexed.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import polars as pl
from attrs import define, evolve, field, frozen

from ....domain.errors import HeadwaterError, VersionExpired
from ....domain.table.apply import cast_columns, select_matching
from ....domain.table.change import Matching
from ....domain.table.merge import Max, Sum
from ....domain.table.schema import FLOATS, INTEGERS, TIMES
from ....domain.table.spec import TableSpec
from ....domain.table.sums import counts
from ...polars.key_index import Fold, KeyIndex
from ...polars.match import bounds_of
from ...polars.schema import collect, empty, lazy, polars_schema
from ..actions import DataFile, PartitionValues, by_partition
from ..followed_log import BEFORE_ALL
from ..prune import prune
from ..stored import SEQUENCE, has_log

if TYPE_CHECKING:
    from .read import LocalVersion

_MEBIBYTE = 1024 * 1024
_log = logging.getLogger(__name__)
thread = ThreadPoolExecutor(1, "headwater-indexes")
"""Brings indexes up to date."""
_FEW = 8
"""Up to this number of stored rows for each key asked for, the first lookup makes the index: it costs little more."""
_MOST_PLACES = 64
"""Keys in more partitions are read."""
_MOST_BEHIND = 512
"""After more commits that it has not taken in, an index is built again when it is asked for."""
_MOST_ENTRIES = 10_000
"""Of partitions that were asked for, with an index or without; the least recently used one is dropped first."""
_ROW = "_headwater_row"
_OF_ONE_SIZE = INTEGERS | FLOATS | TIMES

_Question: TypeAlias = "Callable[[KeyIndex, pl.DataFrame], pl.DataFrame]"
"""What is asked of an index, for some keys."""
_Name: TypeAlias = "tuple[str, PartitionValues, tuple[str, ...], tuple[str, ...], tuple[tuple[str, Any], ...]]"
"""Names an index: the path of its table, its partition, the columns of its keys and of its counts, the literals."""


class _NoPlace(Exception):
    """Rows are deleted, or counts are null: an index has no place for that."""


@frozen(eq=False)
class _Lookup:
    """A read by keys.

    Args:
        spec: the table.
        keys: the keys, in some of the key columns.
        literals: the value of each other key column.
        folds: what several rows of a key come to, by column.
    """

    spec: TableSpec
    keys: pl.DataFrame
    literals: Mapping[str, Any]
    folds: Mapping[str, Fold]

    @classmethod
    def of(cls, matching: Matching, spec: TableSpec) -> _Lookup | None:
        """What a read looks up; None if it is not by whole keys, or of a table that is not indexed."""
        if matching.keys is None or (folds := _folds(spec)) is None:
            return None
        named, within = matching.keys.collect_schema().names(), dict(matching.within)
        # An index keeps the values of all columns but the last once: those of the partition are its own.
        key = sorted((name for name in spec.key if name in named), key=lambda name: name not in spec.partition_by)
        others = {name: within.pop(name, ()) for name in spec.key if name not in named}
        literals = {name: found[0] for name, found in others.items() if isinstance(found, tuple) and len(found) == 1}
        whole = len(key) == len(named) > 1 and literals.keys() == others.keys() and None not in literals.values()
        hashed = all(spec.schema[name].name not in FLOATS for name in key)  # 0.0 and -0.0 have different hashes
        if not whole or not hashed or not within.keys() <= set(key):
            return None
        schema = spec.schema.select(key)
        keys = collect(select_matching(cast_columns(matching.keys, schema), Matching(None, within), schema))
        lookup = cls(spec, keys, literals, folds)
        return lookup if not lookup.places or keys.n_unique(lookup.places) <= _MOST_PLACES else None

    @property
    def places(self) -> list[str]:
        """The key columns that tell the partition of a key."""
        return [name for name in self.spec.partition_by if name in self.keys.columns]

    def name(self, path: str, place: PartitionValues) -> _Name:
        """The name of the index that it needs of a partition."""
        return path, place, tuple(self.keys.columns), tuple(self.folds), tuple(self.literals.items())

    def split(self, stored: LocalVersion) -> Iterator[tuple[_Part, PartitionValues, list[DataFile]]]:
        """The keys of each partition, with all files that they may be in."""
        literals = {name: (value,) for name, value in self.literals.items() if name in self.spec.partition_by}
        numbered = self.keys.with_row_index(_ROW)
        for keys in numbered.partition_by(self.places) if self.places else [numbered]:
            within = literals | {name: (keys[name][0],) for name in self.places if keys.height}
            part = _Part(evolve(self, keys=keys.drop(_ROW)), keys[_ROW])
            for place, files in by_partition(prune(stored.files, within, self.spec.schema)).items():
                yield part, place, files

    def is_outside(self, files: Sequence[DataFile]) -> bool:
        """Whether the files have none of the keys, by the lowest and highest values of their columns."""
        return not prune(files, bounds_of(Matching(lazy(self.keys)), self.spec.schema), self.spec.schema)

    def scan(self, stored: LocalVersion, files: Sequence[DataFile]) -> nw.LazyFrame[Any]:
        """The rows of files that such lookups ask for, to be read."""
        if any(file.may_delete for file in files):
            raise _NoPlace
        literals = Matching(None, {name: (value,) for name, value in self.literals.items()})
        stored_rows: nw.LazyFrame[Any] = nw.from_native(stored.stored(files))
        wanted = select_matching(stored_rows, literals, self.spec.schema)
        if Fold.LAST in self.folds.values():
            wanted = wanted.sort(SEQUENCE)
        return wanted.select(*self.keys.columns, *self.folds)

    def read(self, stored: LocalVersion, files: Sequence[DataFile]) -> pl.DataFrame:
        """The rows of files that such lookups ask for."""
        return _without_nulls(collect(self.scan(stored, files)), self.folds)

    def shape(self, found: pl.DataFrame) -> pl.DataFrame:
        """Rows of an index in the columns of the table."""
        schema = polars_schema(self.spec.schema)
        literals = (pl.lit(value, schema[name]).alias(name) for name, value in self.literals.items())
        return found.with_columns(*literals).select(pl.col(name).cast(dtype) for name, dtype in schema.items())


@frozen(eq=False)
class _Part:
    """The keys of one partition, and their places among all keys."""

    lookup: _Lookup
    at: pl.Series


@define(eq=False)
class _Entry:
    """The rows of a partition that lookups ask for: their index, once they were asked for again.

    Args:
        index: the index; None before it is made.
        version: the version of the table whose rows it has.
        lookup: what it was made for.
        size: the size of the index in bytes.
        asked: whether the rows were asked for.
        fails: whether they cannot be indexed.
        lock: held while the index is used: it changes.
    """

    index: KeyIndex | None = None
    version: int = BEFORE_ALL
    lookup: _Lookup | None = None
    size: int = 0
    asked: bool = False
    fails: bool = False
    lock: Lock = field(init=False, factory=Lock)

    def ask(
        self, lookup: _Lookup, stored: LocalVersion, files: Sequence[DataFile], question: _Question
    ) -> pl.DataFrame | None:
        """What a question to the index of a version is answered with; None if its rows have to be read."""
        with self.lock:
            if not self.fails and self.version <= stored.version:
                added = None if self.index is None else _added_since(self.version, stored, files[0].place)
                with self._changing(stored.version) as index:
                    if index and added is not None:
                        if added:  # most commits touch other partitions
                            index.add(lookup.read(stored, added))
                        self.index = index
                    else:
                        self.index = self._make(index, lookup, stored, files)
            return question(self.index, lookup.keys) if self.index and self.version == stored.version else None

    def following(self, stored: LocalVersion, place: PartitionValues) -> Callable[[], None] | None:
        """What brings the index to a version, which another thread may do; None if the next lookup has to do it.

        The log is read here, so that its errors are met here.
        """
        before, lookup = self.version, self.lookup
        if self.index is None or lookup is None or before >= stored.version:
            return None
        if (added := _added_since(before, stored, place)) is None:
            return None
        return partial(self._follow, lookup, before, stored.version, lookup.scan(stored, added))

    def _follow(self, lookup: _Lookup, before: int, version: int, added: nw.LazyFrame[Any]) -> None:
        with self.lock:
            if self.version == before:
                with self._changing(version) as index:
                    if index:
                        index.add(_without_nulls(collect(added), lookup.folds))
                    self.index = index

    def fail(self) -> None:
        """Drop the index for good."""
        with self.lock:
            self.index, self.version, self.size, self.fails = None, BEFORE_ALL, 0, True

    @contextmanager
    def _changing(self, version: int) -> Iterator[KeyIndex | None]:
        """Hand out the index, to be put back at a version: an error on the way leaves none that is half changed."""
        index, self.index = self.index, None
        try:
            yield index
        except _NoPlace:
            self.fails = True
        finally:
            self._settle(version)

    def _settle(self, version: int) -> None:
        self.version = BEFORE_ALL if self.index is None else version
        self.size = 0 if self.index is None else self.index.size

    def _make(
        self, index: KeyIndex | None, lookup: _Lookup, stored: LocalVersion, files: Sequence[DataFile]
    ) -> KeyIndex | None:
        """An index of all files, if it is worth it; `index` is the one before."""
        again, self.asked = self.asked and index is None, True
        if not again and sum(file.rows or 0 for file in files) > _FEW * lookup.keys.height:
            return None
        self.lookup = evolve(lookup, keys=lookup.keys.clear())
        return KeyIndex.of(lookup.read(stored, files), lookup.keys.columns, lookup.folds)


def _without_nulls(rows: pl.DataFrame, folds: Mapping[str, Fold]) -> pl.DataFrame:
    """The same rows, whose counts are not null."""
    if any(rows[name].null_count() for name, fold in folds.items() if fold is not Fold.LAST):
        raise _NoPlace
    return rows


def _added_since(version: int, stored: LocalVersion, place: PartitionValues) -> list[DataFile] | None:
    """The files that were added to a partition since; None if rows were removed, or the commits are gone or many."""
    if stored.version - version > _MOST_BEHIND:
        return None
    try:
        commits = [stored.log.commit(number) for number in range(version + 1, stored.version + 1)]
    except VersionExpired:
        return None
    if any(commit.rewrites for commit in commits):
        return None
    added = (file for commit in commits for file in commit.added if file.action.get("dataChange", True))
    return [file for file in added if file.place == place]


@define(eq=False)
class Lookups:
    """The indexes of the tables of a store, up to a number of bytes; the least recently used one is dropped first.

    Several threads may use it.
    """

    limit: int = 256 * _MEBIBYTE
    _lock: Lock = field(init=False, factory=Lock)
    _entries: OrderedDict[_Name, _Entry] = field(init=False, factory=OrderedDict)

    def find(self, stored: LocalVersion, matching: Matching) -> pl.DataFrame | None:
        """The matching rows of a version; None if they have to be read."""
        if (lookup := _Lookup.of(matching, stored.spec)) is None:
            return None
        if (found := self._ask(lookup, stored, KeyIndex.find)) is None:
            return None
        return pl.concat([empty(stored.spec.schema), *(lookup.shape(rows) for _, rows in found)])

    def attach(
        self, stored: LocalVersion, rows: pl.DataFrame, matching: Matching, columns: Mapping[str, str]
    ) -> pl.DataFrame | None:
        """See `TableReader.look_up`; None if the matching rows have to be read."""
        assert matching.keys is not None
        keys = lazy(rows.select(matching.keys.collect_schema().names()))
        lookup = _Lookup.of(evolve(matching, keys=keys), stored.spec)
        if lookup is None or not lookup.folds.keys() >= set(columns.values()) or lookup.keys.height < rows.height:
            return None
        if (found := self._ask(lookup, stored, KeyIndex.attach)) is None:
            return None
        schema = polars_schema(stored.spec.schema)
        return rows.with_columns(
            _put_together(rows.height, schema[name], [(at, answer[name]) for at, answer in found]).alias(into)
            for into, name in columns.items()
        )

    def _ask(
        self, lookup: _Lookup, stored: LocalVersion, question: _Question
    ) -> list[tuple[pl.Series, pl.DataFrame]] | None:
        """What the index of each partition that may have keys answers, with their places; None if one cannot."""
        answers = []
        try:
            for part, place, files in lookup.split(stored):
                if part.lookup.is_outside(files):  # ids that grow need no index
                    continue
                entry = self._use(lookup.name(stored.log.path, place))
                answer = entry.ask(part.lookup, stored, files, question)
                if entry.size > self.limit:
                    entry.fail()
                if answer is None:
                    return None
                answers.append((part.at, answer))
            return answers
        finally:
            self._drop_most()

    def follow(self, stored: LocalVersion) -> None:
        """Bring the indexes that a table's last commit touches to its version, before they are asked for it.

        Another thread does it. The other indexes follow when they are asked.
        """
        touched = {file.place for file in stored.log.commit(stored.version).added}
        with self._lock:
            entries = [
                (place, entry)
                for (path, place, *_), entry in self._entries.items()
                if place in touched and path == stored.log.path
            ]
        for place, entry in entries:
            try:
                work = entry.following(stored, place)
            except (HeadwaterError, _NoPlace) as error:  # the commit is made; the next lookup meets the error again
                _tell(error)
                continue
            if work:
                thread.submit(work).add_done_callback(lambda done: _tell(done.exception()))

    def _use(self, name: _Name) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault(name, _Entry())
            self._entries.move_to_end(name)
            return entry

    def _drop_most(self) -> None:
        """Drop what is beyond the limits."""
        with self._lock:
            size = sum(each.size for each in self._entries.values())
            while self._entries and (size > self.limit or len(self._entries) > _MOST_ENTRIES):
                size -= self._entries.popitem(last=False)[1].size


def _put_together(height: int, dtype: pl.DataType, parts: Sequence[tuple[pl.Series, pl.Series]]) -> pl.Series:
    """A column of the values of parts, each in its place; null in all other places."""
    if len(parts) == 1 and parts[0][0].len() == height:
        return parts[0][1].cast(dtype)
    column = pl.repeat(None, height, dtype=dtype, eager=True)
    for at, values in parts:
        known = values.is_not_null()
        column.scatter(at.filter(known), values.filter(known).cast(dtype))
    return column


def _tell(error: BaseException | None) -> None:
    """Tell an error; without the index the rows are read, which meets the error again and raises it."""
    if error:
        _log.debug("an index did not follow its table: %s", error)


def _folds(spec: TableSpec) -> Mapping[str, Fold] | None:
    """What several rows of a key come to, by column; None if a table is not indexed.

    Indexed are counts, whose sums always fit, and tables of which the newest row counts, if all values have one size.
    """
    if not has_log(spec) or spec.groups:
        return None
    if spec.newest_counts:
        sized = all(spec.schema[name].name in _OF_ONE_SIZE for name in spec.column_rules)
        return dict.fromkeys(spec.column_rules, Fold.LAST) if sized and spec.column_rules else None
    folds = {}
    for name, rule in spec.column_rules.items():
        if spec.schema[name].name not in INTEGERS or not isinstance(rule, Sum | Max) or not counts(name):
            return None
        folds[name] = Fold.SUM if isinstance(rule, Sum) else Fold.MAX
    return folds
