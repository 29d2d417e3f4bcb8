"""How a table's spec is kept with the table: created, compared, widened.

In a file beside Hudi's own, which makes a table only with its first commit and keeps fewer types than there are.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from ...domain.errors import SchemaConflict
from ...domain.schema import Schema
from ...domain.table import Layout, TableSpec
from .lock import locked

if TYPE_CHECKING:
    from .place import Folder

_FILE = ".headwater.json"


class TableType(Enum):
    """Hudi's two ways to keep a table."""

    MERGE_ON_READ = "MERGE_ON_READ"
    """Changes go to logs beside the base files, and are merged when they are read: the cheapest epoch."""
    COPY_ON_WRITE = "COPY_ON_WRITE"
    """The files that change are written again: the cheapest read."""


@frozen
class Definition:
    """What a table is kept as.

    Args:
        spec: its spec, rules apart.
        table_type: of its keyed rows.
        buckets: into which the rows of a partition are shared out by key, at first.
        resized: whether compaction puts buckets together and parts them as their sizes ask for (Hudi's consistent
            hashing); else they stay as many as they are.
        folded: whether rows of a key are folded when they are read: a commit then stores its own rows and reads none.
    """

    spec: TableSpec
    table_type: TableType
    buckets: int
    resized: bool = False
    folded: bool = False

    @property
    def hudi_name(self) -> str:
        """The table's name as Hudi takes it."""
        return self.spec.name.replace(".", "_").replace("-", "_")

    def to_json(self) -> str:
        """The definition as JSON."""
        spec = self.spec
        return json.dumps(
            {
                "schema": spec.schema.ddl,
                "key": spec.key,
                "partition_by": spec.partition_by,
                "layout": spec.layout.value,
                "table_type": self.table_type.value,
                "buckets": self.buckets,
                "resized": self.resized,
                "folded": self.folded,
                "whole": spec.whole,
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str, name: str) -> Definition:
        """Read `to_json` back, for the table of a name."""
        kept = json.loads(text)
        schema, layout = Schema.parse(kept["schema"]), Layout(kept["layout"])
        # Tables from before there were any do not say.
        whole, *flags = (kept.get(name, False) for name in ("whole", "resized", "folded"))
        spec = TableSpec(name, schema, kept["key"], partition_by=kept["partition_by"], layout=layout, whole=whole)
        return cls(spec, TableType(kept["table_type"]), kept["buckets"], *flags)

    def for_load(self, files: int) -> Definition:
        """As it is to be before a first load that will make about so many files."""
        if self.table_type is TableType.COPY_ON_WRITE or self.spec.partition_by:
            return self
        return evolve(self, buckets=files, resized=True)

    def keep(self, folder: Folder) -> None:
        """Keep it in the table's folder; call it under the table's lock."""
        folder.texts.write(_FILE, self.to_json())


def ensured(folder: Folder, wanted: Definition) -> Definition:
    """The definition a table has now: the one wanted, where there was none, or the kept one, widened.

    Raises:
        SchemaConflict: the stored table differs by more than new columns, or was not made by Headwater.
    """
    now, is_kept = _now(folder, wanted)
    if not is_kept:  # else there is no need to wait for a writer
        with locked(folder):
            now, is_kept = _now(folder, wanted)
            if not is_kept:
                now.keep(folder)
    return now


def _now(folder: Folder, wanted: Definition) -> tuple[Definition, bool]:
    """The definition that a table is to have, and whether it is the one that is kept."""
    there = kept(folder, wanted.spec.name)
    now = wanted if there is None else _widened(there, wanted)
    return now, now == there


def kept(folder: Folder, name: str) -> Definition | None:
    """The definition that a table is kept with; None if there is no such table.

    Raises:
        SchemaConflict: the stored table was not made by Headwater.
    """
    if folder.holds(_FILE):
        return Definition.from_json(folder.texts.text(_FILE), name)
    if folder.holds(".hoodie"):
        raise SchemaConflict(
            f"table {name}: a Hudi table stands in its place that Headwater did not make; move it away"
        )
    return None


def _widened(kept: Definition, wanted: Definition) -> Definition:
    for what, old, new in (
        ("laid out as", kept.spec.layout.value, wanted.spec.layout.value),
        ("of type", kept.table_type.value, wanted.table_type.value),
    ):
        if old != new:
            raise SchemaConflict(
                f"table {kept.spec.name} is {what} {old}, not {new}: give the pipeline another name, or remove the old"
                " table"
            )
    added = kept.spec.widened_by(wanted.spec)
    return evolve(kept, spec=evolve(kept.spec, schema=kept.spec.schema.plus(*added.columns)))
