"""How a table's spec is kept with the table: created, compared, widened.

In a file beside Hudi's own, which makes a table only with its first commit and keeps fewer types than there are.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from ...domain.errors import SchemaConflict
from ...domain.schema import Schema
from ...domain.table import Layout, TableSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ...domain.ledger import Snapshot
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
        added: columns that a later commit brought than the first, and the instant of that; empty while that commit is
            not known to have been made.
    """

    spec: TableSpec
    table_type: TableType
    buckets: int
    resized: bool = False
    folded: bool = False
    added: Mapping[str, str] = field(factory=dict)

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
                "added": dict(self.added),
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str, name: str) -> Definition:
        """Read `to_json` back, for the table of a name."""
        kept = json.loads(text)
        schema, layout = Schema.parse(kept["schema"]), Layout(kept["layout"])
        # Tables from before there were any do not say.
        whole, resized, folded = (kept.get(name, False) for name in ("whole", "resized", "folded"))
        spec = TableSpec(name, schema, kept["key"], partition_by=kept["partition_by"], layout=layout, whole=whole)
        return cls(spec, TableType(kept["table_type"]), kept["buckets"], resized, folded, kept.get("added", {}))

    def for_load(self, files: int) -> Definition:
        """As it is to be before a first load that will make about so many files."""
        if self.table_type is TableType.COPY_ON_WRITE or self.spec.partition_by:
            return self
        return evolve(self, buckets=files, resized=True)

    @property
    def unsure(self) -> list[str]:
        """The columns whose first commit is not known to have been made."""
        return [name for name, instant in self.added.items() if not instant]

    def without(self, names: Collection[str]) -> Definition:
        """The definition without some columns."""
        spec = self.spec.kept_as(self.spec.schema.without(names))
        return evolve(self, spec=spec, added={name: at for name, at in self.added.items() if name not in names})

    def committed(self, instant: str, names: Collection[str]) -> Definition:
        """The definition after a commit that has some columns."""
        return evolve(self, added={name: at or instant if name in names else at for name, at in self.added.items()})

    def taken_back(self, to: str | None) -> Definition:
        """The definition before a commit that brings an earlier version back: columns that came later do not count."""
        return evolve(self, added={name: at if to is not None and at <= to else "" for name, at in self.added.items()})

    def continued(self, wanted: Definition, published: Snapshot | None, *, begun: bool) -> Definition:
        """The definition that the table goes on with: columns that the wanted one lacks stay, and hold null.

        Args:
            wanted: what is declared.
            published: see `TableStore.ensure`.
            begun: whether the table has any commit.

        Raises:
            SchemaConflict: they differ by more than new columns.
        """
        self._check_kind(wanted)
        there, new = self.spec, wanted.spec
        if not begun and there.partition_by == new.partition_by:
            return evolve(self, spec=new, added={})
        counted = self._counted(new, published)
        there.kept_as(counted).widened_by(new)
        both = [name for name in new.schema.names if name in there.schema]
        if other := [name for name in both if there.schema[name] != new.schema[name]]:
            raise SchemaConflict(
                f"table {new.name} keeps column {other[0]!r} as {there.schema[other[0]].ddl}, from an epoch that was"
                f" not published, and cannot have it as {new.schema[other[0]].ddl}: give the column another name"
            )
        fresh = new.schema.without(there.schema.names)
        unsure = {name: "" for name in new.schema.names if name in fresh or name not in counted}
        schema = there.schema.plus(*fresh.columns)
        return evolve(self, spec=there.kept_as(schema), added={**self.added, **unsure})

    def _check_kind(self, wanted: Definition) -> None:
        for what, old, new in (
            ("laid out as", self.spec.layout.value, wanted.spec.layout.value),
            ("of type", self.table_type.value, wanted.table_type.value),
        ):
            if old != new:
                raise SchemaConflict(
                    f"table {self.spec.name} is {what} {old}, not {new}: give the pipeline another name, or remove the"
                    " old table"
                )

    def _counted(self, wanted: TableSpec, published: Snapshot | None) -> Schema:
        """The columns that a new spec must have."""
        if published is None:
            return self.spec.schema.without(self.unsure)
        if (version := published.version(wanted.name)) is None:
            return wanted.schema
        return self.spec.schema.without([name for name, at in self.added.items() if not at or at > version])

    def keep(self, folder: Folder) -> None:
        """Keep it in the table's folder; call it under the table's lock."""
        folder.texts.write(_FILE, self.to_json())


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
