"""Versioned tables on Apache Hudi, for frames of Polars: the same tables as `..store`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl
from attrs import define, evolve, field

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
from ..errors import translate_errors
from ..read import TableVersion
from ..store import HudiStore, Table
from ..write import prepare_merged
from .exchange import to_polars, to_spark
from .read import LocalVersion


@work_in_own_session
@define(eq=False)
class LocalHudiStore(HudiStore):
    """Tables in Apache Hudi in a folder of this machine, for frames of Polars.

    Rows are read from the data files, without a job of Spark. Spark writes them, and does the upkeep. What the files
    have in a form of their own (nested columns) is read by Spark.
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
            prepared = self._prepare(used, change)
        if change.replaces or used.definition.folded:
            return super().commit(table, prepared, mark)
        return self._commit_marked(used, mark, lambda now, _sequence: prepare_merged(prepared, now))

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

    def _local(self, used: Table, found: TableVersion) -> LocalVersion:
        root = Path(used.folder.local or used.folder.path)
        return LocalVersion(found.spec, root, used.timeline, found.version, found.folded, self.cache, found.check)

    def _prepare(self, used: Table, change: Change) -> Change:
        """The same change as frames of Spark, with rows that need no merging any more."""
        spec = used.spec
        if change.overwrite is not None:
            schema = Schema.of(change.overwrite) if spec.whole else spec.schema
            return Change(overwrite=self._to_spark(conform(collect(change.overwrite), schema, spec.name), schema))
        if change.load is not None:
            schema = _placed(spec.schema, change.load)
            return Change(load=self._to_spark(conform(collect(change.load), schema, spec.name), schema))
        appended = None if change.append is None else conform(collect(change.append), spec.schema, spec.name)
        merged = None if change.merge is None else self._merged(used, change.merge)
        key = spec.schema.select(spec.key)
        keys = None if change.delete is None else conform(collect(change.delete), key, spec.name)
        given = [each for each in (appended, merged) if each is not None]
        rows = self._filled(pl.concat(given) if given else None, spec.schema)
        adds = used.definition.folded or merged is None or not merged.height
        return Change(append=rows if adds else None, merge=None if adds else rows, delete=self._filled(keys, key))

    def _filled(self, rows: pl.DataFrame | None, schema: Schema) -> nw.LazyFrame[Any] | None:
        """Rows as a frame of Spark; None if there are none."""
        return None if rows is None or not rows.height else self._to_spark(rows, schema)

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


def _placed(schema: Schema, rows: nw.LazyFrame[Any]) -> Schema:
    """The schema with `POSITION`, if the rows have it."""
    return schema.plus(column(POSITION, "bigint")) if POSITION in rows.collect_schema().names() else schema


def _has_nested(spec: TableSpec) -> bool:
    """Whether columns are stored in a form of their own."""
    return any(each.type.is_nested for each in spec.schema.columns)
