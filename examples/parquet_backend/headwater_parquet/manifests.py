"""The versions of one table, as numbered manifest files: its columns, the files that hold its rows, and the mark."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from attrs import asdict, evolve, field, frozen

from headwater.domain.epoch import Mark
from headwater.domain.errors import VersionNotFound
from headwater.domain.ports import Commit, Version
from headwater.domain.schema import Schema
from headwater.domain.table import TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@frozen
class DataFile:
    """One Parquet file: its name, the partition its rows are of, and how many they are."""

    name: str
    place: str
    rows: int


@frozen
class Manifest:
    """One version. `sequence` is that of the newest marked commit so far; `mark` is None for upkeep."""

    columns: str
    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    number: int = -1
    committed_at: str = ""
    sequence: int = 0
    mark: str | None = None
    written: int = 0
    files: tuple[DataFile, ...] = ()

    @classmethod
    def of(cls, spec: TableSpec) -> Manifest:
        """A table before its first version."""
        return cls(spec.schema.ddl, spec.key, spec.partition_by)

    def spec(self, name: str) -> TableSpec:
        """What the table was declared to be; merge rules are not kept, as rows do not depend on them."""
        return TableSpec(name, Schema.parse(self.columns), self.key, partition_by=self.partition_by)

    def marked(self, mark: Mark, files: tuple[DataFile, ...], written: int) -> Manifest:
        """The next version, of an epoch."""
        return evolve(self, mark=mark.to_json(), sequence=mark.sequence, files=files, written=written)

    def upkept(self, **changed: object) -> Manifest:
        """The next version, of upkeep."""
        return evolve(self, mark=None, written=0, **changed)

    @property
    def commit(self) -> Commit:
        """The version as the port tells it."""
        mark = None if self.mark is None else Mark.from_json(self.mark)
        return Commit(Version(str(self.number)), datetime.fromisoformat(self.committed_at), mark, self.written)


@frozen
class Manifests:
    """The folder of a table: manifests, and the Parquet files they name."""

    folder: Path
    table: str = field(kw_only=True)

    def newest(self) -> Manifest | None:
        """The newest version; None if there is no such table."""
        return next(self.all(), None)

    def all(self) -> Iterator[Manifest]:
        """Every version, newest first."""
        names = sorted(self.folder.glob("*.json"), reverse=True) if self.folder.exists() else []
        return (self._read(path) for path in names)

    def at(self, version: Version) -> Manifest:
        """One version."""
        path = self._path(int(version)) if version.isdecimal() else None
        if path is None or not path.exists():
            raise VersionNotFound(f"table {self.table} has no version {version}; list its versions for those it has")
        return self._read(path)

    def add(self, manifest: Manifest, after: int) -> Version | None:
        """Make the version after another one; None if somebody else has made it first."""
        made = evolve(manifest, number=after + 1, committed_at=datetime.now(UTC).isoformat())
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{uuid4().hex}"
        with draft.open("w", encoding="utf-8") as file:
            json.dump(asdict(made), file)
            file.flush()
            os.fsync(file.fileno())
        try:
            # A link appears whole or not at all and fails where the name is taken, so of two writers one is told.
            os.link(draft, self._path(made.number))
        except FileExistsError:
            return None
        finally:
            draft.unlink()
        return Version(str(made.number))

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:012d}.json"

    def _read(self, path: Path) -> Manifest:
        raw = json.loads(path.read_text(encoding="utf-8"))
        lists = {name: tuple(raw[name]) for name in ("key", "partition_by")}
        return Manifest(**raw | lists | {"files": tuple(DataFile(**each) for each in raw["files"])})
