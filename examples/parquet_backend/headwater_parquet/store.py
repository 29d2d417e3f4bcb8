"""Versioned tables in Parquet folders: a commit writes the files that change anew, and a manifest of all of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import narwhals as nw
import polars as pl
from attrs import define, field

from headwater.adapters.memory.schema import polars_schema
from headwater.domain.change import Between, Matching
from headwater.domain.changelog.net import net_changes
from headwater.domain.errors import ConfigError, StoreUnavailable
from headwater.domain.ports import KeptStore
from headwater.domain.reference import changed, matched, touched

from .manifests import DataFile, Manifest, Manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headwater.domain.change import Change
    from headwater.domain.epoch import Mark
    from headwater.domain.ports import Commit, Version
    from headwater.domain.table import TableSpec

_SMALL, _MANY = 100_000, 8
_FILE = "_file"


@define(eq=False)
class ParquetStore(KeptStore):
    """Tables in folders, ``pipeline.table`` at ``<root>/<pipeline>/<table>``."""

    root: Path = field(converter=Path)
    _specs: dict[str, TableSpec] = field(init=False, factory=dict)

    def ensure(self, spec: TableSpec) -> None:
        manifests = self._manifests(spec.name)
        newest, wanted = manifests.newest(), Manifest.of(spec)
        if newest is None:
            manifests.add(wanted, after=-1)
        elif newest.spec(spec.name).widened_by(spec).columns:
            manifests.add(newest.upkept(columns=wanted.columns), after=newest.number)
        self._specs[spec.name] = spec

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        spec, files = self._spec(table), () if at is None else self._manifests(table).at(at).files
        return matched(self._rows(spec, files), matching or Matching(), spec.schema)

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        spec = self._spec(table)

        def applied(newest: Manifest) -> Manifest:
            old = () if change.overwrite is not None else newest.files
            hit = self._hit(change, spec, old)
            new = self._written(spec, changed(self._rows(spec, hit), change, spec))
            left = tuple(file for file in old if file not in hit)
            return newest.marked(mark, left + new, sum(file.rows for file in new))

        return self._marked(table, mark, applied)

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        files = () if to is None else self._manifests(table).at(to).files
        return self._marked(table, mark, lambda newest: newest.marked(mark, files, written=0))

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        spec, manifests = self._spec(table), self._manifests(table)
        if not spec.key:
            raise ConfigError(f"table {table} has no key, so its changes cannot be told; declare one")
        old, new = (() if at is None else manifests.at(at).files for at in (after, until))
        came, went = (tuple(file for file in mine if file not in theirs) for mine, theirs in ((new, old), (old, new)))
        return net_changes(self._rows(spec, went), self._rows(spec, came), spec.key)

    def versions(self, table: str) -> Iterator[Commit]:
        return (manifest.commit for manifest in self._manifests(table).all())

    def version(self, table: str, version: Version) -> Commit:
        return self._manifests(table).at(version).commit

    def compact(self, table: str) -> Version | None:
        spec, manifests = self._spec(table), self._manifests(table)
        newest = manifests.newest()
        small = [file for file in newest.files if file.rows < _SMALL] if newest else []
        places = Counter(file.place for file in small)
        chosen = tuple(file for file in small if places[file.place] >= _MANY)
        if newest is None or not chosen:
            return None
        left = tuple(file for file in newest.files if file not in chosen)
        files = left + self._written(spec, self._rows(spec, chosen))
        return manifests.add(newest.upkept(files=files), after=newest.number)

    def _marked(self, table: str, mark: Mark, prepare: Callable[[Manifest], Manifest]) -> Version:
        manifests = self._manifests(table)
        while True:  # overtaken by upkeep, the same work is done again; overtaken by a writer, the mark does not follow
            newest = manifests.newest() or Manifest.of(self._spec(table))
            mark.check_follows(newest.sequence, table)
            if made := manifests.add(prepare(newest), after=newest.number):
                return made

    def _hit(self, change: Change, spec: TableSpec, files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
        """The files that hold keys which a change merges or deletes."""
        if not files or (keys := touched(change, spec)) is None:
            return ()
        wanted: pl.DataFrame = keys.collect(backend="polars").to_native()
        # Between the keys' bounds, the statistics of Parquet let most files be passed over.
        within = {name: Between(wanted[name].min(), wanted[name].max()) for name in spec.key}
        rows = nw.from_native(self._scan(spec, files, include_file_paths=_FILE))
        found = matched(rows, Matching(nw.from_native(wanted.lazy()), within), spec.schema).select(_FILE).unique()
        names = {Path(path).name for path in found.collect(backend="polars")[_FILE]}
        return tuple(file for file in files if file.name in names)

    def _rows(self, spec: TableSpec, files: Iterable[DataFile]) -> nw.LazyFrame[Any]:
        files = tuple(files)
        rows = self._scan(spec, files) if files else pl.LazyFrame(schema=polars_schema(spec.schema))
        return nw.from_native(rows)

    def _scan(self, spec: TableSpec, files: Iterable[DataFile], **options: Any) -> pl.LazyFrame:
        paths = [self._folder(spec.name) / file.name for file in files]
        # Files from before a column was added do not have it.
        return pl.scan_parquet(paths, schema=polars_schema(spec.schema), missing_columns="insert", **options)

    def _written(self, spec: TableSpec, rows: nw.LazyFrame[Any]) -> tuple[DataFile, ...]:
        """Write rows, each partition to a file of its own."""
        frame: pl.DataFrame = rows.collect(backend="polars").to_native()
        parts = frame.partition_by(spec.partition_by, as_dict=True) if spec.partition_by else {(): frame}
        return tuple(self._write(spec, str(place), part) for place, part in parts.items() if part.height)

    def _write(self, spec: TableSpec, place: str, rows: pl.DataFrame) -> DataFile:
        file = DataFile(f"{uuid4().hex}.parquet", place, rows.height)
        try:
            rows.write_parquet(self._folder(spec.name) / file.name)
        except OSError as error:
            raise StoreUnavailable(f"table {spec.name}: cannot write to {self.root}: {error}; check it") from error
        return file

    def _spec(self, table: str) -> TableSpec:
        if table not in self._specs:
            raise ConfigError(f"there is no table {table} here yet; ensure it first")
        return self._specs[table]

    def _folder(self, table: str) -> Path:
        return self.root.joinpath(*table.split("."))

    def _manifests(self, table: str) -> Manifests:
        return Manifests(self._folder(table), table=table)
