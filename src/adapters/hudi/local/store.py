"""Versioned tables on Apache Hudi, for frames of Polars: the same tables as `..store`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl
from attrs import define, evolve, field, frozen

from ....domain.epoch.epoch import Mark
from ....domain.ports import Version
from ....domain.table.apply import merge_rows
from ....domain.table.change import POSITION, Change, Matching
from ....domain.table.net_changes import net_changes
from ....domain.table.schema import Schema, column
from ....domain.table.spec import TableSpec
from ...polars.file_cache import FileCache
from ...polars.schema import collect, conform, empty, lazy
from ...polars.sums import add_up
from ...spark import schema as spark
from ...spark.own_session import work_in_own_session
from ..errors import null_key, translate_errors
from ..names import KEY, PARTITION
from ..read import TableVersion
from ..store import HudiStore, Table, write_next
from ..timeline import MARK
from ..write import prepare_change, prepare_merged
from .commit import LocalCommit
from .exchange import to_polars, to_spark
from .new_files import Changes
from .read import LocalVersion, cache_key, is_large
from .stored_rows import (
    can_store,
    check_folders,
    has_plain_dates,
    stored_names,
    to_gone,
    to_stored,
    with_buckets,
)
from .table_files import TableFiles


@frozen(eq=False)
class _Given:
    """The rows and keys of a change.

    Args:
        rows: the rows to store.
        keys: the keys to delete.
        adds: whether all rows are new.
    """

    rows: pl.DataFrame
    keys: pl.DataFrame
    adds: bool


@work_in_own_session
@define(eq=False)
class LocalHudiStore(HudiStore):
    """Tables in Apache Hudi in a folder of this machine, for frames of Polars.

    Rows are read from the data files, and small commits made, without a job of Spark; see ADR 50 for what Spark still
    writes. It does the upkeep, and reads what the files have in a form of their own (nested columns).
    """

    cache: FileCache = field(factory=FileCache)

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        used = self._tables[table]
        with translate_errors(table, used.folder.path):
            found = used.at(at)
            if _has_nested(found.spec):
                return self._from_spark(super().read(table, at, self._for_spark(table, matching)))
            rows = self._local(used, found).content(matching)
            # What is looked up by keys is small, and often used more than once.
            return nw.from_native(rows) if matching is None else lazy(rows.collect())

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        used = self._tables[table]
        used.spec.check_takes(change)
        with translate_errors(table, used.folder.path):
            if change.replaces:
                return super().commit(table, self._replacing(used, change), mark)
            given = self._given(used, change)
            return self._commit_next(used, mark, lambda now: self._commit_given(used, given, mark, now))

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        used = self._tables[table]
        used.spec.check_compared()
        with translate_errors(table, used.folder.path):
            before, later = used.at(after), used.at(until)
            if _has_nested(used.spec):
                return self._from_spark(super().changes(table, after, until))
            folders = used.timeline.touched_folders(before.version, later.version)
            old, new = (self._local(used, each).content(folders=folders) for each in (before, later))
            return net_changes(lazy(old.collect()), lazy(new.collect()), used.spec.key)

    def read_optimized(self, table: str, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        return self._from_spark(super().read_optimized(table, self._for_spark(table, matching)))

    def _root(self, used: Table) -> Path:
        return Path(used.folder.local or used.folder.path)

    def _local(self, used: Table, found: TableVersion) -> LocalVersion:
        return LocalVersion(
            found.spec, self._root(used), used.timeline, found.version, found.folded, self.cache, found.check
        )

    def _replacing(self, used: Table, change: Change) -> Change:
        """A change that replaces all rows, as frames of Spark."""
        spec = used.spec
        if change.overwrite is not None:
            schema = Schema.of(change.overwrite) if spec.whole else spec.schema
            return Change(overwrite=self._to_spark(conform(collect(change.overwrite), schema, spec.name), schema))
        assert change.load is not None
        schema = _placed(spec.schema, change.load)
        return Change(load=self._to_spark(conform(collect(change.load), schema, spec.name), schema))

    def _given(self, used: Table, change: Change) -> _Given:
        """The rows and keys of a change, which need no merging any more."""
        spec = used.spec
        appended = None if change.append is None else conform(collect(change.append), spec.schema, spec.name)
        merged = None if change.merge is None else self._merged(used, change.merge)
        key = spec.schema.select(spec.key)
        keys = empty(key) if change.delete is None else conform(collect(change.delete), key, spec.name)
        parts = [each for each in (appended, merged) if each is not None]
        adds = merged is None or not merged.height
        return _Given(pl.concat([empty(spec.schema), *parts]), keys, adds=adds)

    def _commit_given(self, used: Table, given: _Given, mark: Mark, now: TableVersion) -> None:
        """Commit rows and keys: by this process if it can, else through Spark."""
        used.keep()
        made = self._local_commit(used, given, mark, now) if _takes_local_commits(used, given, now) else None
        if made is None:
            change = self._as_change(used, given)
            through_spark = prepare_change(change, now, mark.sequence) if now.folded else prepare_merged(change, now)
            write_next(used, mark, now, through_spark)
            return
        for file in made.write({MARK: mark.to_json()}):  # the next epoch reads what this one has written
            self.cache.put(cache_key(self._root(used) / file.folder / file.name, used.spec.schema), file.kept)

    def _local_commit(self, used: Table, given: _Given, mark: Mark, now: TableVersion) -> LocalCommit | None:
        """The commit as this process makes it; None if the table has a form or files for which it cannot."""
        spec, definition, local = used.spec, used.definition, self._local(used, now)
        sequence = mark.sequence if now.folded else None
        rows, gone = to_stored(given.rows, spec, definition.spec.schema, sequence), to_gone(given.keys, spec)
        if spec.key and (rows[KEY].null_count() or gone[KEY].null_count()):
            raise null_key(spec.name)
        check_folders(rows, spec)
        groups = local.groups({*rows[PARTITION], *gone[PARTITION]})
        files = TableFiles.find(self._root(used), definition, stored_names(rows, spec), groups)
        if files is None:
            return None
        if definition.is_logged:
            rows, gone = (with_buckets(each, definition.buckets) for each in (rows, gone))
            return LocalCommit(files, Changes(files, spec.schema, rows, gone).log_files)
        adds = not spec.key or (given.adds and not gone.height)
        if not adds and any(map(is_large, groups)):
            return None
        changes = Changes(files, spec.schema, rows, gone)
        return LocalCommit(files, partial(changes.base_files, record_keys=None if adds else local.record_keys))

    def _as_change(self, used: Table, given: _Given) -> Change:
        """The change as frames of Spark."""
        schema = used.spec.schema
        rows, keys = self._filled(given.rows, schema), self._filled(given.keys, schema.select(used.spec.key))
        adds = used.definition.folded or given.adds
        return Change(append=rows if adds else None, merge=None if adds else rows, delete=keys)

    def _filled(self, rows: pl.DataFrame, schema: Schema) -> nw.LazyFrame[Any] | None:
        """Rows as a frame of Spark; None if there are none."""
        return self._to_spark(rows, schema) if rows.height else None

    def _merged(self, used: Table, incoming: nw.LazyFrame[Any]) -> pl.DataFrame:
        """Incoming rows, folded with each other and with the stored rows of their keys, if a rule needs these."""
        spec = used.spec
        newest = used.checked(used.timeline.newest())
        alone = newest.folded or newest.version is None or spec.newest_counts
        rows = lazy(conform(collect(incoming), _placed(spec.schema, incoming), spec.name))
        there = empty(spec.schema) if alone else self._stored(used, newest, rows.select(*spec.key))
        return collect(merge_rows(lazy(there), rows, spec, add_up))

    def _stored(self, used: Table, newest: TableVersion, keys: nw.LazyFrame[Any]) -> pl.DataFrame:
        if _has_nested(used.spec):
            wanted = self._for_spark(used.spec.name, Matching(keys))
            return to_polars(newest.content(wanted), used.spec.schema)
        return self._local(used, newest).content(Matching(keys)).collect()

    def _to_spark(self, rows: pl.DataFrame, schema: Schema) -> nw.LazyFrame[Any]:
        return spark.lazy(to_spark(self.session, rows, schema))

    def _from_spark(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return lazy(to_polars(frame.to_native(), Schema.of(frame)))

    def _for_spark(self, table: str, matching: Matching | None) -> Matching | None:
        """The same conditions, with keys as a frame of Spark."""
        if matching is None or matching.keys is None:
            return matching
        schema = Schema.of(matching.keys)
        return evolve(matching, keys=self._to_spark(conform(collect(matching.keys), schema, table), schema))


def _takes_local_commits(used: Table, given: _Given, now: TableVersion) -> bool:
    """Whether a commit of rows and keys may be made by this process, as far as the table's definition says."""
    definition = used.definition
    if now.version is None or definition.unconfirmed or definition.resized or not can_store(definition.spec):
        return False
    if now.folded and given.keys.height:  # the stored rows of such a key are looked up
        return False
    return all(has_plain_dates(each, used.spec) for each in (given.rows, given.keys))


def _placed(schema: Schema, rows: nw.LazyFrame[Any]) -> Schema:
    """The schema with `POSITION`, if the rows have it."""
    return schema.plus(column(POSITION, "bigint")) if POSITION in rows.collect_schema().names() else schema


def _has_nested(spec: TableSpec) -> bool:
    """Whether columns are stored in a form of their own."""
    return any(each.type.is_nested for each in spec.schema.columns)
