"""What a table is: its columns, its key, its merge rules, and how it is best laid out."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from attrs import field, frozen

from .errors import ConfigError, SchemaConflict
from .merge import ColumnRule, Latest, Replace
from .schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .change import Change


_T = TypeVar("_T")
RETYPING = "give the column another name, or leave it out of one version"
"""What to do where a store cannot give a column of a whole table another type from one version to the next."""


class Layout(Enum):
    """How a store keeps a keyed table; the rows read are the same."""

    LOG = "log"
    """Appends of each epoch's changes, folded on read and compacted now and then: the cheapest epoch."""
    MERGED = "merged"
    """Merged at each commit, so that any other engine reads the table as it is."""


@frozen
class TableSpec:
    """A table of one pipeline.

    Args:
        name: unique within the deployment, ``pipeline.table``.
        schema: all columns.
        key: columns that name a row, never null; none for a table that is only appended to or overwritten.
        rules: merge rules by column; `Replace` where none is given.
        groups: sequence groups; their columns have no other rule.
        partition_by: columns, part of the key, whose every value is kept in files of its own.
        layout: how it is kept.
        whole: each commit brings a whole new content, in columns of its own; a version is read in those it was written
            in, and `schema` says nothing.
    """

    name: str
    schema: Schema
    key: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    rules: Mapping[str, ColumnRule] = field(factory=dict)
    groups: tuple[Latest, ...] = field(default=(), converter=tuple[Latest, ...])
    partition_by: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    layout: Layout = Layout.LOG
    whole: bool = False

    def __attrs_post_init__(self) -> None:
        grouped = [name for group in self.groups for name in (*group.by, *group.columns)]
        ruled = (*self.key, *self.rules, *grouped)
        for name in (*ruled, *self.partition_by):
            if name not in self.schema:
                raise ConfigError(
                    f"table {self.name}: {name!r} is no column; there are: {', '.join(self.schema.names)}"
                )
        if twice := {name for name in ruled if ruled.count(name) > 1}:
            raise ConfigError(f"table {self.name}: more than one rule for {', '.join(sorted(twice))}")
        # A row must never move between partitions, or folding would have to look at all of them.
        if self.key and (outside := set(self.partition_by) - set(self.key)):
            raise ConfigError(f"table {self.name}: partition columns {sorted(outside)} are not part of the key")

    @property
    def column_rules(self) -> dict[str, ColumnRule]:
        """The rule of every column that is neither key nor in a sequence group, in schema order."""
        elsewhere = {*self.key, *(name for group in self.groups for name in (*group.by, *group.columns))}
        return {name: self.rules.get(name, Replace()) for name in self.schema.names if name not in elsewhere}

    def check_takes(self, change: Change) -> None:
        """Make sure that a change is of a kind that this table can take.

        Raises:
            ConfigError: it has no key, and rows are to be merged or deleted by it; or it is only ever replaced as a
                whole.
        """
        if self.whole and change.overwrite is None and not change.empty:
            raise ConfigError(f"table {self.name} is replaced as a whole: overwrite it")
        if not self.key and not (change.merge is change.delete is None):
            raise ConfigError(f"table {self.name} has no key, so it can only be appended to or overwritten")

    def check_compared(self) -> None:
        """Make sure that two versions can be compared.

        Raises:
            ConfigError: there is no key.
        """
        if not self.key:
            raise ConfigError(f"table {self.name} has no key, so its rows cannot be told apart in two versions")

    def kept_as(self, schema: Schema) -> TableSpec:
        """The table without its rules, with these columns in the place of its own; the key and the partitions stay."""
        by, layout = self.partition_by, self.layout
        held = self.schema.select([name for name in {*self.key, *by} if name not in schema])
        schema = schema.plus(*held.columns)
        return TableSpec(self.name, schema, self.key, partition_by=by, layout=layout, whole=self.whole)

    def widened_by(self, other: TableSpec) -> Schema:
        """The columns `other` has and this one lacks, if that is all they differ by, else a `SchemaConflict`."""
        if self.whole != other.whole:
            was = "" if self.whole else "not "
            raise SchemaConflict(
                f"table {self.name} was {was}replaced as a whole at each commit until now: give the pipeline another"
                " name, or remove the old table"
            )
        if self.whole:
            return Schema(())
        changed = [n for n in self.schema.names if n not in other.schema or other.schema[n] != self.schema[n]]
        if changed or self.key != other.key or self.partition_by != other.partition_by:
            raise SchemaConflict(
                f"table {self.name} is kept with {self.schema.ddl} (key {self.key}, partitions {self.partition_by}) but"
                f" {other.schema.ddl} (key {other.key}, partitions {other.partition_by}) is wanted; only new columns"
                " can be added: give the pipeline another name, or remove the old table"
            )
        return other.schema.without(self.schema.names)


class Ensured(dict[str, _T]):
    """What a store keeps of the tables that were ensured, by name."""

    def __missing__(self, table: str) -> _T:
        """No such table.

        Raises:
            ConfigError: always; the message lists those there are.
        """
        raise ConfigError(f"there is no table {table}; ensure it first. Known: {', '.join(self) or 'none'}")
