"""The versions of one table, as numbered manifest files. Each names the columns, the data files and the mark."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from attrs import asdict, evolve, field, frozen

from headwater.adapters.shared.local_files import create
from headwater.domain.epoch.epoch import Mark
from headwater.domain.errors import VersionNotFound
from headwater.domain.ports import Commit, Version
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path


@frozen
class Manifest:
    """One version: its data files with their numbers of rows; `sequence` is that of the newest mark so far."""

    columns: str
    key: tuple[str, ...] = field(converter=tuple[str, ...])
    partition_by: tuple[str, ...] = field(converter=tuple[str, ...])
    whole: bool = False
    files: Mapping[str, int] = field(factory=dict)
    sequence: int = 0
    mark: str | None = None
    written: int = 0
    number: int = -1
    committed_at: str = ""

    @classmethod
    def of(cls, spec: TableSpec) -> Manifest:
        """A table before its first version. Merge rules are not stored, because stored rows do not depend on them."""
        return cls(spec.schema.ddl, spec.key, spec.partition_by, spec.whole)

    def spec(self, name: str) -> TableSpec:
        """The spec with which the table was declared, without merge rules."""
        schema = Schema.parse(self.columns)
        return TableSpec(name, schema, self.key, partition_by=self.partition_by, whole=self.whole)

    def next(self, mark: Mark | None, files: Mapping[str, int], written: int = 0) -> Manifest:
        """The manifest of the next version; `written` is the number of rows that its commit wrote."""
        text, sequence = (mark.to_json(), mark.sequence) if mark else (None, self.sequence)
        return evolve(self, number=self.number + 1, files=files, mark=text, sequence=sequence, written=written)

    @property
    def commit(self) -> Commit:
        """The version as a `Commit` of the port."""
        mark = None if self.mark is None else Mark.from_json(self.mark)
        return Commit(Version(str(self.number)), datetime.fromisoformat(self.committed_at), mark, self.written)


@frozen
class Manifests:
    """The folder of a table, with its manifests and the Parquet files that they name."""

    folder: Path

    def all(self) -> Iterator[Manifest]:
        """All versions, newest first; empty if the table does not exist."""
        return map(_read, sorted(self.folder.glob("*.json"), reverse=True))

    def at(self, version: Version) -> Manifest:
        """One version.

        Raises:
            VersionNotFound: there is no such version.
        """
        path = self._path(int(version) if version.isdecimal() else -1)
        if not path.exists():
            raise VersionNotFound(f"{self.folder} has no version {version}; list its versions to see those it has")
        return _read(path)

    def add(self, manifest: Manifest) -> Version | None:
        """Add a version; None if another process has already added a version with this number."""
        stamped = evolve(manifest, committed_at=datetime.now(UTC).isoformat())
        created = create(self._path(manifest.number), json.dumps(asdict(stamped)))
        return Version(str(manifest.number)) if created else None

    def only_in(self, versions: Collection[str]) -> dict[Path, int]:
        """The existing data files that belong to these versions only, and their sizes in bytes."""
        needed = {file for each in self.all() if str(each.number) not in versions for file in each.files}
        unneeded = {file for each in versions for file in self.at(Version(each)).files}.difference(needed)
        return {path: path.stat().st_size for path in map(self.folder.joinpath, unneeded) if path.exists()}

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:012d}.json"


def _read(path: Path) -> Manifest:
    return Manifest(**json.loads(path.read_text(encoding="utf-8")))
