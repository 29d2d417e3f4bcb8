"""Versioned tables in Parquet folders: a commit rewrites the files that change and writes a manifest of all files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from zlib import crc32

import narwhals as nw
import polars as pl
from attrs import define, evolve, field

from headwater.adapters.polars.schema import collect, lazy, polars_schema
from headwater.adapters.polars.sums import add_up
from headwater.adapters.shared.leases import LeaseFiles
from headwater.adapters.shared.local_files import LocalFiles
from headwater.domain.errors import ConfigError, StoreUnavailable
from headwater.domain.ports import Commit, Expiry, KeptStore, Version
from headwater.domain.table.apply import apply_change, select_matching, touched_keys
from headwater.domain.table.change import Between, Change, Matching
from headwater.domain.table.net_changes import net_changes
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import Ensured, TableSpec

from .manifests import Manifest, Manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from headwater.domain.epoch.epoch import Mark
    from headwater.domain.table.lease import Lease

_SMALL, _MANY = 100_000, 8  # compact a partition that has 8 files or more with fewer than 100,000 rows each
_FILE, _PLACE = "_file", 8  # the first 8 characters of a file's name stand for its partition


@define(eq=False)
class ParquetStore(KeptStore):
    """Stores tables in folders: ``pipeline.table`` at ``<root>/<pipeline>/<table>``."""

    root: Path = field(converter=Path)
    _specs: Ensured[TableSpec] = field(init=False, factory=Ensured)

    def ensure(self, spec: TableSpec, published: Mapping[str, Version] | None = None) -> Schema:
        manifests, added = self._manifests(spec.name), Schema(())
        if newest := next(manifests.all(), None):
            counted = newest.commit.version if published is None else published.get(spec.name)
            columns = spec.schema if counted is None else manifests.at(counted).spec(spec.name).schema
            added = newest.spec(spec.name).with_schema(columns).added_columns(spec)
        self._specs[spec.name] = spec
        return added

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        spec, files = self._specs[table], self._files(table, at)
        if spec.whole and at is not None:
            spec = self._manifests(table).at(at).spec(table)
        return select_matching(self._rows(spec, files), matching or Matching(), spec.schema)

    def size(self, table: str, at: Version) -> int:
        folder = self._manifests(table).folder
        return sum((folder / file).stat().st_size for file in self._files(table, at))

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        def apply(newest: Manifest) -> Manifest:
            spec, old = self._specs[table], {} if change.replaces else newest.files
            if spec.whole:
                schema = newest.spec(table).schema if change.overwrite is None else Schema.of(change.overwrite)
                spec = evolve(spec, schema=schema)
            hit = self._hit(change, spec, old)
            new = self._write(spec, apply_change(self._rows(spec, hit), change, spec, add_up))
            following = newest.next(mark, _without(old, hit) | new, sum(new.values()))
            return evolve(following, columns=spec.schema.ddl)

        self._specs[table].check_takes(change)
        return self._commit(table, mark, apply)

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        def restore(newest: Manifest) -> Manifest:
            following = newest.next(mark, self._files(table, to))
            return following if to is None else evolve(following, columns=self._manifests(table).at(to).columns)

        return self._commit(table, mark, restore)

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        spec, old, new = self._specs[table], self._files(table, after), self._files(table, until)
        if not spec.key:
            raise ConfigError(f"table {table} has no key, so its changes cannot be computed; declare a key")
        return net_changes(self._rows(spec, _without(old, new)), self._rows(spec, _without(new, old)), spec.key)

    def versions(self, table: str) -> Iterator[Commit]:
        return (manifest.commit for manifest in self._manifests(table).all())

    def version(self, table: str, version: Version) -> Commit:
        return self._manifests(table).at(version).commit

    def compact(self, table: str) -> Version | None:
        spec, manifests = self._specs[table], self._manifests(table)
        newest = next(manifests.all(), Manifest.of(spec))
        small = [file for file, rows in newest.files.items() if rows < _SMALL]
        places = Counter(file[:_PLACE] for file in small)
        if not (old := [file for file in small if places[file[:_PLACE]] >= _MANY]):
            return None
        return manifests.add(newest.next(None, _without(newest.files, old) | self._write(spec, self._rows(spec, old))))

    def expire(self, table: str, keep: Collection[Version], *, now: datetime, dry_run: bool) -> Expiry:
        manifests, lease_files = self._manifests(table), self._lease_files(table)
        versions = [manifest.commit.version for manifest in manifests.all()][::-1]
        before, gone = lease_files.expired(), lease_files.record_expiry(versions, keep, now, dry_run=dry_run)
        files = manifests.only_in(gone)
        if not dry_run:
            for file in files:
                file.unlink(missing_ok=True)
        return Expiry(table, tuple(each for each in versions if each in gone - before), len(files), sum(files.values()))

    def expired(self, table: str) -> Collection[Version]:
        return set(map(Version, self._lease_files(table).expired()))

    def pin(self, lease: Lease) -> None:
        self._manifests(lease.table).at(Version(lease.version))
        self._lease_files(lease.table).pin(lease)

    def unpin(self, table: str, lease_id: str) -> None:
        self._lease_files(table).unpin(lease_id)

    def leases(self, table: str) -> Sequence[Lease]:
        return self._lease_files(table).leases()

    def _commit(self, table: str, mark: Mark, prepare: Callable[[Manifest], Manifest]) -> Version:
        manifests, version = self._manifests(table), None
        # If upkeep was faster, prepare again. If another writer was faster, the mark no longer follows: EpochConflict.
        while version is None:
            newest = next(manifests.all(), Manifest.of(self._specs[table]))
            mark.check_follows(newest.sequence, table)
            version = manifests.add(prepare(newest))
        return version

    def _hit(self, change: Change, spec: TableSpec, files: Collection[str]) -> set[str]:
        """The files that contain keys which a change merges or deletes."""
        if not files or (keys := touched_keys(change, spec)) is None:
            return set()
        wanted = collect(keys)
        # With the bounds of the keys, Parquet's statistics let Polars skip most files.
        within = {name: Between(wanted[name].min(), wanted[name].max()) for name in spec.key}
        rows = self._rows(spec, files, include_file_paths=_FILE)
        found = collect(select_matching(rows, Matching(lazy(wanted), within), spec.schema).select(_FILE).unique())
        return {Path(path).name for path in found[_FILE]}

    def _rows(self, spec: TableSpec, files: Collection[str], **options: Any) -> nw.LazyFrame[Any]:
        schema, folder = polars_schema(spec.schema), self._manifests(spec.name).folder
        if not files:
            return nw.from_native(pl.LazyFrame(schema=schema))
        paths = [folder / file for file in files]  # older files may lack columns that were added later
        return nw.from_native(pl.scan_parquet(paths, schema=schema, missing_columns="insert", **options))

    def _write(self, spec: TableSpec, rows: nw.LazyFrame[Any]) -> dict[str, int]:
        """Write one file for each partition; return the names of the files with their numbers of rows."""
        frame, by = collect(rows), spec.partition_by
        parts = frame.partition_by(by, as_dict=True) if by else {(): frame} if frame.height else {}
        files = {f"{crc32(repr(place).encode()):08x}-{uuid4().hex}.parquet": part for place, part in parts.items()}
        folder = self._manifests(spec.name).folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file, part in files.items():
                part.write_parquet(folder / file)
        except OSError as error:
            raise StoreUnavailable(f"table {spec.name}: cannot write to {self.root}: {error}; check it") from error
        return {file: part.height for file, part in files.items()}

    def _files(self, table: str, at: Version | None) -> Mapping[str, int]:
        if at is not None:
            self._lease_files(table).check_readable(at)
        return {} if at is None else self._manifests(table).at(at).files

    def _manifests(self, table: str) -> Manifests:
        return Manifests(self.root.joinpath(*table.split(".")))

    def _lease_files(self, table: str) -> LeaseFiles:
        return LeaseFiles(str(self._manifests(table).folder), LocalFiles)


def _without(files: Mapping[str, int], others: Collection[str]) -> dict[str, int]:
    return {file: rows for file, rows in files.items() if file not in others}
