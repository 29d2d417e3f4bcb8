"""Stores a table's spec with the table, reads it back, and widens it.

The spec is in a file next to Hudi's own. Hudi creates a table only with its first commit, and stores fewer types.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from ...domain.errors import SchemaConflict
from ...domain.ports import Version
from ...domain.table.schema import Schema
from ...domain.table.spec import REBUILD, Layout, TableSpec

if TYPE_CHECKING:
    from .path import Folder

_FILE = ".headwater.json"


class TableType(Enum):
    """Hudi's two ways to keep a table."""

    MERGE_ON_READ = "MERGE_ON_READ"
    """Changes go to logs next to the base files, and are merged on read: the cheapest epoch."""
    COPY_ON_WRITE = "COPY_ON_WRITE"
    """Changed files are rewritten: the cheapest read."""


@frozen
class Definition:
    """The stored definition of a table.

    Args:
        spec: its spec, without merge rules.
        table_type: how its keyed rows are stored.
        buckets: the number of buckets, at first, that the rows of a partition are distributed to by key.
        resized: whether clustering splits and merges buckets by their size (Hudi's consistent hashing); else their
            number stays.
        folded: whether the rows of a key are folded on read: a commit then stores its own rows and reads no others.
        added: columns that came after the first commit, and the instant of the commit that added each; empty until
            that commit is known to have succeeded.
    """

    spec: TableSpec
    table_type: TableType
    buckets: int
    resized: bool = False
    folded: bool = False
    added: Mapping[str, str] = field(factory=dict)

    @property
    def hudi_name(self) -> str:
        """The table's name in Hudi."""
        return self.spec.name.replace(".", "_").replace("-", "_").replace("~", "_")

    def to_json(self) -> str:
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
        kept = json.loads(text)
        schema, layout = Schema.parse(kept["schema"]), Layout(kept["layout"])
        # Older tables do not have these fields.
        whole, resized, folded = (kept.get(name, False) for name in ("whole", "resized", "folded"))
        spec = TableSpec(name, schema, kept["key"], partition_by=kept["partition_by"], layout=layout, whole=whole)
        return cls(spec, TableType(kept["table_type"]), kept["buckets"], resized, folded, kept.get("added", {}))

    @property
    def is_logged(self) -> bool:
        """Whether changes of a row go to a log."""
        return self.table_type is TableType.MERGE_ON_READ and bool(self.spec.key)

    def for_load(self, files: int) -> Definition:
        """The definition for a first load that will write about `files` files."""
        if self.table_type is TableType.COPY_ON_WRITE or self.spec.partition_by:
            return self
        return evolve(self, buckets=files, resized=True)

    @property
    def unconfirmed(self) -> list[str]:
        """The columns whose first commit is not known to have succeeded."""
        return [name for name, instant in self.added.items() if not instant]

    def with_columns_of(self, other: Definition) -> Definition:
        """The definition with the columns of another one before its own."""
        own = self.spec.schema.without(other.spec.schema.names)
        spec = self.spec.with_schema(other.spec.schema.plus(*own.columns))
        return evolve(self, spec=spec, added={**other.added, **self.added})

    def without(self, names: Collection[str]) -> Definition:
        """The definition without some columns."""
        spec = self.spec.with_schema(self.spec.schema.without(names))
        return evolve(self, spec=spec, added={name: at for name, at in self.added.items() if name not in names})

    def after_commit(self, instant: str, names: Collection[str]) -> Definition:
        """The definition after a commit that has these columns."""
        return evolve(self, added={name: at or instant if name in names else at for name, at in self.added.items()})

    def for_rollback(self, to: str | None) -> Definition:
        """The definition for a rollback to an earlier version: columns added after it no longer count."""
        return evolve(self, added={name: at if to is not None and at <= to else "" for name, at in self.added.items()})

    def continue_as(self, wanted: Definition, published: Mapping[str, Version] | None, *, begun: bool) -> Definition:
        """The definition with which the table continues: columns that the wanted one lacks stay, and hold null.

        Args:
            wanted: the declared definition.
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
        there.with_schema(counted).added_columns(new)
        both = [name for name in new.schema.names if name in there.schema]
        if other := [name for name in both if there.schema[name] != new.schema[name]]:
            raise SchemaConflict(
                f"table {new.name} keeps column {other[0]!r} as {there.schema[other[0]].ddl}, from an epoch that was"
                f" not published, and cannot have it as {new.schema[other[0]].ddl}: give the column another name"
            )
        fresh = new.schema.without(there.schema.names)
        unconfirmed = {name: "" for name in new.schema.names if name in fresh or name not in counted}
        schema = there.schema.plus(*fresh.columns)
        return evolve(self, spec=there.with_schema(schema), added={**self.added, **unconfirmed})

    def _check_kind(self, wanted: Definition) -> None:
        for what, old, new in (
            ("laid out as", self.spec.layout.value, wanted.spec.layout.value),
            ("of type", self.table_type.value, wanted.table_type.value),
        ):
            if old != new:
                raise SchemaConflict(f"table {self.spec.name} is {what} {old}, not {new}: {REBUILD}")

    def _counted(self, wanted: TableSpec, published: Mapping[str, Version] | None) -> Schema:
        """The columns that a new spec must have."""
        if published is None:
            return self.spec.schema.without(self.unconfirmed)
        if (version := published.get(wanted.name)) is None:
            return wanted.schema
        return self.spec.schema.without([name for name, at in self.added.items() if not at or at > version])

    def keep(self, folder: Folder) -> None:
        """Write the definition into the table's folder; call it under the table's lock."""
        folder.texts.write(_FILE, self.to_json())


def read_definition(folder: Folder, name: str) -> Definition | None:
    """The stored definition of a table; None if the table does not exist.

    Raises:
        SchemaConflict: the stored table was not made by Headwater.
    """
    if folder.holds(_FILE):
        return Definition.from_json(folder.texts.text(_FILE), name)
    if folder.holds(".hoodie"):
        raise SchemaConflict(
            f"table {name}: its folder has a Hudi table that Headwater did not create; move that table away"
        )
    return None
