"""Versioned tables in Parquet folders: a commit writes anew the files that change, and a manifest that names all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from zlib import crc32

import narwhals as nw
import polars as pl
from attrs import define, evolve, field

from headwater.adapters.local_files import LocalFiles
from headwater.adapters.memory.schema import collected, lazy, polars_schema
from headwater.adapters.memory.sums import add_up
from headwater.domain.change import Between, Change, Matching
from headwater.domain.changelog.net import net_changes
from headwater.domain.errors import ConfigError, StoreUnavailable
from headwater.domain.holds import Holds
from headwater.domain.ports import Commit, Expiry, KeptStore, Version
from headwater.domain.reference import changed, matched, touched
from headwater.domain.schema import Schema
from headwater.domain.table import Ensured, TableSpec

from .manifests import Manifest, Manifests

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from headwater.domain.epoch import Mark
    from headwater.domain.lease import Lease
    from headwater.domain.ledger import Snapshot

_SMALL, _MANY = 100_000, 8  # rows of a file, and files of a partition, from which on compaction pays
_FILE, _PLACE = "_file", 8  # a file's name begins with so many letters for its partition


@define(eq=False)
class ParquetStore(KeptStore):
    """Tables in folders, ``pipeline.table`` at ``<root>/<pipeline>/<table>``."""

    root: Path = field(converter=Path)
    _specs: Ensured[TableSpec] = field(init=False, factory=Ensured)

    def ensure(self, spec: TableSpec, published: Snapshot | None = None) -> None:
        manifests = self._manifests(spec.name)
        if newest := next(manifests.all(), None):
            counted = newest.commit.version if published is None else published.version(spec.name)
            columns = spec.schema if counted is None else manifests.at(counted).spec(spec.name).schema
            newest.spec(spec.name).kept_as(columns).widened_by(spec)
        self._specs[spec.name] = spec

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        spec, files = self._specs[table], self._files(table, at)
        if spec.whole and at is not None:
            spec = self._manifests(table).at(at).spec(table)
        return matched(self._rows(spec, files), matching or Matching(), spec.schema)

    def size(self, table: str, at: Version) -> int:
        folder = self._manifests(table).folder
        return sum((folder / file).stat().st_size for file in self._files(table, at))

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        def applied(newest: Manifest) -> Manifest:
            spec, old = self._specs[table], {} if change.replaces else newest.files
            if spec.whole:
                schema = newest.spec(table).schema if change.overwrite is None else Schema.of(change.overwrite)
                spec = evolve(spec, schema=schema)
            hit = self._hit(change, spec, old)
            new = self._write(spec, changed(self._rows(spec, hit), change, spec, add_up))
            made = newest.next(mark, _without(old, hit) | new, sum(new.values()))
            return evolve(made, columns=spec.schema.ddl)

        self._specs[table].check_takes(change)
        return self._marked(table, mark, applied)

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        def restored(newest: Manifest) -> Manifest:
            made = newest.next(mark, self._files(table, to))
            return made if to is None else evolve(made, columns=self._manifests(table).at(to).columns)

        return self._marked(table, mark, restored)

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        spec, old, new = self._specs[table], self._files(table, after), self._files(table, until)
        if not spec.key:
            raise ConfigError(f"table {table} has no key, so its changes cannot be told; declare one")
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
        if not (chosen := [file for file in small if places[file[:_PLACE]] >= _MANY]):
            return None
        new = self._write(spec, self._rows(spec, chosen))
        return manifests.add(newest.next(None, _without(newest.files, chosen) | new))

    def expire(self, table: str, keep: Collection[Version], *, now: datetime, dry_run: bool) -> Expiry:
        manifests, holds = self._manifests(table), self._holds(table)
        told = [manifest.commit.version for manifest in manifests.all()][::-1]
        before, gone = holds.expired(), holds.give_up(told, keep, now, dry_run=dry_run)
        files = manifests.only_in(gone)
        if not dry_run:
            for file in files:
                file.unlink(missing_ok=True)
            holds.forget_ended(now)
        return Expiry(table, tuple(each for each in told if each in gone - before), len(files), sum(files.values()))

    def expired(self, table: str) -> Collection[Version]:
        return set(map(Version, self._holds(table).expired()))

    def pin(self, lease: Lease) -> None:
        self._manifests(lease.table).at(Version(lease.version))
        self._holds(lease.table).pin(lease)

    def unpin(self, table: str, lease_id: str) -> None:
        self._holds(table).unpin(lease_id)

    def leases(self, table: str) -> Sequence[Lease]:
        return self._holds(table).leases()

    def _marked(self, table: str, mark: Mark, prepare: Callable[[Manifest], Manifest]) -> Version:
        manifests, made = self._manifests(table), None
        while made is None:  # overtaken by upkeep, the work is done again; by a writer, the mark no longer follows
            newest = next(manifests.all(), Manifest.of(self._specs[table]))
            mark.check_follows(newest.sequence, table)
            made = manifests.add(prepare(newest))
        return made

    def _hit(self, change: Change, spec: TableSpec, files: Collection[str]) -> set[str]:
        """The files that hold keys which a change merges or deletes."""
        if not files or (keys := touched(change, spec)) is None:
            return set()
        wanted = collected(keys)
        # Between the keys' bounds, the statistics of Parquet let most files be passed over.
        within = {name: Between(wanted[name].min(), wanted[name].max()) for name in spec.key}
        rows = self._rows(spec, files, include_file_paths=_FILE)
        found = collected(matched(rows, Matching(lazy(wanted), within), spec.schema).select(_FILE).unique())
        return {Path(path).name for path in found[_FILE]}

    def _rows(self, spec: TableSpec, files: Collection[str], **options: Any) -> nw.LazyFrame[Any]:
        schema, folder = polars_schema(spec.schema), self._manifests(spec.name).folder
        if not files:
            return nw.from_native(pl.LazyFrame(schema=schema))
        paths = [folder / file for file in files]  # those from before a column was added do not have it
        return nw.from_native(pl.scan_parquet(paths, schema=schema, missing_columns="insert", **options))

    def _write(self, spec: TableSpec, rows: nw.LazyFrame[Any]) -> dict[str, int]:
        """Write rows, each partition to a file of its own; the files, and how many rows each has."""
        frame, by = collected(rows), spec.partition_by
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
            self._holds(table).check_readable(at)
        return {} if at is None else self._manifests(table).at(at).files

    def _manifests(self, table: str) -> Manifests:
        return Manifests(self.root.joinpath(*table.split(".")))

    def _holds(self, table: str) -> Holds:
        return Holds(str(self._manifests(table).folder), LocalFiles)


def _without(files: Mapping[str, int], others: Collection[str]) -> dict[str, int]:
    return {file: rows for file, rows in files.items() if file not in others}
