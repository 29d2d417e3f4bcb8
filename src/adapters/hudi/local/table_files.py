"""The files of a table that a commit follows, and those that it writes."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
from attrs import frozen

from ...shared.local_files import translate_errors
from .slices import TIMELINE, Slice
from .stored_rows import RECORD_KEY

if TYPE_CHECKING:
    import polars as pl

    from ..spec import Definition

FIRST = "null"
"""What Hudi has as the previous commit of a new file group."""
_PROPERTIES = ".hoodie/hoodie.properties"
_WANTED = frozenset({"hoodie.table.version=9", "hoodie.timeline.layout.version=2"})
"""The properties of a table of the form that is written here."""
_COMMIT, _DELTA_COMMIT = "commit", "deltacommit"
_PLANNED = (".clustering.requested", ".replacecommit.requested")
_OWN = ("_hoodie_commit_time", "_hoodie_commit_seqno", RECORD_KEY, "_hoodie_partition_path", "_hoodie_file_name")


@frozen(eq=False)
class NewFile:
    """A data file of a commit.

    Args:
        folder: its partition; the empty name in a table without partitions.
        group: the id of its file group.
        name: its name.
        content: its bytes.
        previous: the instant of the file that it follows, or `FIRST`.
        rows, inserts, updates: the number of its rows, and of those that are new and that have changed.
        deletes: the number of deleted keys.
        kept: its rows as they are read.
    """

    folder: str
    group: str
    name: str
    content: bytes
    previous: str
    rows: int
    inserts: int
    updates: int
    deletes: int
    kept: pl.DataFrame

    @property
    def is_log(self) -> bool:
        """Whether it is a log file."""
        return self.name.startswith(".")


@frozen(eq=False)
class TableFiles:
    """What a commit must know of a table.

    Args:
        root: its folder.
        action: Hudi's name for commits to it.
        schema: its schema without Hudi's own columns, as Avro JSON.
        metadata: the Avro schema of the metadata of commits.
        groups: the file groups that are read in the partitions of the commit.
    """

    root: Path
    action: str
    schema: str
    metadata: dict[str, Any]
    groups: Sequence[Slice]

    @classmethod
    def find(
        cls, root: Path, definition: Definition, columns: Collection[str], groups: Sequence[Slice]
    ) -> TableFiles | None:
        """What is there now; None if only Hudi itself can write the table.

        Args:
            root: the folder of the table.
            definition: the table's definition.
            columns: its stored columns, without Hudi's own.
            groups: see above.
        """
        action = _DELTA_COMMIT if definition.is_logged else _COMMIT
        with translate_errors("read", root):
            properties = (root / _PROPERTIES).read_text(encoding="utf-8").splitlines()
            names = sorted(each.name for each in (root / TIMELINE).iterdir())
            commits = [name for name in names if "_" in name and name.endswith(f".{action}")]
            if not commits or not _WANTED.issubset(properties) or _is_clustering(names):
                return None
            with (root / TIMELINE / commits[-1]).open("rb") as file:
                read = fastavro.reader(file)
                metadata: Any = read.writer_schema
                newest: Any = next(read)
        schema = newest["extraMetadata"].get("schema", '{"fields": []}')
        if {each["name"] for each in json.loads(schema)["fields"]} != {*columns}:
            return None
        return cls(root, action, schema, metadata, groups)

    @property
    def inflight(self) -> str:
        """The ending of the name of a commit that has begun."""
        return ".inflight" if self.action == _COMMIT else f".{self.action}.inflight"

    @property
    def names(self) -> list[str]:
        """Its stored columns, with Hudi's own."""
        return [*_OWN, *(each["name"] for each in json.loads(self.schema)["fields"])]

    @property
    def full_schema(self) -> str:
        """Its schema with Hudi's own columns."""
        schema = json.loads(self.schema)
        own = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in _OWN]
        return json.dumps({**schema, "fields": [*own, *schema["fields"]]}, separators=(",", ":"))


def _is_clustering(names: Collection[str]) -> bool:
    """Whether a dead process has planned to put files together: if a commit changes them, Hudi drops the plan."""
    planned = {name.partition(".")[0] for name in names if name.endswith(_PLANNED)}
    return bool(planned - {name.partition("_")[0] for name in names if "_" in name})
